// SPDX-License-Identifier: Apache-2.0
// Measures what follows a target pass on a CPU: the distribution of each row, the acceptance of each proposal and the
// observation for the learner, on one thread and on several in turns. The logits are random and given; no model runs.
#include "engine/speculative/local_verifier.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "bench/common/result.h"
#include "cli/progress_line.h"
#include "cli/simulation/samples.h"
#include "common/error.h"
#include "engine/speculative/proposer.h"

namespace slip::bench {
namespace {

using nlohmann::json;

constexpr std::int32_t kPromptTokens = 64;
constexpr std::int32_t kPagesASequence = 2 * kPromptTokens / PagePool::kPageTokens;

struct Options {
  std::int32_t vocab = 131072, k = 3;
  std::vector<int> sequences = {2, 8};
  int threads = 2, rounds = 30;
  bool json = false;
};

struct Sampling {
  const char* name;
  SamplingParams params;
  std::int32_t top_k_observed;
};

std::vector<Sampling> samplings() {
  return {{"greedy", {.temperature = 0, .seed = 1}, 0},
          {"greedy, observed", {.temperature = 0, .seed = 1}, TopK::kDefault},
          {"temperature 0.8", {.temperature = 0.8F, .seed = 1}, 0},
          {"temperature 0.8, top_p 0.95, observed", {.temperature = 0.8F, .top_p = 0.95F, .seed = 1}, TopK::kDefault}};
}

// A model without layers: its passes leave the given logits.
class GivenLogits final : public Worker {
 public:
  GivenLogits(std::int32_t vocab, std::int32_t n_rows)
      : n_rows_(n_rows), cache_(shape(vocab), Dtype::kBFloat16, n_rows * kPagesASequence) {
    config_ = shape(vocab);
    std::mt19937_64 random(1);
    std::normal_distribution<float> normal(0, 3);
    logits_.resize(static_cast<std::size_t>(vocab) * static_cast<std::size_t>(n_rows));
    std::generate(logits_.begin(), logits_.end(), [&] { return normal(random); });
  }

  void run(const StepInput& /*input*/, StepOutput& output) override {
    if (std::exchange(is_written_, true)) return;  // the verifier's memory still holds them
    std::copy(logits_.begin(), logits_.end(), output.logits.row<float>(0));
  }
  const ModelConfig& config() const override { return config_; }
  PagePool& cache() override { return cache_; }
  std::int32_t max_rows() const override { return n_rows_ + kPromptTokens; }
  std::int32_t max_logit_rows() const override { return n_rows_; }

  std::int32_t most_likely(std::int32_t row) const {
    const auto from = logits_.begin() + std::int64_t{row} * config_.vocab_size;
    return static_cast<std::int32_t>(std::max_element(from, from + config_.vocab_size) - from);
  }

 private:
  static ModelConfig shape(std::int32_t vocab) {
    ModelConfig config;
    config.vocab_size = vocab;
    config.hidden_size = config.head_dim = config.intermediate_size = 16;
    config.n_layers = config.n_heads = config.n_kv_heads = 1;
    config.max_positions = 2 * kPromptTokens;
    return config;
  }

  std::int32_t n_rows_;
  bool is_written_ = false;
  ModelConfig config_;
  PagePool cache_;
  std::vector<float> logits_;
};

// A step of `n` sequences with chains that a greedy target accepts.
class Step {
 public:
  Step(const Options& options, int n, const Sampling& sampling, kernels::ThreadPool* pool)
      : worker_(options.vocab, n * (options.k + 1)),
        verifier_(worker_, pool),
        tokens_(kPromptTokens, 1),
        sampling_(sampling),
        proposals_(static_cast<std::size_t>(n)),
        refs_(proposals_.size()) {
    for (std::size_t i = 0; i < proposals_.size(); ++i) {
      for (std::int32_t depth = 0; depth < options.k; ++depth) {
        const auto row = static_cast<std::int32_t>(i) * (options.k + 1) + depth;
        proposals_[i].tokens.push_back(worker_.most_likely(row));
        proposals_[i].parents.push_back(depth - 1);
      }
      refs_[i].tokens = tokens_;
      refs_[i].prompt_tokens = kPromptTokens;
      refs_[i].sampling = &sampling_.params;
      refs_[i].rule = AcceptanceRule::kCoupled;
      pages_.emplace_back(worker_.cache());
      SLIP_CHECK(pages_.back().reserve(kPromptTokens + options.k + 1), "the cache has pages for every sequence");
    }
    for (std::size_t i = 0; i < proposals_.size(); ++i) {
      ScoreTask& task = tasks_.emplace_back();
      task.tokens = std::span(tokens_).last(1);
      task.pages = &pages_[i];
      task.n_cached = kPromptTokens - 1;
      task.proposal = &proposals_[i];
      task.sequence = &refs_[i];
      task.top_k = sampling_.top_k_observed;
    }
  }

  void run() {
    verifier_.score(tasks_);
    n_accepted = 0;
    for (std::size_t i = 0; i < tasks_.size(); ++i) {
      verifier_.verify(i, result_);
      n_accepted += result_.accepted.size();
      if (tasks_[i].top_k == 0) continue;
      verifier_.observed(i, 0);
      for (const std::int32_t node : result_.accepted) verifier_.observed(i, node + 1);
    }
  }

  std::size_t n_accepted = 0;

 private:
  GivenLogits worker_;
  LocalVerifier verifier_;
  std::vector<std::int32_t> tokens_;
  Sampling sampling_;
  std::vector<Proposal> proposals_;
  std::vector<SequenceRef> refs_;
  std::vector<PageTable> pages_;
  std::vector<ScoreTask> tasks_;
  VerifyResult result_;
};

json measure(const Options& options, int n, const Sampling& sampling, kernels::ThreadPool& pool) {
  Step one(options, n, sampling, nullptr), several(options, n, sampling, &pool);
  Samples of_one, of_several;
  one.run();
  several.run();
  for (int round = 0; round < options.rounds; ++round) {
    of_one.add(seconds_of([&] { one.run(); }));
    of_several.add(seconds_of([&] { several.run(); }));
  }
  SLIP_CHECK(one.n_accepted == several.n_accepted, "threads change no result");
  return {{"sequences", n},
          {"sampling", sampling.name},
          {"rows", one.n_accepted + static_cast<std::size_t>(n)},
          {"one_thread_ms", of_one.median() * 1e3},
          {"threads_ms", of_several.median() * 1e3},
          {"speedup", of_one.median() / of_several.median()}};
}

json run(const Options& options) {
  kernels::ThreadPool pool(options.threads, kernels::Pinning::kOwnCpus);
  pool.pin_caller();
  json result = {{"vocab", options.vocab}, {"k", options.k}, {"threads", options.threads}, {"steps", json::array()}};
  for (const int n : options.sequences) {
    for (const Sampling& sampling : samplings()) {
      cli::redraw_line(std::to_string(n) + " sequences, " + sampling.name);
      result["steps"].push_back(measure(options, n, sampling, pool));
    }
  }
  cli::redraw_line("");
  return result;
}

void print_table(const json& result) {
  std::printf("vocabulary %d, chains of %d, medians in ms\n\n", result["vocab"].get<int>(), result["k"].get<int>());
  std::printf("%9s  %-38s %5s  %10s  %9s  %7s\n", "sequences", "sampling", "rows", "one thread",
              (std::to_string(result["threads"].get<int>()) + " threads").c_str(), "speedup");
  for (const json& step : result["steps"]) {
    std::printf("%9d  %-38s %5zu  %10.3f  %9.3f  %6.2fx\n", step["sequences"].get<int>(),
                step["sampling"].get<std::string>().c_str(), step["rows"].get<std::size_t>(),
                step["one_thread_ms"].get<double>(), step["threads_ms"].get<double>(), step["speedup"].get<double>());
  }
}

}  // namespace
}  // namespace slip::bench

int main(int argc, char** argv) {
  slip::bench::Options options;
  CLI::App app{"Measures verification, sampling and observation after a pass, on one thread and on several."};
  app.add_option("--vocab", options.vocab, "Tokens of the vocabulary")->check(CLI::Range(64, 1 << 20));
  app.add_option("--k", options.k, "Drafted tokens of each sequence")->check(CLI::Range(0, 15));
  app.add_option("--sequences", options.sequences, "Sequences of a step, comma separated")
      ->delimiter(',')
      ->check(CLI::Range(1, 64));
  app.add_option("--threads", options.threads, "Threads to compare with one")->check(CLI::Range(2, 256));
  app.add_option("--rounds", options.rounds, "Number of measurement rounds")->check(CLI::PositiveNumber);
  app.add_flag("--json", options.json, "Print JSON");
  CLI11_PARSE(app, argc, argv);
  return slip::bench::show_result(
      "verify", options.json, [&] { return slip::bench::run(options); }, slip::bench::print_table);
}
