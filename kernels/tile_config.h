// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <immintrin.h>

#include <cstdint>

namespace slip::kernels {
namespace {

constexpr int kRegisterRows = 16;   // rows of a tile register
constexpr int kRegisterBytes = 64;  // of one row of it

// As LDTILECFG reads it (Intel 64 manual, volume 1, chapter 18).
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

// The intrinsic tells the compiler of eight of the bytes that it reads (GCC 12): without the empty statement the others
// need not be written yet.
[[gnu::always_inline]] inline void use(const TileConfig& config) {
  __asm__ volatile("" : : "r"(&config) : "memory");
  _tile_loadconfig(&config);
}

}  // namespace
}  // namespace slip::kernels
