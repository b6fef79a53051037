// SPDX-License-Identifier: Apache-2.0
#include "kernels/matmul.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <string>

#include "common/error.h"
#include "kernels/elementwise.h"
#include "kernels/kernel_table.h"

namespace slip::kernels {
namespace {

constexpr std::size_t kHugePageBytes = std::size_t{2} << 20;

// A pass over weights far larger than the TLB's reach spends a fifth of its time on page walks with 4 KiB pages.
std::byte* allocate(std::size_t bytes) {
  const std::size_t alignment = bytes >= kHugePageBytes ? kHugePageBytes : 64;
  const std::size_t rounded = (bytes + alignment - 1) / alignment * alignment;
  auto* memory = static_cast<std::byte*>(std::aligned_alloc(alignment, std::max<std::size_t>(rounded, alignment)));
  if (memory == nullptr) {
    throw Error(ErrorCode::kTooLarge, "no memory for " + std::to_string(bytes) + " bytes of weights",
                "use a smaller model, or bfloat16");
  }
  if (alignment == kHugePageBytes) madvise(memory, rounded, MADV_HUGEPAGE);
  return memory;
}

float source_value(const void* source, Dtype dtype, std::int64_t index) {
  switch (dtype) {
    case Dtype::kFloat32:
      return static_cast<const float*>(source)[index];
    case Dtype::kBFloat16:
      return bf16_to_float(static_cast<const std::uint16_t*>(source)[index]);
    case Dtype::kFloat16:
      return f16_to_float(static_cast<const std::uint16_t*>(source)[index]);
  }
  return 0;
}

std::uint16_t source_bf16(const void* source, Dtype dtype, std::int64_t index) {
  if (dtype == Dtype::kBFloat16) return static_cast<const std::uint16_t*>(source)[index];
  return float_to_bf16(source_value(source, dtype, index));
}

// Writes W's element [column, k] to its place in a panel of n_in (rounded up to pairs) × kPanelColumns.
template <class T, int kGroup, class Value>
void pack(std::byte* storage, std::int64_t n_out, std::int64_t n_in, const Value& value) {
  // A stretch of 64 k's of one panel is written whole while it is in the cache; the panel alone may not fit.
  constexpr std::int64_t kStretch = 64;
  auto* to = reinterpret_cast<T*>(storage);
  const std::int64_t depth = (n_in + kGroup - 1) / kGroup;
  for (std::int64_t panel = 0; panel * kPanelColumns < n_out; ++panel) {
    T* base = to + panel * depth * kPanelColumns * kGroup;
    const std::int64_t columns = std::min<std::int64_t>(kPanelColumns, n_out - panel * kPanelColumns);
    for (std::int64_t begin = 0; begin < n_in; begin += kStretch) {
      for (std::int64_t column = 0; column < columns; ++column) {
        const std::int64_t row = (panel * kPanelColumns + column) * n_in;
        for (std::int64_t k = begin; k < std::min(begin + kStretch, n_in); ++k) {
          base[(k / kGroup * kPanelColumns + column) * kGroup + k % kGroup] = value(row + k);
        }
      }
    }
  }
}

}  // namespace

void PackedMatrix::Free::operator()(std::byte* p) const {
  std::free(p);
}

PackedMatrix::PackedMatrix(const void* source, Dtype source_dtype, std::int64_t n_out, std::int64_t n_in, Dtype compute)
    : n_out_(n_out), n_in_(n_in), dtype_(compute) {
  SLIP_CHECK(compute == Dtype::kBFloat16 || compute == Dtype::kFloat32,
             "weights are multiplied as bfloat16 or float32");
  const std::int64_t panels = (n_out + kPanelColumns - 1) / kPanelColumns;
  const std::int64_t depth = compute == Dtype::kBFloat16 ? (n_in + 1) / 2 : n_in;
  bytes_ = static_cast<std::size_t>(panels * depth * kPanelColumns * 4);
  storage_.reset(allocate(bytes_));
  // Padding must be zero only where it meets other than padding: the odd end of n_in, and the last panel's columns.
  if (n_out % kPanelColumns != 0 || n_in % 2 != 0) std::memset(storage_.get(), 0, bytes_);
  if (compute == Dtype::kBFloat16) {
    pack<std::uint16_t, 2>(storage_.get(), n_out, n_in,
                           [&](std::int64_t index) { return source_bf16(source, source_dtype, index); });
  } else {
    pack<float, 1>(storage_.get(), n_out, n_in,
                   [&](std::int64_t index) { return source_value(source, source_dtype, index); });
  }
}

}  // namespace slip::kernels
