// SPDX-License-Identifier: Apache-2.0
#include "cli/cache_size.h"

#include <algorithm>
#include <string>

#include "cli/process/usable_memory.h"
#include "common/error.h"
#include "engine/kv_cache/page_pool.h"

namespace slip::cli {

std::int32_t cache_pages(const CacheOptions& options, const ModelConfig& target, const CacheRoom& room) {
  const auto page_bytes = static_cast<std::int64_t>(PagePool::page_bytes(target, options.dtype));
  const auto pages_of_tokens = [](std::int64_t tokens) {
    return (tokens + PagePool::kPageTokens - 1) / PagePool::kPageTokens;
  };
  const auto pages_of_bytes = [&](std::uint64_t bytes) { return static_cast<std::int64_t>(bytes) / page_bytes; };
  const std::int64_t one_context = pages_of_tokens(target.max_positions);
  const std::int64_t at_most = pages_of_bytes(room.at_most);
  const std::int64_t least = options.tokens > 0 ? pages_of_tokens(options.tokens) : 1;
  if (least > at_most) {
    throw Error(ErrorCode::kTooLarge,
                "a cache of " + std::to_string(least * PagePool::kPageTokens) + " tokens takes " +
                    memory_text(static_cast<std::uint64_t>(least * page_bytes)) + "; the weights leave " +
                    memory_text(room.at_most),
                at_most > 0 ? "lower model.cache_tokens to " + std::to_string(at_most * PagePool::kPageTokens)
                            : "choose a smaller target",
                "model.cache_tokens");
  }
  if (options.tokens > 0) return static_cast<std::int32_t>(least);
  const std::int64_t for_all = std::min(one_context * options.max_running, pages_of_bytes(room.by_default));
  return static_cast<std::int32_t>(std::min(std::max(one_context, for_all), at_most));
}

}  // namespace slip::cli
