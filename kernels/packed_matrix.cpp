// SPDX-License-Identifier: Apache-2.0
#include "kernels/matmul.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <string>
#include <vector>

#include "common/error.h"
#include "kernels/elementwise.h"
#include "kernels/kernel_table.h"

namespace slip::kernels {
namespace {

AlignedMemory weight_memory(std::size_t bytes) {
  AlignedMemory memory = aligned_memory(bytes);
  if (memory == nullptr) {
    throw Error(ErrorCode::kTooLarge, "no memory for " + std::to_string(bytes) + " bytes of weights",
                "use a smaller model, or bfloat16");
  }
  return memory;
}

// Nothing in a file aligns its tensors.
template <class T>
T load_unaligned(const std::byte* from) {
  T value;
  std::memcpy(&value, from, sizeof value);
  return value;
}

// Elements of one row in the form that is computed with.
struct Float32Row {
  using Value = float;
  static constexpr int kGroup = 1;
  template <Dtype kStored>
  static float at(const std::byte* row, std::int64_t k) {
    if constexpr (kStored == Dtype::kFloat32) return load_unaligned<float>(row + 4 * k);
    const auto bits = load_unaligned<std::uint16_t>(row + 2 * k);
    return kStored == Dtype::kBFloat16 ? bf16_to_float(bits) : f16_to_float(bits);
  }
};
struct Bf16Row {
  using Value = std::uint16_t;
  static constexpr int kGroup = 2;
  template <Dtype kStored>
  static std::uint16_t at(const std::byte* row, std::int64_t k) {
    if constexpr (kStored == Dtype::kBFloat16) return load_unaligned<std::uint16_t>(row + 2 * k);
    return float_to_bf16(Float32Row::at<kStored>(row, k));
  }
};

// Where W's rows lie, whichever part they belong to.
class RowSource {
 public:
  RowSource(std::span<const MatrixRows> parts, std::int64_t n_in) : parts_(parts), n_in_(n_in) {
    for (const MatrixRows& part : parts) ends_.push_back((ends_.empty() ? 0 : ends_.back()) + part.n_out);
  }
  struct Row {
    const std::byte* data;  // null: zeros
    Dtype dtype;
  };
  Row operator[](std::int64_t row) const {
    const auto part = static_cast<std::size_t>(std::upper_bound(ends_.begin(), ends_.end(), row) - ends_.begin());
    const MatrixRows& from = parts_[part];
    if (from.data == nullptr) return {nullptr, from.dtype};
    const auto bytes = static_cast<std::int64_t>(dtype_bytes(from.dtype));
    return {static_cast<const std::byte*>(from.data) + (row - ends_[part] + from.n_out) * n_in_ * bytes, from.dtype};
  }

 private:
  std::span<const MatrixRows> parts_;
  std::int64_t n_in_;
  std::vector<std::int64_t> ends_;  // the row after each part's last
};

// Elements [begin, end) of one row to their places: `to` is element 0's.
template <class Form, Dtype kStored>
void pack_stretch(const std::byte* row, std::int64_t begin, std::int64_t end, typename Form::Value* to) {
  constexpr std::int64_t kStep = kPanelColumns * Form::kGroup;
  for (std::int64_t k = begin; k < end; ++k) {
    to[k / Form::kGroup * kStep + k % Form::kGroup] = Form::template at<kStored>(row, k);
  }
}

template <class Form>
void pack_zeros(std::int64_t begin, std::int64_t end, typename Form::Value* to) {
  constexpr std::int64_t kStep = kPanelColumns * Form::kGroup;
  for (std::int64_t k = begin; k < end; ++k) to[k / Form::kGroup * kStep + k % Form::kGroup] = 0;
}

template <class Form>
void pack_stretch(const RowSource::Row& row, std::int64_t begin, std::int64_t end, typename Form::Value* to) {
  if (row.data == nullptr) return pack_zeros<Form>(begin, end, to);
  switch (row.dtype) {
    case Dtype::kFloat32:
      return pack_stretch<Form, Dtype::kFloat32>(row.data, begin, end, to);
    case Dtype::kBFloat16:
      return pack_stretch<Form, Dtype::kBFloat16>(row.data, begin, end, to);
    case Dtype::kFloat16:
      return pack_stretch<Form, Dtype::kFloat16>(row.data, begin, end, to);
  }
}

// Writes W's element [column, k] to its place in a panel of n_in (rounded up to groups) × kPanelColumns.
template <class Form>
void pack(std::byte* storage, std::int64_t n_out, std::int64_t n_in, const RowSource& source) {
  // A stretch of 64 k's of one panel is written whole while it is in the cache; the panel alone may not fit.
  constexpr std::int64_t kStretch = 64;
  auto* panel_begin = reinterpret_cast<typename Form::Value*>(storage);
  const std::int64_t depth = (n_in + Form::kGroup - 1) / Form::kGroup;
  for (std::int64_t first = 0; first < n_out; first += kPanelColumns) {
    RowSource::Row rows[kPanelColumns];
    const std::int64_t columns = std::min<std::int64_t>(kPanelColumns, n_out - first);
    for (std::int64_t column = 0; column < columns; ++column) rows[column] = source[first + column];
    for (std::int64_t begin = 0; begin < n_in; begin += kStretch) {
      for (std::int64_t column = 0; column < columns; ++column) {
        pack_stretch<Form>(rows[column], begin, std::min(begin + kStretch, n_in), panel_begin + column * Form::kGroup);
      }
    }
    panel_begin += depth * kPanelColumns * Form::kGroup;
  }
}

std::int64_t n_rows(std::span<const MatrixRows> parts) {
  std::int64_t n = 0;
  for (const MatrixRows& part : parts) n += part.n_out;
  return n;
}

}  // namespace

PackedMatrix::PackedMatrix(const void* source, Dtype source_dtype, std::int64_t n_out, std::int64_t n_in, Dtype compute)
    : PackedMatrix(std::array{MatrixRows{source, source_dtype, n_out}}, n_in, compute) {}

PackedMatrix::PackedMatrix(std::span<const MatrixRows> parts, std::int64_t n_in, Dtype compute)
    : n_out_(n_rows(parts)), n_in_(n_in), dtype_(compute) {
  SLIP_CHECK(compute == Dtype::kBFloat16 || compute == Dtype::kFloat32,
             "weights are multiplied as bfloat16 or float32");
  const std::int64_t panels = (n_out_ + kPanelColumns - 1) / kPanelColumns;
  const std::int64_t depth = compute == Dtype::kBFloat16 ? (n_in + 1) / 2 : n_in;
  bytes_ = static_cast<std::size_t>(panels * depth * kPanelColumns * 4);
  storage_ = weight_memory(bytes_);
  // Padding must be zero only where it meets other than padding: the odd end of n_in, and the last panel's columns.
  if (n_out_ % kPanelColumns != 0 || n_in % 2 != 0) std::memset(storage_.get(), 0, bytes_);
  const RowSource source(parts, n_in);
  if (compute == Dtype::kBFloat16) {
    pack<Bf16Row>(storage_.get(), n_out_, n_in, source);
  } else {
    pack<Float32Row>(storage_.get(), n_out_, n_in, source);
  }
}

void PackedMatrix::copy_row(std::int64_t index, float* out) const {
  const std::int64_t panel = index / kPanelColumns, column = index % kPanelColumns;
  if (dtype_ == Dtype::kFloat32) {
    const auto* from = reinterpret_cast<const float*>(storage_.get()) + panel * n_in_ * kPanelColumns + column;
    for (std::int64_t k = 0; k < n_in_; ++k) out[k] = from[k * kPanelColumns];
    return;
  }
  const std::int64_t depth = (n_in_ + 1) / 2;
  const auto* pairs = reinterpret_cast<const std::uint32_t*>(storage_.get()) + panel * depth * kPanelColumns + column;
  for (std::int64_t k = 0; k < n_in_; ++k) {
    const std::uint32_t pair = pairs[k / 2 * kPanelColumns];
    out[k] = std::bit_cast<float>(k % 2 == 0 ? pair << 16 : pair & 0xFFFF0000U);
  }
}

}  // namespace slip::kernels
