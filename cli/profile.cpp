// SPDX-License-Identifier: Apache-2.0
#include <cstdio>
#include <memory>
#include <string>

#include "cli/command.h"
#include "cli/load_model.h"
#include "cli/option_faults.h"
#include "cli/process/usable_cores.h"
#include "cli/progress_line.h"
#include "cli/simulation/profile.h"
#include "cli/version.h"
#include "common/counted.h"
#include "common/error.h"
#include "common/file.h"
#include "kernels/matmul.h"

namespace slip::cli {
namespace {

constexpr const char* kFooter =
    "Examples:\n"
    "  slipstream profile --target checkpoints/demo/target --draft checkpoints/demo/draft --out profile.json\n"
    "A machine that you do not have, from the bandwidth and the arithmetic that it reaches; only config.json is read:\n"
    "  slipstream profile --target Llama-3.1-8B --bandwidth 3800 --tflops 590 --pass-us 200 --out h200.json\n"
    "Measure on a quiet machine. It takes seconds for a small model, minutes for one of 8B parameters. Then ask\n"
    "slipstream simulate --profile profile.json what a load would see.";

struct ProfileOptions {
  std::string target, draft, dtype = "bfloat16", out = "profile.json";
  int threads = 0;
  double bandwidth_gb_s = 0, tflops = 0, pass_us = 0;
  bool is_calculated() const { return bandwidth_gb_s > 0; }
};

Profile measured(const ProfileOptions& options) {
  const Dtype dtype = parse_dtype(options.dtype);
  kernels::ThreadPool pool(options.threads > 0 ? options.threads : usable_cores());
  const TargetModel target = load_target(options.target, dtype);
  Profile profile{processor_name() + ", " + kernels::isa_class_name(kernels::isa_class()) + ", " +
                      counted(static_cast<std::uint64_t>(pool.n_threads()), "thread") + ", " + options.dtype,
                  measure_model(folder_name(options.target), target.weights, pool, redraw_line),
                  std::nullopt,
                  {}};
  profile.other = measure_other_costs(target.weights, pool, redraw_line);
  if (!options.draft.empty()) {
    const auto draft = load_draft_weights(options.draft, dtype, target);
    profile.draft = measure_model(folder_name(options.draft), draft, pool, redraw_line);
  }
  redraw_line("");
  return profile;
}

Profile calculated(const ProfileOptions& options) {
  const MachineFigures machine{1e9 * options.bandwidth_gb_s, 1e12 * options.tflops, options.pass_us};
  const double bytes = parse_dtype(options.dtype) == Dtype::kFloat32 ? 4 : 2;
  const auto model_of = [&](const std::string& folder) {
    return ModelProfile{folder_name(folder), calculated_costs(load_model_config(folder), machine, bytes), std::nullopt};
  };
  char figures[128];
  std::snprintf(figures, sizeof figures, "calculated for %g GB/s, %g TFLOP/s and %g µs a pass, ",
                options.bandwidth_gb_s, options.tflops, options.pass_us);
  Profile profile{figures + options.dtype, model_of(options.target), std::nullopt, {}};
  if (!options.draft.empty()) profile.draft = model_of(options.draft);
  return profile;
}

void print(const ModelProfile& model) {
  std::printf("%s, ms for rows of one answer:", model.model.c_str());
  for (const std::int32_t rows : {1, 8, 32, 256}) {
    std::printf("  %d: %.2f", rows, model.costs.us(pass_shape(1, rows, 0)) / 1e3);
  }
  if (model.error) {
    std::printf("\n  %d passes that it was not made from: error %.1f %% in the median, %.1f %% at worst",
                model.error->passes, 100 * model.error->median, 100 * model.error->worst);
  }
  std::printf("\n");
}

// A profile replaces an older one, never another file, such as a model's config.json.
void refuse_other_file(const std::filesystem::path& out) {
  std::error_code none;
  if (!std::filesystem::is_regular_file(out, none) || std::filesystem::file_size(out, none) == 0) return;
  if (is_profile(out)) return;
  throw Error(ErrorCode::kInvalidArgument, out.string() + " is there already and is no profile", "name another --out",
              "out");
}

void run_profile(const ProfileOptions& options) {
  check_threads(options.threads, "--threads");
  if ((options.bandwidth_gb_s > 0) != (options.tflops > 0)) {
    throw Error(ErrorCode::kInvalidArgument, "--bandwidth and --tflops go together");
  }
  if (!options.is_calculated() && options.pass_us > 0) {
    throw Error(ErrorCode::kInvalidArgument, "--pass-us is measured; give it with --bandwidth only");
  }
  if (options.is_calculated() && options.threads > 0) {
    throw Error(ErrorCode::kInvalidArgument, "--threads is for measuring; --bandwidth calculates");
  }
  refuse_other_file(options.out);
  const Profile profile = options.is_calculated() ? calculated(options) : measured(options);
  write_output_file(options.out, to_text(profile));
  std::printf("%s\n", profile.machine.c_str());
  print(profile.target);
  if (profile.draft) print(*profile.draft);
  std::printf("a step beside its pass: %.0f µs, and %.1f for each row with logits\n", profile.other.step_us,
              profile.other.row_us);
  std::printf("%s is written; next: slipstream simulate --profile %s --help\n", options.out.c_str(),
              options.out.c_str());
}

}  // namespace

void add_profile(CLI::App& app) {
  auto options = std::make_shared<ProfileOptions>();
  auto* command = app.add_subcommand("profile", "Measure what passes of a target and a draft cost, for simulate");
  command->footer(kFooter);
  command->add_option("--target", options->target, "Target, a Hugging Face folder")->required();
  command->add_option("--draft", options->draft, "Draft; without one, simulate knows plain decoding only");
  command->add_option("--dtype", options->dtype, "Number format of the weights: bfloat16, float32")
      ->capture_default_str();
  command->add_option("--threads", options->threads, "Threads of a pass [all usable cores]")
      ->check(CLI::Range(1, 4096));
  command
      ->add_option("--bandwidth", options->bandwidth_gb_s,
                   "GB/s that a machine reaches: calculates the profile instead of measuring it")
      ->check(CLI::Range(0.001, 1e9))
      ->check(nan_fault);
  command->add_option("--tflops", options->tflops, "Arithmetic that the machine reaches, in 10^12 operations a second")
      ->check(CLI::Range(1e-6, 1e9))
      ->check(nan_fault);
  command->add_option("--pass-us", options->pass_us, "With --bandwidth: time of a pass beside both, such as launches")
      ->check(CLI::Range(0.0, 1e7))
      ->check(nan_fault);
  command->add_option("--out", options->out, "File to write")->capture_default_str();
  command->callback([options] { run_profile(*options); });
}

}  // namespace slip::cli
