// SPDX-License-Identifier: Apache-2.0
#include "kernels/kernel_table.h"

#include <cstdlib>
#include <string>
#if defined(__x86_64__)
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

#include "common/error.h"
#include "kernels/isa_tables.h"

namespace slip::kernels {
namespace {

#if defined(__x86_64__)
// The AVX-512 table with another class's bfloat16 kernels.
KernelTable avx512_with(const KernelTable& bf16) {
  KernelTable table = kAvx512Kernels;
  table.matmul_bf16 = bf16.matmul_bf16;
  table.end_bf16_tiles = bf16.end_bf16_tiles;
  table.bf16_tile_rows = bf16.bf16_tile_rows;
  table.bf16_stretch = bf16.bf16_stretch;
  table.bf16_task_rows = bf16.bf16_task_rows;
  table.bf16_least_sharing = bf16.bf16_least_sharing;
  table.bf16_streaming_rows = bf16.bf16_streaming_rows;
  table.bf16_rows = bf16.bf16_rows;
  table.bf16_pair_bytes = bf16.bf16_pair_bytes;
  table.bf16_in_blocks = bf16.bf16_in_blocks;
  if (bf16.attention != nullptr) {
    table.attention = bf16.attention;
    table.attention_rounds = bf16.attention_rounds;
  }
  return table;
}

// The CPU has TILE and BF16, and Linux grants this process the 8 KiB of tile registers, which must be requested.
bool amx_granted() {
  constexpr unsigned kBf16Bit = 1u << 22, kTileBit = 1u << 24;
  constexpr long kRequestPermission = 0x1023, kTileData = 18;  // ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA
  unsigned a = 0, b = 0, c = 0, d = 0;
  if (__get_cpuid_count(7, 0, &a, &b, &c, &d) == 0) return false;
  if ((d & kBf16Bit) == 0 || (d & kTileBit) == 0) return false;
  return ::syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
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
    case IsaClass::kAmxBf16: {
      static const bool granted = amx_granted();
      return granted && isa_supported(IsaClass::kAvx512Bf16);
    }
#endif
    default:
      return false;
  }
}

IsaClass choose_isa(std::string_view wanted) {
  std::string names;
  for (const IsaClass isa :
       {IsaClass::kAmxBf16, IsaClass::kAvx512Bf16, IsaClass::kAvx512, IsaClass::kAvx2, IsaClass::kScalar}) {
    if (!isa_supported(isa)) continue;
    if (wanted.empty() || wanted == isa_class_name(isa)) return isa;
    names += std::string(names.empty() ? "" : ", ") + isa_class_name(isa);
  }
  throw Error(ErrorCode::kInvalidArgument,
              "SLIPSTREAM_ISA=" + std::string(wanted) + ": this machine has no such instructions", "it has " + names);
}

IsaClass isa_class() {
  static const IsaClass chosen = [] {
    const char* wanted = std::getenv("SLIPSTREAM_ISA");
    return choose_isa(wanted == nullptr ? "" : wanted);
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
  static const KernelTable dot_pairs = avx512_with(kAvx512Bf16Kernels);
  static const KernelTable matrix_tiles = avx512_with(kAmxBf16Kernels);
  if (isa == IsaClass::kAmxBf16) return matrix_tiles;
  if (isa == IsaClass::kAvx512Bf16) return dot_pairs;
  if (isa == IsaClass::kAvx512) return kAvx512Kernels;
  if (isa == IsaClass::kAvx2) return kAvx2Kernels;
#endif
  return kScalarKernels;
}

const KernelTable& kernel_table() {
  static const KernelTable& table = kernel_table(isa_class());
  return table;
}

}  // namespace slip::kernels
