// SPDX-License-Identifier: Apache-2.0
#include "engine/kv_cache/prefix_cache.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <numeric>
#include <random>
#include <stdexcept>
#include <vector>

#include "kernels/attention.h"
#include "tests/engine/kv_cache/cache_shape.h"

namespace slip {
namespace {

using Tokens = std::vector<std::int32_t>;
constexpr std::int32_t kPage = PagePool::kPageTokens;
const ModelConfig kShape = cache_shape();
const auto kRow = static_cast<std::size_t>(kShape.n_kv_heads * kShape.head_dim);  // of keys, and of values

Tokens counted(std::int32_t n, std::int32_t first = 0) {
  Tokens tokens(static_cast<std::size_t>(n));
  std::iota(tokens.begin(), tokens.end(), first);
  return tokens;
}

Tokens joined(Tokens a, const Tokens& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

// A pool whose slots record the token they were written for.
struct PrefixCacheTest : ::testing::Test {
  PagePool pool{kShape, Dtype::kFloat32, 16};

  void write(const PageTable& table, std::int32_t slot, std::int32_t token) const {
    const std::vector<float> k(kRow, static_cast<float>(token)), v(kRow, static_cast<float>(-token));
    for (int layer = 0; layer < kShape.n_layers; ++layer) {
      kernels::store_kv(pool.layer(layer), table.pages()[slot / kPage], slot % kPage, k.data(), v.data());
    }
  }
  // Bytes of all layers of the page that holds `slot`.
  std::vector<std::byte> page_of(const PageTable& table, std::int32_t slot) const {
    const auto kv = pool.layer(0);
    const auto* at = static_cast<const std::byte*>(kv.base) + kv.page_stride_bytes * table.pages()[slot / kPage];
    return {at, at + kv.page_stride_bytes};
  }
  // Acts as a sequence: opens the cached prefix, reads the rest, adds its pages. Returns the number of cached tokens.
  std::int32_t read(PrefixCache& cache, const Tokens& tokens, PageTable& table,
                    const PrefixCache::Owner& owner = {}) const {
    const std::int32_t known =
        cache.open(owner, std::span(tokens).first(tokens.size() - 1), static_cast<std::int32_t>(tokens.size()), table);
    for (std::size_t slot = static_cast<std::size_t>(known); slot < tokens.size(); ++slot) {
      write(table, static_cast<std::int32_t>(slot), tokens[slot]);
    }
    cache.add(owner, tokens, table);
    return known;
  }
  // Counts the pages with one holder that is none of these tables.
  std::int32_t count_idle(const std::map<int, PageTable>& running) const {
    std::vector<std::int32_t> n_others(static_cast<std::size_t>(pool.n_pages()));
    for (std::int32_t page = 0; page < pool.n_pages(); ++page) {
      n_others[static_cast<std::size_t>(page)] = pool.n_holders(page) == 1 ? 1 : 0;
    }
    for (const auto& [who, table] : running) {
      for (std::int32_t i = 0; i < table.capacity_slots() / kPage; ++i) {
        n_others[static_cast<std::size_t>(table.pages()[i])] = 0;
      }
    }
    return std::accumulate(n_others.begin(), n_others.end(), 0);
  }
  std::int32_t read_and_leave(PrefixCache& cache, const Tokens& tokens, const PrefixCache::Owner& owner = {}) {
    PageTable table(pool);
    return read(cache, tokens, table, owner);
  }
};

TEST_F(PrefixCacheTest, SharesWholePagesAndCopiesTheBeginningOfTheNext) {
  PrefixCache cache(pool, 8);
  const Tokens first = counted(3 * kPage);
  EXPECT_EQ(read_and_leave(cache, first), 0);
  EXPECT_EQ(cache.n_pages(), 3);
  EXPECT_EQ(pool.n_free(), 13);

  Tokens second = counted(2 * kPage + 10);
  second = joined(second, counted(20, 900));
  PageTable a(pool), b(pool);
  EXPECT_EQ(read(cache, second, a), 2 * kPage + 10);
  EXPECT_EQ(pool.n_free(), 12);  // two pages are shared, one is its own
  // Read without help, its own page holds the same bytes.
  PrefixCache none(pool, 0);
  EXPECT_EQ(read(none, second, b), 0);
  for (const std::int32_t slot : {0, kPage, 2 * kPage}) EXPECT_EQ(page_of(a, slot), page_of(b, slot)) << slot;
}

TEST_F(PrefixCacheTest, LeavesTheLastTokenToBeRead) {
  PrefixCache cache(pool, 8);
  EXPECT_EQ(read_and_leave(cache, counted(2 * kPage)), 0);
  EXPECT_EQ(read_and_leave(cache, counted(2 * kPage)), 2 * kPage - 1);
  EXPECT_EQ(read_and_leave(cache, {0}), 0);
}

TEST_F(PrefixCacheTest, OfBeginningsTakesTheLongest) {
  PrefixCache cache(pool, 8);
  for (const std::int32_t n_alike : {3, 20, 7}) {
    read_and_leave(cache, joined(counted(n_alike), counted(kPage, 100 * n_alike)));
  }
  for (const std::int32_t n_alike : {1, 3, 5, 7, 12, 20}) {
    PrefixCache& known = cache;
    PageTable table(pool);
    const Tokens tokens = joined(counted(n_alike), counted(4, -50));
    EXPECT_EQ(known.open({}, tokens, 40, table), n_alike);
  }
}

TEST_F(PrefixCacheTest, NegativeAnotherTenantKnowsNothingOfIt) {
  PrefixCache cache(pool, 8);
  EXPECT_EQ(read_and_leave(cache, counted(40), {{1}}), 0);
  EXPECT_EQ(read_and_leave(cache, counted(40), {{2}}), 0);
  EXPECT_EQ(read_and_leave(cache, counted(40), {{1}}), kPage);
}

TEST_F(PrefixCacheTest, NegativeOtherWeightsKnowNothingOfIt) {
  PrefixCache cache(pool, 8);
  EXPECT_EQ(read_and_leave(cache, counted(40), {{1}, 1}), 0);
  EXPECT_EQ(read_and_leave(cache, counted(40), {{1}, 2}), 0);
  EXPECT_EQ(read_and_leave(cache, counted(40), {{1}, 1}), kPage);
}

TEST_F(PrefixCacheTest, WhatWasReadTwiceAtOnceIsKeptOnce) {
  PrefixCache cache(pool, 8);
  PrefixCache none(pool, 0);
  PageTable a(pool), b(pool);
  const Tokens tokens = counted(2 * kPage + 1);
  read(none, tokens, a);
  read(none, tokens, b);
  EXPECT_EQ(pool.n_free(), 10);
  cache.add({}, tokens, a);
  cache.add({}, tokens, b);
  EXPECT_EQ(pool.n_free(), 12);
  EXPECT_EQ(a.pages()[1], b.pages()[1]);
  EXPECT_EQ(cache.n_idle(), 0);
}

TEST_F(PrefixCacheTest, TheLeastRecentlyUsedGivesWay) {
  PrefixCache cache(pool, 3);
  read_and_leave(cache, counted(kPage, 1000));
  read_and_leave(cache, counted(kPage, 2000));
  read_and_leave(cache, counted(kPage, 3000));
  EXPECT_EQ(read_and_leave(cache, counted(kPage, 1000)), kPage - 1);
  read_and_leave(cache, counted(kPage, 4000));
  EXPECT_EQ(cache.n_pages(), 3);
  EXPECT_EQ(read_and_leave(cache, joined(counted(kPage, 1000), {1})), kPage);
  EXPECT_EQ(read_and_leave(cache, joined(counted(kPage, 2000), {1})), 0);  // in place of 3000
  EXPECT_EQ(read_and_leave(cache, joined(counted(kPage, 3000), {1})), 0);
}

TEST_F(PrefixCacheTest, GivesItsPagesToSequencesThatNeedThem) {
  PrefixCache cache(pool, 16);
  read_and_leave(cache, counted(16 * kPage));
  EXPECT_EQ(pool.n_free(), 0);
  EXPECT_EQ(cache.n_idle(), 16);
  PageTable table(pool);
  // The page to copy from is the last that could give way, and does.
  EXPECT_EQ(cache.open({}, joined(counted(8 * kPage + 5), {-1}), 16 * kPage, table), 8 * kPage);
  EXPECT_EQ(cache.n_pages(), 8);
  EXPECT_EQ(cache.n_idle(), 0);
  EXPECT_EQ(pool.n_free(), 0);
}

TEST_F(PrefixCacheTest, HasRoomWhereSharedPagesMakeUpForIt) {
  PrefixCache cache(pool, 16);
  PageTable running(pool), sharing(pool);
  const Tokens tokens = counted(10 * kPage);
  read(cache, tokens, running);  // 6 pages are free
  for (const bool idle : {false, true}) {
    if (idle) running.shrink_to(4 * kPage);  // then 6 of its pages are idle
    EXPECT_TRUE(cache.has_room({}, tokens, 16 * kPage));
    EXPECT_FALSE(cache.has_room({}, tokens, 17 * kPage));
    EXPECT_EQ(cache.has_room({}, counted(kPage, 500), 12 * kPage), idle) << "it shares nothing";
    EXPECT_EQ(cache.has_room({{7}}, tokens, 12 * kPage), idle) << "it may share nothing";
    EXPECT_FALSE(cache.has_room({{7}}, tokens, 13 * kPage));
  }
  EXPECT_EQ(cache.open({}, tokens, 16 * kPage, sharing), 10 * kPage);
  EXPECT_EQ(pool.n_free() + cache.n_idle(), 0);
}

TEST_F(PrefixCacheTest, PagesInUseStayAndAddingStopsThere) {
  PrefixCache cache(pool, 2);
  PageTable running(pool);
  read(cache, counted(2 * kPage), running);
  read_and_leave(cache, counted(2 * kPage, 500));
  EXPECT_EQ(cache.n_pages(), 2);
  EXPECT_EQ(read_and_leave(cache, joined(counted(2 * kPage), {7})), 2 * kPage);
}

// Bug: each step counted the idle pages one by one, up to twice.
TEST_F(PrefixCacheTest, TheIdleCountFollowsHolders) {
  PrefixCache cache(pool, 8);
  PageTable first(pool), second(pool), third(pool);
  read(cache, counted(3 * kPage), first);
  EXPECT_EQ(pool.n_idle(), 0) << "a sequence holds each";
  read(cache, joined(counted(2 * kPage), counted(kPage, 900)), second);
  EXPECT_EQ(cache.n_pages(), 4) << "two are shared";
  first.shrink_to(0);
  EXPECT_EQ(pool.n_idle(), 1);
  second.shrink_to(2 * kPage);
  EXPECT_EQ(pool.n_idle(), 2);
  second.shrink_to(0);
  EXPECT_EQ(pool.n_idle(), 4);
  EXPECT_EQ(cache.open({}, counted(kPage + 5), 2 * kPage, third), kPage + 5);
  EXPECT_EQ(pool.n_idle(), 3) << "the page to copy from is held only meanwhile";
  third.shrink_to(0);
  EXPECT_TRUE(cache.reserve(third, 14 * kPage));
  EXPECT_EQ(pool.n_idle(), 2) << "two of 4 gave way, since 12 of 16 pages were free";
  EXPECT_EQ(cache.n_pages(), 2);
}

// Under any traffic, no page is lost or allocated twice, and a hit returns what was read.
TEST_F(PrefixCacheTest, HoldsUnderRandomTraffic) {
  std::mt19937 random(5);
  const auto draw = [&](std::uint32_t below) { return static_cast<std::int32_t>(random() % below); };
  {
    PrefixCache cache(pool, 6);
    std::map<int, PageTable> running;
    std::map<int, Tokens> tokens_of;
    int n_hits = 0;
    for (int i = 0; i < 5000; ++i) {
      const int who = draw(4);
      if (running.contains(who)) {
        const Tokens& tokens = tokens_of[who];
        PrefixCache none(pool, 0);
        PageTable plain(pool);
        if (pool.n_free() >= 4) {
          none.open({}, {}, static_cast<std::int32_t>(tokens.size()), plain);
          for (std::size_t slot = 0; slot < tokens.size(); ++slot) {
            write(plain, static_cast<std::int32_t>(slot), tokens[slot]);
          }
          for (std::size_t slot = kPage; slot <= tokens.size(); slot += kPage) {
            const auto last = static_cast<std::int32_t>(slot) - 1;
            ASSERT_EQ(page_of(running.at(who), last), page_of(plain, last));
          }
        }
        running.erase(who);
        continue;
      }
      Tokens tokens;
      const std::int32_t n = 1 + draw(100);
      for (std::int32_t t = 0; t < n; ++t) tokens.push_back(t % 25 == 24 ? draw(3) : t);
      if (pool.n_free() + cache.n_idle() < (n + kPage - 1) / kPage) continue;
      PageTable table(pool);
      n_hits += read(cache, tokens, table) > 0 ? 1 : 0;
      running.emplace(who, std::move(table));
      tokens_of[who] = tokens;
      ASSERT_LE(cache.n_pages(), 6);
      ASSERT_EQ(cache.n_idle(), count_idle(running));
    }
    EXPECT_GT(n_hits, 1000);
  }
  EXPECT_EQ(pool.n_free(), 16);
}

// Memory whose copies fail, as a device's may.
class FailingMemory final : public PageMemory {
 public:
  explicit FailingMemory(std::size_t n_bytes) : bytes_(n_bytes) {}
  std::byte* data() const override { return bytes_.data(); }
  void copy_slot(const kernels::PagedKv&, int, PageSlot, PageSlot) override { throw std::runtime_error("lost"); }

 private:
  mutable std::vector<std::byte> bytes_;
};

// Regression: the page that was copied from had a holder more for ever, and could never be dropped.
TEST(PrefixCache, AFailedCopyHoldsNoPage) {
  PagePool pool(kShape, Dtype::kFloat32, 4,
                std::make_unique<FailingMemory>(4 * PagePool::page_bytes(kShape, Dtype::kFloat32)));
  PrefixCache cache(pool, 4);
  {
    PageTable first(pool);
    cache.open({}, {}, kPage, first);
    cache.add({}, counted(kPage), first);
  }
  ASSERT_EQ(cache.n_idle(), 1);
  {
    PageTable second(pool);
    EXPECT_THROW(cache.open({}, counted(kPage - 1), kPage, second), std::runtime_error);
  }
  EXPECT_EQ(cache.n_idle(), 1);
}

}  // namespace
}  // namespace slip
