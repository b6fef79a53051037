// SPDX-License-Identifier: Apache-2.0
#include "cli/service/purge_command.h"

#include <gtest/gtest.h>

#include "common/error.h"

namespace slip::cli {
namespace {

TEST(PurgeCommand, CommandAndServiceUnderstandEachOther) {
  for (const PurgeCommand& command :
       {PurgeCommand{"chatcmpl-1\n\"x", "", std::nullopt}, PurgeCommand{"", "team-a", std::nullopt},
        PurgeCommand{"", "", 0}, PurgeCommand{"a", "b", -5}}) {
    const std::string line = to_line(command);
    EXPECT_EQ(line.find('\n'), std::string::npos) << "one line";
    const PurgeCommand read = read_purge(line);
    EXPECT_EQ(read.request, command.request);
    EXPECT_EQ(read.tenant, command.tenant);
    EXPECT_EQ(read.before_us, command.before_us);
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

TEST(PurgeCommand, AnythingElseIsRefused) {
  for (const char* line : {"", "x", "[]", "{}", R"({"purge":1})", R"({"purge":{}})", R"({"purge":{"request":1}})",
                           R"({"purge":{"before_us":1.5}})", R"({"purge":{"tenant":null}})"}) {
    EXPECT_THROW(read_purge(line), Error) << line;
  }
  EXPECT_THROW(read_result("[]"), Error);
}

// A name of 100,000 bytes is more than the control socket takes as a line: "the service ended before it answered".
TEST(PurgeCommand, ANameThatNobodyCanHaveIsRefusedBeforeItIsSent) {
  EXPECT_NO_THROW(check_names({"chatcmpl-000647c8bd5e2f10", std::string(ApiKey::kMaxNameBytes, 'x'), std::nullopt}));
  for (const PurgeCommand& command :
       {PurgeCommand{"", std::string(100'000, 'x'), std::nullopt}, PurgeCommand{"", std::string(65, 'x'), std::nullopt},
        PurgeCommand{std::string(100'000, 'x'), "", std::nullopt}, PurgeCommand{"two words", "", std::nullopt}}) {
    try {
      check_names(command);
      ADD_FAILURE() << command.request.size() << " " << command.tenant.size();
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument);
      EXPECT_EQ(error.param(), command.request.empty() ? "tenant" : "request");
      EXPECT_LT(error.message().size(), 300U) << "the name is not repeated";
    }
  }
}

// A refusal described an id in a sentence alone.
TEST(PurgeCommand, ARefusedIdIsShownWhatOneLooksLike) {
  try {
    check_names({"two words", "", std::nullopt});
    ADD_FAILURE() << "accepted";
  } catch (const Error& error) {
    EXPECT_NE(error.message().find("such as chatcmpl-000647c8bd5e2f10"), std::string::npos) << error.message();
  }
}

// One record was called "1 records". For an unknown id the result named only zeros, not the reason.
TEST(PurgeCommand, ItsResultIsASentence) {
  EXPECT_EQ(purge_text({1, 1, std::nullopt}, {}, "data"),
            "purged 1 record of replay and 1 row of the ledger; what was learned from them stays");
  EXPECT_EQ(purge_text({0, 2, std::nullopt}, {}, "data"),
            "purged 0 records of replay and 2 rows of the ledger; what was learned from them stays");
  EXPECT_EQ(purge_text({}, {"", "team-a", std::nullopt}, "data"), "found nothing to purge in data");
  EXPECT_EQ(purge_text({}, {"nonsense", "", std::nullopt}, "data"),
            "found nothing to purge in data: no finished request there has the id nonsense; an id is the answer's own, "
            "such as chatcmpl-000647c8bd5e2f10, or the X-Request-Id that the client sent");
  EXPECT_EQ(purge_text({}, {"x", "team-a", std::nullopt}, "data")
                .find("found nothing to purge in data: no finished request there has the id x and meets the other "
                      "conditions; "),
            0U);
}

TEST(PurgeCommand, ATenantIsAKeysName) {
  ApiKeys keys;
  keys.add("first-key-of-them", {.name = "team-a"});
  keys.add("second-key-of-them", {.name = "team-b"});
  const TenantId second = keys.find("second-key-of-them")->tenant, old{7};
  const auto tenants = [&](const std::string& name, const std::vector<TenantId>& earlier) {
    std::vector<TenantId> found;
    for (const PurgeOrder& order : orders_of({"", name, std::nullopt}, keys, earlier)) found.push_back(*order.tenant);
    return found;
  };
  EXPECT_EQ(tenants("team-b", {}), std::vector<TenantId>{second});
  EXPECT_EQ(tenants("team-b", {second, old}), (std::vector<TenantId>{second, old})) << "once each";
  EXPECT_EQ(tenants("team-c", {old}), std::vector<TenantId>{old}) << "its key is gone";
  const auto of_all = orders_of({"x", "", std::nullopt}, keys, {});
  ASSERT_EQ(of_all.size(), 1U);
  EXPECT_FALSE(of_all[0].tenant);
  try {
    orders_of({"", "team-c", std::nullopt}, keys, {});
    ADD_FAILURE();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kNotFound);
    EXPECT_NE(error.hint().find("team-a, team-b"), std::string::npos) << error.hint();
  }
  EXPECT_THROW(orders_of({"", "team-a", std::nullopt}, ApiKeys(), {}), Error)
      << "never tenant 0, who sends without a key";
}

TEST(PurgeCommand, OrdersAreCarriedOutUpToTheFirstThatFails) {
  const std::vector<PurgeOrder> orders{{"", TenantId{1}, {}}, {"", TenantId{2}, {}}, {"", TenantId{3}, {}}};
  std::vector<TenantId> asked;
  const auto purge = [&](const PurgeOrder& order) {
    asked.push_back(*order.tenant);
    PurgeResult result{.records = 10, .rows = 100};
    if (order.tenant == TenantId{2}) result.error = Error(ErrorCode::kIo, "the disk");
    return result;
  };
  const PurgeResult result = carry_out_all(orders, purge);
  EXPECT_EQ(asked, (std::vector<TenantId>{{1}, {2}}));
  EXPECT_EQ(result.records, 20U);
  EXPECT_EQ(result.rows, 200U);
  ASSERT_TRUE(result.error);
  EXPECT_EQ(result.error->code(), ErrorCode::kIo);
}

}  // namespace
}  // namespace slip::cli
