// SPDX-License-Identifier: Apache-2.0
#include "common/owner_calls.h"

#include <gtest/gtest.h>

#include <atomic>
#include <stdexcept>
#include <thread>
#include <vector>

namespace slip {
namespace {

TEST(OwnerCalls, WithoutAnOwnerTheCallerDoesIt) {
  OwnerCalls calls([] { FAIL() << "nobody is to be woken"; });
  EXPECT_EQ(calls.call([] { return std::this_thread::get_id(); }), std::this_thread::get_id());
}

TEST(OwnerCalls, WhatTheWorkThrowsReachesItsCaller) {
  OwnerCalls calls([] {});
  EXPECT_THROW(calls.call([] { throw std::runtime_error("no room"); }), std::runtime_error);
}

// Many callers, and an owner that comes and goes: no call is lost, and no two run at once.
TEST(OwnerCalls, EveryCallIsDoneOnceAndAlone) {
  constexpr int kCallers = 4, kCalls = 500;
  std::atomic<bool> stop{false};
  std::atomic<int> wakes{0};
  OwnerCalls calls([&] { ++wakes; });
  int sum = 0;  // what the owner guards: no atomic, so that a race shows under TSan
  std::thread owner([&] {
    while (!stop) {
      calls.begin();
      for (int i = 0; i < 100; ++i) {
        calls.serve();
        std::this_thread::yield();
      }
      calls.end();
    }
  });
  std::vector<std::thread> callers;
  for (int caller = 0; caller < kCallers; ++caller) {
    callers.emplace_back([&] {
      for (int i = 0; i < kCalls; ++i) calls.call([&] { ++sum; });
    });
  }
  for (std::thread& caller : callers) caller.join();
  stop = true;
  owner.join();
  EXPECT_EQ(sum, kCallers * kCalls);
  EXPECT_GT(wakes, 0);
}

}  // namespace
}  // namespace slip
