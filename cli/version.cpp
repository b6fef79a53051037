// SPDX-License-Identifier: Apache-2.0
#include "cli/version.h"

#include <torch/version.h>

#include "kernels/matmul.h"

namespace slip::cli {

namespace {

std::string compiler_name() {
#if defined(__clang__)
  return "clang " __clang_version__;
#else
  return "g++ " __VERSION__;
#endif
}

std::string cpu_features() {
  __builtin_cpu_init();
  std::string list;
  const auto add = [&list](bool present, const char* name) {
    if (present) list += std::string(list.empty() ? "" : " ") + name;
  };
  // The builtin takes literals only.
  add(__builtin_cpu_supports("avx2"), "avx2");
  add(__builtin_cpu_supports("fma"), "fma");
  add(__builtin_cpu_supports("f16c"), "f16c");
  add(__builtin_cpu_supports("avx512f"), "avx512f");
  add(__builtin_cpu_supports("avx512bw"), "avx512bw");
  add(__builtin_cpu_supports("avx512vl"), "avx512vl");
  add(__builtin_cpu_supports("avx512bf16"), "avx512bf16");
  return list.empty() ? "none" : list;
}

}  // namespace

std::string version_text() {
  std::string text = "slipstream " SLIPSTREAM_VERSION "\n";
  text += "commit: " SLIPSTREAM_COMMIT "\n";
  text += "compiler: " + compiler_name() + "\n";
  text += "LibTorch: " TORCH_VERSION "\n";
  text += "CUDA: " SLIPSTREAM_CUDA_TEXT "\n";
  text += "CPU features: " + cpu_features() + "\n";
  text += std::string("matrix instructions: ") + kernels::isa_class_name(kernels::isa_class());
  return text;
}

}  // namespace slip::cli
