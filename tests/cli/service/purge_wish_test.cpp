// SPDX-License-Identifier: Apache-2.0
#include "cli/service/purge_wish.h"

#include <gtest/gtest.h>

#include "common/error.h"

namespace slip::cli {
namespace {

TEST(PurgeWish, CommandAndServiceUnderstandEachOther) {
  for (const PurgeWish& wish : {PurgeWish{"chatcmpl-1\n\"x", "", std::nullopt}, PurgeWish{"", "team-a", std::nullopt},
                                PurgeWish{"", "", 0}, PurgeWish{"a", "b", -5}}) {
    const std::string line = to_line(wish);
    EXPECT_EQ(line.find('\n'), std::string::npos) << "one line";
    const PurgeWish read = read_wish(line);
    EXPECT_EQ(read.request, wish.request);
    EXPECT_EQ(read.tenant, wish.tenant);
    EXPECT_EQ(read.before_us, wish.before_us);
  }
  const PurgeResult done = read_result(to_line(PurgeResult{3, 4, std::nullopt}));
  EXPECT_EQ(done.records, 3U);
  EXPECT_EQ(done.rows, 4U);
  EXPECT_FALSE(done.error);
  const PurgeResult failed = read_result(to_line(PurgeResult{0, 0, Error(ErrorCode::kIo, "no", "try")}));
  ASSERT_TRUE(failed.error);
  EXPECT_EQ(failed.error->code(), ErrorCode::kIo);
  EXPECT_EQ(failed.error->message(), "no");
  EXPECT_EQ(failed.error->hint(), "try");
}

TEST(PurgeWish, AnythingElseIsRefused) {
  for (const char* line : {"", "x", "[]", "{}", R"({"purge":1})", R"({"purge":{}})", R"({"purge":{"request":1}})",
                           R"({"purge":{"before_us":1.5}})", R"({"purge":{"tenant":null}})"}) {
    EXPECT_THROW(read_wish(line), Error) << line;
  }
  EXPECT_THROW(read_result("[]"), Error);
}

// A name of 100,000 bytes is more than the control socket takes as a line: "the service ended before it answered".
TEST(PurgeWish, ANameThatNobodyCanHaveIsRefusedBeforeItIsSent) {
  EXPECT_NO_THROW(check_names({"chatcmpl-000647c8bd5e2f10", std::string(ApiKey::kMaxNameBytes, 'x'), std::nullopt}));
  for (const PurgeWish& wish :
       {PurgeWish{"", std::string(100'000, 'x'), std::nullopt}, PurgeWish{"", std::string(65, 'x'), std::nullopt},
        PurgeWish{std::string(100'000, 'x'), "", std::nullopt}, PurgeWish{"two words", "", std::nullopt}}) {
    try {
      check_names(wish);
      ADD_FAILURE() << wish.request.size() << " " << wish.tenant.size();
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument);
      EXPECT_EQ(error.param(), wish.request.empty() ? "tenant" : "request");
      EXPECT_LT(error.message().size(), 300U) << "the name is not repeated";
    }
  }
}

TEST(PurgeWish, ATenantIsAKeysName) {
  ApiKeys keys;
  keys.add("first-key-of-them", "team-a");
  keys.add("second-key-of-them", "team-b");
  EXPECT_EQ(order_of({"", "team-b", std::nullopt}, keys).tenant, keys.find("second-key-of-them")->tenant);
  EXPECT_FALSE(order_of({"x", "", std::nullopt}, keys).tenant);
  try {
    order_of({"", "team-c", std::nullopt}, keys);
    ADD_FAILURE();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kNotFound);
    EXPECT_NE(error.hint().find("team-a, team-b"), std::string::npos) << error.hint();
  }
  EXPECT_THROW(order_of({"", "team-a", std::nullopt}, ApiKeys()), Error) << "never tenant 0, who sends without a key";
}

}  // namespace
}  // namespace slip::cli
