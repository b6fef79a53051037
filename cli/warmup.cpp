// SPDX-License-Identifier: Apache-2.0
#include "distill/warmup/warmup.h"

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cli/command.h"
#include "cli/config/draft_config.h"
#include "cli/load_model.h"
#include "cli/option_faults.h"
#include "cli/process/usable_cores.h"
#include "cli/process/usable_memory.h"
#include "cli/progress_line.h"
#include "cli/shell_command.h"
#include "cli/target_worker.h"
#include "common/counted.h"
#include "common/error.h"
#include "common/file.h"

namespace slip::cli {
namespace {

constexpr std::uint64_t kMaxConfigBytes = std::uint64_t{1} << 20;
constexpr const char* kFooter =
    "Examples:\n"
    "  slipstream warmup --target checkpoints/demo/target --data prompts.jsonl \\\n"
    "    --draft-config configs/demo-draft.toml --out drafts/base\n"
    "  slipstream warmup --target checkpoints/demo/target --data sql.jsonl,math.jsonl --draft drafts/base \\\n"
    "    --loss jsd --beta 0.5 --steps 2000 --out drafts/better\n"
    "  slipstream warmup --target checkpoints/demo/target --data answered.jsonl --answers data --draft drafts/base \\\n"
    "    --out drafts/from-logs --resume\n"
    "Ctrl-C saves and the same command goes on; so it does after kill -9. A draft that learns on the CPU comes to the\n"
    "same weights bit for bit.";

// The given flags; absent ones come from the draft's configuration file or from the defaults.
struct WarmupFlags {
  std::string target, draft, draft_config, chat_template, out, dtype = "bfloat16", device = "cpu",
                                                               learning_device = "cpu";
  std::vector<std::string> data;
  std::optional<std::string> loss, answers, temperature;
  std::optional<double> beta, share, learning_rate;
  std::optional<std::int64_t> steps;
  std::optional<int> batch, max_tokens, threads;
  std::uint64_t seed = 1;
  double save_every_s = 30;
  int concurrency = 16;
  bool resume = false, force = false, keep_work = false;
};

template <class Value, class Field>
void override_with(const std::optional<Value>& given, Field& field) {
  if (given) field = static_cast<Field>(*given);
}

WarmupOptions options_from(const WarmupFlags& flags) {
  WarmupOptions options;
  if (!flags.draft_config.empty()) {
    apply_draft_config(read_file(flags.draft_config, kMaxConfigBytes), flags.draft_config, options);
  }
  options.target = flags.target;
  options.chat_template = flags.chat_template;
  options.out = flags.out;
  options.draft = flags.draft;
  options.data.assign(flags.data.begin(), flags.data.end());
  options.dtype = parse_dtype(flags.dtype);
  options.device = open_target_device(parse_device(flags.device, options.dtype));
  if (flags.learning_device == "cuda") options.trainer.device = TrainingDevice::kCuda;
  options.threads = flags.threads.value_or(usable_cores());
  check_threads(options.threads, "--threads");
  options.seed = flags.seed;
  options.concurrency = flags.concurrency;
  options.save_every_us = static_cast<std::int64_t>(flags.save_every_s * 1e6);
  options.resume = flags.resume;
  options.force = flags.force;
  options.keep_work = flags.keep_work;
  if (flags.loss) options.trainer.loss.kind = parse_loss(*flags.loss);
  if (flags.answers) options.answers_from = parse_answers_from(*flags.answers);
  if (flags.temperature) options.temperature = parse_answer_temperature(*flags.temperature);
  override_with(flags.beta, options.trainer.loss.beta);
  override_with(flags.share, options.share);
  override_with(flags.learning_rate, options.trainer.learning_rate);
  override_with(flags.steps, options.steps);
  override_with(flags.batch, options.batch);
  override_with(flags.max_tokens, options.max_tokens);
  return options;
}

std::string command_line() {
  std::ifstream file("/proc/self/cmdline", std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

// The command that serves the new draft. A template that differs from the target's own makes other prompts, on which
// the draft would propose worse.
std::string serving_command(const WarmupFlags& flags) {
  const std::string command =
      "slipstream serve --target " + shell_quoted(flags.target) + " --draft " + shell_quoted(flags.out);
  return flags.chat_template.empty() ? command : command + " --chat-template " + shell_quoted(flags.chat_template);
}

void check_memory(const WarmupOptions& options) {
  if (!options.draft.empty() || options.trainer.device != TrainingDevice::kCpu) return;
  constexpr double kBytesEach = 16;    // float32: a weight, its gradient, two moments
  constexpr double kMostBytes = 1e18;  // beyond any machine's memory
  const auto parameters =
      static_cast<double>(draft_config(load_model_config(options.target), options.shape).parameters());
  require_memory(static_cast<std::uint64_t>(std::min(kBytesEach * parameters, kMostBytes)),
                 "training a draft of " + billions_text(parameters) + " billion parameters takes",
                 "lower layers, hidden or ffn of the draft", "draft-config");
}

void run(const WarmupFlags& flags) {
  const WarmupOptions options = options_from(flags);
  if (!flags.draft_config.empty()) check_memory(options);
  ProgressLine line(progress_style());
  try {
    const WarmupResult result = run_warmup(options, line);
    line.finish();
    const auto n = [](auto count, const char* noun) { return counted(static_cast<std::uint64_t>(count), noun); };
    std::printf("%s: %s on %s; held-out loss %.3f, α %.3f on %s it never saw\n", options.out.c_str(),
                n(result.steps, "step").c_str(), n(result.answers, "answer").c_str(), result.heldout_loss,
                result.heldout_alpha, n(result.heldout_answers, "answer").c_str());
    std::printf("serve it with: %s\n", serving_command(flags).c_str());
  } catch (const Error& error) {
    line.finish();
    if (error.code() != ErrorCode::kCancelled) throw;
    throw Error(ErrorCode::kCancelled, error.message(), "go on with: " + resuming_command(command_line()));
  }
}

void add_what(CLI::App& command, WarmupFlags& flags) {
  command.add_option("--target", flags.target, "Hugging Face folder of the target: Llama, Mistral, Qwen2 or Qwen3")
      ->required();
  command.add_option("--data", flags.data, "JSONL files with `prompt` [and `response`], separated by commas")
      ->required()
      ->delimiter(',');
  command.add_option("--chat-template", flags.chat_template, "Jinja file; without it, the target's own template");
  auto* draft = command.add_option("--draft", flags.draft, "Start from this draft's weights (a plain Llama)");
  command.add_option("--draft-config", flags.draft_config, "Start a new draft of the shape in this TOML file")
      ->excludes(draft);
  command.add_option("--out", flags.out, "Folder of the finished draft; <out>.work holds unfinished work")->required();
  command.add_option("--share", flags.share, "Share of each file to use, from its beginning (default 1)")
      ->check(CLI::Range(0.0, 1.0))
      ->check(nan_fault);
  command
      .add_option("--answers", flags.answers,
                  "target: the target writes the answers (default); data: use the responses in --data")
      ->check(CLI::IsMember({"target", "data"}));
  command.add_option("--temperature", flags.temperature,
                     "Temperature of the target's answers: 0 to 2, or mixed (default): 0 and 0.8 in turn");
  command.add_option("--max-tokens", flags.max_tokens, "Longest answer, in tokens (default 256)")->check(count_fault);
}

void add_how(CLI::App& command, WarmupFlags& flags) {
  command.add_option("--loss", flags.loss, "Loss: kl (default), rkl, jsd or tv")
      ->check(CLI::IsMember({"kl", "rkl", "jsd", "tv"}));
  command.add_option("--beta", flags.beta, "Weight of the jsd loss's first term (default 0.5)");
  command.add_option("--steps", flags.steps, "Optimizer steps; 0: until the held-out loss stops falling (default)")
      ->check(CLI::Range(0, std::numeric_limits<int>::max()));
  command.add_option("--batch", flags.batch, "Answers per step (default 8)")->check(count_fault);
  command.add_option("--lr", flags.learning_rate, "Learning rate (default 0.002)")
      ->check(CLI::Range(1e-9, 1e3))
      ->check(nan_fault);
  command.add_option("--seed", flags.seed, "Seed of weights, order and sampling (default 1)")->check(seed_fault);
  command.add_option("--threads", flags.threads, "Threads (default: all cores this process may use)")
      ->check(count_fault);
  command.add_option("--concurrency", flags.concurrency, "Answers generated at once (default 16)")
      ->check(CLI::Range(1, 256));
  command.add_option("--dtype", flags.dtype, "Data type of the target: bfloat16 (default) or float32");
  command.add_option("--device", flags.device, "Device of the target: cpu (default) or cuda");
  command.add_option("--learning-device", flags.learning_device, "Device that trains the draft: cpu (default) or cuda")
      ->check(CLI::IsMember({"cpu", "cuda"}));
  command.add_option("--save-every", flags.save_every_s, "Seconds between checkpoints of the training (default 30)")
      ->check(CLI::Range(0.0, 86'400.0))
      ->check(nan_fault);
  auto* resume = command.add_flag("--resume", flags.resume, "Continue an interrupted run; fails if there is none");
  command.add_flag("--force", flags.force, "Replace the folder at --out and start again")->excludes(resume);
  command.add_flag("--keep-work", flags.keep_work, "Keep <out>.work, with the answers, when finished");
}

}  // namespace

void add_warmup(CLI::App& app) {
  auto flags = std::make_shared<WarmupFlags>();
  CLI::App* command = app.add_subcommand("warmup", "Distil a draft for a target, offline, from prompts");
  command->footer(kFooter);
  add_what(*command, *flags);
  add_how(*command, *flags);
  command->callback([flags] {
    if (flags->draft.empty() && flags->draft_config.empty()) {
      throw Error(ErrorCode::kInvalidArgument, "no draft to train", "give --draft DIR or --draft-config FILE.toml");
    }
    run(*flags);
  });
}

}  // namespace slip::cli
