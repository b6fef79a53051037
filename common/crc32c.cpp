// SPDX-License-Identifier: Apache-2.0
#include "common/crc32c.h"

#include <array>

namespace slip {

namespace {

// Eight tables: eight bytes take eight independent look-ups instead of a dependent chain. A full replay buffer is then
// checked within seconds at start.
constexpr int kSlices = 8;
using Tables = std::array<std::array<std::uint32_t, 256>, kSlices>;

constexpr Tables make_tables() {
  Tables tables{};
  for (std::uint32_t byte = 0; byte < 256; ++byte) {
    std::uint32_t crc = byte;
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ ((crc & 1U) != 0 ? 0x82F63B78U : 0U);
    tables[0][byte] = crc;
  }
  for (int slice = 1; slice < kSlices; ++slice) {
    for (std::uint32_t byte = 0; byte < 256; ++byte) {
      const std::uint32_t before = tables[slice - 1][byte];
      tables[slice][byte] = (before >> 8) ^ tables[0][before & 0xFFU];
    }
  }
  return tables;
}

constexpr Tables kTables = make_tables();

}  // namespace

std::uint32_t crc32c(std::span<const std::byte> bytes) {
  std::uint32_t crc = 0xFFFFFFFFU;
  std::size_t i = 0;
  for (; i + kSlices <= bytes.size(); i += kSlices) {
    std::uint32_t next = 0;
    for (std::size_t slice = 0; slice < kSlices; ++slice) {
      const auto byte = std::to_integer<std::uint32_t>(bytes[i + slice]);
      const std::uint32_t mixed = slice < 4 ? byte ^ ((crc >> (8 * slice)) & 0xFFU) : byte;
      next ^= kTables[kSlices - 1 - slice][mixed];
    }
    crc = next;
  }
  for (; i < bytes.size(); ++i) crc = (crc >> 8) ^ kTables[0][(crc ^ std::to_integer<std::uint32_t>(bytes[i])) & 0xFFU];
  return ~crc;
}

}  // namespace slip
