// SPDX-License-Identifier: Apache-2.0
// Measures tokens per second by draft length on real prompts, and with lengths and siblings that the engine chooses,
// with the explaining quantities: α, accepted length L, the draft's cost per token c and the cost of verifying k + 1
// rows. Prints the upper bound L / (c·k + T(k+1)/T(1)) beside the measured speedup. k = 0 is plain decoding without a
// draft. The draft lengths, and the passes that measure T, take turns, in reverse order every second round, so drift of
// the machine affects all equally.
// Each arm keeps its engine, so that one that plans has learned its costs by the second round; the first one is no
// part of the figures.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <tuple>
#include <vector>

#include "bench/common/answer.h"
#include "bench/common/prompts.h"
#include "bench/common/result.h"
#include "cli/progress_line.h"
#include "cli/simulation/decoding.h"
#include "cli/simulation/samples.h"
#include "common/clock.h"
#include "common/error.h"
#include "engine/engine.h"
#include "engine/speculative/proposal.h"
#include "text/tokenizer.h"

namespace slip::bench {
namespace {

constexpr double kStepBudgetSeconds = 0.1;  // for one kind of step between two runs

// What is compared: chains of a fixed length, or what the engine plans with up to `width` choices for one place.
struct Arm {
  int k = 0, width = 1;
  bool planned = false;
  bool operator<(const Arm& other) const {
    return std::tie(planned, k, width) < std::tie(other.planned, other.k, other.width);
  }
  std::string name() const { return planned ? "planned, width " + std::to_string(width) : "k = " + std::to_string(k); }
};

struct Options {
  std::string target, draft, chat_template, prompts;
  std::vector<int> k = {0, 3, 5}, planned;
  std::size_t n_prompts = 40;
  int max_tokens = 96, rounds = 3, threads = 1, concurrency = 1;
  double temperature = 0, skip_share = 0;
  bool json = false;
};

// Sums over one draft length's runs. The `decoding_` members exclude steps that process prompts (the target's or the
// draft's), whose cost does not depend on draft length.
struct Totals final : StepListener {
  std::int64_t tokens = 0, proposed = 0, accepted = 0, first_rejections = 0;
  std::int64_t decoding_tokens = 0, decoding_steps = 0;  // a step counts once per sequence
  std::int64_t decoding_us = 0, draft_us = 0, drafted = 0;
  double seconds = 0;
  void on_step(const StepFigures& figures) noexcept override {
    if (figures.prefill_rows > 0) return;
    decoding_tokens += figures.committed;
    decoding_steps += figures.n_decoding;
    decoding_us += figures.step_us;
    draft_us += figures.draft_us;
    drafted += figures.proposed;
  }
  void on_finished(const RequestSummary& summary) noexcept override {
    tokens += summary.figures.output_tokens;
    proposed += summary.figures.proposed;
    accepted += summary.figures.accepted;
    first_rejections += summary.figures.first_rejections;
  }
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
      live_draft_ = std::make_shared<LiveDraft>(DraftId{0}, "draft", version);
    }
    const auto chat = ChatTemplate::load(options.target, options.chat_template);
    for (const auto& prompt : read_prompts(options.prompts, options.skip_share, options.n_prompts)) {
      prompts_.push_back(chat.render(*tokenizer_, {{"user", prompt.text}}, /*add_generation_prompt=*/true));
    }
  }

  // One pass over all prompts, added to `totals`, which must stay where it is.
  void run(const Arm& arm, Totals& totals) {
    Engine& engine = engine_of(arm, totals);
    std::vector<std::shared_ptr<Answer>> answers;
    for (std::size_t i = 0; i < prompts_.size(); ++i) answers.push_back(std::make_shared<Answer>());
    const auto start = monotonic_us();
    for (std::size_t i = 0; i < prompts_.size(); ++i) engine.submit(request(i, arm.k, answers[i]));
    while (engine.step()) {
    }
    totals.seconds += static_cast<double>(monotonic_us() - start) / 1e6;
    check(arm, answers);
  }

  // A step of k + 1 rows per sequence, at the average position within an answer.
  StepShape step_shape(int k) const {
    std::size_t prompt_tokens = 0;
    for (const auto& prompt : prompts_) prompt_tokens += prompt.size();
    const auto mean = static_cast<std::int32_t>(prompt_tokens / std::max<std::size_t>(1, prompts_.size()));
    const std::int32_t room = weights_->config.max_positions - k - 1;
    return {std::min(mean + options_.max_tokens / 2, room), options_.concurrency, k + 1};
  }

  std::unique_ptr<Decoding> decoding(int most_k) {
    const StepShape shape = step_shape(most_k);
    DecodingSize size;
    size.most_context = shape.context;
    size.most_sequences = shape.n_sequences;
    size.most_rows = shape.n_rows;
    size.most_step_rows = shape.n_rows * shape.n_sequences;
    auto decoding = std::make_unique<Decoding>(weights_, size, pool_);
    decoding->fill();
    return decoding;
  }

 private:
  Engine& engine_of(const Arm& arm, Totals& totals) {
    std::unique_ptr<Engine>& engine = engines_[arm];
    if (engine != nullptr) return *engine;
    EngineOptions engine_options;
    engine_options.k = arm.k;
    engine_options.adaptive_k = engine_options.stop_early = arm.planned;
    engine_options.tree_width = arm.width;
    engine_options.max_running = options_.concurrency;
    engine_options.max_waiting = static_cast<std::int32_t>(prompts_.size()) + 1;
    const std::int32_t pages = weights_->config.max_positions / PagePool::kPageTokens * options_.concurrency;
    const std::int32_t rows = engine_options.prefill_chunk + 32 * options_.concurrency;
    auto worker = std::make_unique<LocalWorker>(weights_, rows, 32 * options_.concurrency, pages, pool_);
    engine = std::make_unique<Engine>(engine_options, std::move(worker), tokenizer_, pool_, nullptr,
                                      std::vector<StepListener*>{&totals});
    return *engine;
  }
  Request request(std::size_t i, int k, const std::shared_ptr<TokenSink>& sink) const {
    Request request;
    request.id = {i + 1};
    request.prompt = prompts_[i];
    request.sampling.temperature = static_cast<float>(options_.temperature);
    request.sampling.seed = 1 + i;
    request.max_tokens =
        std::min<std::int32_t>(options_.max_tokens, weights_->config.max_positions - std::ssize(prompts_[i]));
    request.end_ids = weights_->config.eos_ids;
    request.draft = k > 0 ? live_draft_ : nullptr;
    request.learn = false;
    request.sink = sink;
    return request;
  }

  // Checks that the answers are unchanged; a speed with other answers would not count.
  void check(const Arm& arm, const std::vector<std::shared_ptr<Answer>>& answers) {
    for (std::size_t i = 0; i < answers.size(); ++i) {
      if (expected_.size() == i) expected_.push_back(answers[i]->tokens);
      if (answers[i]->tokens == expected_[i]) continue;
      throw Error(ErrorCode::kInternal, "prompt " + std::to_string(i + 1) + " is answered differently: " + arm.name());
    }
  }

  const Options& options_;
  kernels::ThreadPool pool_;
  std::shared_ptr<const Tokenizer> tokenizer_;
  std::shared_ptr<const ModelWeights> weights_;
  std::shared_ptr<LiveDraft> live_draft_;
  std::vector<std::vector<std::int32_t>> prompts_;
  std::vector<std::vector<std::int32_t>> expected_;  // of each prompt, from the first run
  std::map<Arm, std::unique_ptr<Engine>> engines_;
};

double ratio(double a, double b) {
  return b > 0 ? a / b : 0;
}

// The expected speedup of k drafted tokens by the analysis of online speculative decoding (after Leviathan et al.,
// 2023): each is accepted with probability α and costs c target steps, and verifying is free. (1 − α^(k+1)) / ((1 −
// α)(c·k + 1)).
double osd_speedup(double alpha, double c, int k) {
  const double length = alpha < 1 ? (1 - std::pow(alpha, k + 1)) / (1 - alpha) : k + 1;
  return length / (c * k + 1);
}

// `step_seconds`, `plain_step_seconds`: T(k + 1) and T(1), as means, to compare with the engine's sums. What is planned
// has no one length, so no bound.
nlohmann::json report(const Arm& arm, const Totals& totals, const Totals& plain, double step_seconds,
                      double plain_step_seconds) {
  const auto per_second = [](const Totals& of) { return ratio(static_cast<double>(of.tokens), of.seconds); };
  const auto decoding_per_us = [](const Totals& of) {
    return ratio(static_cast<double>(of.decoding_tokens), static_cast<double>(of.decoding_us));
  };
  const double steps = static_cast<double>(totals.decoding_steps);
  const double length = ratio(static_cast<double>(totals.decoding_tokens), steps);
  const double alpha =
      ratio(static_cast<double>(totals.accepted), static_cast<double>(totals.accepted + totals.first_rejections));
  const double speedup = ratio(decoding_per_us(totals), decoding_per_us(plain));
  nlohmann::json found = {{"arm", arm.name()},
                          {"k", arm.k},
                          {"width", arm.width},
                          {"tokens_per_s", per_second(totals)},
                          {"speedup_with_prompts", ratio(per_second(totals), per_second(plain))},
                          {"speedup", speedup},
                          {"alpha", totals.proposed > 0 ? nlohmann::json(alpha) : nlohmann::json(nullptr)},
                          {"accepted_length", length},
                          {"proposed_nodes", ratio(static_cast<double>(totals.drafted), steps)}};
  if (arm.planned) return found;
  const double draft_us = ratio(static_cast<double>(totals.draft_us), static_cast<double>(totals.drafted));
  const double c = draft_us / 1e6 / plain_step_seconds, t_ratio = step_seconds / plain_step_seconds;
  const double bound = length / (c * arm.k + t_ratio);
  found.update({{"draft_token_us", draft_us},
                {"c", c},
                {"t_ratio", t_ratio},
                {"bound", bound},
                {"share_of_bound", speedup / bound},
                {"osd_speedup", osd_speedup(alpha, c, arm.k)}});
  return found;
}

std::vector<Arm> arms_of(const Options& options) {
  std::vector<Arm> arms;
  for (const int k : options.k) arms.push_back({.k = k});
  if (std::find(options.k.begin(), options.k.end(), 0) == options.k.end()) arms.insert(arms.begin(), Arm{});
  for (const int width : options.planned) {
    arms.push_back({.k = kMaxProposalNodes / 2, .width = width, .planned = true});  // as serve does by default
  }
  return arms;
}

nlohmann::json run(const Options& options) {
  Bench bench(options);
  const std::vector<Arm> arms = arms_of(options);
  std::vector<int> lengths;
  for (const Arm& arm : arms) {
    if (!arm.planned) lengths.push_back(arm.k);
  }
  const auto decoding = bench.decoding(*std::max_element(lengths.begin(), lengths.end()));
  std::map<Arm, Totals> totals;
  std::map<int, Samples> steps;
  for (const int k : lengths) decoding->check(bench.step_shape(k));
  for (const Arm& arm : arms) {
    bench.run(arm, totals[arm]);
    totals[arm] = {};
  }
  std::vector<Arm> order = arms;
  for (int round = 0; round < options.rounds; ++round) {
    for (const Arm& arm : order) {
      bench.run(arm, totals[arm]);
      for (const int also : lengths) {
        steps[also].measure([&] { decoding->step(bench.step_shape(also)); }, kStepBudgetSeconds);
      }
      cli::redraw_line("speculate: round " + std::to_string(round + 1) + "/" + std::to_string(options.rounds) + " " +
                       arm.name());
    }
    std::reverse(order.begin(), order.end());
    std::reverse(lengths.begin(), lengths.end());
  }
  cli::redraw_line("");
  nlohmann::json result = {{"benchmark", "speculate"},
                           {"target", std::filesystem::path(options.target).filename()},
                           {"draft", std::filesystem::path(options.draft).filename()},
                           {"prompts", std::filesystem::path(options.prompts).filename()},
                           {"isa", kernels::isa_class_name(kernels::isa_class())},
                           {"threads", options.threads},
                           {"concurrency", options.concurrency},
                           {"temperature", options.temperature},
                           {"plain_step_ms", 1e3 * steps[0].mean()},
                           {"step_context", bench.step_shape(0).context},
                           {"runs", nlohmann::json::array()}};
  for (const Arm& arm : arms) {
    const double step_seconds = arm.planned ? 0 : steps[arm.k].mean();
    result["runs"].push_back(report(arm, totals[arm], totals[Arm{}], step_seconds, steps[0].mean()));
  }
  return result;
}

void print_table(const nlohmann::json& result) {
  std::printf("%s, %d threads; T(1) = %.3f ms behind %d tokens\n", result["isa"].get<std::string>().c_str(),
              result["threads"].get<int>(), result["plain_step_ms"].get<double>(), result["step_context"].get<int>());
  std::printf("                                 speed-up                                            bound: L/");
  std::printf("    reached    OSD\n");
  std::printf("                 tokens/s  decoding   all      α      L  nodes       c  T(k+1)/T(1)  (ck+T/T(1))");
  std::printf("   of it  formula\n");
  for (const auto& row : result["runs"]) {
    const auto of = [&](const char* key) {
      return !row.contains(key) || row[key].is_null() ? 0.0 : row[key].get<double>();
    };
    std::printf("%-16s %8.1f %9.2f %5.2f %6.3f %6.2f %6.2f", row["arm"].get<std::string>().c_str(), of("tokens_per_s"),
                of("speedup"), of("speedup_with_prompts"), of("alpha"), of("accepted_length"), of("proposed_nodes"));
    if (row.contains("bound")) {
      std::printf(" %7.4f %12.2f %12.2f %7.3f %8.2f", of("c"), of("t_ratio"), of("bound"), of("share_of_bound"),
                  of("osd_speedup"));
    }
    std::printf("\n");
  }
}

}  // namespace
}  // namespace slip::bench

int main(int argc, char** argv) {
  slip::bench::Options options;
  CLI::App app{
      "Measures tokens per second by draft length with α, accepted length and costs, beside what these allow at most."};
  app.add_option("--target", options.target, "Target folder")->required();
  app.add_option("--draft", options.draft, "Draft folder")->required();
  app.add_option("--chat-template", options.chat_template, "Jinja file; without it, the target's own template");
  app.add_option("--prompts", options.prompts, "JSONL with `prompt`; the chat template is applied")->required();
  app.add_option("--n-prompts", options.n_prompts, "How many of them");
  app.add_option("--skip-share", options.skip_share, "First share of the file to leave out");
  app.add_option("--k", options.k, "Draft lengths, comma separated; 0 is plain decoding")
      ->delimiter(',')
      ->check(CLI::Range(0, slip::kMaxProposalNodes));
  app.add_option("--planned", options.planned, "Widths of trees that the engine plans, comma separated; 1: chains")
      ->delimiter(',')
      ->check(CLI::Range(1, slip::kMaxTreeWidth));
  app.add_option("--max-tokens", options.max_tokens, "Longest answer, in tokens");
  app.add_option("--temperature", options.temperature, "0 is greedy; else seeded sampling");
  app.add_option("--rounds", options.rounds, "Passes, the lengths taking turns, every second one in reverse order")
      ->check(CLI::PositiveNumber);
  app.add_option("--threads", options.threads, "Threads of the forward pass")->check(CLI::PositiveNumber);
  app.add_option("--concurrency", options.concurrency, "Requests at once")->check(CLI::PositiveNumber);
  app.add_flag("--json", options.json, "Print JSON");
  CLI11_PARSE(app, argc, argv);
  return slip::bench::show_result(
      "speculate", options.json, [&] { return slip::bench::run(options); }, slip::bench::print_table);
}
