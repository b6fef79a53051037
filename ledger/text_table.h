// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace slip {

// A table of columns aligned by their width on a terminal, with a title line and a rule. The last column is cut to fit.
class TextTable {
 public:
  enum class Align : std::uint8_t { kLeft, kRight };
  struct Column {
    std::string title;
    Align align = Align::kRight;
  };

  explicit TextTable(std::vector<Column> columns) : columns_(std::move(columns)) {}
  void add(std::vector<std::string> cells);  // REQUIRES: one cell per column
  void add_rule() { rows_.emplace_back(); }
  std::string text(int width, bool color) const;  // width 0: nothing is cut

 private:
  std::vector<std::size_t> widths(std::size_t width) const;
  std::string line(std::span<const std::string> cells, std::span<const std::size_t> widths) const;

  std::vector<Column> columns_;
  std::vector<std::vector<std::string>> rows_;
};

std::size_t shown_width(const std::string& text);  // code points
// The values as ▁▂▃▄▅▆▇█ scaled between minimum and maximum, at most `width` wide (neighbours are averaged).
std::string sparkline(std::span<const double> values, std::size_t width);

}  // namespace slip
