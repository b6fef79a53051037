// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "common/aligned_memory.h"
#include "common/tensor_view.h"
#include "kernels/activations.h"
#include "kernels/thread_pool.h"

namespace slip::kernels {

// The matrix instruction class of this process, chosen once from the CPU and used for every weight and row count. AMX
// and AVX-512-bf16 accumulate differently, so mixing them would break batch invariance. The environment variable
// SLIPSTREAM_ISA selects another class: for tests, or for equal results on different machines.
enum class IsaClass : std::uint8_t { kScalar, kAvx2, kAvx512, kAvx512Bf16, kAmxBf16 };
IsaClass isa_class();  // Error{kInvalidArgument} when SLIPSTREAM_ISA is unknown or unavailable on this machine
const char* isa_class_name(IsaClass isa);

// Rows of a weight matrix as stored in a checkpoint: [n_out, n_in], at any alignment.
struct MatrixRows {
  const void* data = nullptr;  // null: rows of zeros
  Dtype dtype = Dtype::kFloat32;
  std::int64_t n_out = 0;
};

// A weight matrix W [n_out, n_in] (row-major, like PyTorch's Linear), repacked for this machine's kernel. Immutable
// after construction; any number of threads may multiply with it.
class PackedMatrix {
 public:
  PackedMatrix() = default;
  // `source` is W [n_out, n_in] in `source_dtype`; `compute` is kBFloat16 (weights and activations rounded to bf16,
  // products accumulated in float32) or kFloat32. n_in and n_out are arbitrary; padding is internal.
  PackedMatrix(const void* source, Dtype source_dtype, std::int64_t n_out, std::int64_t n_in, Dtype compute);
  // Stacks several matrices vertically.
  PackedMatrix(std::span<const MatrixRows> parts, std::int64_t n_in, Dtype compute);
  // Stacks several float32 matrices with `n_out` columns vertically, then transposes: y = x · stack.
  static PackedMatrix transposed(std::span<const MatrixRows> parts, std::int64_t n_out, Dtype compute);

  std::int64_t n_out() const { return n_out_; }
  std::int64_t n_in() const { return n_in_; }
  Dtype compute_dtype() const { return dtype_; }
  std::size_t bytes() const { return bytes_; }
  std::int64_t panel_bytes() const;  // distance between panels of output columns (kernels/kernel_table.h)
  const std::byte* data() const { return storage_.get(); }
  // Row `index` of W, as rounded for products, into out [n_in]. An output matrix that is also the embedding is stored
  // once.
  void copy_row(std::int64_t index, float* out) const;

 private:
  PackedMatrix(std::int64_t n_out, std::int64_t n_in, Dtype compute);  // allocates; the padding is zero

  AlignedMemory storage_;
  std::int64_t n_out_ = 0;
  std::int64_t n_in_ = 0;
  std::size_t bytes_ = 0;
  Dtype dtype_ = Dtype::kBFloat16;
};

// The parts of gated_matmul()'s weight, from gate and up [n, n_in]: kGatedRows rows of each in turn, padded with zeros.
// One panel thus holds both operands of an output value.
inline constexpr std::int64_t kGatedRows = 32;
std::vector<MatrixRows> gated_parts(const MatrixRows& gate, const MatrixRows& up, std::int64_t n_in);

// y [n_rows, n_out] (+)= x [n_rows, n_in] · Wᵀ, float32, rows `stride` elements apart. Batch-invariant: the order of
// accumulation of y[r, o] depends on n_in alone, not on n_rows, thread count or r.
struct MatmulOutput {
  float* y = nullptr;
  std::int64_t y_stride = 0;
  bool accumulate = false;
};
void matmul(const PackedMatrix& weight, const Activations& x, const MatmulOutput& output, ThreadPool& pool);
// The same for float32 rows, x_stride apart; `scratch` holds their activations.
void matmul(const PackedMatrix& weight, const float* x, std::int64_t x_stride, std::int64_t n_rows, float* y,
            std::int64_t y_stride, bool accumulate, void* scratch, ThreadPool& pool);

// to [n_rows, n] = silu(gate · x + its bias) · (up · x + its bias), with a weight of gated_parts(). bias: gate's [n],
// then up's; or empty. The gate is applied in registers, so [n_rows, 2 n] intermediate values are never stored.
void gated_matmul(const PackedMatrix& gate_up, std::span<const float> bias, const Activations& x, const Activations& to,
                  ThreadPool& pool);

}  // namespace slip::kernels
