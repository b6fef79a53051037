// SPDX-License-Identifier: Apache-2.0
// Tokens per second by draft length on real prompts, with what explains them: α, accepted length, the draft's cost per
// token and the price of verifying k + 1 rows at once. k = 0 is plain decoding with no draft loaded; the lengths take
// turns, so that a drifting machine touches all of them alike.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>
#include <vector>

#include "bench/common_prompts.h"
#include "bench/common_result.h"
#include "common/clock.h"
#include "common/error.h"
#include "engine/engine.h"
#include "engine/model/tokenizer.h"

namespace slip::bench {
namespace {

struct Options {
  std::string target, draft, chat_template, prompts;
  std::vector<int> k = {0, 3, 5};
  std::size_t n_prompts = 40;
  int max_tokens = 96, rounds = 3, threads = 1, concurrency = 1;
  double temperature = 0, skip_share = 0;
  bool json = false;
};

// Sums over the decoding steps of one run; prefill steps are left out of the step times.
struct Totals final : StepListener {
  std::int64_t tokens = 0, steps = 0, proposed = 0, accepted = 0, first_rejections = 0, answer_steps = 0;
  std::int64_t draft_us = 0, verify_us = 0;
  double seconds = 0;
  void on_step(const StepFigures& figures) noexcept override {
    if (figures.prefill_rows > 0) return;
    ++steps;
    draft_us += figures.draft_us;
    verify_us += figures.verify_us;
  }
  void on_finished(const RequestSummary& summary) noexcept override {
    tokens += summary.figures.output_tokens;
    proposed += summary.figures.proposed;
    accepted += summary.figures.accepted;
    first_rejections += summary.figures.first_rejections;
    answer_steps += summary.figures.steps;
  }
};

struct Discard final : TokenSink {
  void on_tokens(const TokenDelta&) override {}
  void on_finished(const RequestSummary&) override {}
};

class Bench {
 public:
  explicit Bench(const Options& options)
      : options_(options), pool_(options.threads), tokenizer_(Tokenizer::load(options.target)) {
    weights_ = ModelWeights::load(options.target, Dtype::kBFloat16);
    if (!options.draft.empty()) {
      auto version = std::make_shared<DraftVersion>();
      version->number = 1;
      version->name = "draft";
      version->weights = ModelWeights::load(options.draft, Dtype::kBFloat16);
      slot_ = std::make_shared<DraftSlot>(DraftId{0}, "draft", version);
    }
    const auto chat = ChatTemplate::load(options.target, options.chat_template);
    for (const auto& prompt : read_prompts(options.prompts, options.skip_share, options.n_prompts)) {
      prompts_.push_back(chat.render(*tokenizer_, {{"user", prompt.text}}, /*add_generation_prompt=*/true));
    }
  }

  // One pass over all prompts with one draft length, added to `totals`.
  void run(int k, Totals& totals) {
    EngineOptions engine_options;
    engine_options.k = k;
    engine_options.max_running = options_.concurrency;
    engine_options.max_waiting = static_cast<std::int32_t>(prompts_.size()) + 1;
    const std::int32_t pages = weights_->config.max_positions / PagePool::kPageTokens * options_.concurrency;
    const std::int32_t rows = engine_options.prefill_chunk + 32 * options_.concurrency;
    auto worker = std::make_unique<LocalWorker>(weights_, rows, 32 * options_.concurrency, pages, pool_);
    Engine engine(engine_options, std::move(worker), tokenizer_, pool_, nullptr, {&totals});
    const auto sink = std::make_shared<Discard>();
    const auto start = monotonic_us();
    for (std::size_t i = 0; i < prompts_.size(); ++i) engine.submit(request(i, k, sink));
    while (engine.step()) {
    }
    totals.seconds += static_cast<double>(monotonic_us() - start) / 1e6;
  }

 private:
  Request request(std::size_t i, int k, const std::shared_ptr<TokenSink>& sink) const {
    Request request;
    request.id = {i + 1};
    request.prompt = prompts_[i];
    request.sampling.temperature = static_cast<float>(options_.temperature);
    request.sampling.seed = 1 + i;
    request.max_tokens =
        std::min<std::int32_t>(options_.max_tokens, weights_->config.max_positions - std::ssize(prompts_[i]));
    request.end_ids = weights_->config.eos_ids;
    request.draft = k > 0 ? slot_ : nullptr;
    request.learn = false;
    request.sink = sink;
    return request;
  }

  const Options& options_;
  kernels::ThreadPool pool_;
  std::shared_ptr<const Tokenizer> tokenizer_;
  std::shared_ptr<const ModelWeights> weights_;
  std::shared_ptr<DraftSlot> slot_;
  std::vector<std::vector<std::int32_t>> prompts_;
};

nlohmann::json report(int k, const Totals& totals, double plain_step_us) {
  const double steps = std::max<double>(1, static_cast<double>(totals.steps));
  const double reached = static_cast<double>(totals.accepted + totals.first_rejections);
  const double draft_token_us =
      static_cast<double>(totals.draft_us) / std::max<double>(1, static_cast<double>(totals.proposed));
  return {
      {"k", k},
      {"tokens_per_s", static_cast<double>(totals.tokens) / totals.seconds},
      {"alpha", reached > 0 ? nlohmann::json(static_cast<double>(totals.accepted) / reached) : nlohmann::json(nullptr)},
      {"accepted_length",
       static_cast<double>(totals.tokens) / std::max<double>(1, static_cast<double>(totals.answer_steps))},
      {"c", plain_step_us > 0 ? draft_token_us / plain_step_us : 0},
      {"t_ratio", plain_step_us > 0 ? static_cast<double>(totals.verify_us) / steps / plain_step_us : 1}};
}

nlohmann::json run(const Options& options) {
  Bench bench(options);
  std::vector<int> lengths = options.k;
  if (std::find(lengths.begin(), lengths.end(), 0) == lengths.end()) lengths.insert(lengths.begin(), 0);
  std::vector<Totals> totals(lengths.size());
  for (int round = 0; round < options.rounds; ++round) {
    for (std::size_t i = 0; i < lengths.size(); ++i) {
      bench.run(lengths[i], totals[i]);
      show_progress("speculate: round " + std::to_string(round + 1) + "/" + std::to_string(options.rounds) +
                    " k=" + std::to_string(lengths[i]));
    }
  }
  show_progress("");
  const auto plain = static_cast<std::size_t>(std::find(lengths.begin(), lengths.end(), 0) - lengths.begin());
  const double plain_us =
      static_cast<double>(totals[plain].verify_us) / std::max<double>(1, static_cast<double>(totals[plain].steps));
  nlohmann::json result = {{"plain_step_ms", plain_us / 1000}, {"runs", nlohmann::json::array()}};
  for (std::size_t i = 0; i < lengths.size(); ++i) {
    auto row = report(lengths[i], totals[i], plain_us);
    row["speedup"] =
        row["tokens_per_s"].get<double>() / (static_cast<double>(totals[plain].tokens) / totals[plain].seconds);
    result["runs"].push_back(row);
  }
  return result;
}

void print_table(const nlohmann::json& result) {
  std::printf("plain decoding: %.3f ms a step\n   k  tokens/s  speed-up      α  length  draft/plain  T(k+1)/T(1)\n",
              result["plain_step_ms"].get<double>());
  for (const auto& row : result["runs"]) {
    std::printf("%4d %9.1f %9.2f %6.3f %7.2f %12.3f %12.2f\n", row["k"].get<int>(), row["tokens_per_s"].get<double>(),
                row["speedup"].get<double>(), row["alpha"].is_null() ? 0.0 : row["alpha"].get<double>(),
                row["accepted_length"].get<double>(), row["c"].get<double>(), row["t_ratio"].get<double>());
  }
}

}  // namespace
}  // namespace slip::bench

int main(int argc, char** argv) {
  slip::bench::Options options;
  CLI::App app{
      "Measures tokens per second by draft length, prefill included, with α, accepted length and the costs behind "
      "them."};
  app.add_option("--target", options.target, "Target folder")->required();
  app.add_option("--draft", options.draft, "Draft folder")->required();
  app.add_option("--chat-template", options.chat_template, "Jinja file; without it, the target's own template");
  app.add_option("--prompts", options.prompts, "JSONL with `prompt`; the chat template is applied")->required();
  app.add_option("--n-prompts", options.n_prompts, "How many of them");
  app.add_option("--skip-share", options.skip_share, "First share of the file to leave out");
  app.add_option("--k", options.k, "Draft lengths, comma separated; 0 is plain decoding")
      ->delimiter(',')
      ->check(CLI::Range(0, 16));
  app.add_option("--max-tokens", options.max_tokens, "At most so many tokens an answer");
  app.add_option("--temperature", options.temperature, "0 is greedy; else seeded sampling");
  app.add_option("--rounds", options.rounds, "Passes, the lengths taking turns")->check(CLI::PositiveNumber);
  app.add_option("--threads", options.threads, "Threads of the forward pass")->check(CLI::PositiveNumber);
  app.add_option("--concurrency", options.concurrency, "Requests at once")->check(CLI::PositiveNumber);
  app.add_flag("--json", options.json, "Print JSON");
  CLI11_PARSE(app, argc, argv);
  return slip::bench::show_result(
      "speculate", options.json, [&] { return slip::bench::run(options); }, slip::bench::print_table);
}
