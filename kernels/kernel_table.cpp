// SPDX-License-Identifier: Apache-2.0
#include "kernels/kernel_table.h"

#include "common/error.h"
#include "kernels/isa_tables.h"

namespace slip::kernels {
namespace {

#if defined(__x86_64__)
KernelTable with_dot_pairs() {
  KernelTable table = avx512_kernels;
  table.matmul_bf16 = avx512_bf16_kernels.matmul_bf16;
  table.bf16_activations = avx512_bf16_kernels.bf16_activations;
  table.bf16_pair_bytes = avx512_bf16_kernels.bf16_pair_bytes;
  return table;
}
#endif

}  // namespace

bool isa_supported(IsaClass isa) {
  switch (isa) {
    case IsaClass::kScalar:
      return true;
#if defined(__x86_64__)
    case IsaClass::kAvx2:
      return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
    case IsaClass::kAvx512:
      return isa_supported(IsaClass::kAvx2) && __builtin_cpu_supports("avx512f") &&
             __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") &&
             __builtin_cpu_supports("avx512vl");
    case IsaClass::kAvx512Bf16:
      return isa_supported(IsaClass::kAvx512) && __builtin_cpu_supports("avx512bf16");
#endif
    default:
      return false;
  }
}

IsaClass isa_class() {
  static const IsaClass chosen = [] {
    for (const IsaClass isa : {IsaClass::kAvx512Bf16, IsaClass::kAvx512, IsaClass::kAvx2}) {
      if (isa_supported(isa)) return isa;
    }
    return IsaClass::kScalar;
  }();
  return chosen;
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

const KernelTable& kernel_table(IsaClass isa) {
  SLIP_CHECK(isa_supported(isa), "kernels for instructions that this CPU or build does not have");
#if defined(__x86_64__)
  static const KernelTable dot_pairs = with_dot_pairs();
  if (isa == IsaClass::kAvx512Bf16) return dot_pairs;
  if (isa == IsaClass::kAvx512) return avx512_kernels;
  if (isa == IsaClass::kAvx2) return avx2_kernels;
#endif
  return scalar_kernels;
}

const KernelTable& kernel_table() {
  static const KernelTable& table = kernel_table(isa_class());
  return table;
}

}  // namespace slip::kernels
