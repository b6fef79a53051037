// SPDX-License-Identifier: Apache-2.0
#include "kernels/matmul.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <string>
#include <type_traits>
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

// Tensors in a file may be unaligned.
template <class T>
T load_unaligned(const std::byte* from) {
  T value;
  std::memcpy(&value, from, sizeof value);
  return value;
}

// Reads a row's elements as the compute type.
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

// Finds a row of W among the parts.
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
  std::vector<std::int64_t> ends_;  // cumulative row counts of the parts
};

// Values of a row in one block of depth.
std::int64_t block_values(Dtype compute) {
  return kBlockSteps * (compute == Dtype::kBFloat16 ? 2 : 1);
}

// The index of a word in a panel.
std::int64_t word_place(std::int64_t column, std::int64_t step) {
  const std::int64_t group = step / kBlockSteps * (kPanelColumns / kGroupColumns) + column / kGroupColumns;
  return (group * kBlockSteps + step % kBlockSteps) * kGroupColumns + column % kGroupColumns;
}

// Stores elements [begin, end) of one row of W, given by at(k), at their places in a panel.
template <class Form, class At>
void pack_column(std::int64_t column, std::int64_t begin, std::int64_t end, typename Form::Value* panel, const At& at) {
  for (std::int64_t k = begin; k < end; ++k) {
    panel[word_place(column, k / Form::kGroup) * Form::kGroup + k % Form::kGroup] = at(k);
  }
}

// Converts float32 to bfloat16 in vectors of this machine.
void pack_rounded(const float* row, std::int64_t column, std::int64_t begin, std::int64_t end, std::uint16_t* panel) {
  constexpr std::int64_t kAtOnce = 64;
  const auto to_bf16 = kernel_table().to_bf16;
  std::uint16_t rounded[kAtOnce];
  for (std::int64_t first = begin; first < end; first += kAtOnce) {
    to_bf16(row + first, std::min(kAtOnce, end - first), rounded);
    pack_column<Bf16Row>(column, first, std::min(first + kAtOnce, end), panel,
                         [&](std::int64_t k) { return rounded[k - first]; });
  }
}

template <class Form>
void pack_column(const RowSource::Row& row, std::int64_t column, std::int64_t begin, std::int64_t end,
                 typename Form::Value* panel) {
  using Value = typename Form::Value;
  if (row.data == nullptr) return pack_column<Form>(column, begin, end, panel, [](std::int64_t) { return Value{0}; });
  const auto stored_as = [&]<Dtype kStored>() {
    pack_column<Form>(column, begin, end, panel,
                      [&](std::int64_t k) { return Form::template at<kStored>(row.data, k); });
  };
  switch (row.dtype) {
    case Dtype::kFloat32:
      if constexpr (std::is_same_v<Form, Bf16Row>) {
        if (reinterpret_cast<std::uintptr_t>(row.data) % alignof(float) == 0) {
          return pack_rounded(reinterpret_cast<const float*>(row.data), column, begin, end, panel);
        }
      }
      return stored_as.template operator()<Dtype::kFloat32>();
    case Dtype::kBFloat16:
      return stored_as.template operator()<Dtype::kBFloat16>();
    case Dtype::kFloat16:
      return stored_as.template operator()<Dtype::kFloat16>();
  }
}

template <class Form>
void pack(std::byte* storage, std::int64_t panel_bytes, std::int64_t n_out, std::int64_t n_in,
          const RowSource& source) {
  // Writes 64 k's of a panel at a time, which stay in cache; a whole panel may not fit.
  constexpr std::int64_t kStretch = 64;
  for (std::int64_t first = 0; first < n_out; first += kPanelColumns, storage += panel_bytes) {
    auto* panel = reinterpret_cast<typename Form::Value*>(storage);
    RowSource::Row rows[kPanelColumns];
    const std::int64_t columns = std::min<std::int64_t>(kPanelColumns, n_out - first);
    for (std::int64_t column = 0; column < columns; ++column) rows[column] = source[first + column];
    for (std::int64_t begin = 0; begin < n_in; begin += kStretch) {
      for (std::int64_t column = 0; column < columns; ++column) {
        pack_column<Form>(rows[column], column, begin, std::min(begin + kStretch, n_in), panel);
      }
    }
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

PackedMatrix::PackedMatrix(std::int64_t n_out, std::int64_t n_in, Dtype compute)
    : n_out_(n_out), n_in_(n_in), dtype_(compute) {
  SLIP_CHECK(compute == Dtype::kBFloat16 || compute == Dtype::kFloat32,
             "weights are multiplied as bfloat16 or float32");
  const std::int64_t panels = (n_out_ + kPanelColumns - 1) / kPanelColumns;
  bytes_ = static_cast<std::size_t>(panels * panel_bytes());
  storage_ = weight_memory(bytes_);
  // Tiles multiply padding too, so it must be zero: 0 · NaN is NaN.
  if (n_out_ % kPanelColumns != 0 || n_in % block_values(compute) != 0) std::memset(storage_.get(), 0, bytes_);
}

PackedMatrix::PackedMatrix(std::span<const MatrixRows> parts, std::int64_t n_in, Dtype compute)
    : PackedMatrix(n_rows(parts), n_in, compute) {
  const RowSource source(parts, n_in);
  if (compute == Dtype::kBFloat16) {
    pack<Bf16Row>(storage_.get(), panel_bytes(), n_out_, n_in, source);
  } else {
    pack<Float32Row>(storage_.get(), panel_bytes(), n_out_, n_in, source);
  }
}

// A depth step holds neighbouring columns of one or two source rows; they are copied a group at a time.
PackedMatrix PackedMatrix::transposed(std::span<const MatrixRows> parts, std::int64_t n_out, Dtype compute) {
  PackedMatrix packed(n_out, n_rows(parts), compute);
  const RowSource source(parts, n_out);
  const bool is_bf16 = compute == Dtype::kBFloat16;
  const std::int64_t a_step = is_bf16 ? Bf16Row::kGroup : Float32Row::kGroup, n_in = packed.n_in_;
  const auto to_bf16 = kernel_table().to_bf16;
  std::vector<std::uint16_t> rounded(2 * static_cast<std::size_t>(n_out), 0);
  std::vector<std::uint32_t> words(static_cast<std::size_t>(n_out));
  const auto row_at = [&](std::int64_t row) {
    SLIP_CHECK(source[row].dtype == Dtype::kFloat32, "only float32 is packed transposed");
    return reinterpret_cast<const float*>(source[row].data);
  };
  for (std::int64_t step = 0; step * a_step < n_in; ++step) {
    if (is_bf16) {
      const std::int64_t first = 2 * step;
      to_bf16(row_at(first), n_out, rounded.data());
      if (first + 1 < n_in) {
        to_bf16(row_at(first + 1), n_out, rounded.data() + n_out);
      } else {
        std::fill(rounded.begin() + n_out, rounded.end(), 0);
      }
      for (std::int64_t column = 0; column < n_out; ++column) {
        words[column] = rounded[column] | std::uint32_t{rounded[n_out + column]} << 16;
      }
    } else {
      std::memcpy(words.data(), row_at(step), words.size() * sizeof(float));
    }
    for (std::int64_t column = 0; column < n_out; column += kGroupColumns) {
      auto* panel =
          reinterpret_cast<std::uint32_t*>(packed.storage_.get() + column / kPanelColumns * packed.panel_bytes());
      std::memcpy(panel + word_place(column % kPanelColumns, step), words.data() + column,
                  static_cast<std::size_t>(std::min<std::int64_t>(kGroupColumns, n_out - column)) * sizeof(float));
    }
  }
  return packed;
}

std::int64_t PackedMatrix::panel_bytes() const {
  return (n_in_ + block_values(dtype_) - 1) / block_values(dtype_) * kWeightBlockBytes;
}

void PackedMatrix::copy_row(std::int64_t index, float* out) const {
  const std::int64_t panel = index / kPanelColumns, column = index % kPanelColumns;
  const auto* words = reinterpret_cast<const std::uint32_t*>(storage_.get() + panel * panel_bytes());
  for (std::int64_t k = 0; k < n_in_; ++k) {
    if (dtype_ == Dtype::kFloat32) {
      out[k] = std::bit_cast<float>(words[word_place(column, k)]);
    } else {
      const std::uint32_t pair = words[word_place(column, k / 2)];
      out[k] = std::bit_cast<float>(k % 2 == 0 ? pair << 16 : pair & 0xFFFF0000U);
    }
  }
}

}  // namespace slip::kernels
