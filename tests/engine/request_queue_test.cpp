// SPDX-License-Identifier: Apache-2.0
#include "engine/request_queue.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <set>
#include <string>
#include <tuple>
#include <utility>

#include "common/clock.h"
#include "common/error.h"
#include "tests/common/test_clock.h"

namespace slip {
namespace {

class RequestQueueTest : public ::testing::Test {
 protected:
  void push(std::uint64_t id, std::uint64_t tenant, std::size_t n_prompt = 4, std::int32_t priority = 0) {
    Request request;
    request.priority = priority;
    request.id = {id};
    request.tenant = {tenant};
    request.prompt.assign(n_prompt, 1);
    request.max_tokens = 4;
    queue_.push(std::move(request));
  }
  void push_many(std::uint64_t first, int n, std::uint64_t tenant) {
    for (int i = 0; i < n; ++i) push(first + static_cast<std::uint64_t>(i), tenant);
  }
  void push_background(std::uint64_t id) {
    Request request;
    request.id = {id};
    request.prompt = {1};
    request.source.emplace();
    queue_.push(std::move(request));
  }
  // Starts the next request, as the engine does.
  std::uint64_t start() {
    queue_.peek_needs(1, needs_);
    const auto taken = queue_.take(0);
    return taken ? taken->request.id.value : 0;
  }
  std::vector<std::uint64_t> start_many(int n) {
    std::vector<std::uint64_t> ids;
    for (int i = 0; i < n; ++i) ids.push_back(start());
    return ids;
  }
  using Ids = std::vector<std::uint64_t>;

  RequestQueue queue_{64, 1};
  std::vector<WaitingNeed> needs_;
};

TEST_F(RequestQueueTest, OneTenantsRequestsStartInTheOrderTheyCame) {
  push_many(1, 5, 7);
  EXPECT_EQ(start_many(6), (Ids{1, 2, 3, 4, 5, 0}));
}

// Bug: all started in the order they came, so a key's next request waited for every request that another key had sent.
TEST_F(RequestQueueTest, ATenantWithManyRequestsDelaysAnotherOneByOneEnd) {
  push_many(1, 20, 7);
  EXPECT_EQ(start_many(4), (Ids{1, 2, 3, 4}));
  push_many(101, 3, 8);
  queue_.forget({1});
  EXPECT_EQ(start(), 101U) << "this tenant has none running";
  queue_.forget({2});
  EXPECT_EQ(start(), 102U) << "one against two";
  queue_.forget({3});
  EXPECT_EQ(start(), 5U) << "two against one";
}

TEST_F(RequestQueueTest, SeveralFreePlacesAreSharedToo) {
  push_many(1, 20, 7);
  push_many(101, 20, 8);
  push(201, 9);
  queue_.peek_needs(7, needs_);
  Ids ids;
  for (int i = 0; i < 7; ++i) ids.push_back(queue_.take(0)->request.id.value);
  EXPECT_EQ(ids, (Ids{1, 101, 201, 2, 102, 3, 103}));
}

// The order by its definition: for each place, a look at the next request of every tenant.
// Bug: each look went over all waiting requests, so a step with a free place cost O(places · waiting requests).
TEST_F(RequestQueueTest, APeekOfManyHasTheOrderOfTheDefinition) {
  struct Tenant {
    std::set<std::pair<std::int32_t, std::uint64_t>> waiting;  // priority, id
    int n_running = 0;
    std::uint64_t last_start = 0, first_id = 0;
  };
  std::map<std::uint64_t, Tenant> tenants;
  std::mt19937 random(3);
  for (std::uint64_t id = 1; id <= 60; ++id) {
    const std::uint64_t tenant = random() % 5;
    const auto priority = static_cast<std::int32_t>(random() % 3);
    push(id, tenant, /*n_prompt=*/4, priority);
    tenants[tenant].waiting.emplace(priority, id);
    if (tenants[tenant].first_id == 0) tenants[tenant].first_id = id;
  }
  std::uint64_t n_starts = 0;
  for (const int n : {3, 20, 37}) {
    Ids expected, ids;
    std::vector<Tenant*> started;
    for (int i = 0; i < n; ++i) {
      Tenant* next = nullptr;
      const auto turn = [&](const Tenant& tenant) {
        const auto n_earlier = tenant.n_running + std::count(started.begin(), started.end(), &tenant);
        return std::tuple(n_earlier, tenant.last_start, tenant.first_id);
      };
      for (auto& [name, tenant] : tenants) {
        if (!tenant.waiting.empty() && (next == nullptr || turn(tenant) < turn(*next))) next = &tenant;
      }
      expected.push_back(next->waiting.begin()->second);
      next->waiting.erase(next->waiting.begin());
      started.push_back(next);
    }
    queue_.peek_needs(static_cast<std::size_t>(n) + 8, needs_);
    for (int i = 0; i < n; ++i) ids.push_back(queue_.take(0)->request.id.value);
    EXPECT_EQ(ids, expected);
    for (Tenant* tenant : started) tenant->last_start = ++n_starts;
    for (std::size_t i = 0; i < ids.size(); ++i) {
      if (i % 2 == 0) queue_.forget({ids[i]});
      started[i]->n_running += i % 2 == 0 ? 0 : 1;
    }
  }
  EXPECT_EQ(queue_.n_waiting(), 0);
}

// With fewer places than tenants no tenant has one running when its turn may come.
TEST_F(RequestQueueTest, MoreTenantsThanPlacesTakeTurns) {
  for (std::uint64_t tenant = 1; tenant <= 5; ++tenant) push_many(tenant * 100, 4, tenant);
  std::map<std::uint64_t, int> started;
  for (int i = 0; i < 15; ++i) {
    const std::uint64_t id = start();
    ++started[id / 100];
    queue_.forget({id});
    if (i == 7) push_many(600, 4, 6);
  }
  for (std::uint64_t tenant = 1; tenant <= 5; ++tenant) {
    EXPECT_GE(started[tenant], 2) << tenant;
    EXPECT_LE(started[tenant], 3) << tenant;
  }
  EXPECT_GE(started[6], 1);
}

TEST_F(RequestQueueTest, ATenantsOwnRequestsKeepTheirOrder) {
  std::map<std::uint64_t, std::uint64_t> last;
  std::uint64_t id = 0;
  for (std::uint64_t round = 0; round < 12; ++round) {
    for (std::uint64_t tenant = 1; tenant <= 3; ++tenant) push(++id * 10 + tenant, tenant);
    if (round % 3 == 0) push(++id * 10 + 2, 2);
    queue_.peek_needs(5, needs_);
    for (const std::uint64_t started : start_many(2)) {
      EXPECT_GT(started, last[started % 10]);
      last[started % 10] = started;
      queue_.forget({started});
    }
  }
}

// Of one tenant's: among tenants the turns stay fair, or each would send the lowest.
TEST_F(RequestQueueTest, ATenantsRequestsStartByPriority) {
  push(1, 7, 4, 5);
  push(2, 7);
  push(3, 7, 4, -5);
  push(4, 7);
  push(101, 8, 4, 1000);
  push(5, 7, 4, -5);
  EXPECT_EQ(start_many(6), (Ids{3, 101, 5, 2, 4, 1}));
}

// Bug: a prediction of a new request's speed counted all waiting requests as before it.
TEST_F(RequestQueueTest, CountsThoseThatStartBeforeANewOne) {
  EXPECT_EQ(queue_.n_before({7}, 0), 0);
  push(1, 7, 4, 5);
  push(2, 7);
  push(3, 7, 4, -5);
  push_many(101, 2, 8);
  EXPECT_EQ(queue_.n_before({7}, 0), 4) << "2 and 3 of its key; the other key's first two turns";
  EXPECT_EQ(queue_.n_before({7}, 6), 5);
  EXPECT_EQ(queue_.n_before({7}, -6), 0);
  EXPECT_EQ(queue_.n_before({8}, 0), 5) << "of the other key those with its first three turns";
  EXPECT_EQ(queue_.n_before({9}, 0), 2) << "each key's first";
  EXPECT_EQ(start_many(2), (Ids{3, 101}));
  EXPECT_EQ(queue_.n_before({8}, -6), 1) << "the other key's latest start is longer ago";
}

// The count is where a push puts the request.
TEST_F(RequestQueueTest, TheCountIsThePlaceOfThePush) {
  std::mt19937 random(5);
  std::vector<std::size_t> places;
  for (std::uint64_t id = 1; id <= 40; ++id) {
    const std::uint64_t tenant = random() % 4;
    const auto priority = static_cast<std::int32_t>(random() % 3);
    const auto n_before = static_cast<std::size_t>(queue_.n_before({tenant}, priority));
    push(id, tenant, /*n_prompt=*/32 * id, priority);  // its pages tell it apart
    queue_.peek_needs(64, needs_);
    const std::int32_t pages = needs_[n_before].pages;
    EXPECT_TRUE(std::all_of(needs_.begin(), needs_.end(), [&](const auto& need) { return need.pages <= pages; })) << id;
    if (id % 4 == 0) start();
  }
}

TEST_F(RequestQueueTest, ALevelOfPriorityIsWorthSomeWaiting) {
  testing::TestClock clock(1'000'000);
  push(1, 7, 4, 2);
  clock.advance(2 * RequestQueue::kPriorityUs - 1);
  push(2, 7);
  clock.advance(1);
  push(3, 7);
  EXPECT_EQ(start_many(3), (Ids{2, 1, 3})) << "20 seconds make up for two levels";
}

TEST_F(RequestQueueTest, OnlyThoseBeforeItInTurnArePassed) {
  push(1, 7, 600);  // a large prompt
  push(2, 7);
  push(101, 8);
  queue_.peek_needs(3, needs_);
  ASSERT_EQ(needs_.size(), 3U);
  EXPECT_GT(needs_[0].pages, needs_[1].pages);
  EXPECT_EQ(queue_.take(1)->request.id.value, 101U) << "the other tenant's turn";
  queue_.peek_needs(3, needs_);
  EXPECT_EQ(needs_[0].n_passed, 1);
  EXPECT_EQ(needs_[1].n_passed, 0);
}

// Bug: take() counted places of the queue. A request that came between peek and take, with a priority that put it
// first, was started in place of the one that the engine had picked, whether or not it had room.
TEST_F(RequestQueueTest, ARequestThatComesAfterThePeekHasNoIndex) {
  push(1, 7);
  push(2, 7);
  queue_.peek_needs(2, needs_);
  push(3, 7, 600, -1);
  EXPECT_EQ(queue_.take(1)->request.id.value, 2U);
  queue_.peek_needs(2, needs_);
  ASSERT_EQ(needs_.size(), 2U);
  EXPECT_EQ(needs_[0].n_passed, 0) << "the new one comes first from now on, and nothing passed it";
  EXPECT_EQ(needs_[1].n_passed, 1);
  push(4, 7, 4, -2);
  EXPECT_EQ(queue_.take(0)->request.id.value, 3U);
  EXPECT_EQ(queue_.take(0)->request.id.value, 1U);
  EXPECT_FALSE(queue_.take(0)) << "all that the peek returned are taken";
  EXPECT_EQ(start(), 4U);
}

TEST_F(RequestQueueTest, AnyWaitingRequestCanBePopped) {
  push(1, 7);
  push(2, 8);
  push_background(9);
  for (const std::uint64_t id : {1, 2, 9}) EXPECT_EQ(queue_.pop()->request.id.value, id);
  EXPECT_FALSE(queue_.pop());
}

TEST_F(RequestQueueTest, ARequestThatNeverStartedTookNoPlace) {
  push_many(1, 2, 7);
  push(101, 8);
  queue_.cancel({1});
  EXPECT_TRUE(queue_.any_cancelled());
  const auto cancelled = queue_.take_cancelled();
  ASSERT_EQ(cancelled.size(), 1U);
  EXPECT_EQ(cancelled.front().request.id.value, 1U);
  queue_.forget({1});
  EXPECT_FALSE(queue_.any_cancelled());
  EXPECT_EQ(start_many(2), (Ids{2, 101}));
}

// Bug: one was taken at a time, and each search began at the first waiting request.
TEST_F(RequestQueueTest, AllCancelledOnesAreTakenAtOnce) {
  push_many(1, 4, 7);
  push_many(101, 2, 8);
  push_background(9);
  EXPECT_EQ(start(), 1U);
  for (const std::uint64_t id : {1, 2, 4, 9, 101}) queue_.cancel({id});
  Ids ids;
  for (const WaitingRequest& one : queue_.take_cancelled()) ids.push_back(one.request.id.value);
  EXPECT_EQ(ids, (Ids{2, 4, 101, 9})) << "the first one runs";
  EXPECT_EQ(queue_.n_waiting(), 2);
  EXPECT_TRUE(queue_.take_cancelled().empty());
  EXPECT_FALSE(queue_.take_background());
  EXPECT_EQ(start_many(3), (Ids{102, 3, 0}));
}

TEST_F(RequestQueueTest, RefusesWhatItCannotHold) {
  push_many(1, 64, 7);
  EXPECT_THROW(push(65, 8), Error);
  EXPECT_EQ(queue_.n_waiting(), 64);
  EXPECT_EQ(start(), 1U);
  try {
    push(1, 7);
    FAIL() << "the request runs";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument);
    EXPECT_NE(std::string(error.what()).find("1 is in use"), std::string::npos);
  }
  queue_.close();
  EXPECT_THROW(push(66, 8), Error);
}

TEST_F(RequestQueueTest, BackgroundRequestsHaveAQueueOfTheirOwn) {
  push_background(9);
  EXPECT_EQ(queue_.n_waiting(), 0);
  EXPECT_EQ(start(), 0U);
  EXPECT_FALSE(queue_.ends_background());
  EXPECT_TRUE(queue_.wait({})) << "there is something to do";
  push(1, 7);
  EXPECT_TRUE(queue_.ends_background());
  EXPECT_EQ(start(), 1U);
  EXPECT_EQ(queue_.take_background()->request.id, RequestId{9});
  EXPECT_FALSE(queue_.take_background());
  queue_.close();
  EXPECT_TRUE(queue_.ends_background());
}

}  // namespace
}  // namespace slip
