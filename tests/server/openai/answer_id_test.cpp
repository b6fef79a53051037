// SPDX-License-Identifier: Apache-2.0
#include "server/openai/answer_id.h"

#include <gtest/gtest.h>

#include <cstdint>

namespace slip {
namespace {

TEST(AnswerId, NamesItsRequest) {
  for (const Endpoint endpoint : {Endpoint::kChat, Endpoint::kCompletion}) {
    for (const std::uint64_t id : {std::uint64_t{1}, std::uint64_t{0x000647c8bd5e2f10}, ~std::uint64_t{0}}) {
      EXPECT_EQ(request_of_http_id(http_id(endpoint, RequestId{id})), RequestId{id});
    }
  }
  for (const char* text : {"", "chatcmpl-", "chatcmpl-0000000000000000", "chatcmpl-1", "chatcmpl-000647C8BD5E2F10",
                           "chatcmpl-000647c8bd5e2f10x", "000647c8bd5e2f10", "other-000647c8bd5e2f10",
                           "cmpl--00647c8bd5e2f10", "chatcmpl-1000647c8bd5e2f10"}) {
    EXPECT_FALSE(request_of_http_id(text)) << text;
  }
}

}  // namespace
}  // namespace slip
