// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <immintrin.h>

#include <cstdint>

namespace slip::kernels {
namespace {

constexpr int kRegisterRows = 16;   // rows of a tile register
constexpr int kRegisterBytes = 64;  // of one row of it

// The operand of LDTILECFG (Intel 64 manual, volume 1, chapter 18).
struct alignas(64) TileConfig {
  std::uint8_t palette = 1;
  std::uint8_t start_row = 0;
  std::uint8_t reserved[14] = {};
  std::uint16_t row_bytes[16] = {};
  std::uint8_t rows[16] = {};

  void set(int index, int n_rows) {
    row_bytes[index] = kRegisterBytes;
    rows[index] = static_cast<std::uint8_t>(n_rows);
  }
};

// GCC 12's intrinsic declares only 8 of the 64 bytes that it reads. The empty asm statement forces the others to be
// written first.
[[gnu::always_inline]] inline void use(const TileConfig& config) {
  __asm__ volatile("" : : "r"(&config) : "memory");
  _tile_loadconfig(&config);
}

// The row count that this thread's registers are configured for; 0: not configured. Configuring takes as long as about
// twenty products.
thread_local int configured_rows = 0;

// Up to 16 rows: sums in registers 0 to 3, rows in 4, columns in 5 to 7. More: sums in 0 to 3 (the lower rows' in 2 and
// 3), rows in 4 and 5, columns in 6 and 7.
[[gnu::always_inline]] inline void configure(int n_rows) {
  if (n_rows == configured_rows) return;
  const bool is_wide = n_rows > kRegisterRows;
  TileConfig config;
  for (const int i : {0, 1, 4}) config.set(i, is_wide ? kRegisterRows : n_rows);
  for (const int i : {2, 3}) config.set(i, is_wide ? n_rows - kRegisterRows : n_rows);
  config.set(5, is_wide ? n_rows - kRegisterRows : kRegisterRows);
  for (const int i : {6, 7}) config.set(i, kRegisterRows);
  use(config);
  configured_rows = n_rows;
}

// Releases the tile registers after a job: LibTorch configures its own on the threads it shares with us.
inline void end_tiles() {
  _tile_release();
  configured_rows = 0;
}

}  // namespace
}  // namespace slip::kernels
