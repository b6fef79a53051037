// SPDX-License-Identifier: Apache-2.0
// Measures what token trees could win before one is built: how often the target's next token is the draft's first,
// second … choice, at which depth, and how well the draft's own probability predicts it. From every position of the
// target's answers the draft proposes a chain; beside each of its tokens the next choices are siblings. From these it
// computes the accepted length of chains and of trees, and their speed for given costs of a row and of a draft pass.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <functional>
#include <limits>
#include <memory>
#include <nlohmann/json.hpp>
#include <numeric>
#include <string>
#include <vector>

#include "bench/common/answer.h"
#include "bench/common/prompts.h"
#include "bench/common/result.h"
#include "bench/ranks/ranks_shapes.h"
#include "cli/progress_line.h"
#include "common/error.h"
#include "engine/engine.h"
#include "engine/speculative/acceptance.h"
#include "text/tokenizer.h"

namespace slip::bench {
namespace {

using nlohmann::json;

constexpr std::int32_t kChunkRows = 64;

struct Options {
  std::string target, draft, chat_template;
  std::vector<std::string> prompts;  // a file of each kind
  std::vector<double> temperatures = {0, 0.8};
  std::size_t n_prompts = 24, width = 4;
  int max_tokens = 64, threads = 1;
  ShapeCosts costs;
  bool json = false;
};

struct Text {
  std::vector<std::int32_t> tokens;  // prompt, then answer
  std::size_t n_prompt = 0;
  SamplingParams sampling;  // seed set
};

// One model that reads a text token by token, in a cache of its own.
class Reader {
 public:
  Reader(std::shared_ptr<const ModelWeights> weights, kernels::ThreadPool& pool)
      : worker_(weights, kChunkRows, 1, PagePool::pages_for(weights->config.max_positions), pool),
        pages_(worker_.cache()),
        logits_(static_cast<std::size_t>(weights->config.vocab_size)) {
    SLIP_CHECK(pages_.reserve(weights->config.max_positions), "the cache was made for one text");
  }
  // Logits of the token after tokens[0 … end); tokens before `begin` are in the cache.
  std::span<const float> read(std::span<const std::int32_t> tokens, std::size_t begin, std::size_t end) {
    for (std::size_t at = begin; at < end; at += kChunkRows) step(tokens, at, std::min(end, at + kChunkRows));
    return logits_;
  }

 private:
  void step(std::span<const std::int32_t> tokens, std::size_t begin, std::size_t end) {
    const auto n = static_cast<std::int32_t>(end - begin);
    std::array<std::int32_t, kChunkRows> positions{};
    std::iota(positions.begin(), positions.begin() + n, static_cast<std::int32_t>(begin));
    const std::int32_t row_begin[2] = {0, n}, last[1] = {n - 1};
    KvView kv;
    kv.pages = &pages_;
    kv.n_cached = static_cast<std::int32_t>(begin);
    StepInput input;
    input.tokens = tokens.subspan(begin, end - begin);
    input.positions = std::span(positions).first(static_cast<std::size_t>(n));
    input.row_begin = row_begin;
    input.kv = std::span(&kv, 1);
    input.logit_rows = last;
    StepOutput output;
    output.logits = TensorView::contiguous(logits_.data(), {1, std::ssize(logits_)});
    worker_.run(input, output);
  }
  LocalWorker worker_;
  PageTable pages_;
  std::vector<float> logits_;
};

// Sums over the rows of one temperature above 0: the w of `width` siblings that has the target's token.
struct Coverage {
  std::vector<double> rejection, gumbel, top;  // [width] counts
  double min_p_q = 0;
};

struct Counts {
  std::size_t rows = 0;
  std::vector<double> ranks;     // [width] counts
  std::vector<Drafted> drafted;  // greedy only
  Coverage coverage;             // sampled only
};

class Bench {
 public:
  explicit Bench(const Options& options)
      : options_(options),
        pool_(options.threads),
        tokenizer_(Tokenizer::load(options.target)),
        chat_(ChatTemplate::load(options.target, options.chat_template)) {
    target_ = ModelWeights::load(options.target, Dtype::kBFloat16);
    draft_ = ModelWeights::load(options.draft, Dtype::kBFloat16);
    if (draft_->config.vocab_size != target_->config.vocab_size) {
      throw Error(ErrorCode::kInvalidArgument, "--draft: its vocabulary is not the target's", {}, "draft");
    }
  }

  // The prompts of the next run().
  void read(const std::string& prompts) {
    prompts_.clear();
    for (const auto& prompt : read_prompts(prompts, 0, options_.n_prompts)) {
      prompts_.push_back(chat_.render(*tokenizer_, {{"user", prompt.text}}, /*add_generation_prompt=*/true));
    }
  }

  Counts run(double temperature) {
    Counts counts;
    counts.ranks.resize(options_.width);
    auto& [rejection, gumbel, top, min_p_q] = counts.coverage;
    for (auto* widths : {&rejection, &gumbel, &top}) widths->resize(options_.width);
    Reader draft(draft_, pool_), target(target_, pool_);
    const auto texts = answers(temperature);
    for (std::size_t i = 0; i < texts.size(); ++i) {
      const Text& text = texts[i];
      std::size_t n_read = 0;
      for (std::size_t at = text.n_prompt; at < text.tokens.size(); ++at, ++counts.rows) {
        const auto logits = draft.read(text.tokens, n_read, at);
        const std::size_t rank = rank_of(logits, text.tokens[at]);
        if (rank < options_.width) counts.ranks[rank] += 1;
        if (temperature == 0) {
          counts.drafted.push_back(chain_from(draft, text, at, logits));
        } else {
          cover(text, at, logits, target.read(text.tokens, n_read, at), counts.coverage);
        }
        n_read = at;
      }
      cli::redraw_line("ranks: temperature " + std::to_string(temperature) + ", prompt " + std::to_string(i + 1) + "/" +
                       std::to_string(texts.size()));
    }
    cli::redraw_line("");
    return counts;
  }

 private:
  // The target's answers, decoded plainly.
  std::vector<Text> answers(double temperature) {
    EngineOptions options;
    options.k = 0;
    options.max_running = 8;
    options.max_waiting = static_cast<std::int32_t>(prompts_.size()) + 1;
    const std::int32_t pages = PagePool::pages_for(target_->config.max_positions) * options.max_running;
    auto worker = std::make_unique<LocalWorker>(target_, options.prefill_chunk + 32, 32, pages, pool_);
    Engine engine(options, std::move(worker), tokenizer_, pool_, nullptr, {});
    std::vector<Text> texts;
    std::vector<std::shared_ptr<Answer>> sinks;
    const std::int32_t most = std::min(target_->config.max_positions, draft_->config.max_positions) - 16;
    for (std::size_t i = 0; i < prompts_.size(); ++i) {
      const auto n_prompt = static_cast<std::int32_t>(prompts_[i].size());
      if (n_prompt + options_.max_tokens > most) continue;
      Request request;
      request.id = {i + 1};
      request.prompt = prompts_[i];
      request.max_tokens = options_.max_tokens;
      request.sampling.temperature = static_cast<float>(temperature);
      request.sampling.seed = 1 + i;
      request.end_ids = target_->config.eos_ids;
      request.learn = false;
      sinks.push_back(std::make_shared<Answer>());
      request.sink = sinks.back();
      texts.push_back({prompts_[i], prompts_[i].size(), request.sampling});
      engine.submit(std::move(request));
    }
    while (engine.step()) {
    }
    for (std::size_t i = 0; i < texts.size(); ++i) {
      texts[i].tokens.insert(texts[i].tokens.end(), sinks[i]->tokens.begin(), sinks[i]->tokens.end());
    }
    return texts;
  }

  // How many tokens the draft finds likelier, equal ones with a lower id included.
  static std::size_t rank_of(std::span<const float> logits, std::int32_t token) {
    const float own = logits[static_cast<std::size_t>(token)];
    std::size_t rank = 0;
    for (std::size_t i = 0; i < logits.size(); ++i) {
      rank += logits[i] > own || (logits[i] == own && static_cast<std::int32_t>(i) < token) ? 1 : 0;
    }
    return rank;
  }

  // The rows that the draft writes here are overwritten by the answer's own.
  Drafted chain_from(Reader& draft, const Text& text, std::size_t at, std::span<const float> logits) {
    Drafted drafted;
    drafted.n_known = std::min(kDeepest, text.tokens.size() - at);
    path_.assign(text.tokens.begin(), text.tokens.begin() + static_cast<std::ptrdiff_t>(at));
    bool on_path = true;
    for (std::size_t depth = 0; depth < drafted.n_known; ++depth) {
      if (depth > 0) logits = draft.read(path_, path_.size() - 1, path_.size());
      top_logprobs(logits, static_cast<std::int32_t>(options_.width), best_);
      for (std::size_t i = 0; i < best_.size(); ++i) drafted.q[depth][i] = std::exp(best_[i].logprob);
      for (std::size_t i = 0; on_path && i < best_.size(); ++i) {
        if (best_[i].id == text.tokens[at + depth]) drafted.rank = i;
      }
      on_path = on_path && drafted.rank == 0;
      if (on_path) ++drafted.n_right, drafted.rank = kWidest;
      path_.push_back(best_.front().id);
    }
    return drafted;
  }

  // Proposes `width` siblings in three ways and counts which of them has the token that the target then says.
  void cover(const Text& text, std::size_t at, std::span<const float> draft, std::span<const float> target,
             Coverage& coverage) {
    RowContext context;
    transform_logits(draft, text.sampling, context, q_);
    transform_logits(target, text.sampling, context, p_);
    for (std::size_t i = 0; i < p_.ids.size(); ++i) {
      coverage.min_p_q += std::min(p_.probabilities[i], q_.probability(p_.ids[i]));
    }
    const RandomAddress address{*text.sampling.seed, 0, static_cast<std::uint32_t>(at - text.n_prompt)};
    const std::int32_t target_token = sample_gumbel(p_, address);
    Proposal drawn;
    drawn.draw_method = DrawMethod::kSampled;
    Distribution left = q_;
    for (std::size_t i = 0; i < options_.width && !left.ids.empty(); ++i) {
      drawn.tokens.push_back(
          sample_inverse_cdf(left, uniform(address, RandomPurpose::kDraft, static_cast<std::uint32_t>(i))));
      drawn.parents.push_back(-1);
      drawn.q.push_back(left);
      remove_id(drawn.tokens.back(), left);
    }
    VerifyResult result;
    accept(
        drawn, [&](std::int32_t) -> const Distribution& { return p_; }, AcceptanceRule::kRejection, address, result);
    if (!result.accepted.empty()) coverage.rejection[static_cast<std::size_t>(result.accepted.front())] += 1;
    left = q_;
    for (std::size_t i = 0; i < options_.width && !left.ids.empty(); ++i) {
      const std::int32_t token = sample_gumbel(left, address);
      if (token == target_token) coverage.gumbel[i] += 1;
      remove_id(token, left);
    }
    const std::size_t rank = rank_of(draft, target_token);
    if (rank < options_.width) coverage.top[rank] += 1;
  }

  const Options& options_;
  kernels::ThreadPool pool_;
  std::shared_ptr<const Tokenizer> tokenizer_;
  ChatTemplate chat_;
  std::shared_ptr<const ModelWeights> target_, draft_;
  std::vector<std::vector<std::int32_t>> prompts_;
  std::vector<std::int32_t> path_;
  std::vector<TokenLogprob> best_;
  Distribution p_, q_;
};

json run_kind(Bench& bench, const std::string& prompts, const Options& options) {
  bench.read(prompts);
  json result = {{"prompts", std::filesystem::path(prompts).filename()}};
  for (const double temperature : options.temperatures) {
    Counts counts = bench.run(temperature);
    const auto shares = [&](std::vector<double> of) {
      for (double& one : of) one /= static_cast<double>(std::max<std::size_t>(1, counts.rows));
      return of;
    };
    json one = {{"temperature", temperature}, {"rows", counts.rows}, {"ranks", shares(counts.ranks)}};
    if (temperature == 0) {
      one["by_depth"] = depths_of(counts.drafted, options.width);
      one["calibration"] = calibration_of(counts.drafted, options.width);
      one["shapes"] = shapes_of(counts.drafted, options.width, options.costs);
    } else {
      one["min_p_q"] = counts.coverage.min_p_q / static_cast<double>(std::max<std::size_t>(1, counts.rows));
      one["coverage"] = {{"rejection", shares(counts.coverage.rejection)},
                         {"gumbel", shares(counts.coverage.gumbel)},
                         {"top", shares(counts.coverage.top)}};
    }
    result["temperatures"].push_back(one);
  }
  return result;
}

json run(const Options& options) {
  Bench bench(options);
  json result = {{"benchmark", "ranks"},
                 {"target", std::filesystem::path(options.target).filename()},
                 {"draft", std::filesystem::path(options.draft).filename()},
                 {"row_cost", options.costs.row},
                 {"draft_cost", options.costs.draft}};
  for (const std::string& prompts : options.prompts) result["kinds"].push_back(run_kind(bench, prompts, options));
  return result;
}

void print_shares(const char* name, const json& shares) {
  std::printf("  %-24s", name);
  for (const auto& share : shares) std::printf(" %.3f", share.get<double>());
  std::printf("\n");
}

void print_kind(const json& kind) {
  for (const auto& of : kind["temperatures"]) {
    std::printf("%s, temperature %.1f, %d rows\n", kind["prompts"].get<std::string>().c_str(),
                of["temperature"].get<double>(), of["rows"].get<int>());
    print_shares("rank 1, 2, …", of["ranks"]);
    if (of.contains("coverage")) {
      std::printf("  Σ min(p, q) %.3f; siblings with the target's token:\n", of["min_p_q"].get<double>());
      for (const auto& [name, shares] : of["coverage"].items()) print_shares(name.c_str(), shares);
      continue;
    }
    for (std::size_t depth = 0; depth < of["by_depth"].size(); ++depth) {
      print_shares(("rank 1, … at depth " + std::to_string(depth + 1)).c_str(), of["by_depth"][depth]);
    }
    std::printf("  %-28s depth width nodes  least f      L  speed\n", "shape");
    for (const auto& row : of["shapes"]) {
      std::printf("  %-28s %5d %5d %5.1f %8.2f %6.2f %6.2f\n", row["shape"].get<std::string>().c_str(),
                  row["depth"].get<int>(), row["width"].get<int>(), row["nodes"].get<double>(),
                  row["least_f"].get<double>(), row["accepted_length"].get<double>(), row["speed"].get<double>());
    }
  }
}

void print_table(const json& result) {
  for (const auto& kind : result["kinds"]) print_kind(kind);
}

}  // namespace
}  // namespace slip::bench

int main(int argc, char** argv) {
  slip::bench::Options options;
  CLI::App app{
      "How often the target's next token is the draft's 1st, 2nd … choice, and what chains and trees with siblings "
      "could win by it."};
  app.add_option("--target", options.target, "Target folder")->required();
  app.add_option("--draft", options.draft, "Draft folder")->required();
  app.add_option("--chat-template", options.chat_template, "Jinja file; without it, the target's own template");
  app.add_option("--prompts", options.prompts,
                 "JSONL files with `prompt`, comma separated; the chat template is applied")
      ->delimiter(',')
      ->check(CLI::ExistingFile)
      ->required();
  app.add_option("--n-prompts", options.n_prompts, "How many of each file");
  app.add_option("--max-tokens", options.max_tokens, "Longest answer, in tokens")->check(CLI::PositiveNumber);
  app.add_option("--temperature", options.temperatures, "Temperatures, comma separated; 0 is greedy")->delimiter(',');
  app.add_option("--width", options.width, "Choices of the draft that are looked at")
      ->check(CLI::Range(std::size_t{1}, slip::bench::kWidest));
  app.add_option("--row-cost", options.costs.row, "Time of one more row of a pass, in passes of one row");
  app.add_option("--draft-cost", options.costs.draft, "Time of a draft pass, in target passes of one row");
  app.add_option("--threads", options.threads, "Threads of the forward pass")->check(CLI::PositiveNumber);
  app.add_flag("--json", options.json, "Print JSON");
  CLI11_PARSE(app, argc, argv);
  return slip::bench::show_result(
      "ranks", options.json, [&] { return slip::bench::run(options); }, slip::bench::print_table);
}
