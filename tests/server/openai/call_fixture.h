// SPDX-License-Identifier: Apache-2.0
// The messages of a plain chat, and why a body is refused.
#pragma once

#include <gtest/gtest.h>

#include <string>

#include "common/error.h"
#include "server/openai/call.h"

namespace slip::testing {

inline const std::string kMessages = R"("messages":[{"role":"user","content":"hi"}])";

inline Error fault_of_body(Endpoint endpoint, const std::string& body) {
  try {
    parse_request(endpoint, body, {});
  } catch (const Error& error) {
    return error;
  }
  ADD_FAILURE() << "accepted: " << body.substr(0, 200);
  return Error(ErrorCode::kInternal, "accepted");
}

}  // namespace slip::testing
