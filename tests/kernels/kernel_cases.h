// SPDX-License-Identifier: Apache-2.0
// Shared by the kernel tests: the instruction classes of this machine, random data, and each operation's tolerance
// against its plain reference in double.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <new>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "kernels/kernel_table.h"

namespace slip::kernels {

// The largest permitted error, relative to the sum of the absolute values of a result's terms.
struct Tolerance {
  static constexpr double kMatmul = 2e-6;  // float32 accumulation of up to 4096 terms, in order
  static constexpr double kAttention = 2e-6;
  static constexpr double kRoundedAttention = 0x1p-8;  // half an ulp of bfloat16 in each weight, for q is rounded alike
  static constexpr double kRmsNorm = 1e-6;
  static constexpr double kRope = 2e-7;
  static constexpr double kSilu = 5e-7;  // of which e^x takes 1.2e-7
};

inline std::vector<IsaClass> available_isas() {
  std::vector<IsaClass> isas;
  for (const auto isa :
       {IsaClass::kScalar, IsaClass::kAvx2, IsaClass::kAvx512, IsaClass::kAvx512Bf16, IsaClass::kAmxBf16}) {
    if (isa_supported(isa)) isas.push_back(isa);
  }
  return isas;
}

inline std::vector<float> random_floats(std::size_t n, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  std::normal_distribution<float> normal;
  std::vector<float> out(n);
  for (float& value : out) value = normal(random);
  return out;
}

// Equal as bits, so that 0 and −0 differ and a NaN equals itself.
inline bool same_bits(std::span<const float> a, std::span<const float> b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size_bytes()) == 0;
}

// 64-byte aligned, and initialised with NaN, so that reads of unwritten values are detected.
class AlignedBytes {
 public:
  explicit AlignedBytes(std::size_t n) : data_(static_cast<std::byte*>(::operator new (n + 64, std::align_val_t{64}))) {
    std::memset(data_.get(), 0xFF, n + 64);
  }
  std::byte* data() const { return data_.get(); }

 private:
  struct Free {
    void operator()(std::byte* memory) const { ::operator delete (memory, std::align_val_t{64}); }
  };
  std::unique_ptr<std::byte, Free> data_;
};

}  // namespace slip::kernels
