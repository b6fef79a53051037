// SPDX-License-Identifier: Apache-2.0
// Find a block's keys and values as tile registers read them: in place in the pages where possible, else copied.
// Included by the AMX class's source file.
#pragma once

#include "kernels/attention_ranks.h"
#include "kernels/tile_config.h"

namespace slip::kernels {
namespace {

constexpr int kBlockSlots = 64;
constexpr int kSlotGroups = kBlockSlots / kGroupSlots;
constexpr int kStepSlots = 32;  // slots that one value product sums over
constexpr int kValueSteps = kBlockSlots / kStepSlots;
constexpr int kDimsAtOnce = 32;  // dims that one key product sums over

// The content of a tile register: [kRegisterRows][kLanes] words.
using Register = float[kRegisterRows][kLanes];

// The values of 32 slots: one register per sixteen dims.
struct StepValues {
  const std::byte* at;
  std::int64_t stride;  // from 16 dims to the next 16
};
struct StagedValues {
  StepValues steps[kValueSteps];
  alignas(64) Register copied[kValueSteps][kMaxHeadDim / kLanes];  // values that cannot be read in place
};

struct PagedBlock {
  static constexpr int kSlots = kBlockSlots;
  static constexpr int kBlocksAhead = 2;
  static constexpr std::int64_t kFetchedLines = 8;  // the hardware prefetcher does the rest
  BlockSlots<kBlockSlots> at;
  const std::byte* keys[kSlotGroups];
  alignas(64) float copied_keys[kSlotGroups][kMaxHeadDim / 2][kLanes];  // keys that cannot be read in place
};

SLIP_LANES __mmask16 first_lanes(int n) {
  return static_cast<__mmask16>((1U << (n < kLanes ? n : kLanes)) - 1);
}

// One line of a group's keys; zeros for missing slots.
SLIP_LANES Lanes key_words(const SlotRuns& slots, std::int64_t line) {
  Part words{};
  for (int run = 0; run < slots.n; ++run) {
    const SlotRun& from = slots.runs[run];
    const auto mask = static_cast<__mmask16>(first_lanes(from.n) << from.first);
    words = _mm512_mask_loadu_ps(words, mask, from.keys + line * kLineBytes - from.first * kWordBytes);
  }
  return {words};
}

// Keys are read in place where their lines allow it. Slots that no row sees are multiplied too; their scores are
// ignored.
void find_keys(const AttentionTile& tile, PagedBlock& block) {
  const int n_rows = (tile.head_dim + 1) / 2;
  for (int group = 0; group < kSlotGroups; ++group) {
    if (group * kGroupSlots >= block.at.n) {
      block.keys[group] = block.keys[0];  // not multiplied, only prefetched
      continue;
    }
    const int first = group * kGroupSlots, left = block.at.n - first;
    SlotRuns slots;
    find_runs(tile, block.at.slots + first, left < kGroupSlots ? left : kGroupSlots, slots);
    if (slots.together && tile.head_dim % kDimsAtOnce == 0) {
      block.keys[group] = slots.runs[0].keys;
      continue;
    }
    auto* copied = block.copied_keys[group];
    int row = 0;
    for (; row < n_rows; ++row) store(copied[row], key_words(slots, row));
    for (; row % kRegisterRows != 0; ++row) store(copied[row], broadcast(0));
    block.keys[group] = reinterpret_cast<const std::byte*>(copied[0]);
  }
}

// The words of sixteen dims for a pair of slots.
SLIP_LANES __m512i value_words(const SlotValues& first, const SlotValues& second, int d) {
  const auto of = [&](const SlotValues& from) {
    return from.words == nullptr ? __m512i{} : _mm512_loadu_si512(from.words + d / kLanes * from.stride);
  };
  const __m512i low = of(first), high = of(second);
  const __m512i lower = first.place == 0 ? low : _mm512_srli_epi32(low, 16);
  const __m512i upper = second.place == 0 ? _mm512_slli_epi32(high, 16) : high;
  return _mm512_mask_blend_epi16(0xAAAAAAAA, lower, upper);
}

// Slots outside the block's ranks may hold anything, so their values are zeroed: 0 · NaN is NaN.
void copy_values(const AttentionTile& tile, const BlockSlots<kBlockSlots>& at, int first, Register* to) {
  const auto find = [&](int rank) {
    return rank >= at.begin && rank < at.n ? values_of(tile, at.slots[rank]) : SlotValues{nullptr, 0, 0};
  };
  for (int row = 0; row < kRegisterRows; ++row) {
    const SlotValues one = find(first + 2 * row), other = find(first + 2 * row + 1);
    for (int d = 0; d < tile.head_dim; d += kLanes) {
      _mm512_store_si512(to[d / kLanes][row], value_words(one, other, d));
    }
  }
}

// Copies the first n of 32 neighbouring slots that begin a line of values, and fills up with zeros.
void copy_first_values(const AttentionTile& tile, const SlotValues& from, int n, Register* to) {
  for (int d = 0; d < tile.head_dim; d += kLanes) {
    const std::byte* lines = from.words + d / kLanes * from.stride;
    for (int row = 0; row < kRegisterRows; ++row) {
      const int left = n - 2 * row;
      const auto some = static_cast<__mmask32>(left >= 2 ? 0xFFFFFFFF : left == 1 ? 0x55555555 : 0);
      _mm512_store_si512(to[d / kLanes][row], _mm512_maskz_loadu_epi16(some, lines + row * kLineBytes));
    }
  }
}

// Values are read in place where their lines allow it.
void find_values(const AttentionTile& tile, const BlockSlots<kBlockSlots>& at, StagedValues& values) {
  for (int step = 0; step * kStepSlots < at.n; ++step) {
    const int first = step * kStepSlots, n = at.n - first < kStepSlots ? at.n - first : kStepSlots;
    const std::int32_t slot = at.slots[first];
    const SlotValues from = values_of(tile, slot);
    const bool together = at.begin <= first && at.slots[first + n - 1] - slot == n - 1 && from.place == 0 &&
                          slot % tile.page_tokens + kStepSlots <= tile.page_tokens;
    values.steps[step] = {reinterpret_cast<const std::byte*>(values.copied[step]), sizeof(Register)};
    if (together && n == kStepSlots) {
      values.steps[step] = {from.words, from.stride};
    } else if (together) {
      copy_first_values(tile, from, n, values.copied[step]);
    } else {
      copy_values(tile, at, first, values.copied[step]);
    }
  }
}

}  // namespace
}  // namespace slip::kernels
