// SPDX-License-Identifier: Apache-2.0
#include "common/aligned_memory.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <limits>

namespace slip {
namespace {

TEST(AlignedMemory, StandsOnABorderAndTakesEveryByte) {
  for (const std::size_t bytes : {0U, 1U, 63U, 64U, 4097U, (2U << 20) - 1, 2U << 20, (2U << 20) + 1, 5U << 20}) {
    const AlignedMemory memory = aligned_memory(bytes);
    ASSERT_NE(memory, nullptr) << bytes;
    const std::uintptr_t border = bytes >= (2U << 20) ? 2U << 20 : 64;
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(memory.get()) % border, 0U) << bytes;
    std::memset(memory.get(), 1, bytes);
  }
}

TEST(AlignedMemory, IsNullWhereThereIsNone) {
  constexpr std::size_t kMost = std::numeric_limits<std::size_t>::max();
  for (const std::size_t bytes : {kMost, kMost - 100, kMost / 2 + 1}) EXPECT_EQ(aligned_memory(bytes), nullptr);
}

}  // namespace
}  // namespace slip
