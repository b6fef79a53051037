// SPDX-License-Identifier: Apache-2.0
#include "server/openai/purge.h"

#include <mutex>

#include "tests/server/http_fixture.h"

namespace slip {
namespace {

class DeleteRequestTest : public HttpServerTest {
 protected:
  // What the purge function was asked, and answers from a thread of its own.
  void serve_purges() {
    purge_ = [this](PurgeOrder order, const std::function<void(PurgeResult)>& done) {
      if (purge_error_) throw Error(*purge_error_);
      const std::lock_guard lock(mutex_);
      orders_.push_back(std::move(order));
      threads_.emplace_back([done, result = result_] {
        std::this_thread::sleep_for(milliseconds(20));
        done(result);
      });
    };
    start();
  }
  RawReply remove(const std::string& id, const std::string& headers = "") {
    return ask("DELETE /v1/requests/" + id + " HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n" + headers +
               "\r\n");
  }

  std::mutex mutex_;
  std::vector<PurgeOrder> orders_;
  PurgeResult result_{1, 2, std::nullopt};
  std::optional<Error> purge_error_;
  std::vector<std::jthread> threads_;
};

TEST_F(DeleteRequestTest, WhatWasKeptIsRemovedForTheKeyThatSentIt) {
  keys_.add("first-key-of-them", {.name = "a"});
  keys_.add("second-key-of-them", {.name = "b"});
  serve_purges();
  EXPECT_EQ(remove("chatcmpl-000647c8bd5e2f10").status, 401);
  const auto reply = remove("order%2F66", "Authorization: Bearer second-key-of-them\r\n");
  EXPECT_EQ(reply.status, 204);
  EXPECT_TRUE(reply.headers.contains("x-request-id"));
  ASSERT_EQ(orders_.size(), 1U);
  EXPECT_EQ(orders_[0].request, "order/66");
  EXPECT_EQ(orders_[0].tenant, keys_.find("second-key-of-them")->tenant);
  EXPECT_FALSE(orders_[0].before_us);
}

TEST_F(DeleteRequestTest, ATrailingSlashIsTheSameRoute) {
  serve_purges();
  EXPECT_EQ(remove("order-66/").status, 204);
  ASSERT_EQ(orders_.size(), 1U);
  EXPECT_EQ(orders_[0].request, "order-66");
}

TEST_F(DeleteRequestTest, NothingKeptIsNotFound) {
  result_ = {};
  serve_purges();
  const auto reply = remove("chatcmpl-000647c8bd5e2f10");
  EXPECT_EQ(reply.status, 404);
  EXPECT_EQ(error_of(reply)["code"], "request_not_found");
  EXPECT_EQ(orders_.at(0).tenant, TenantId{0}) << "without keys all are one tenant's";
  EXPECT_EQ(remove("%2e%2e%2fx").status, 404) << "no id at all";
  EXPECT_EQ(orders_.size(), 1U);
  EXPECT_EQ(ask(get("/v1/requests/x")).status, 405);
  EXPECT_EQ(ask(get("/v1/requests/x")).headers.at("allow"), "DELETE");
  EXPECT_EQ(remove("").status, 404);
}

// A locked ledger, a directory that was moved and a full disk were a 500 that did not say why.
TEST_F(DeleteRequestTest, WhatCannotBeDoneNowIsA503ThatSaysWhy) {
  result_ = {0, 0, Error(ErrorCode::kIo, "cannot use ledger.db: database is locked", "see who has it open")};
  serve_purges();
  const auto reply = remove("x");
  EXPECT_EQ(reply.status, 503);
  EXPECT_EQ(reply.headers.at("retry-after"), "2");
  EXPECT_EQ(error_of(reply)["message"],
            "the request cannot be deleted now: cannot use ledger.db: database is locked; see who has it open");
}

TEST_F(DeleteRequestTest, FailuresAreNotSuccess) {
  result_ = {0, 0, Error(ErrorCode::kDataLoss, "ledger.db is damaged")};
  serve_purges();
  EXPECT_EQ(remove("x").status, 500);
  purge_error_ = Error(ErrorCode::kOverloaded, "64 purges wait already");
  EXPECT_EQ(remove("x").status, 429);
}

TEST_F(DeleteRequestTest, AServerThatIsNotReadySaysSo) {
  start(/*ready=*/false);
  EXPECT_EQ(remove("x").status, 503);
}

}  // namespace
}  // namespace slip
