// SPDX-License-Identifier: Apache-2.0
#include "kernels/matmul.h"

#include <algorithm>
#include <cstdlib>
#include <new>

#include "kernels/elementwise.h"

namespace slip::kernels {
namespace {

constexpr std::int64_t kPanel = 64;

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

}  // namespace

IsaClass isa_class() {
  return IsaClass::kScalar;
}

const char* isa_class_name(IsaClass isa) {
  switch (isa) {
    case IsaClass::kScalar:
      return "scalar";
    case IsaClass::kAvx2:
      return "avx2";
    case IsaClass::kAvx512:
      return "avx512";
    case IsaClass::kAvx512Bf16:
      return "avx512_bf16";
    case IsaClass::kAmxBf16:
      return "amx_bf16";
  }
  return "unknown";
}

void PackedMatrix::Free::operator()(std::byte* p) const {
  std::free(p);
}

PackedMatrix::PackedMatrix(const void* source, Dtype source_dtype, std::int64_t n_out, std::int64_t n_in, Dtype compute)
    : n_out_(n_out), n_in_(n_in), dtype_(compute) {
  const std::int64_t panels = (n_out + kPanel - 1) / kPanel;
  bytes_ = static_cast<std::size_t>(panels * kPanel * n_in) * sizeof(float);
  storage_.reset(static_cast<std::byte*>(std::aligned_alloc(64, std::max<std::size_t>(bytes_, 64))));
  if (storage_ == nullptr) throw std::bad_alloc();
  auto* packed = reinterpret_cast<float*>(storage_.get());
  for (std::int64_t o = 0; o < panels * kPanel; ++o) {
    for (std::int64_t i = 0; i < n_in; ++i) {
      float value = o < n_out ? source_value(source, source_dtype, o * n_in + i) : 0;
      if (compute == Dtype::kBFloat16) value = bf16_to_float(float_to_bf16(value));
      packed[(o / kPanel * n_in + i) * kPanel + o % kPanel] = value;
    }
  }
}

void matmul(const PackedMatrix& weight, const float* x, std::int64_t x_stride, std::int64_t n_rows, float* y,
            std::int64_t y_stride, bool accumulate, void* scratch, ThreadPool& pool) {
  const std::int64_t n_in = weight.n_in(), n_out = weight.n_out();
  auto* converted = static_cast<float*>(scratch);
  for (std::int64_t r = 0; r < n_rows; ++r) {
    for (std::int64_t i = 0; i < n_in; ++i) {
      const float value = x[r * x_stride + i];
      converted[r * n_in + i] =
          weight.compute_dtype() == Dtype::kBFloat16 ? bf16_to_float(float_to_bf16(value)) : value;
    }
  }
  pool.parallel_for(static_cast<std::size_t>((n_out + kPanel - 1) / kPanel), [&](std::size_t index, int) {
    const auto panel = static_cast<std::int64_t>(index);
    const float* w = reinterpret_cast<const float*>(weight.data()) + panel * n_in * kPanel;
    for (std::int64_t r = 0; r < n_rows; ++r) {
      float sums[kPanel] = {};
      for (std::int64_t i = 0; i < n_in; ++i) {
        for (std::int64_t o = 0; o < kPanel; ++o) sums[o] += converted[r * n_in + i] * w[i * kPanel + o];
      }
      float* out = y + r * y_stride + panel * kPanel;
      for (std::int64_t o = 0; o < std::min(kPanel, n_out - panel * kPanel); ++o) {
        out[o] = accumulate ? out[o] + sums[o] : sums[o];
      }
    }
  });
}

std::size_t matmul_scratch_bytes(std::int64_t n_rows, std::int64_t n_in) {
  return static_cast<std::size_t>((n_rows * n_in * 4 + 63) / 64 * 64);
}

}  // namespace slip::kernels
