// SPDX-License-Identifier: Apache-2.0
// An open-loop load client. Measures a running service (--url), or starts one per arm (--arms) and compares what their
// clients see at the same load.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "bench/common/client.h"
#include "bench/common/load_report.h"
#include "bench/common/mean_ratio.h"
#include "bench/common/open_loop.h"
#include "bench/common/prompts.h"
#include "bench/common/result.h"
#include "bench/common/service.h"
#include "cli/progress_line.h"
#include "common/error.h"
#include "common/file.h"

namespace slip::bench {
namespace {

using nlohmann::json;

struct Options {
  std::string url, trace, prompts, topic, target, draft, config, capacity_arm = "auto", work = "build/load", svg;
  std::vector<std::string> arms;
  std::vector<double> rates, loads = {0.5};
  double scale = 0, duration_s = 30, temperature = 0, ttft_ms = 0, tpot_ms = 0;
  int max_tokens = 128, rounds = 3, capacity_clients = 8;
  std::size_t capacity_requests = 64;
  std::uint64_t seed = 1;
  bool json = false;
};

struct ArmSetting {
  std::vector<std::string> arguments;  // of `slipstream serve`
  bool has_draft = true;
  bool fixed_length = false;  // always proposes --k tokens, of the draft alone
};

// Empty: there is no such arm.
std::optional<ArmSetting> setting_of(const std::string& arm) {
  if (arm == "learning") return ArmSetting{};
  if (arm == "auto") return ArmSetting{.arguments = {"--no-learning"}};
  if (arm == "none") return ArmSetting{.arguments = {"--no-learning", "--no-speculation"}};
  if (arm == "lookup") return ArmSetting{.arguments = {"--no-learning"}, .has_draft = false};
  for (int k = 1; k <= 16; ++k) {
    const std::string length = std::to_string(k);
    if (arm == "k" + length) return ArmSetting{.arguments = {"--no-learning", "--k", length}, .fixed_length = true};
  }
  return std::nullopt;
}

constexpr const char* kFixedLength = "[speculation]\nadaptive = false\nprompt_lookup = false\ntree_width = 1\n";

LoadCalls calls_of(const Options& options) {
  LoadCalls calls{read_prompts(options.prompts), options.topic, options.temperature};
  if (calls.prompts.empty()) {
    throw Error(ErrorCode::kInvalidArgument, options.prompts + " has no prompt",
                "pass JSONL with `prompt` in each row");
  }
  return calls;
}

bool rate_is_missing(const Options& options) {
  return options.rates.empty() && (options.trace.empty() || options.scale == 0);
}

// Empty without --trace.
std::vector<Arrival> trace_of(const Options& options) {
  if (options.trace.empty()) return {};
  const double scale = options.scale > 0 ? options.scale : 1;
  return trace_arrivals(options.trace, {.scale = scale, .max_tokens = options.max_tokens});
}

// The trace, so much faster or slower that it fills `seconds` at `rate`, if no scale is given.
std::vector<Arrival> replayed(const Options& options, std::vector<Arrival> arrivals, double rate, double seconds) {
  if (options.scale > 0) return arrivals;
  const auto n = static_cast<std::size_t>(std::max(1.0, rate * seconds));
  if (n < arrivals.size()) arrivals.resize(n);
  const double span_s = std::max(arrivals.back().at_s, 1e-3);
  return replay_arrivals(std::move(arrivals), {.scale = span_s / seconds});
}

// Of each round; those of a trace are its successive stretches.
std::vector<std::vector<Arrival>> arrivals_of(const Options& options, const std::vector<Arrival>& trace, double rate,
                                              int rounds) {
  std::vector<std::vector<Arrival>> all(static_cast<std::size_t>(rounds));
  if (trace.empty()) {
    for (std::size_t i = 0; i < all.size(); ++i) {
      all[i] = poisson_arrivals(rate, options.duration_s, options.max_tokens, options.seed + i);
    }
    return all;
  }
  for (Arrival arrival : replayed(options, trace, rate, options.duration_s * rounds)) {
    const auto round = static_cast<std::size_t>(arrival.at_s / options.duration_s);
    if (round >= all.size()) break;
    arrival.at_s -= options.duration_s * static_cast<double>(round);
    all[round].push_back(arrival);
  }
  return all;
}

json figures_of(std::vector<LoadFigures> runs, const Options& options) {
  for (LoadFigures& run : runs) {
    for (ReplyFigures& reply : run.replies) reply.slo = slo_targets_of_ms(options.tpot_ms, options.ttft_ms);
  }
  json figures = summarize(runs);
  figures["vllm"] = by_vllm_names(figures);
  figures["llama_cpp"] = by_llama_cpp_names(figures);
  return figures;
}

json run_url(const Options& options) {
  if (rate_is_missing(options)) {
    throw Error(ErrorCode::kInvalidArgument, "no load is given", "give --rate, or --trace with --scale");
  }
  const double rate = options.rates.empty() ? 0 : options.rates.front();
  const auto arrivals = arrivals_of(options, trace_of(options), rate, /*rounds=*/1);
  return figures_of({run_open_loop(parse_url(options.url), calls_of(options), arrivals.front())}, options);
}

// An arm keeps its data directory over the rounds, so its drafts go on learning.
Service start(const Options& options, const std::string& arm) {
  const ArmSetting setting = setting_of(arm).value();
  const auto folder = std::filesystem::path(options.work) / arm;
  std::filesystem::create_directories(folder);
  std::filesystem::path config = options.config;
  if (setting.fixed_length) std::ofstream(config = folder / "service.toml") << kFixedLength;
  std::vector<std::string> arguments = {"--target", options.target, "--data-dir", (folder / "data").string()};
  if (setting.has_draft && !options.draft.empty()) arguments.insert(arguments.end(), {"--draft", options.draft});
  if (!config.empty()) arguments.insert(arguments.begin(), {"-c", config.string()});
  arguments.insert(arguments.end(), setting.arguments.begin(), setting.arguments.end());
  return Service(slipstream_beside(), arguments, folder / "service.log");
}

// Also of the arm that measures capacity, which may be none of the compared ones.
void delete_data(const Options& options) {
  for (const std::string& arm : options.arms) std::filesystem::remove_all(std::filesystem::path(options.work) / arm);
  std::filesystem::remove_all(std::filesystem::path(options.work) / options.capacity_arm);
}

// Requests per second of one arm with closed-loop clients, whose answers are as long as the load's.
double capacity(const Options& options, const LoadCalls& calls, const std::vector<Arrival>& trace) {
  std::vector<Arrival> requests(options.capacity_requests, Arrival{.max_tokens = options.max_tokens});
  for (std::size_t i = 0; i < requests.size() && !trace.empty(); ++i) requests[i] = trace[i % trace.size()];
  const Service service = start(options, options.capacity_arm);
  const LoadFigures run = run_closed_loop(service.endpoint(), calls, requests, options.capacity_clients);
  const auto answered = std::count_if(run.replies.begin(), run.replies.end(),
                                      [](const ReplyFigures& reply) { return reply.status == 200; });
  if (answered == 0) throw Error(ErrorCode::kUnavailable, "no request was answered while capacity was measured");
  return static_cast<double>(answered) / run.elapsed_s;
}

// The first arm relative to each other one.
json compare(const Options& options, const std::map<std::string, std::vector<LoadFigures>>& runs, const json& arms) {
  json against = json::object();
  const std::string& first = options.arms.front();
  for (const auto& its : runs) {
    const std::string& other = its.first;
    if (other == first) continue;
    const auto ratio = [&](const char* what, const char* figure) -> json {
      const json &mine = arms[first][what][figure], &theirs = arms[other][what][figure];
      return mine.is_null() || theirs.is_null() ? json() : json(mine.get<double>() / theirs.get<double>());
    };
    against[other] = {
        {"e2e_mean", mean_ratio(runs.at(first), its.second)},
        {"e2e_p99", ratio("e2e_ms", "p99")},
        {"itl_p99", ratio("itl_ms", "p99")},
        {"tokens_per_s", arms[first]["tokens_per_s"].get<double>() / arms[other]["tokens_per_s"].get<double>()}};
  }
  return against;
}

// Runs the arms in turns, a new service each time, with the same arrivals and prompts. The order is reversed from round
// to round, so that drift of the machine favours none. They begin without what an earlier load, or the measurement of
// capacity, has taught them.
json run_load(const Options& options, const LoadCalls& calls, const std::vector<Arrival>& trace, double rate) {
  delete_data(options);
  const auto rounds = arrivals_of(options, trace, rate, options.rounds);
  std::size_t n_arrivals = 0;
  for (const auto& arrivals : rounds) n_arrivals += arrivals.size();
  json result = json::object();
  result["rate_per_s"] = static_cast<double>(n_arrivals) / (options.duration_s * options.rounds);
  std::map<std::string, std::vector<LoadFigures>> runs;
  std::size_t first_prompt = 0;
  for (int round = 0; round < options.rounds; ++round) {
    const auto& arrivals = rounds[static_cast<std::size_t>(round)];
    std::vector<std::string> order = options.arms;
    if (round % 2 == 1) std::reverse(order.begin(), order.end());
    for (const std::string& arm : order) {
      cli::redraw_line("load: round " + std::to_string(round + 1) + ", " + arm);
      const Service service = start(options, arm);
      runs[arm].push_back(run_open_loop(service.endpoint(), calls, arrivals, first_prompt));
    }
    first_prompt += arrivals.size();
  }
  cli::redraw_line("");
  for (const auto& [arm, its] : runs) result["arms"][arm] = figures_of(its, options);
  result["first_arm"] = options.arms.front();
  result["first_arm_to"] = compare(options, runs, result["arms"]);
  return result;
}

// One load's figures are members of the result, several loads' those of its `loads`.
json run_arms(const Options& options) {
  const LoadCalls calls = calls_of(options);
  const std::vector<Arrival> trace = trace_of(options);
  json result = {{"rounds", options.rounds}, {"duration_s", options.duration_s}};
  std::vector<double> rates = options.rates;
  if (rate_is_missing(options)) {
    delete_data(options);
    const double capacity_per_s = capacity(options, calls, trace);
    result["capacity_per_s"] = capacity_per_s;
    for (const double load : options.loads) rates.push_back(load * capacity_per_s);
  }
  if (rates.empty()) rates = {0};  // the trace's own, by --scale
  json loads = json::array();
  for (const double rate : rates) loads.push_back(run_load(options, calls, trace, rate));
  if (loads.size() == 1) {
    result.update(loads.front());
  } else {
    result["loads"] = std::move(loads);
  }
  return result;
}

void print_row(const json& result) {
  std::printf("completed %ld · rejected (429) %ld · failed %ld · α %.3f · %.1f tokens/s\n",
              result["completed"].get<long>(), result["rejected"].get<long>(), result["failed"].get<long>(),
              result["alpha"].get<double>(), result["tokens_per_s"].get<double>());
  if (result.contains("attainment")) {
    std::printf("met the targets %.1f %% · %.2f requests/s\n", 100 * result["attainment"].get<double>(),
                result["goodput_per_s"].get<double>());
  }
  for (const char* name : {"ttft_ms", "tpot_ms", "itl_ms", "e2e_ms"}) {
    const auto& row = result[name];
    if (row["mean"].is_null()) continue;
    std::printf("%-8s mean %8.2f   p50 %8.2f   p99 %8.2f\n", name, row["mean"].get<double>(), row["p50"].get<double>(),
                row["p99"].get<double>());
  }
}

void print_table(const json& result) {
  if (result.contains("loads")) {
    for (const json& load : result["loads"]) {
      json one = result;
      one.erase("loads");
      one.update(load);
      print_table(one);
      std::printf("\n");
    }
    return;
  }
  if (!result.contains("arms")) return print_row(result);
  std::printf("%.2f requests/s", result["rate_per_s"].get<double>());
  if (result.contains("capacity_per_s")) std::printf(" of a capacity of %.2f", result["capacity_per_s"].get<double>());
  std::printf(", %d rounds of %.0f s\n", result["rounds"].get<int>(), result["duration_s"].get<double>());
  for (const auto& [name, arm] : result["arms"].items()) {
    std::printf("\n%s\n", name.c_str());
    print_row(arm);
  }
  std::printf(
      "\n%s to each other arm: mean time of an answer (requests that both answered), its p99, p99 between "
      "tokens, tokens/s\n",
      result["first_arm"].get<std::string>().c_str());
  for (const auto& [other, ratio] : result["first_arm_to"].items()) {
    const auto number = [](const json& value) { return value.is_null() ? NAN : value.get<double>(); };
    const json mean = ratio["e2e_mean"].is_null() ? json::object() : ratio["e2e_mean"];
    const auto of_mean = [&](const char* key) { return number(mean.value(key, json())); };
    std::printf("%-8s %.3f × [%.3f, %.3f] (%.0f)   %.3f ×   %.3f ×   %.3f ×\n", other.c_str(), of_mean("ratio"),
                of_mean("low"), of_mean("high"), of_mean("requests"), number(ratio["e2e_p99"]),
                number(ratio["itl_p99"]), number(ratio["tokens_per_s"]));
  }
}

void add_load(CLI::App& app, Options& options) {
  auto* rate = app.add_option("--rate", options.rates,
                              "Requests per second, Poisson arrivals or a trace's; several, with --arms: a load each")
                   ->delimiter(',')
                   ->check(CLI::PositiveNumber);
  app.add_option("--trace", options.trace,
                 "CSV of TIMESTAMP,ContextTokens,GeneratedTokens: when requests start, and how "
                 "long their answers may be. Prompts are those of --prompts");
  app.add_option("--scale", options.scale, "Speed-up of the trace, instead of a rate")
      ->check(CLI::PositiveNumber)
      ->excludes(rate);
  app.add_option("--ttft-ms", options.ttft_ms, "Count the requests that had their first token in this time");
  app.add_option("--tpot-ms", options.tpot_ms, "Count the requests that had their tokens in this time each");
  app.add_option("--duration", options.duration_s, "Seconds in which requests start")->check(CLI::PositiveNumber);
  app.add_option("--prompts", options.prompts, "JSONL with `prompt` and `topic`, used in turn")->required();
  app.add_option("--topic", options.topic, "Send this topic instead of each row's own");
  app.add_option("--max-tokens", options.max_tokens, "Longest answer, in tokens");
  app.add_option("--temperature", options.temperature, "Sampling temperature; 0 is greedy");
  app.add_option("--seed", options.seed, "Seed of the arrival times");
  app.add_flag("--json", options.json, "Print JSON");
}

std::string check_arm(const std::string& arm) {
  if (setting_of(arm)) return "";
  return "'" + arm + "' is none of learning, auto, none, lookup, k1 to k16";
}

void add_arms(CLI::App& app, Options& options) {
  auto* url = app.add_option("--url", options.url, "A running service, e.g. http://127.0.0.1:8080");
  auto* arms =
      app.add_option("--arms", options.arms,
                     "Starts a service for each of: learning (the defaults), auto (the same without learning), "
                     "none (plain decoding), lookup (no draft), k1 to k16 (always so many tokens of the draft). "
                     "The first is compared with the others")
          ->delimiter(',')
          ->check(CLI::Validator(check_arm, ""))
          ->excludes(url);
  app.add_option("--target", options.target, "Target folder of the arms")->needs(arms);
  app.add_option("--draft", options.draft, "Base draft folder of the arms")->needs(arms);
  app.add_option("-c,--config", options.config, "Service configuration of the arms")->needs(arms);
  app.add_option(
         "--load", options.loads,
         "Rate as a share of capacity, if neither --rate nor --scale is given (default 0.5); several: a load each")
      ->delimiter(',')
      ->check(CLI::PositiveNumber)
      ->needs(arms);
  app.add_option("--svg", options.svg,
                 "Also draw goodput, time to the first token and time between tokens of each arm over several loads "
                 "into this file")
      ->needs(arms);
  app.add_option("--rounds", options.rounds, "Turns of each arm, each of --duration (default 3)")
      ->check(CLI::PositiveNumber);
  app.add_option("--capacity-requests", options.capacity_requests, "Requests that measure capacity (default 64)")
      ->check(CLI::PositiveNumber);
  app.add_option("--capacity-clients", options.capacity_clients, "Clients that measure capacity (default 8)")
      ->check(CLI::PositiveNumber);
  app.add_option("--capacity-arm", options.capacity_arm, "Arm whose capacity is measured (default auto)")
      ->check(CLI::Validator(check_arm, ""));
  app.add_option("--work", options.work, "Folder for the arms' data and logs; an earlier run's are deleted");
}

json run(const Options& options) {
  if (options.url.empty() == options.arms.empty()) {
    throw Error(ErrorCode::kInvalidArgument, "nothing to measure", "give --url, or --arms with --target");
  }
  if (!options.arms.empty() && options.target.empty()) {
    throw Error(ErrorCode::kInvalidArgument, "--arms starts services of its own", "give --target and --draft");
  }
  const auto is_fixed = [](const std::string& arm) { return setting_of(arm)->fixed_length; };
  if (!options.config.empty() && std::any_of(options.arms.begin(), options.arms.end(), is_fixed)) {
    throw Error(ErrorCode::kInvalidArgument, "arms of a fixed length have a configuration of their own",
                "leave out -c");
  }
  if (!options.url.empty() && options.rates.size() > 1) {
    throw Error(ErrorCode::kInvalidArgument, "several loads are for --arms", "give one --rate with --url");
  }
  const std::size_t n_loads = rate_is_missing(options) ? options.loads.size() : options.rates.size();
  if (!options.svg.empty() && n_loads < 2) {
    throw Error(ErrorCode::kInvalidArgument, "--svg draws figures over several loads",
                "give --load or --rate two or more, such as --load 0.3,0.6,0.9");
  }
  return options.arms.empty() ? run_url(options) : run_arms(options);
}

}  // namespace
}  // namespace slip::bench

int main(int argc, char** argv) {
  slip::bench::Options options;
  CLI::App app{
      "Sends chat completions to a service at a rate or along a trace, and reports latency as its clients see it."};
  slip::bench::add_arms(app, options);
  slip::bench::add_load(app, options);
  CLI11_PARSE(app, argc, argv);
  nlohmann::json result;
  const int status = slip::bench::show_result(
      "load", options.json, [&] { return result = slip::bench::run(options); }, slip::bench::print_table);
  if (status != 0 || options.svg.empty()) return status;
  // Last, since a run takes minutes and the file may not be writable.
  const auto draw = [&] {
    slip::write_output_file(options.svg, slip::load_svg(result["loads"], slip::bench::load_drawing(result)));
    return nlohmann::json();
  };
  return slip::bench::show_result("load", /*as_json=*/false, draw, [](const nlohmann::json&) {});
}
