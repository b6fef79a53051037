// SPDX-License-Identifier: Apache-2.0
#include "cli/cache_size.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/error.h"
#include "engine/kv_cache/page_pool.h"
#include "tests/checkpoints/tiny_config.h"

namespace slip::cli {
namespace {

using ::testing::HasSubstr;

constexpr std::int32_t kContext = 4096, kContextPages = kContext / PagePool::kPageTokens;

ModelConfig target() {
  return testing::tiny_config({.hidden_size = 64, .n_layers = 2, .n_kv_heads = 2, .max_positions = kContext});
}

std::uint64_t bytes_of(std::int32_t pages) {
  return static_cast<std::uint64_t>(pages) * PagePool::page_bytes(target(), Dtype::kBFloat16);
}

TEST(CacheSize, HoldsAllRunningAnswersWhereThereIsRoom) {
  const CacheOptions options{.max_running = 4};
  EXPECT_EQ(cache_pages(options, target(), {bytes_of(10'000), bytes_of(40'000)}), 4 * kContextPages);
  EXPECT_EQ(cache_pages(options, target(), {bytes_of(300), bytes_of(1200)}), 300) << "its share of the memory";
  EXPECT_EQ(cache_pages(options, target(), {bytes_of(50), bytes_of(200)}), kContextPages) << "one context at least";
}

// Bug: a context that did not fit beside the weights was promised, and the system ended the process when answers grew.
TEST(CacheSize, HoldsLessThanAContextWhereTheWeightsLeaveNoMore) {
  EXPECT_EQ(cache_pages({}, target(), {bytes_of(50), bytes_of(60)}), 60);
}

TEST(CacheSize, AConfiguredSizeIsKeptOrRefusedWithBothFigures) {
  CacheOptions options{.tokens = 1000};
  EXPECT_EQ(cache_pages(options, target(), {bytes_of(1), bytes_of(60)}), 32) << "the default share is no bound for it";
  options.tokens = 1'000'000;
  try {
    cache_pages(options, target(), {bytes_of(1), bytes_of(60)});
    ADD_FAILURE() << "it does not fit";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kTooLarge);
    EXPECT_EQ(error.param(), "model.cache_tokens");
    EXPECT_THAT(error.message(), HasSubstr("a cache of 1000000 tokens takes 512 MB; the weights leave 1 MB"));
    EXPECT_THAT(error.hint(), HasSubstr("lower model.cache_tokens to 1920"));
  }
  options.tokens = 0;
  EXPECT_THROW(cache_pages(options, target(), {bytes_of(1), 0}), Error) << "not even a page";
}

}  // namespace
}  // namespace slip::cli
