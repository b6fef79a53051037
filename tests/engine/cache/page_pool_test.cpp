// SPDX-License-Identifier: Apache-2.0
#include "engine/cache/page_pool.h"

#include <gtest/gtest.h>

#include <limits>
#include <set>
#include <vector>

#include "common/error.h"
#include "kernels/attention.h"

namespace slip {
namespace {

ModelConfig tiny() {
  ModelConfig config;
  config.n_layers = 3;
  config.n_heads = 4;
  config.n_kv_heads = 2;
  config.head_dim = 8;
  return config;
}

TEST(PagePool, HandsOutEveryPageOnceAndTakesItBack) {
  PagePool pool(tiny(), Dtype::kBFloat16, 5);
  std::set<std::int32_t> pages;
  for (int i = 0; i < 5; ++i) pages.insert(pool.allocate());
  EXPECT_EQ(pages, (std::set<std::int32_t>{0, 1, 2, 3, 4}));
  EXPECT_EQ(pool.allocate(), -1);
  pool.release(3);
  EXPECT_EQ(pool.n_free(), 1);
  EXPECT_EQ(pool.allocate(), 3);
}

TEST(PagePool, PageSpansAllLayers) {
  const std::size_t layer = 2U * 2 * 16 * 8 * 2;
  EXPECT_EQ(PagePool::page_bytes(tiny(), Dtype::kBFloat16), 3 * layer);
  PagePool pool(tiny(), Dtype::kBFloat16, 2);
  const auto first = pool.layer(0), second = pool.layer(1);
  EXPECT_EQ(static_cast<std::byte*>(second.base) - static_cast<std::byte*>(first.base),
            static_cast<std::ptrdiff_t>(layer));
  EXPECT_EQ(first.page_stride_bytes, static_cast<std::int64_t>(3 * layer));
  EXPECT_EQ(first.page_tokens, 16);
}

TEST(PagePool, ReportsMemoryTheMachineCannotGive) {
  ModelConfig config = tiny();
  config.n_kv_heads = 4096;
  config.head_dim = 1024;
  config.n_layers = 1024;
  EXPECT_THROW(PagePool(config, Dtype::kFloat32, std::numeric_limits<std::int32_t>::max()), Error);
}

// All layers, keys and values of every head move; neighbours stay.
TEST(PagePool, CopiesOneSlotOfAllLayers) {
  PagePool pool(tiny(), Dtype::kFloat32, 2);
  const auto value = [](int layer, int kind, int i) { return static_cast<float>(1000 * layer + 100 * kind + i + 1); };
  for (int layer = 0; layer < 3; ++layer) {
    std::vector<float> k(16), v(16);
    for (int i = 0; i < 16; ++i) {
      k[static_cast<std::size_t>(i)] = value(layer, 0, i);
      v[static_cast<std::size_t>(i)] = value(layer, 1, i);
    }
    kernels::store_kv(pool.layer(layer), 0, 7, k.data(), v.data());
  }
  pool.copy_slot(0, 7, 1, 12);
  for (int layer = 0; layer < 3; ++layer) {
    const auto kv = pool.layer(layer);
    const auto* page = reinterpret_cast<const float*>(static_cast<const std::byte*>(kv.base) + kv.page_stride_bytes);
    for (int kind = 0; kind < 2; ++kind) {
      for (int i = 0; i < 2 * 16 * 8; ++i) {
        const int head = i / 128, slot = i / 8 % 16, e = i % 8;
        const float expected = slot == 12 ? value(layer, kind, head * 8 + e) : 0.0F;
        EXPECT_EQ(page[kind * 256 + i], expected) << layer << " " << kind << " " << i;
      }
    }
  }
}

TEST(PageTable, TakesWholePagesAndGivesThemBack) {
  PagePool pool(tiny(), Dtype::kBFloat16, 4);
  {
    PageTable table(pool);
    EXPECT_TRUE(table.reserve(0));
    EXPECT_EQ(table.capacity_slots(), 0);
    EXPECT_TRUE(table.reserve(17));
    EXPECT_EQ(table.capacity_slots(), 32);
    EXPECT_TRUE(table.reserve(32));
    EXPECT_EQ(pool.n_free(), 2);
    table.shrink_to(16);
    EXPECT_EQ(pool.n_free(), 3);
    table.shrink_to(1);
    EXPECT_EQ(pool.n_free(), 3);
  }
  EXPECT_EQ(pool.n_free(), 4);
}

TEST(PageTable, TakesNothingWhenThePoolCannotGiveAll) {
  PagePool pool(tiny(), Dtype::kBFloat16, 4);
  PageTable first(pool), second(pool);
  EXPECT_TRUE(first.reserve(48));
  EXPECT_FALSE(second.reserve(17));
  EXPECT_EQ(pool.n_free(), 1);
  EXPECT_EQ(second.capacity_slots(), 0);
  EXPECT_TRUE(second.reserve(16));
}

TEST(PageTable, MovesItsPages) {
  PagePool pool(tiny(), Dtype::kBFloat16, 4);
  PageTable a(pool), b(pool);
  ASSERT_TRUE(a.reserve(20));
  ASSERT_TRUE(b.reserve(5));
  const std::int32_t page = a.pages()[0];
  b = std::move(a);
  EXPECT_EQ(pool.n_free(), 2);
  EXPECT_EQ(b.pages()[0], page);
  PageTable c(std::move(b));
  EXPECT_EQ(c.capacity_slots(), 32);
  EXPECT_EQ(pool.n_free(), 2);
}

TEST(PagePoolDeathTest, APageGivenBackTwiceIsABug) {
  PagePool pool(tiny(), Dtype::kBFloat16, 2);
  const std::int32_t page = pool.allocate();
  pool.release(page);
  EXPECT_DEATH(pool.release(page), "given back twice");
  EXPECT_DEATH(pool.release(99), "given back twice");
}

}  // namespace
}  // namespace slip
