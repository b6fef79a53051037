// SPDX-License-Identifier: Apache-2.0
#include "engine/kv_cache/page_pool.h"

#include <gtest/gtest.h>

#include <limits>
#include <set>
#include <vector>

#include "common/error.h"
#include "kernels/attention.h"
#include "tests/engine/kv_cache/cache_shape.h"

namespace slip {
namespace {

TEST(PagePool, HandsOutEveryPageOnceAndTakesItBack) {
  PagePool pool(cache_shape(), Dtype::kBFloat16, 5);
  std::set<std::int32_t> pages;
  for (int i = 0; i < 5; ++i) pages.insert(pool.allocate());
  EXPECT_EQ(pages, (std::set<std::int32_t>{0, 1, 2, 3, 4}));
  EXPECT_EQ(pool.allocate(), -1);
  pool.release(3);
  EXPECT_EQ(pool.n_free(), 1);
  EXPECT_EQ(pool.allocate(), 3);
}

// Bug: the sum overflowed for the last numbers of slots, so the result was negative.
TEST(PagePool, CountsThePagesOfAnyNumberOfSlots) {
  EXPECT_EQ(PagePool::pages_for(0), 0);
  EXPECT_EQ(PagePool::pages_for(1), 1);
  EXPECT_EQ(PagePool::pages_for(33), 2);
  EXPECT_EQ(PagePool::pages_for(std::numeric_limits<std::int32_t>::max()), 1 << 26);
}

TEST(PagePool, PageSpansAllLayers) {
  const std::size_t layer = 2U * 2 * 32 * 16 * 2;
  EXPECT_EQ(PagePool::page_bytes(cache_shape(), Dtype::kBFloat16), 3 * layer);
  PagePool pool(cache_shape(), Dtype::kBFloat16, 2);
  const auto first = pool.layer(0), second = pool.layer(1);
  EXPECT_EQ(static_cast<std::byte*>(second.base) - static_cast<std::byte*>(first.base),
            static_cast<std::ptrdiff_t>(layer));
  EXPECT_EQ(first.page_stride_bytes, static_cast<std::int64_t>(3 * layer));
  EXPECT_EQ(first.page_tokens, 32);
}

TEST(PagePool, ReportsMemoryTheMachineCannotGive) {
  ModelConfig config = cache_shape();
  config.n_kv_heads = 4096;
  config.head_dim = 1024;
  config.n_layers = 1024;
  EXPECT_THROW(PagePool(config, Dtype::kFloat32, std::numeric_limits<std::int32_t>::max()), Error);
}

// All layers, keys and values of every head move; neighbours stay.
TEST(PagePool, CopiesOneSlotOfAllLayers) {
  for (const Dtype dtype : {Dtype::kFloat32, Dtype::kBFloat16}) {
    PagePool pool(cache_shape(), dtype, 3);
    const auto store = [&](std::int32_t page, int offset, float seed) {
      for (int layer = 0; layer < 3; ++layer) {
        std::vector<float> k(32), v(32);
        for (int i = 0; i < 32; ++i) {
          k[static_cast<std::size_t>(i)] = seed + static_cast<float>(i + 64 * layer);
          v[static_cast<std::size_t>(i)] = seed + static_cast<float>(i + 32 + 64 * layer);
        }
        kernels::store_kv(pool.layer(layer), page, offset, k.data(), v.data());
      }
    };
    const auto page_of = [&](std::int32_t page) {
      const auto* at = static_cast<const std::byte*>(pool.layer(0).base) + pool.layer(0).page_stride_bytes * page;
      return std::vector<std::byte>(at, at + pool.layer(0).page_stride_bytes);
    };
    // Two pages that hold the same but for one slot.
    for (int offset = 0; offset < 32; ++offset) {
      store(1, offset, static_cast<float>(offset));
      store(2, offset, offset == 13 ? -5.0F : static_cast<float>(offset));
    }
    store(0, 30, -5.0F);
    EXPECT_NE(page_of(1), page_of(2));
    pool.copy_slot(0, 30, 1, 13);
    EXPECT_EQ(page_of(1), page_of(2));
    pool.copy_slot(1, 13, 1, 13);
    EXPECT_EQ(page_of(1), page_of(2));
  }
}

TEST(PageTable, TakesWholePagesAndGivesThemBack) {
  PagePool pool(cache_shape(), Dtype::kBFloat16, 4);
  {
    PageTable table(pool);
    EXPECT_TRUE(table.reserve(0));
    EXPECT_EQ(table.capacity_slots(), 0);
    EXPECT_TRUE(table.reserve(33));
    EXPECT_EQ(table.capacity_slots(), 64);
    EXPECT_TRUE(table.reserve(64));
    EXPECT_EQ(pool.n_free(), 2);
    table.shrink_to(32);
    EXPECT_EQ(pool.n_free(), 3);
    table.shrink_to(1);
    EXPECT_EQ(pool.n_free(), 3);
  }
  EXPECT_EQ(pool.n_free(), 4);
}

TEST(PageTable, TakesNothingWhenThePoolCannotGiveAll) {
  PagePool pool(cache_shape(), Dtype::kBFloat16, 4);
  PageTable first(pool), second(pool);
  EXPECT_TRUE(first.reserve(96));
  EXPECT_FALSE(second.reserve(33));
  EXPECT_EQ(pool.n_free(), 1);
  EXPECT_EQ(second.capacity_slots(), 0);
  EXPECT_TRUE(second.reserve(32));
}

TEST(PageTable, MovesItsPages) {
  PagePool pool(cache_shape(), Dtype::kBFloat16, 4);
  PageTable a(pool), b(pool);
  ASSERT_TRUE(a.reserve(40));
  ASSERT_TRUE(b.reserve(5));
  const std::int32_t page = a.pages()[0];
  b = std::move(a);
  EXPECT_EQ(pool.n_free(), 2);
  EXPECT_EQ(b.pages()[0], page);
  PageTable c(std::move(b));
  EXPECT_EQ(c.capacity_slots(), 64);
  EXPECT_EQ(pool.n_free(), 2);
}

TEST(PagePoolDeathTest, APageGivenBackTwiceIsABug) {
  PagePool pool(cache_shape(), Dtype::kBFloat16, 2);
  const std::int32_t page = pool.allocate();
  pool.release(page);
  EXPECT_DEATH(pool.release(page), "given back twice");
  EXPECT_DEATH(pool.release(99), "given back twice");
}

TEST(PagePoolDeathTest, APageDroppedTwiceIsABug) {
  PagePool pool(cache_shape(), Dtype::kBFloat16, 2);
  const std::int32_t page = pool.allocate();
  EXPECT_DEATH(pool.keep(1 - page), "cannot be shared");
  pool.keep(page);
  pool.drop(page);
  EXPECT_DEATH(pool.drop(page), "dropped twice");
}

}  // namespace
}  // namespace slip
