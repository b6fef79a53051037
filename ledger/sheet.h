// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <variant>
#include <vector>

namespace slip {

using Cell = std::variant<std::monostate, std::int64_t, double, std::string>;

// The result of a view: named columns, rows of typed cells.
struct Sheet {
  std::vector<std::string> columns;
  std::vector<std::vector<Cell>> rows;
};

// Reads one row of a sheet by column name. An unknown name is a bug.
class SheetRow {
 public:
  SheetRow(const Sheet& sheet, std::size_t row) : sheet_(&sheet), row_(row) {}
  const Cell& cell(const char* column) const;
  std::optional<double> number(const char* column) const;  // empty for NULL
  std::int64_t integer(const char* column) const;          // 0 for NULL
  std::string text(const char* column) const;              // "" for NULL

 private:
  const Sheet* sheet_;
  std::size_t row_;
};

nlohmann::ordered_json to_json(const Cell& cell);
nlohmann::ordered_json to_json(const Sheet& sheet);  // a list of objects
std::string to_csv(const Sheet& sheet);              // RFC 4180; quotes text that a spreadsheet would read as a formula

}  // namespace slip
