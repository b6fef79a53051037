// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "checkpoints/model_config.h"

namespace slip::cli {

// The configured size of the target's KV cache.
struct CacheOptions {
  std::int64_t tokens = 0;        // 0: as many as all running answers could need, if there is room
  std::int32_t max_running = 16;  // answers that run at once
  Dtype dtype = Dtype::kBFloat16;
};

// Bytes for the target's KV cache.
struct CacheRoom {
  std::uint64_t by_default = 0;  // where no size is configured
  std::uint64_t at_most = 0;     // what the weights leave
};

// Pages of the target's KV cache. Without a configured size they hold one context at least, or what there is room for
// if that is less. Error{kTooLarge} with both figures when a configured size does not fit. Pure.
std::int32_t cache_pages(const CacheOptions& options, const ModelConfig& target, const CacheRoom& room);

}  // namespace slip::cli
