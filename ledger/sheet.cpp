// SPDX-License-Identifier: Apache-2.0
#include "ledger/sheet.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <string_view>

#include "common/error.h"

namespace slip {
namespace {

std::string csv_text(const std::string& text) {
  const bool formula = !text.empty() && std::string_view("=+-@\t\r").find(text.front()) != std::string_view::npos;
  if (!formula && text.find_first_of(",\"\r\n") == std::string::npos) return text;
  std::string quoted = formula ? "\"'" : "\"";
  for (const char c : text) quoted += c == '"' ? std::string("\"\"") : std::string(1, c);
  return quoted + "\"";
}

std::string csv_cell(const Cell& cell) {
  if (const auto* text = std::get_if<std::string>(&cell)) return csv_text(*text);
  if (const auto* integer = std::get_if<std::int64_t>(&cell)) return std::to_string(*integer);
  if (const auto* real = std::get_if<double>(&cell)) {
    std::array<char, 40> digits{};
    std::snprintf(digits.data(), digits.size(), "%.10g", *real);
    return digits.data();
  }
  return {};
}

template <class Range, class Text>
std::string csv_line(const Range& range, Text text) {
  std::string line;
  for (const auto& one : range) {
    if (&one != &range.front()) line += ',';
    line += text(one);
  }
  return line += "\r\n";
}

}  // namespace

const Cell& SheetRow::cell(const char* column) const {
  const auto found = std::find(sheet_->columns.begin(), sheet_->columns.end(), column);
  SLIP_CHECK(found != sheet_->columns.end(), "a report names a column that its view does not have");
  return sheet_->rows[row_][static_cast<std::size_t>(found - sheet_->columns.begin())];
}

std::optional<double> SheetRow::number(const char* column) const {
  const Cell& found = cell(column);
  if (const auto* real = std::get_if<double>(&found)) return *real;
  if (const auto* integer = std::get_if<std::int64_t>(&found)) return static_cast<double>(*integer);
  return std::nullopt;
}

std::int64_t SheetRow::integer(const char* column) const {
  const auto* integer = std::get_if<std::int64_t>(&cell(column));
  return integer == nullptr ? 0 : *integer;
}

std::string SheetRow::text(const char* column) const {
  const auto* text = std::get_if<std::string>(&cell(column));
  return text == nullptr ? std::string() : *text;
}

nlohmann::ordered_json to_json(const Cell& cell) {
  if (const auto* integer = std::get_if<std::int64_t>(&cell)) return *integer;
  if (const auto* real = std::get_if<double>(&cell)) return *real;
  if (const auto* text = std::get_if<std::string>(&cell)) return *text;
  return nullptr;
}

nlohmann::ordered_json to_json(const Sheet& sheet) {
  nlohmann::ordered_json rows = nlohmann::ordered_json::array();
  for (const auto& row : sheet.rows) {
    nlohmann::ordered_json object = nlohmann::ordered_json::object();
    for (std::size_t i = 0; i < row.size(); ++i) object[sheet.columns[i]] = to_json(row[i]);
    rows.push_back(std::move(object));
  }
  return rows;
}

std::string to_csv(const Sheet& sheet) {
  std::string out = csv_line(sheet.columns, csv_text);
  for (const auto& row : sheet.rows) out += csv_line(row, csv_cell);
  return out;
}

}  // namespace slip
