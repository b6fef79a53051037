// SPDX-License-Identifier: Apache-2.0
// The fixture of the ledger's tests: a ledger file in a folder of its own, and requests to record.
#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>
#include <string>
#include <thread>

#include "common/clock.h"
#include "common/error.h"
#include "common/fail_point.h"
#include "ledger/database.h"
#include "ledger/ledger.h"
#include "tests/common/patience.h"
#include "tests/ledger/sample_ledger.h"

namespace slip::testing {

// A ledger file in a temporary folder. The destructor disarms the fail point.
class LedgerTest : public ::testing::Test {
 protected:
  ~LedgerTest() override { arm_fail_point(""); }

  // The integer that `sql` selects from the file.
  std::int64_t count(const std::string& sql) {
    Database database(file_, Database::Mode::kReadOnly);
    return database.integer(sql);
  }
  // The error that opening the file throws, if any.
  std::optional<Error> open_error() {
    try {
      const Ledger ledger(options_for(file_));
    } catch (const Error& error) {
      return error;
    }
    return std::nullopt;
  }
  static std::string read(const std::filesystem::path& file) {
    std::ifstream in(file, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
  }

  TemporaryFolder folder_;
  const std::filesystem::path file_ = folder_ / "ledger.db";
};

// A request of topic sql that ends now: 6 tokens accepted, 4 first rejections.
inline RequestRow numbered(std::uint64_t number) {
  RequestRow row = sample_request("sql", wall_us(), 6, 4);
  row.request_id = number;
  return row;
}

}  // namespace slip::testing
