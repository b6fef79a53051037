// SPDX-License-Identifier: Apache-2.0
#include <unistd.h>

#include <cstdio>
#include <iostream>
#include <limits>
#include <memory>
#include <optional>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "cli/command.h"
#include "cli/generated_answer.h"
#include "cli/load_model.h"
#include "cli/option_faults.h"
#include "cli/process/usable_cores.h"
#include "cli/prompt_file.h"
#include "cli/response_format_file.h"
#include "cli/target_worker.h"
#include "common/error.h"
#include "engine/engine.h"
#include "engine/models/finite_logits.h"
#include "engine/speculative/proposal.h"
#include "server/openai/sampling_fields.h"
#include "text/utf8.h"

namespace slip::cli {

namespace {

constexpr std::int32_t kMostRows = 1 + kMaxProposalNodes;  // of one sequence in a pass: its last token, its proposal

struct GenerateOptions {
  std::string target, draft, swap_draft, prompt, prompts, chat_template, response_format, dtype = "bfloat16",
                                                                                          device = "cpu";
  bool chat = false, checksums = false, json = false;
  std::optional<int> k, logprobs;
  SamplingParams sampling{.temperature = 0};
  std::vector<std::string> logit_bias, stops;
  std::vector<std::int32_t> stop_tokens;
  bool ignore_eos = false, no_prompt_lookup = false;
  int max_tokens = 0, concurrency = 1, threads = 0, swap_every = 0;
  int prefill_chunk = EngineOptions{}.prefill_chunk, catch_up_rows = EngineOptions{}.catch_up_chunk;
};

// Swaps the live draft between two folders every few steps, so that exactness runs have a swap in every answer.
class SwapDrill final : public StepListener {
 public:
  SwapDrill(std::shared_ptr<LiveDraft> live_draft, std::shared_ptr<const DraftVersion> other, int every)
      : live_draft_(std::move(live_draft)), every_(every) {
    if (live_draft_ != nullptr) drafts_ = {live_draft_->get(), std::move(other)};
  }
  void on_step(const StepFigures&) noexcept override {
    if (every_ == 0 || ++n_steps_ % every_ != 0) return;
    const std::uint64_t parent = live_draft_->get()->number;
    auto next = std::make_shared<DraftVersion>(*drafts_[parent % 2]);
    next->parent = parent;
    next->number = parent + 1;
    live_draft_->set(std::move(next));
    live_draft_->reclaim();
  }

 private:
  std::shared_ptr<LiveDraft> live_draft_;
  std::vector<std::shared_ptr<const DraftVersion>> drafts_;
  int every_, n_steps_ = 0;
};

// Checks here, because the engine's error would use the field's HTTP name.
void check_stop_tokens(const std::vector<std::int32_t>& ids, std::int32_t vocab_size) {
  for (const std::int32_t id : ids) {
    if (id >= 0 && id < vocab_size) continue;
    throw Error(ErrorCode::kInvalidArgument,
                "--stop-token " + std::to_string(id) + " is outside the target's vocabulary of " +
                    std::to_string(vocab_size) + " tokens",
                {}, "--stop-token");
  }
}

class GenerateRun {
 public:
  explicit GenerateRun(const GenerateOptions& options)
      : options_(options), pool_(options.threads > 0 ? options.threads : usable_cores()) {
    rows_ = options.prompts.empty() ? std::vector<PromptRow>{{1, options.prompt}} : read_prompt_file(options.prompts);
    const Dtype dtype = parse_dtype(options.dtype);
    device_ = open_target_device(parse_device(options.device, dtype));
    model_ = load_target(options.target, dtype);
    check_stop_tokens(options.stop_tokens, model_.weights->config.vocab_size);
    if (options.chat) template_.emplace(ChatTemplate::load(options.target, options.chat_template));
    k_ = options.k.value_or(options.draft.empty() ? 0 : EngineOptions{}.k);
    if (options.draft.empty() || k_ == 0) return;  // plain decoding opens no draft
    const auto draft = [&](const std::string& folder) {
      return packed({DraftId{0}, "draft", /*number=*/1, /*parent=*/0, load_draft_weights(folder, dtype, model_)},
                    draft_packing(device_));
    };
    const auto first = draft(options.draft);
    live_draft_ = std::make_shared<LiveDraft>(first->draft, first->name, first);
    if (!options.swap_draft.empty()) other_ = draft(options.swap_draft);
  }

  // Prints every answer. Throws Error with the first failure's code if a row has no answer.
  void run() {
    SwapDrill swaps(live_draft_, other_, other_ == nullptr ? 0 : options_.swap_every);
    AnswerPrinter printer(options_.json, /*show_progress=*/::isatty(STDERR_FILENO) == 1, rows_.size());
    Engine engine = make_engine(swaps);  // destroyed before the printer that receives its answers
    for (std::size_t i = 0; i < rows_.size(); ++i) submit(engine, printer, i);
    while (std::cout.good() && engine.step()) {  // stops when standard output has failed
    }
    printer.finish();
    if (printer.n_failed() == 0) return;
    const Error& failure = *printer.first_failure();
    if (options_.prompts.empty()) throw failure;
    throw Error(failure.code(),
                std::to_string(printer.n_failed()) + " of " + std::to_string(rows_.size()) +
                    " prompts were not answered; the first, with id " + rows_[printer.first_failed()].id.dump() + ": " +
                    failure.message(),
                failure.hint());
  }

 private:
  Engine make_engine(SwapDrill& swaps) {
    EngineOptions options;
    options.k = k_;
    options.max_running = options_.concurrency;
    options.prefill_chunk = options_.prefill_chunk;
    options.catch_up_chunk = options_.catch_up_rows;
    options.prompt_lookup = !options_.no_prompt_lookup;
    options.max_waiting = static_cast<std::int32_t>(rows_.size());
    const ModelConfig& config = model_.weights->config;
    const std::int32_t pages_each = (config.max_positions + PagePool::kPageTokens - 1) / PagePool::kPageTokens;
    const std::int32_t scored_rows = kMostRows * options.max_running + 1;
    const WorkerSize size{options.prefill_chunk + scored_rows, scored_rows, pages_each * options.max_running};
    Target target = make_target(device_, model_.weights, size, pool_);
    require_finite_logits(*target.worker, options_.target);
    auto proposer = make_proposer(device_, options, *target.worker, pool_);
    return {options, std::move(target), model_.tokenizer, std::move(proposer), nullptr, {&swaps}};
  }

  void submit(Engine& engine, AnswerPrinter& printer, std::size_t i) {
    AnswerHead head;
    head.id = rows_[i].id;
    head.with_logprobs = options_.logprobs.has_value();
    head.with_checksum = options_.checksums;
    Request request;
    request.id = {i + 1};
    request.prompt = encode(rows_[i].prompt);
    head.prompt_ids = request.prompt;
    request.sampling = options_.sampling;
    request.max_tokens = options_.max_tokens;
    if (!options_.ignore_eos) request.end_ids = model_.weights->config.eos_ids;
    request.end_ids.insert(request.end_ids.end(), options_.stop_tokens.begin(), options_.stop_tokens.end());
    request.stop_strings = options_.stops;
    if (!template_) request.answer_start = StreamDecoder::behind(*model_.tokenizer, request.prompt);
    request.top_logprobs = options_.logprobs.value_or(-1);
    request.checksum = options_.checksums;
    request.draft = live_draft_;
    request.learn = false;
    const auto answer = std::make_shared<GeneratedAnswer>(std::move(head), printer, i);
    request.sink = answer;
    try {
      engine.submit(std::move(request));
    } catch (const Error& refusal) {
      answer->refuse(refusal);
    }
  }

  std::vector<std::int32_t> encode(const std::string& prompt) const {
    if (!template_) return model_.tokenizer->encode_prompt(prompt);
    return template_->render(*model_.tokenizer, {{"user", prompt}}, /*add_generation_prompt=*/true);
  }

  const GenerateOptions& options_;
  kernels::ThreadPool pool_;
  std::vector<PromptRow> rows_;
  TargetDevice device_;
  TargetModel model_;
  std::optional<ChatTemplate> template_;
  int k_ = 0;
  std::shared_ptr<LiveDraft> live_draft_;
  std::shared_ptr<const DraftVersion> other_;
};

void check_swaps(const GenerateOptions& options) {
  if (options.swap_draft.empty() != (options.swap_every == 0)) {
    throw Error(ErrorCode::kInvalidArgument, "--swap-draft and --swap-every go together");
  }
  if (options.swap_draft.empty()) return;
  if (options.draft.empty()) {
    throw Error(ErrorCode::kInvalidArgument, "--swap-draft without --draft", "add --draft DIR");
  }
  if (options.k == 0) {
    throw Error(ErrorCode::kInvalidArgument, "--swap-draft with --k 0, which opens no draft",
                "raise --k, or leave it out");
  }
}

void check(const GenerateOptions& options) {
  if (options.prompt.empty() == options.prompts.empty()) {
    throw Error(ErrorCode::kInvalidArgument, "give either --prompt TEXT or --prompts FILE");
  }
  if (const std::size_t valid = valid_utf8_prefix(options.prompt); valid < options.prompt.size()) {
    throw Error(ErrorCode::kInvalidArgument,
                "--prompt is not UTF-8: byte " + std::to_string(valid + 1) + " begins no character");
  }
  if (!options.chat_template.empty() && !options.chat) {
    throw Error(ErrorCode::kInvalidArgument, "--chat-template without --chat", "add --chat");
  }
  if (options.draft.empty() && options.no_prompt_lookup && options.k.value_or(0) > 0) {
    throw Error(ErrorCode::kInvalidArgument, "--k " + std::to_string(*options.k) + " without anything that proposes",
                "add --draft DIR, or leave --no-prompt-lookup out");
  }
  check_threads(options.threads, "--threads");
  check_swaps(options);
  for (const auto& [given, name] :
       {std::pair(options.logprobs.has_value(), "--logprobs"), std::pair(options.checksums, "--checksums")}) {
    if (!given || options.json) continue;
    throw Error(ErrorCode::kInvalidArgument, std::string(name) + " without --json, which alone prints them",
                "add --json");
  }
}

constexpr const char* kFooter =
    "Examples:\n"
    "  slipstream generate --target checkpoints/demo/target --prompt 'SELECT name FROM' --max-tokens 32\n"
    "  slipstream generate --target checkpoints/demo/target --draft checkpoints/demo/draft --k 3 --chat \\\n"
    "    --prompts prompts.jsonl --max-tokens 64 --json > answers.jsonl\n"
    "  slipstream generate --target checkpoints/demo/target --chat --prompt 'Tell a story.' --temperature 0.8 --seed 7 "
    "\\\n"
    "    --max-tokens 200\n"
    "  slipstream generate --target checkpoints/demo/target --chat --prompt 'Describe a cat.' --max-tokens 200 \\\n"
    "    --response-format format.json\n"
    "--json prints id, text, token_ids, stop_reason and figures of speculation for each prompt; docs/api.md has all.\n"
    "Exit status 0 only if every prompt was answered.";

LogitBias parse_logit_bias(const std::string& text) {
  LogitBias bias;
  std::istringstream in(text);
  char equals = 0;
  if (!(in >> bias.id >> equals >> bias.bias) || equals != '=' || !in.eof()) {
    throw Error(ErrorCode::kInvalidArgument, "--logit-bias takes ID=BIAS, not '" + text + "'");
  }
  return bias;
}

// Options of logits processors and of an answer's end.
void add_shaping_options(CLI::App& command, GenerateOptions& options) {
  SamplingParams& sampling = options.sampling;
  command
      .add_option("--repetition-penalty", sampling.repetition_penalty,
                  "Above 1: tokens in prompt and answer become less likely")
      ->check(CLI::Range(0.01, 2.0))
      ->check(nan_fault);
  command
      .add_option("--presence-penalty", sampling.presence_penalty,
                  "Subtracted once from the logits of the answer's tokens")
      ->check(CLI::Range(-2.0, 2.0))
      ->check(nan_fault);
  command
      .add_option("--frequency-penalty", sampling.frequency_penalty,
                  "Subtracted from a token's logit per occurrence in the answer")
      ->check(CLI::Range(-2.0, 2.0))
      ->check(nan_fault);
  command.add_option("--logit-bias", options.logit_bias, "ID=BIAS, added to a token's logit; may be repeated")
      ->allow_extra_args(false);
  command.add_option("--min-tokens", sampling.min_tokens, "Smallest length of an answer, in tokens")
      ->check(CLI::Range(0, std::numeric_limits<int>::max()));
  command.add_option("--stop", options.stops, "A string that ends the answer, excluded from it; may be repeated")
      ->allow_extra_args(false);
  command.add_option("--stop-token", options.stop_tokens, "A token id that ends the answer; may be repeated")
      ->allow_extra_args(false);
  command.add_flag("--ignore-eos", options.ignore_eos, "Do not end an answer at the model's own end tokens");
  command.add_option("--response-format", options.response_format,
                     "json_object: each answer is a JSON object; or a file with a request's response_format, "
                     "such as {\"type\":\"json_schema\",\"json_schema\":{\"name\":\"answer\",\"schema\":{...}}}");
}

void add_sampling_options(CLI::App& command, GenerateOptions& options) {
  SamplingParams& sampling = options.sampling;
  command.add_option("--temperature", sampling.temperature, "Sampling temperature; 0 is greedy (default)")
      ->check(CLI::Range(0.0, 2.0))
      ->check(nan_fault);
  command
      .add_option("--top-p", sampling.top_p, "Keep the most likely tokens up to this total probability; 0 is greedy")
      ->check(CLI::Range(0.0, 1.0))
      ->check(nan_fault);
  command.add_option("--top-k", sampling.top_k, "Keep this number of most likely tokens; 0 or -1 keeps all")
      ->check(CLI::Range(-1, std::numeric_limits<std::int32_t>::max()));
  command.add_option("--min-p", sampling.min_p, "Drop tokens below this share of the highest probability")
      ->check(CLI::Range(0.0, 1.0))
      ->check(nan_fault);
  command.add_option("--seed", sampling.seed, "Makes sampling repeatable, with or without a draft")->check(seed_fault);
  command.add_option("--max-tokens", options.max_tokens, "Longest answer, in tokens")->required()->check(count_fault);
}

void add_model_options(CLI::App& command, GenerateOptions& options) {
  command.add_option("--target", options.target, "Hugging Face folder of the target: Llama, Mistral, Qwen2 or Qwen3")
      ->required();
  command.add_option("--draft", options.draft, "Hugging Face folder of a draft for it");
  command
      .add_option("--k", options.k,
                  "Proposed tokens per step: default 3 with a draft; without one 0, above it from prompt lookup")
      ->check(CLI::Range(0, kMaxProposalNodes));
  command.add_flag("--no-prompt-lookup", options.no_prompt_lookup,
                   "Propose without prompt lookup, from the draft alone");
  command.add_option("--dtype", options.dtype, "Data type: bfloat16 (default) or float32");
  command.add_option("--device", options.device, "Device of target and draft: cpu (default) or cuda");
  command
      .add_option("--threads", options.threads, "Threads of the forward pass (default: all cores this process may use)")
      ->check(count_fault);
  command.add_option("--swap-draft", options.swap_draft, "For testing: a second draft, swapped in and out")
      ->group("Testing");
  command.add_option("--swap-every", options.swap_every, "For testing: steps between two swaps")
      ->check(count_fault)
      ->group("Testing");
  command.add_option("--prefill-chunk", options.prefill_chunk, "For testing: prompt rows per step")
      ->check(CLI::Range(1, 16'384))
      ->group("Testing");
  command
      .add_option("--catch-up-rows", options.catch_up_rows,
                  "For testing: rows per step that a swapped-in draft may process to catch up")
      ->check(CLI::Range(1, 16'384))
      ->group("Testing");
}

void add_output_options(CLI::App& command, GenerateOptions& options) {
  command.add_option("--prompt", options.prompt,
                     "The prompt; without --chat it is raw text, after the tokenizer's own start tokens");
  command.add_option("--prompts", options.prompts, "JSONL with `prompt` and optional `id`");
  command.add_flag("--chat", options.chat, "Apply the chat template: each prompt is a user's message");
  command.add_option("--chat-template", options.chat_template, "With --chat: a Jinja file instead of the target's own");
  command.add_option("--concurrency", options.concurrency, "Prompts answered at once")->check(CLI::Range(1, 256));
  command.add_flag("--checksums", options.checksums, "With --json: add a checksum of the raw logits of every token");
  command.add_option("--logprobs", options.logprobs, "With --json: add the N best log probabilities of every token")
      ->check(CLI::Range(0, 1024));
  command.add_flag("--json", options.json, "Print one JSON object per prompt, in input order");
}

}  // namespace

void add_generate(CLI::App& app) {
  auto options = std::make_shared<GenerateOptions>();
  CLI::App* command = app.add_subcommand("generate", "Answer prompts, with or without a draft: the answers are equal");
  command->footer(kFooter);
  add_model_options(*command, *options);
  add_output_options(*command, *options);
  add_sampling_options(*command, *options);
  add_shaping_options(*command, *options);
  command->callback([options] {
    check(*options);
    resolve_special_values(options->sampling);
    for (const std::string& bias : options->logit_bias) {
      options->sampling.logit_bias.push_back(parse_logit_bias(bias));
    }
    if (!options->response_format.empty()) {
      options->sampling.grammar = read_response_format_file(options->response_format);
    }
    GenerateRun(*options).run();
  });
}

}  // namespace slip::cli
