// SPDX-License-Identifier: Apache-2.0
#include "engine/cuda/device_step.h"

#include <algorithm>

#include "common/error.h"

namespace slip {
namespace {

using kernels::cuda::AttentionTileRows;
using kernels::cuda::DeviceRange;
using kernels::cuda::DeviceRow;

std::vector<std::int32_t> different_windows(const ModelConfig& config) {
  std::vector<std::int32_t> windows;
  for (std::int32_t layer = 0; layer < config.n_layers; ++layer) windows.push_back(config.window(layer));
  std::sort(windows.begin(), windows.end());
  windows.erase(std::unique(windows.begin(), windows.end()), windows.end());
  return windows;
}

std::int32_t rows_of(const StepInput& input, std::size_t sequence) {
  return input.row_begin[sequence + 1] - input.row_begin[sequence];
}

std::size_t tiles_of(std::size_t n_rows) {
  return static_cast<std::size_t>(kernels::cuda::row_tiles(static_cast<std::int64_t>(n_rows)));
}

std::size_t pages_of(const KvView& kv, std::int32_t n_rows) {
  return static_cast<std::size_t>(kv.n_cached + n_rows + PagePool::kPageTokens - 1) / PagePool::kPageTokens;
}

// Each sequence lists all its pages, also those that it shares with others. So a step may list more pages than the
// cache has. A tree's slots may go beyond the last position.
std::size_t room_for_lists(const ModelConfig& config, const DeviceStep::Bounds& bounds) {
  const std::int32_t of_one = std::min(bounds.n_pages, PagePool::pages_for(config.max_positions + bounds.max_rows));
  return static_cast<std::size_t>(bounds.max_sequences) * static_cast<std::size_t>(of_one);
}

// A table of lists that rows point to: filled on the host, read on the device.
template <class T>
struct Stretch {
  T* host;
  const T* device;
  std::size_t room, used = 0;

  const T* add(const T* values, std::size_t n) {
    SLIP_CHECK(used + n <= room, "the step has more pages or ranges than its tables have room for");
    std::copy_n(values, n, host + used);
    used += n;
    return device + used - n;
  }
};

}  // namespace

DeviceStep::Tables DeviceStep::lay_out(const Bounds& bounds, std::size_t n_windows, std::size_t list_room) {
  Tables tables;
  const auto take = [&](std::size_t count, std::size_t size) {
    const std::size_t at = tables.bytes;
    tables.bytes += (count * size + 15) / 16 * 16;
    return at;
  };
  const auto rows = static_cast<std::size_t>(bounds.max_rows);
  const auto logit_rows = static_cast<std::size_t>(bounds.max_logit_rows);
  tables.tokens = take(rows, sizeof(std::int32_t));
  tables.positions = take(rows, sizeof(std::int32_t));
  tables.token_rows = take(rows, sizeof(std::int32_t));
  tables.logit_rows = take(logit_rows, sizeof(std::int32_t));
  tables.logit_places = take(logit_rows, sizeof(std::int32_t));
  tables.row_weights = take(tiles_of(rows), sizeof(std::byte*));
  tables.logit_row_weights = take(tiles_of(logit_rows), sizeof(std::byte*));
  tables.tiles = take(rows, sizeof(AttentionTileRows));
  tables.rows = take(rows * n_windows, sizeof(DeviceRow));
  tables.pages = take(list_room, sizeof(std::int32_t));
  tables.ancestors = take(rows * ((rows + 63) / 64), sizeof(std::uint64_t));
  tables.visible = take(list_room, sizeof(DeviceRange));
  return tables;
}

DeviceStep::DeviceStep(kernels::cuda::DeviceQueue& queue, const ModelConfig& config, const Bounds& bounds)
    : queue_(queue),
      bounds_(bounds),
      list_room_(room_for_lists(config, bounds)),
      tiling_(attention_tiling(config)),
      windows_(different_windows(config)),
      tables_(lay_out(bounds, windows_.size(), list_room_)),
      host_(queue, tables_.bytes),
      device_(queue, tables_.bytes) {}

const DeviceRow* DeviceStep::rows(std::int32_t window) const {
  const auto found = std::find(windows_.begin(), windows_.end(), window);
  SLIP_CHECK(found != windows_.end(), "a window that no layer has");
  return device_table<DeviceRow>(tables_.rows) + (found - windows_.begin()) * bounds_.max_rows;
}

void DeviceStep::place(const StepInput& input) {
  row_weights_.clear();
  for (std::size_t s = 0; s < input.kv.size(); ++s) {
    const std::uint16_t index = input.weights.empty() ? 0 : input.weights[s];
    row_weights_.insert(row_weights_.end(), static_cast<std::size_t>(rows_of(input, s)), index);
  }
  logit_weights_.clear();
  for (const std::int32_t row : input.logit_rows) {
    logit_weights_.push_back(row_weights_[static_cast<std::size_t>(row)]);
  }
  rows_.set(row_weights_);
  logits_.set(logit_weights_);
}

StepNeeds DeviceStep::needs(const StepInput& input) {
  place(input);
  StepNeeds needs;
  needs.n_rows = rows_.n_places();
  needs.n_logit_rows = logits_.n_places();
  needs.grouped = rows_.grouped();
  needs.wants_taps = input.taps.layers != 0;
  for (std::size_t s = 0; s < input.kv.size(); ++s) {
    const std::int32_t n = rows_of(input, s);
    needs.n_tiles += (n + tiling_.rows - 1) / tiling_.rows;
    needs.n_ranks = std::max(needs.n_ranks, input.kv[s].n_cached + n);
  }
  return needs;
}

void DeviceStep::put(const StepInput& input, const DevicePassShape& shape,
                     std::span<const std::byte* const> slot_begins) {
  place(input);
  SLIP_CHECK(rows_.n_places() <= shape.n_rows && logits_.n_places() <= shape.n_logit_rows, "a shape that is too small");
  const auto table = [&](std::size_t at, std::int32_t n, std::int32_t value) {
    auto* values = host_table<std::int32_t>(at);
    std::fill_n(values, n, value);
    return values;
  };
  auto *tokens = table(tables_.tokens, shape.n_rows, 0), *positions = table(tables_.positions, shape.n_rows, 0);
  auto* token_rows = table(tables_.token_rows, shape.n_rows, 0);
  for (std::size_t row = 0; row < input.tokens.size(); ++row) {
    const std::int32_t place = rows_.of(row);
    tokens[place] = input.tokens[row];
    positions[place] = input.positions[row];
    token_rows[place] = static_cast<std::int32_t>(row);
  }
  auto* logit_rows = table(tables_.logit_rows, shape.n_logit_rows, 0);
  auto* logit_places = table(tables_.logit_places, shape.n_logit_rows, -1);
  for (std::size_t i = 0; i < input.logit_rows.size(); ++i) {
    const std::int32_t place = logits_.of(i);
    logit_rows[place] = rows_.of(static_cast<std::size_t>(input.logit_rows[i]));
    logit_places[place] = static_cast<std::int32_t>(i);
  }
  put_row_weights(shape, slot_begins);
  put_tiles(input, shape);
  put_rows(input, shape);
}

void DeviceStep::copy_in(std::size_t begin, std::size_t end) {
  if (begin < end) queue_.copy_in(device_.get() + begin, host_.get() + begin, end - begin);
}

// Unused tiles get null weights, unless the pass is ungrouped: then all tiles have the same weights.
void DeviceStep::put_row_weights(const DevicePassShape& shape, std::span<const std::byte* const> slot_begins) {
  if (slot_begins.empty()) return;
  const auto put = [&](std::size_t table, const RowPlaces& places, std::int32_t n_rows) {
    auto* to = host_table<const std::byte*>(table);
    const auto begin_of = [&](std::int32_t weights) { return slot_begins[static_cast<std::size_t>(weights)]; };
    const auto weights = places.weights_of_tiles();
    const std::byte* rest = shape.grouped || weights.empty() ? nullptr : begin_of(weights.front());
    std::fill_n(std::transform(weights.begin(), weights.end(), to, begin_of),
                tiles_of(static_cast<std::size_t>(n_rows)) - weights.size(), rest);
  };
  put(tables_.row_weights, rows_, shape.n_rows);
  put(tables_.logit_row_weights, logits_, shape.n_logit_rows);
}

void DeviceStep::put_tiles(const StepInput& input, const DevicePassShape& shape) {
  auto* tile = host_table<AttentionTileRows>(tables_.tiles);
  const auto* end = tile + shape.n_tiles;
  for (std::size_t s = 0; s < input.kv.size(); ++s) {
    for (std::int32_t row = input.row_begin[s]; row < input.row_begin[s + 1]; row += tiling_.rows) {
      SLIP_CHECK(tile != end, "a shape that has too few tiles");
      *tile++ = {rows_.of(static_cast<std::size_t>(row)), std::min(tiling_.rows, input.row_begin[s + 1] - row)};
    }
  }
  while (tile != end) *tile++ = {};
}

void DeviceStep::put_rows(const StepInput& input, const DevicePassShape& shape) {
  const auto n_rows = static_cast<std::size_t>(bounds_.max_rows);
  Stretch<std::int32_t> pages{host_table<std::int32_t>(tables_.pages), device_table<std::int32_t>(tables_.pages),
                              list_room_};
  Stretch<std::uint64_t> ancestors{host_table<std::uint64_t>(tables_.ancestors),
                                   device_table<std::uint64_t>(tables_.ancestors), n_rows * ((n_rows + 63) / 64)};
  Stretch<DeviceRange> visible{host_table<DeviceRange>(tables_.visible), device_table<DeviceRange>(tables_.visible),
                               list_room_};
  auto* rows = host_table<DeviceRow>(tables_.rows);
  std::fill_n(rows, shape.n_rows, DeviceRow{});
  for (std::size_t s = 0; s < input.kv.size(); ++s) {
    const KvView& kv = input.kv[s];
    const std::int32_t n = rows_of(input, s);
    DeviceRow view;
    view.pages = pages.add(kv.pages->pages(), pages_of(kv, n));
    view.n_committed = kv.n_cached;
    view.n_ranges = static_cast<std::int32_t>(kv.visible.size());
    for (const PageRange& range : kv.visible) {
      const DeviceRange device_range{range.begin, range.end};
      const DeviceRange* at = visible.add(&device_range, 1);
      if (view.visible == nullptr) view.visible = at;
    }
    for (std::int32_t row = input.row_begin[s]; row < input.row_begin[s + 1]; ++row) {
      view.own_index = row - input.row_begin[s];
      if (!input.ancestors.empty()) {
        // Words after the sequence's last row are zero.
        view.n_words = (n + 63) / 64;
        const auto first = static_cast<std::size_t>(row) * static_cast<std::size_t>(input.ancestor_words);
        view.ancestors = ancestors.add(&input.ancestors[first], static_cast<std::size_t>(view.n_words));
      }
      rows[rows_.of(static_cast<std::size_t>(row))] = view;
    }
  }
  for (std::size_t w = windows_.size(); w-- > 0;) {  // the first table last, since the others are copies of it
    for (std::int32_t row = 0; row < shape.n_rows; ++row) {
      DeviceRow& to = rows[static_cast<std::ptrdiff_t>(w) * bounds_.max_rows + row];
      to = rows[row];
      to.window = windows_[w];
    }
  }
  copy_in(0, tables_.pages + pages.used * sizeof(std::int32_t));
  copy_in(tables_.ancestors, tables_.ancestors + ancestors.used * sizeof(std::uint64_t));
  copy_in(tables_.visible, tables_.visible + visible.used * sizeof(DeviceRange));
}

}  // namespace slip
