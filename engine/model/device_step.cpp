// SPDX-License-Identifier: Apache-2.0
#include "engine/model/device_step.h"

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

std::size_t pages_of(const KvView& kv, std::int32_t n_rows) {
  return static_cast<std::size_t>(kv.n_cached + n_rows + PagePool::kPageTokens - 1) / PagePool::kPageTokens;
}

// A stretch of a table that rows point to: filled on the host, read on the device.
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

DeviceStep::Tables DeviceStep::lay_out(const Bounds& bounds, std::size_t n_windows) {
  Tables tables;
  const auto take = [&](std::size_t count, std::size_t size) {
    const std::size_t at = tables.bytes;
    tables.bytes += (count * size + 15) / 16 * 16;
    return at;
  };
  const auto rows = static_cast<std::size_t>(bounds.max_rows), pages = static_cast<std::size_t>(bounds.n_pages);
  tables.tokens = take(rows, sizeof(std::int32_t));
  tables.positions = take(rows, sizeof(std::int32_t));
  tables.logit_rows = take(static_cast<std::size_t>(bounds.max_logit_rows), sizeof(std::int32_t));
  tables.tiles = take(rows, sizeof(AttentionTileRows));
  tables.rows = take(rows * n_windows, sizeof(DeviceRow));
  tables.pages = take(pages, sizeof(std::int32_t));
  tables.ancestors = take(rows * ((rows + 63) / 64), sizeof(std::uint64_t));
  tables.visible = take(pages, sizeof(DeviceRange));
  return tables;
}

DeviceStep::DeviceStep(kernels::cuda::DeviceQueue& queue, const ModelConfig& config, const Bounds& bounds)
    : queue_(queue),
      bounds_(bounds),
      tiling_(attention_tiling(config)),
      windows_(different_windows(config)),
      tables_(lay_out(bounds, windows_.size())),
      host_(queue, tables_.bytes),
      device_(queue, tables_.bytes) {}

const DeviceRow* DeviceStep::rows(std::int32_t window) const {
  const auto found = std::find(windows_.begin(), windows_.end(), window);
  SLIP_CHECK(found != windows_.end(), "a window that no layer has");
  return device_table<DeviceRow>(tables_.rows) + (found - windows_.begin()) * bounds_.max_rows;
}

StepNeeds DeviceStep::needs(const StepInput& input) const {
  StepNeeds needs;
  needs.n_rows = static_cast<std::int32_t>(input.tokens.size());
  needs.n_logit_rows = static_cast<std::int32_t>(input.logit_rows.size());
  needs.wants_taps = input.taps.layers != 0;
  for (std::size_t s = 0; s < input.kv.size(); ++s) {
    const std::int32_t n = rows_of(input, s);
    needs.n_tiles += (n + tiling_.rows - 1) / tiling_.rows;
    needs.n_ranks = std::max(needs.n_ranks, input.kv[s].n_cached + n);
  }
  return needs;
}

void DeviceStep::put(const StepInput& input, const PassShape& shape) {
  const auto fill = [&](std::size_t table, std::span<const std::int32_t> values, std::int32_t n) {
    auto* to = host_table<std::int32_t>(table);
    std::fill(std::copy(values.begin(), values.end(), to), to + n, 0);
  };
  fill(tables_.tokens, input.tokens, shape.n_rows);
  fill(tables_.positions, input.positions, shape.n_rows);
  fill(tables_.logit_rows, input.logit_rows, shape.n_logit_rows);
  put_tiles(input, shape);
  queue_.copy_in(device_.get(), host_.get(), put_rows(input, shape));
}

void DeviceStep::put_tiles(const StepInput& input, const PassShape& shape) {
  auto* tile = host_table<AttentionTileRows>(tables_.tiles);
  const auto* end = tile + shape.n_tiles;
  for (std::size_t s = 0; s < input.kv.size(); ++s) {
    for (std::int32_t row = input.row_begin[s]; row < input.row_begin[s + 1]; row += tiling_.rows) {
      SLIP_CHECK(tile != end, "a shape that has too few tiles");
      *tile++ = {row, std::min(tiling_.rows, input.row_begin[s + 1] - row)};
    }
  }
  while (tile != end) *tile++ = {};
}

std::size_t DeviceStep::put_rows(const StepInput& input, const PassShape& shape) {
  const auto n_pages = static_cast<std::size_t>(bounds_.n_pages), n_rows = static_cast<std::size_t>(bounds_.max_rows);
  Stretch<std::int32_t> pages{host_table<std::int32_t>(tables_.pages), device_table<std::int32_t>(tables_.pages),
                              n_pages};
  Stretch<std::uint64_t> ancestors{host_table<std::uint64_t>(tables_.ancestors),
                                   device_table<std::uint64_t>(tables_.ancestors), n_rows * ((n_rows + 63) / 64)};
  Stretch<DeviceRange> visible{host_table<DeviceRange>(tables_.visible), device_table<DeviceRange>(tables_.visible),
                               n_pages};
  auto* rows = host_table<DeviceRow>(tables_.rows);
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
        // Words behind the sequence's last row hold nothing.
        view.n_words = (n + 63) / 64;
        const auto first = static_cast<std::size_t>(row) * static_cast<std::size_t>(input.ancestor_words);
        view.ancestors = ancestors.add(&input.ancestors[first], static_cast<std::size_t>(view.n_words));
      }
      rows[row] = view;
    }
  }
  std::fill(rows + input.tokens.size(), rows + shape.n_rows, DeviceRow{});
  for (std::size_t w = windows_.size(); w-- > 0;) {  // the first table last: the others are made of it
    for (std::int32_t row = 0; row < shape.n_rows; ++row) {
      DeviceRow& to = rows[static_cast<std::ptrdiff_t>(w) * bounds_.max_rows + row];
      to = rows[row];
      to.window = windows_[w];
    }
  }
  const bool only_pages = ancestors.used == 0 && visible.used == 0;
  return only_pages ? tables_.pages + pages.used * sizeof(std::int32_t) : tables_.bytes;
}

}  // namespace slip
