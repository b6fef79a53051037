// SPDX-License-Identifier: Apache-2.0
// The engine's scheduler and planner on an event clock: what a load would see, from measured costs and acceptance.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "bench/common_open_loop.h"
#include "bench/common_result.h"
#include "bench/common_simulation.h"
#include "common/error.h"

namespace slip::bench {
namespace {

using nlohmann::json;

struct Options {
  std::string target_costs, draft_costs, trace;
  std::vector<std::string> topics = {"all=0.5"}, arms = {"auto", "none"};
  std::vector<double> rates;
  OtherCosts other;
  double scale = 1, duration_s = 60;
  int max_tokens = 128, prompt_tokens = 100, k = 8, max_running = 16, prefill_chunk = 256;
  std::int32_t cache_tokens = 65536;
  std::uint64_t seed = 1;
  bool json = false;
};

json read_costs(const std::string& path) {
  std::ifstream file(path);
  if (!file) throw Error(ErrorCode::kNotFound, "cannot open " + path, "make it with build/bench/decode --json");
  const json costs = json::parse(file, nullptr, /*allow_exceptions=*/false);
  if (costs.is_discarded()) throw Error(ErrorCode::kInvalidArgument, path + " is no JSON");
  return costs;
}

// "sql=0.56"
SimulatedTopic topic_of(const std::string& text, int prompt_tokens) {
  const auto equals = text.find('=');
  double alpha = -1;
  if (equals != std::string::npos && !CLI::detail::lexical_cast(text.substr(equals + 1), alpha)) alpha = -1;
  if (!(alpha >= 0 && alpha <= 1)) {
    throw Error(ErrorCode::kInvalidArgument, "--topics: '" + text + "' is no name=α with α from 0 to 1");
  }
  return {text.substr(0, equals), alpha, prompt_tokens};
}

// auto: the planner; lengths: the planner without early stops; none: plain decoding; k3: always three drafted tokens
EngineOptions options_of(const std::string& arm, const Options& options) {
  EngineOptions engine;
  engine.max_running = options.max_running;
  engine.prefill_chunk = options.prefill_chunk;
  engine.max_waiting = 1 << 20;
  engine.seed = options.seed;
  engine.k = arm == "none" ? 0 : options.k;
  engine.stop_early = arm == "auto";
  engine.adaptive_k = arm == "auto" || arm == "lengths";
  if (arm.starts_with("k") && !CLI::detail::lexical_cast(arm.substr(1), engine.k)) engine.k = -1;
  if ((!engine.adaptive_k && arm != "none" && !arm.starts_with("k")) || engine.k < 0 || engine.k > kMaxProposalNodes) {
    throw Error(ErrorCode::kInvalidArgument, "--arms: '" + arm + "' is none of auto, lengths, none, k1 … k16");
  }
  return engine;
}

json run(const Options& options) {
  const PassCosts target(read_costs(options.target_costs)), draft(read_costs(options.draft_costs));
  std::vector<SimulatedTopic> topics;
  for (const std::string& text : options.topics) topics.push_back(topic_of(text, options.prompt_tokens));
  json result = {{"duration_s", options.duration_s}, {"loads", json::array()}};
  const std::vector<double> rates = options.trace.empty() ? options.rates : std::vector<double>{0};
  if (rates.empty()) throw Error(ErrorCode::kInvalidArgument, "no load is given", "give --rate or --trace");
  for (const double rate : rates) {
    const auto arrivals = options.trace.empty()
                              ? poisson_arrivals(rate, options.duration_s, options.max_tokens, options.seed)
                              : trace_arrivals(options.trace, options.scale, options.duration_s, options.max_tokens);
    json load = {{"requests", arrivals.size()}};
    if (rate > 0) load["rate_per_s"] = rate;
    for (const std::string& arm : options.arms) {
      show_progress("simulate: " + std::to_string(arrivals.size()) + " requests, " + arm);
      load["arms"][arm] = summarize({simulate({target, draft, options.other, topics, options_of(arm, options),
                                               options.cache_tokens, options.cache_tokens, options.seed},
                                              arrivals)});
    }
    result["loads"].push_back(load);
  }
  show_progress("");
  return result;
}

void print_table(const json& result) {
  for (const json& load : result["loads"]) {
    std::printf("%ld requests in %.0f s\n", load["requests"].get<long>(), result["duration_s"].get<double>());
    std::printf("%-8s%10s%10s%12s%12s%12s%12s%8s\n", "", "TTFT ms", "ITL ms", "ITL p99 ms", "e2e ms", "e2e p99 ms",
                "tokens/s", "α");
    for (const auto& [name, arm] : load["arms"].items()) {
      if (arm["e2e_ms"]["mean"].is_null()) continue;
      const auto at = [&](const char* what, const char* which) { return arm[what][which].get<double>(); };
      std::printf("%-8s%10.1f%10.2f%12.2f%12.1f%12.1f%12.1f%8.2f\n", name.c_str(), at("ttft_ms", "mean"),
                  arm["itl_ms"]["mean"].is_null() ? 0 : at("itl_ms", "mean"),
                  arm["itl_ms"]["p99"].is_null() ? 0 : at("itl_ms", "p99"), at("e2e_ms", "mean"), at("e2e_ms", "p99"),
                  arm["tokens_per_s"].get<double>(), arm["alpha"].get<double>());
    }
  }
}

void add_options(CLI::App& app, Options& options) {
  app.add_option("--target-costs", options.target_costs,
                 "What build/bench/decode --model TARGET --layout both --json printed, with two contexts and a prompt")
      ->required();
  app.add_option("--draft-costs", options.draft_costs, "The same for the draft")->required();
  app.add_option("--topics", options.topics, "name=α, comma separated; requests take them in turns")->delimiter(',');
  app.add_option(
         "--arms", options.arms,
         "auto (the planner), lengths (without early stops), none (plain decoding), k1 … k16 (that many tokens)")
      ->delimiter(',');
  auto* rate = app.add_option("--rate", options.rates, "Requests per second, Poisson arrivals; several: one load each")
                   ->delimiter(',')
                   ->check(CLI::PositiveNumber);
  app.add_option("--trace", options.trace, "CSV of TIMESTAMP,ContextTokens,GeneratedTokens to take arrivals from")
      ->excludes(rate);
  app.add_option("--scale", options.scale, "Speed-up of the trace")->check(CLI::PositiveNumber);
  app.add_option("--duration", options.duration_s, "Seconds in which requests start")->check(CLI::PositiveNumber);
  app.add_option("--max-tokens", options.max_tokens, "Tokens of an answer")->check(CLI::PositiveNumber);
  app.add_option("--prompt-tokens", options.prompt_tokens, "Tokens of a prompt")->check(CLI::PositiveNumber);
  app.add_option("--k", options.k, "Most drafted tokens of the planner")->check(CLI::Range(0, kMaxProposalNodes));
  app.add_option("--max-running", options.max_running, "Sequences in one step")->check(CLI::Range(1, 1024));
  app.add_option("--prefill-chunk", options.prefill_chunk, "Prompt rows of one step")->check(CLI::Range(1, 65536));
  app.add_option("--cache-tokens", options.cache_tokens, "Tokens in the target's cache")
      ->check(CLI::Range(64, 1 << 24));
  app.add_option("--step-us", options.other.step_us, "Time of a step beside its passes")->check(CLI::NonNegativeNumber);
  app.add_option("--request-us", options.other.request_us, "Time of a request outside the engine")
      ->check(CLI::NonNegativeNumber);
  app.add_option("--seed", options.seed, "Seed of arrivals and of acceptance");
  app.add_flag("--json", options.json, "Print JSON");
}

}  // namespace
}  // namespace slip::bench

int main(int argc, char** argv) {
  slip::bench::Options options;
  CLI::App app{
      "Simulates a load: the engine's own queue, admission and planner on an event clock, with measured costs of "
      "passes "
      "and a measured acceptance rate."};
  slip::bench::add_options(app, options);
  CLI11_PARSE(app, argc, argv);
  return slip::bench::show_result(
      "simulate", options.json, [&] { return slip::bench::run(options); }, slip::bench::print_table);
}
