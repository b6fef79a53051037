// SPDX-License-Identifier: Apache-2.0
#include "ledger/text_table.h"

#include <algorithm>
#include <array>
#include <limits>
#include <numeric>

#include "common/error.h"

namespace slip {
namespace {

constexpr const char* kGap = "  ";
constexpr std::size_t kGapWidth = 2;
constexpr std::size_t kLeastLastColumn = 12;
constexpr std::array<const char*, 8> kBars = {"▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
// The smallest range that fills the full height; smaller differences are noise.
constexpr double kLeastSparkRange = 0.05;

bool begins_code_point(char c) {
  return (static_cast<unsigned char>(c) & 0xC0) != 0x80;
}

std::string cut(const std::string& text, std::size_t width) {
  if (shown_width(text) <= width) return text;
  std::string out;
  std::size_t shown = 0;
  for (const char c : text) {
    if (begins_code_point(c) && ++shown >= width) break;
    out += c;
  }
  return out + "…";
}

std::string repeat(const char* text, std::size_t n) {
  std::string out;
  for (std::size_t i = 0; i < n; ++i) out += text;
  return out;
}

}  // namespace

std::size_t shown_width(const std::string& text) {
  return static_cast<std::size_t>(std::count_if(text.begin(), text.end(), begins_code_point));
}

void TextTable::add(std::vector<std::string> cells) {
  SLIP_CHECK(cells.size() == columns_.size(), "a table row has another number of cells than the table has columns");
  rows_.push_back(std::move(cells));
}

std::vector<std::size_t> TextTable::widths(std::size_t width) const {
  std::vector<std::size_t> wide;
  for (const auto& column : columns_) wide.push_back(shown_width(column.title));
  for (const auto& row : rows_) {
    for (std::size_t i = 0; i < row.size(); ++i) wide[i] = std::max(wide[i], shown_width(row[i]));
  }
  const std::size_t others = std::accumulate(wide.begin(), wide.end() - 1, kGapWidth * (wide.size() - 1));
  const std::size_t left = width > others ? width - others : 0;
  wide.back() = std::min(wide.back(), std::max(left, kLeastLastColumn));
  return wide;
}

std::string TextTable::line(std::span<const std::string> cells, std::span<const std::size_t> wide) const {
  std::string out;
  for (std::size_t i = 0; i < cells.size(); ++i) {
    const std::string cell = cut(cells[i], wide[i]);
    const std::string padding(wide[i] - shown_width(cell), ' ');
    if (i > 0) out += kGap;
    out += columns_[i].align == Align::kRight ? padding + cell : cell + padding;
  }
  out.erase(out.find_last_not_of(' ') + 1);
  return out + "\n";
}

std::string TextTable::text(int width, bool color) const {
  const auto wide = widths(width > 0 ? static_cast<std::size_t>(width) : std::numeric_limits<std::size_t>::max());
  const std::string rule = repeat("─", std::accumulate(wide.begin(), wide.end(), kGapWidth * (wide.size() - 1))) + "\n";
  std::vector<std::string> titles;
  for (const auto& column : columns_) titles.push_back(column.title);
  std::string out = (color ? "\033[1m" : "") + line(titles, wide) + (color ? "\033[0m" : "") + rule;
  for (const auto& row : rows_) out += row.empty() ? rule : line(row, wide);
  return out;
}

std::string sparkline(std::span<const double> values, std::size_t width) {
  if (values.empty() || width == 0) return {};
  const std::size_t n = std::min(width, values.size());
  std::vector<double> means;
  for (std::size_t i = 0; i < n; ++i) {
    const std::size_t from = i * values.size() / n, to = (i + 1) * values.size() / n;
    means.push_back(std::accumulate(values.begin() + static_cast<std::ptrdiff_t>(from),
                                    values.begin() + static_cast<std::ptrdiff_t>(to), 0.0) /
                    static_cast<double>(to - from));
  }
  const auto [low, high] = std::minmax_element(means.begin(), means.end());
  const double range = std::max(*high - *low, kLeastSparkRange);
  std::string out;
  for (const double mean : means) {
    out += kBars[std::min<std::size_t>(7, static_cast<std::size_t>((mean - *low) / range * 8))];
  }
  return out;
}

}  // namespace slip
