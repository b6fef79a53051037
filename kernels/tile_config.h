// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <immintrin.h>

#include <array>
#include <cstddef>
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

  void set(std::size_t index, std::uint8_t n_rows) {
    row_bytes[index] = kRegisterBytes;
    rows[index] = n_rows;
  }
};

// GCC 12's intrinsic declares only 8 of the 64 bytes that it reads. The empty asm statement forces the others to be
// written first.
[[gnu::always_inline]] inline void use(const TileConfig& config) {
  __asm__ volatile("" : : "r"(&config) : "memory");
  _tile_loadconfig(&config);
}

// The rows of each tile register.
using RegisterRows = std::array<std::uint8_t, 8>;

// This thread's register configuration; 0: not configured. Configuring takes as long as about twenty products.
thread_local RegisterRows configured{};

[[gnu::always_inline]] inline void configure(const RegisterRows& rows) {
  if (rows == configured) return;
  TileConfig config;
  for (std::size_t i = 0; i < rows.size(); ++i) config.set(i, rows[i]);
  use(config);
  configured = rows;
}

// The tile instructions, with register numbers that templates can compute. GCC's intrinsics take literals only. As
// with those, a load does not tell the compiler which memory it reads: values that the same function wrote need
// finish_stores() first.
inline void finish_stores() {
  __asm__ volatile("" : : : "memory");
}
template <int kTo>
[[gnu::always_inline]] inline void zero_tile() {
  __asm__ volatile("tilezero %%tmm%c0" : : "i"(kTo));
}
template <int kTo>
[[gnu::always_inline]] inline void load_tile(const void* from, std::int64_t stride_bytes) {
  __asm__ volatile("tileloadd (%0,%1,1), %%tmm%c2" : : "r"(from), "r"(stride_bytes), "i"(kTo));
}
// For values used once: leaves the first-level cache to others.
template <int kTo>
[[gnu::always_inline]] inline void load_tile_once(const void* from, std::int64_t stride_bytes) {
  __asm__ volatile("tileloaddt1 (%0,%1,1), %%tmm%c2" : : "r"(from), "r"(stride_bytes), "i"(kTo));
}
template <int kFrom>
[[gnu::always_inline]] inline void store_tile(void* to, std::int64_t stride_bytes) {
  __asm__ volatile("tilestored %%tmm%c2, (%0,%1,1)" : : "r"(to), "r"(stride_bytes), "i"(kFrom) : "memory");
}
// float32 sums += bfloat16 rows × columns.
template <int kSums, int kRows, int kColumns>
[[gnu::always_inline]] inline void multiply_tiles() {
  __asm__ volatile("tdpbf16ps %%tmm%c2, %%tmm%c1, %%tmm%c0" : : "i"(kSums), "i"(kRows), "i"(kColumns));
}

// Releases the tile registers after a job: LibTorch configures its own on the threads it shares with us.
inline void end_tiles() {
  _tile_release();
  configured = {};
}

}  // namespace
}  // namespace slip::kernels
