// SPDX-License-Identifier: Apache-2.0
#include "cli/version.h"

#include <cpuid.h>
#include <torch/version.h>

#include <cstring>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <vector>

#include "checkpoints/store_folder.h"
#include "cli/command.h"
#include "engine/models/fingerprint.h"
#include "kernels/cuda/stream_queue.h"
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

// A CPU feature as the processor reports it (CPUID), even if the operating system does not enable it. The last line of
// the text gives the class that this process chose.
struct CpuFeature {
  const char* name;
  unsigned leaf, subleaf;
  int word;  // 0 … 3: eax, ebx, ecx, edx
  int bit;
};
constexpr CpuFeature kFeatures[] = {
    {"avx2", 7, 0, 1, 5},        {"fma", 1, 0, 2, 12},      {"f16c", 1, 0, 2, 29},
    {"avx512f", 7, 0, 1, 16},    {"avx512bw", 7, 0, 1, 30}, {"avx512vl", 7, 0, 1, 31},
    {"avx512_bf16", 7, 1, 0, 5}, {"amx_tile", 7, 0, 3, 24}, {"amx_bf16", 7, 0, 3, 22},
};

std::vector<std::string> cpu_features() {
  std::vector<std::string> list;
  for (const CpuFeature& feature : kFeatures) {
    unsigned words[4] = {};
    if (__get_cpuid_count(feature.leaf, feature.subleaf, &words[0], &words[1], &words[2], &words[3]) == 0) continue;
    if ((words[feature.word] >> feature.bit & 1) != 0) list.emplace_back(feature.name);
  }
  return list;
}

std::string joined(const std::vector<std::string>& words) {
  std::string line;
  for (const auto& word : words) line += (line.empty() ? "" : " ") + word;
  return line.empty() ? "none" : line;
}

// The device of `device = "cuda"`; nullopt: it would be refused.
std::optional<std::string> cuda_device() {
  try {
    return kernels::cuda::describe_device();
  } catch (const std::exception&) {
    return std::nullopt;
  }
}

}  // namespace

std::string version_text() {
  std::string text = "slipstream " SLIPSTREAM_VERSION "\n";
  text += "commit: " SLIPSTREAM_COMMIT "\n";
  text += "compiler: " + compiler_name() + "\n";
  text += "LibTorch: " TORCH_VERSION "\n";
  text += "CUDA: " SLIPSTREAM_CUDA_TEXT "\n";
  text += "CUDA device: " + cuda_device().value_or("none") + "\n";
  text += "CPU features: " + joined(cpu_features()) + "\n";
  text += std::string("matrix instructions: ") + kernels::isa_class_name(kernels::isa_class());
  return text;
}

std::string version_json() {
  const nlohmann::ordered_json facts = {
      {"version", SLIPSTREAM_VERSION},
      {"commit", SLIPSTREAM_COMMIT},
      {"compiler", compiler_name()},
      {"libtorch", TORCH_VERSION},
      {"cuda", std::string(SLIPSTREAM_CUDA_TEXT) == "yes"},
      {"cuda_device", cuda_device() ? nlohmann::ordered_json(*cuda_device()) : nlohmann::ordered_json()},
      {"cpu_features", cpu_features()},
      {"matrix_instructions", kernels::isa_class_name(kernels::isa_class())},
  };
  return facts.dump();
}

std::string processor_name() {
  unsigned words[12] = {};
  for (unsigned i = 0; i < 3; ++i) {
    unsigned* const at = words + 4 * i;
    if (__get_cpuid(0x80000002 + i, at, at + 1, at + 2, at + 3) == 0) return "unknown processor";
  }
  char text[sizeof words + 1] = {};
  std::memcpy(text, words, sizeof words);
  std::string name = text;
  name.erase(0, name.find_first_not_of(' '));
  name.erase(name.find_last_not_of(' ') + 1);
  return name.empty() ? "unknown processor" : name;
}

std::string system_fingerprint(const std::filesystem::path& target, Dtype dtype, Device device) {
  constexpr std::size_t kDigits = 16;
  const std::string build =
      SLIPSTREAM_VERSION "\n" SLIPSTREAM_COMMIT "\n" + compiler_name() + "\n" SLIPSTREAM_CUDA_TEXT;
  const std::string machine =
      device == Device::kCuda ? kernels::cuda::describe_device() : kernels::isa_class_name(kernels::isa_class());
  const std::string model = model_fingerprint(target) + "\n" + std::to_string(static_cast<int>(dtype));
  return "fp_" + sha256_of(build + "\n" + machine + "\n" + model).substr(0, kDigits);
}

void add_version(CLI::App& app) {
  auto json = std::make_shared<bool>(false);
  auto* command = app.add_subcommand("version", "Print the version, the build and the features of this machine");
  command->footer("Examples:\n  slipstream version\n  slipstream version --json");
  command->add_flag("--json", *json, "Print one JSON object");
  command->callback([json] { std::cout << (*json ? version_json() : version_text()) << "\n"; });
}

}  // namespace slip::cli
