// SPDX-License-Identifier: Apache-2.0
#include "server/http/request_id.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

namespace slip {
namespace {

TEST(RequestId, IsEqualInAHeaderALogLineAndACell) {
  for (const char* text : {"a", "7", "order-7/a:b_c.d+e=f", "0123456789abcdef"})
    EXPECT_TRUE(is_request_id(text)) << text;
  for (const char* text : {"", "=1+2", "-a", "a b", "a,b", "a\tb", "caf\xc3\xa9"})
    EXPECT_FALSE(is_request_id(text)) << text;
  EXPECT_TRUE(is_request_id(std::string(128, 'a')));
  EXPECT_FALSE(is_request_id(std::string(129, 'a')));
}

TEST(RequestId, ANumberIsSixteenDigits) {
  EXPECT_EQ(request_id_text(0xABC), "0000000000000abc");
}

// They came from one counter: a client that asked twice counted what others had asked between.
TEST(RequestId, NumbersSayNothingOfEachOther) {
  std::vector<std::uint64_t> numbers;
  for (int i = 0; i < 1000; ++i) numbers.push_back(new_request_number());
  EXPECT_FALSE(std::is_sorted(numbers.begin(), numbers.end()));
  std::sort(numbers.begin(), numbers.end());
  EXPECT_GT(numbers.front(), 0U);
  EXPECT_EQ(std::adjacent_find(numbers.begin(), numbers.end()), numbers.end());
  EXPECT_LT(numbers.front(), std::uint64_t{1} << 60) << "a chance of 1 in 10^28";
  EXPECT_GT(numbers.back(), std::uint64_t{15} << 60);
}

}  // namespace
}  // namespace slip
