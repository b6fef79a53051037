// SPDX-License-Identifier: Apache-2.0
// Measures the cost of a forward pass by its number of rows, against the machine's limits. Decoding one token reads
// every weight once, so bytes / bandwidth is the lower bound. Rows verified together should cost little more than one,
// until arithmetic takes longer than reading; a prompt is limited by arithmetic. All compared values are measured in
// turns within one run, so drift of the machine affects them equally.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "bench/common/matrix_peak.h"
#include "bench/common/products.h"
#include "bench/common/read_probes.h"
#include "bench/common/result.h"
#include "cli/progress_line.h"
#include "cli/simulation/decoding.h"
#include "cli/simulation/samples.h"
#include "common/error.h"
#include "engine/engine.h"

namespace slip::bench {
namespace {

constexpr std::int32_t kMostRows = 1024;
constexpr double kStepBudgetSeconds = 0.03;  // for one kind of step in one round

struct Options {
  std::string model, dtype = "bfloat16", layout = "both";
  std::vector<std::int32_t> rows = {1, 2, 4, 8, 16, 32}, contexts = {128}, chunks = {EngineOptions{}.prefill_chunk};
  std::vector<std::int32_t> prompt_ids;
  std::int32_t prefill = 512, n_greedy = 32;
  int threads = 1, rounds = 10;
  bool turns = false, json = false;
};

// The sequences of a step's rows: all rows of one sequence, or one row of each of several.
enum class Layout : std::uint8_t { kRows, kSequences };

const char* layout_name(Layout layout) {
  return layout == Layout::kRows ? "rows" : "sequences";
}

StepShape step_shape(Layout layout, std::int32_t context, std::int32_t n) {
  return layout == Layout::kRows ? StepShape{context, 1, n} : StepShape{context, n, 1};
}

std::vector<std::int32_t> sorted_with(std::vector<std::int32_t> values, std::int32_t also) {
  values.push_back(also);
  std::sort(values.begin(), values.end());
  values.erase(std::unique(values.begin(), values.end()), values.end());
  return values;
}

DecodingSize size_of(const Options& options) {
  DecodingSize size;
  size.most_context = *std::max_element(options.contexts.begin(), options.contexts.end());
  const std::int32_t most = *std::max_element(options.rows.begin(), options.rows.end());
  size.most_rows = options.layout == "sequences" ? 1 : most;
  size.most_sequences = options.layout == "rows" ? 1 : most;
  size.most_step_rows = most;
  size.prefill_tokens = options.prefill;
  size.most_chunk = *std::max_element(options.chunks.begin(), options.chunks.end());
  return size;
}

// The model's own shapes at a prompt's length, and two square ones that libraries are optimized for.
std::vector<ProductShape> onednn_shapes(const ModelConfig& config, std::int32_t rows) {
  const std::int64_t hidden = config.hidden_size, ffn = config.intermediate_size;
  return {{rows, hidden, ffn}, {rows, hidden, hidden}, {rows, ffn, hidden}, {1024, 1024, 1024}, {2048, 2048, 2048}};
}

class DecodeBench {
 public:
  explicit DecodeBench(const Options& options)
      : options_(options),
        dtype_(options.dtype == "float32" ? Dtype::kFloat32 : Dtype::kBFloat16),
        pool_(options.threads),
        weights_(ModelWeights::load(options.model, dtype_)),
        decoding_(weights_, size_of(options), pool_),
        products_(weights_, most_rows(options), pool_),
        reads_(options.threads),
        peak_(dtype_, onednn_shapes(weights_->config, std::max(options.prefill, 1)), pool_) {
    for (const std::int32_t context : options.contexts) {
      for (const Layout layout : {Layout::kRows, Layout::kSequences}) {
        if (options.layout != "both" && options.layout != layout_name(layout)) continue;
        for (const std::int32_t n : sorted_with(options.rows, 1)) steps_.push_back({layout, context, n, {}});
      }
    }
    for (const std::int32_t n : sorted_with(options.rows, 1)) step_products_.push_back({n, {}});
    if (options.prefill == 0) return;
    for (const std::int32_t chunk : options.chunks) prefills_.push_back({std::min(chunk, options.prefill), {}, {}});
  }

  nlohmann::json run() {
    if (!options_.prompt_ids.empty()) {
      const nlohmann::json greedy = decoding_.continue_greedily(options_.prompt_ids, options_.n_greedy);
      std::cout << "greedy " << greedy << std::endl;
    }
    decoding_.fill();
    for (const Step& step : steps_) decoding_.check(step.shape());
    for (int round = 0; round < options_.rounds; ++round) {
      await_turn();
      measure_round();
      cli::redraw_line("decode: round " + std::to_string(round + 1) + "/" + std::to_string(options_.rounds));
    }
    cli::redraw_line("");
    return to_json();
  }

 private:
  struct Step {
    Layout layout;
    std::int32_t context, n;
    Samples samples;
    StepShape shape() const { return step_shape(layout, context, n); }
  };
  struct StepProducts {
    std::int32_t n;
    Samples samples;
  };
  struct Prefill {
    std::int32_t chunk;
    Samples samples, products;
  };

  static std::int32_t most_rows(const Options& options) {
    const DecodingSize size = size_of(options);
    return std::max(size.most_step_rows, size.most_chunk);
  }

  // Waits for a line on standard input, so that another program can measure between the rounds.
  void await_turn() const {
    if (!options_.turns) return;
    std::cout << "turn" << std::endl;
    std::string line;
    if (!std::getline(std::cin, line)) throw Error(ErrorCode::kCancelled, "standard input ended before the last turn");
  }

  void measure_round() {
    reads_.round();
    peak_.round();
    for (Step& step : steps_) {
      step.samples.measure([&] { decoding_.step(step.shape()); }, kStepBudgetSeconds);
      // Timed beside steps of the same size, since the result is the products' share of the step.
      for (StepProducts& products : step_products_) {
        if (products.n != step.n) continue;
        products.samples.measure([&] { products_.run(products.n, products.n); }, kStepBudgetSeconds);
      }
    }
    for (Prefill& prefill : prefills_) {
      prefill.samples.add(seconds_of([&] { decoding_.prefill(options_.prefill, prefill.chunk); }));
      prefill.products.add(seconds_of([&] { prefill_products(prefill.chunk); }));
      peak_.sustain(prefill.samples.best());
    }
  }

  void prefill_products(std::int32_t chunk) {
    for (std::int32_t at = 0; at < options_.prefill; at += chunk) {
      products_.run(std::min(chunk, options_.prefill - at), /*n_logit_rows=*/1);
    }
  }

  double prefill_operations(std::int32_t chunk) const {
    double sum = 0;
    for (std::int32_t at = 0; at < options_.prefill; at += chunk) {
      sum += product_operations(*weights_, std::min(chunk, options_.prefill - at), /*n_logit_rows=*/1);
    }
    return sum;
  }

  const Step& one_row(const Step& as) const {
    return *std::find_if(steps_.begin(), steps_.end(), [&](const Step& step) {
      return step.layout == as.layout && step.context == as.context && step.n == 1;
    });
  }

  nlohmann::json step_json(const Step& step) const {
    const Step& first = one_row(step);
    const Samples& products = std::find_if(step_products_.begin(), step_products_.end(), [&](const auto& entry) {
                                return entry.n == step.n;
                              })->samples;
    const auto bytes = static_cast<double>(decoding_.bytes_read(step.shape()));
    const double operations = product_operations(*weights_, step.n, step.n);
    const double bound = std::max(bytes / reads_.best_bytes_per_s(), operations / peak_.best_flop_per_s());
    const double best = step.samples.best(), median = step.samples.median();
    return {{"layout", layout_name(step.layout)},
            {"context", step.context},
            {"rows", step.n},
            {"ms", 1e3 * median},
            {"best_ms", 1e3 * best},
            {"ratio", median / first.samples.median()},
            {"best_ratio", best / first.samples.best()},
            {"bytes_read", bytes},
            {"operations", operations},
            {"bound_ms", 1e3 * bound},
            {"best_over_bound", best / bound},
            {"bandwidth_share", bytes / median / reads_.median_bytes_per_s()},
            {"best_bandwidth_share", bytes / best / reads_.best_bytes_per_s()},
            {"products_ms", 1e3 * products.median()},
            {"over_products", median / products.median()},
            {"best_over_products", best / products.best()}};
  }

  nlohmann::json prefill_json(const Prefill& prefill) const {
    const double operations = prefill_operations(prefill.chunk), best = prefill.samples.best();
    return {{"tokens", options_.prefill},
            {"chunk", prefill.chunk},
            {"ms", 1e3 * prefill.samples.median()},
            {"best_ms", 1e3 * best},
            {"tokens_per_s", options_.prefill / best},
            {"tflop_s", operations / best / 1e12},
            {"share_of_onednn", operations / best / peak_.onednn_flop_per_s()},
            {"share_of_sustained_onednn", operations / best / peak_.onednn_sustained_flop_per_s()},
            {"products_tflop_s", operations / prefill.products.best() / 1e12},
            {"products_share_of_onednn", operations / prefill.products.best() / peak_.onednn_flop_per_s()},
            {"median_share_of_onednn", operations / prefill.samples.median() / peak_.onednn_median_flop_per_s()}};
  }

  nlohmann::json to_json() const {
    nlohmann::json result = {{"benchmark", "decode"},
                             {"model", std::filesystem::path(options_.model).filename()},
                             {"dtype", options_.dtype},
                             {"isa", kernels::isa_class_name(kernels::isa_class())},
                             {"threads", options_.threads},
                             {"rounds", options_.rounds},
                             {"weight_bytes", decoding_.bytes_read({0, 1, 1})},
                             {"memory", reads_.to_json()},
                             {"arithmetic", peak_.to_json()},
                             {"steps", nlohmann::json::array()},
                             {"prefill", nlohmann::json::array()}};
    for (const Step& step : steps_) result["steps"].push_back(step_json(step));
    for (const Prefill& prefill : prefills_) result["prefill"].push_back(prefill_json(prefill));
    return result;
  }

  const Options& options_;
  Dtype dtype_;
  kernels::ThreadPool pool_;
  std::shared_ptr<const ModelWeights> weights_;
  Decoding decoding_;
  Products products_;
  ReadProbes reads_;
  MatrixPeak peak_;
  std::vector<Step> steps_;
  std::vector<StepProducts> step_products_;
  std::vector<Prefill> prefills_;
};

double number(const nlohmann::json& row, const char* key) {
  return row[key].get<double>();
}

void print_table(const nlohmann::json& result) {
  const auto& memory = result["memory"];
  const auto& arithmetic = result["arithmetic"];
  std::printf("%s, %d threads, %s weights of %.1f MB\n", result["isa"].get<std::string>().c_str(),
              result["threads"].get<int>(), result["dtype"].get<std::string>().c_str(),
              number(result, "weight_bytes") / 1e6);
  std::printf("memory reads %.1f GB/s (median %.1f): %s\n", number(memory, "best_gb_s"), number(memory, "median_gb_s"),
              memory["won"].get<std::string>().c_str());
  std::printf("matrices multiply at %.3f TFLOP/s: %s; oneDNN reaches %.3f\n\n", number(arithmetic, "best_tflop_s"),
              arithmetic["won"].get<std::string>().c_str(), number(arithmetic, "onednn_tflop_s"));
  std::printf("           con-         median     best    / one row      bound   best /  bandwidth   median /\n");
  std::printf("layout     text  rows       ms       ms  median  best       ms    bound      share   products\n");
  for (const auto& step : result["steps"]) {
    std::printf("%-9s %5d  %4d  %7.3f  %7.3f  %6.2f  %4.2f  %7.3f  %7.2f  %8.0f%%  %9.2f\n",
                step["layout"].get<std::string>().c_str(), step["context"].get<int>(), step["rows"].get<int>(),
                number(step, "ms"), number(step, "best_ms"), number(step, "ratio"), number(step, "best_ratio"),
                number(step, "bound_ms"), number(step, "best_over_bound"), 100 * number(step, "best_bandwidth_share"),
                number(step, "over_products"));
  }
  for (const auto& prefill : result["prefill"]) {
    std::printf(
        "\nprefill of %d tokens in chunks of %d: %.0f tokens/s, %.3f TFLOP/s, %.0f %% of oneDNN's best and %.0f %% of "
        "what it sustains for as long; products alone %.0f %% of its best; median of its median %.0f %%",
        prefill["tokens"].get<int>(), prefill["chunk"].get<int>(), number(prefill, "tokens_per_s"),
        number(prefill, "tflop_s"), 100 * number(prefill, "share_of_onednn"),
        100 * number(prefill, "share_of_sustained_onednn"), 100 * number(prefill, "products_share_of_onednn"),
        100 * number(prefill, "median_share_of_onednn"));
  }
  std::printf("\n");
}

void add_options(CLI::App& app, Options& options) {
  const auto rows = CLI::Range(1, kMostRows);
  app.add_option("--model", options.model, "Model folder")->required();
  app.add_option("--layout", options.layout,
                 "rows: all rows of one sequence; sequences: one row of each; both: in turns")
      ->check(CLI::IsMember({"rows", "sequences", "both"}));
  app.add_option("--rows", options.rows, "Row counts, comma separated")->delimiter(',')->check(rows);
  app.add_option("--context", options.contexts, "Tokens in the cache before the rows, comma separated")
      ->delimiter(',')
      ->check(CLI::PositiveNumber);
  app.add_option("--prefill", options.prefill, "Prompt length in tokens; 0: no prompt")->check(CLI::Range(0, 1 << 20));
  app.add_option("--chunk", options.chunks, "Rows of one pass over the prompt, comma separated")
      ->delimiter(',')
      ->check(rows);
  app.add_option("--dtype", options.dtype, "Number format of the weights")
      ->check(CLI::IsMember({"bfloat16", "float32"}));
  app.add_option("--threads", options.threads, "Threads of the forward pass, and the most of the probes")
      ->check(CLI::PositiveNumber);
  app.add_option("--rounds", options.rounds, "Number of measurement rounds")->check(CLI::PositiveNumber);
  app.add_option("--prompt-ids", options.prompt_ids,
                 "Token ids to continue greedily first, for other programs to compare with")
      ->delimiter(',');
  app.add_option("--greedy", options.n_greedy, "Number of tokens to continue --prompt-ids by")
      ->check(CLI::PositiveNumber);
  app.add_flag("--turns", options.turns, "Before each round print `turn` and wait for a line on standard input");
  app.add_flag("--json", options.json, "Print JSON");
}

}  // namespace
}  // namespace slip::bench

int main(int argc, char** argv) {
  slip::bench::Options options;
  CLI::App app{"Measures the forward pass by its number of rows against memory, arithmetic and its products alone."};
  slip::bench::add_options(app, options);
  CLI11_PARSE(app, argc, argv);
  return slip::bench::show_result(
      "decode", options.json, [&] { return slip::bench::DecodeBench(options).run(); }, slip::bench::print_table);
}
