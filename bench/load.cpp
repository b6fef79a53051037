// SPDX-License-Identifier: Apache-2.0
// An open-loop load client. Measures a running service (--url), or starts one per arm (--learning) and compares what
// their clients see at the same load.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "bench/common_client.h"
#include "bench/common_open_loop.h"
#include "bench/common_prompts.h"
#include "bench/common_result.h"
#include "bench/common_service.h"
#include "cli/progress_line.h"
#include "common/error.h"

namespace slip::bench {
namespace {

using nlohmann::json;

struct Options {
  std::string url, trace, prompts, topic, target, draft, config, work = "build/load";
  std::vector<std::string> arms;
  double rate = 0, load = 0.5, scale = 1, duration_s = 30, temperature = 0;
  int max_tokens = 128, rounds = 3, capacity_clients = 8;
  std::size_t capacity_requests = 64;
  std::uint64_t seed = 1;
  bool json = false;
};

const std::map<std::string, std::vector<std::string>> kArms = {
    {"on", {}}, {"static", {"--no-learning"}}, {"off", {"--no-learning", "--no-speculation"}}};

LoadCalls calls_of(const Options& options) {
  return {read_prompts(options.prompts), options.topic, options.temperature};
}

std::vector<Arrival> arrivals_of(const Options& options, double rate, std::uint64_t seed) {
  if (!options.trace.empty()) {
    return trace_arrivals(options.trace, {options.scale, options.duration_s, options.max_tokens});
  }
  return poisson_arrivals(rate, options.duration_s, options.max_tokens, seed);
}

json run_url(const Options& options) {
  if (options.rate <= 0 && options.trace.empty()) {
    throw Error(ErrorCode::kInvalidArgument, "no load is given", "give --rate or --trace");
  }
  return summarize(
      {run_open_loop(parse_url(options.url), calls_of(options), arrivals_of(options, options.rate, options.seed))});
}

// An arm keeps its data directory over the rounds, so its drafts go on learning.
Service start(const Options& options, const std::string& arm) {
  const auto folder = std::filesystem::path(options.work) / arm;
  std::filesystem::create_directories(folder);
  std::vector<std::string> arguments = {"--target", options.target, "--data-dir", (folder / "data").string()};
  if (!options.draft.empty()) arguments.insert(arguments.end(), {"--draft", options.draft});
  if (!options.config.empty()) arguments.insert(arguments.begin(), {"-c", options.config});
  const auto& own = kArms.at(arm);
  arguments.insert(arguments.end(), own.begin(), own.end());
  return Service(slipstream_beside(), arguments, folder / "service.log");
}

// Requests per second of the static draft with closed-loop clients.
double capacity(const Options& options, const LoadCalls& calls) {
  const Service service = start(options, "static");
  const LoadFigures run = run_closed_loop(service.endpoint(), calls, options.capacity_requests,
                                          options.capacity_clients, options.max_tokens);
  const auto answered = std::count_if(run.replies.begin(), run.replies.end(),
                                      [](const ReplyFigures& reply) { return reply.status == 200; });
  if (answered == 0) throw Error(ErrorCode::kUnavailable, "no request was answered while capacity was measured");
  return static_cast<double>(answered) / run.elapsed_s;
}

// Each arm's p99 between tokens and tokens/s, relative to the best of the others.
void add_ratios(json& result) {
  for (auto& [name, arm] : result["arms"].items()) {
    for (const auto& [other, its] : result["arms"].items()) {
      if (other == name || its["itl_ms"]["p99"].is_null() || arm["itl_ms"]["p99"].is_null()) continue;
      arm["against_" + other] = {
          {"itl_p99", arm["itl_ms"]["p99"].get<double>() / its["itl_ms"]["p99"].get<double>()},
          {"tokens_per_s", arm["tokens_per_s"].get<double>() / its["tokens_per_s"].get<double>()}};
    }
  }
}

// Runs the arms in turns, a new service each time, with the same arrivals and prompts. The order is reversed from round
// to round, so that drift of the machine favours none.
json run_arms(const Options& options) {
  const LoadCalls calls = calls_of(options);
  for (const auto& [arm, arguments] : kArms) std::filesystem::remove_all(std::filesystem::path(options.work) / arm);
  json result = {{"rounds", options.rounds}, {"duration_s", options.duration_s}};
  double rate = options.rate;
  if (rate <= 0 && options.trace.empty()) {
    result["capacity_per_s"] = capacity(options, calls);
    rate = options.load * result["capacity_per_s"].get<double>();
  }
  result["rate_per_s"] = rate;
  std::map<std::string, std::vector<LoadFigures>> runs;
  std::size_t first_prompt = 0;
  for (int round = 0; round < options.rounds; ++round) {
    const auto arrivals = arrivals_of(options, rate, options.seed + static_cast<std::uint64_t>(round));
    std::vector<std::string> order = options.arms;
    if (round % 2 == 1) std::reverse(order.begin(), order.end());
    for (const std::string& arm : order) {
      cli::redraw_line("load: round " + std::to_string(round + 1) + ", learning " + arm);
      const Service service = start(options, arm);
      runs[arm].push_back(run_open_loop(service.endpoint(), calls, arrivals, first_prompt));
    }
    first_prompt += arrivals.size();
  }
  cli::redraw_line("");
  for (const auto& [arm, its] : runs) result["arms"][arm] = summarize(its);
  add_ratios(result);
  return result;
}

void print_row(const json& result) {
  std::printf("completed %ld · rejected (429) %ld · failed %ld · α %.3f · %.1f tokens/s\n",
              result["completed"].get<long>(), result["rejected"].get<long>(), result["failed"].get<long>(),
              result["alpha"].get<double>(), result["tokens_per_s"].get<double>());
  for (const char* name : {"ttft_ms", "itl_ms", "e2e_ms"}) {
    const auto& row = result[name];
    if (row["mean"].is_null()) continue;
    std::printf("%-8s mean %8.2f   p50 %8.2f   p99 %8.2f\n", name, row["mean"].get<double>(), row["p50"].get<double>(),
                row["p99"].get<double>());
  }
}

void print_table(const json& result) {
  if (!result.contains("arms")) return print_row(result);
  std::printf("%.2f requests/s", result["rate_per_s"].get<double>());
  if (result.contains("capacity_per_s")) std::printf(" of a capacity of %.2f", result["capacity_per_s"].get<double>());
  std::printf(", %d rounds of %.0f s\n", result["rounds"].get<int>(), result["duration_s"].get<double>());
  for (const auto& [name, arm] : result["arms"].items()) {
    std::printf("\nlearning %s\n", name.c_str());
    print_row(arm);
    for (const auto& [key, ratio] : arm.items()) {
      if (!key.starts_with("against_")) continue;
      std::printf("against %-7s p99 between tokens %.3f ×, tokens/s %.3f ×\n", key.substr(8).c_str(),
                  ratio["itl_p99"].get<double>(), ratio["tokens_per_s"].get<double>());
    }
  }
}

void add_load(CLI::App& app, Options& options) {
  auto* rate =
      app.add_option("--rate", options.rate, "Requests per second, Poisson arrivals")->check(CLI::PositiveNumber);
  app.add_option("--trace", options.trace, "CSV of TIMESTAMP,ContextTokens,GeneratedTokens to take arrivals from")
      ->excludes(rate);
  app.add_option("--scale", options.scale, "Speed-up of the trace")->check(CLI::PositiveNumber);
  app.add_option("--duration", options.duration_s, "Seconds in which requests start")->check(CLI::PositiveNumber);
  app.add_option("--prompts", options.prompts, "JSONL with `prompt` and `topic`, used in turn")->required();
  app.add_option("--topic", options.topic, "Send this topic instead of each row's own");
  app.add_option("--max-tokens", options.max_tokens, "Longest answer, in tokens");
  app.add_option("--temperature", options.temperature, "Sampling temperature; 0 is greedy");
  app.add_option("--seed", options.seed, "Seed of the arrival times");
  app.add_flag("--json", options.json, "Print JSON");
}

void add_arms(CLI::App& app, Options& options) {
  auto* url = app.add_option("--url", options.url, "A running service, e.g. http://127.0.0.1:8080");
  auto* arms = app.add_option("--learning", options.arms,
                              "Starts a service for each of: on (learning), static (the draft as it is), off (plain "
                              "decoding)")
                   ->delimiter(',')
                   ->check(CLI::IsMember({"on", "static", "off"}))
                   ->excludes(url);
  app.add_option("--target", options.target, "Target folder of the arms")->needs(arms);
  app.add_option("--draft", options.draft, "Base draft folder of the arms")->needs(arms);
  app.add_option("-c,--config", options.config, "Service configuration of the arms")->needs(arms);
  app.add_option("--load", options.load, "Rate as a share of capacity, if --rate is not given (default 0.5)")
      ->check(CLI::PositiveNumber)
      ->needs(arms);
  app.add_option("--rounds", options.rounds, "Turns of each arm, each of --duration (default 3)")
      ->check(CLI::PositiveNumber);
  app.add_option("--capacity-requests", options.capacity_requests, "Requests that measure capacity (default 64)")
      ->check(CLI::PositiveNumber);
  app.add_option("--capacity-clients", options.capacity_clients, "Clients that measure capacity (default 8)")
      ->check(CLI::PositiveNumber);
  app.add_option("--work", options.work, "Folder for the arms' data and logs; an earlier run's are deleted");
}

json run(const Options& options) {
  if (options.url.empty() == options.arms.empty()) {
    throw Error(ErrorCode::kInvalidArgument, "nothing to measure", "give --url, or --learning with --target");
  }
  if (!options.arms.empty() && options.target.empty()) {
    throw Error(ErrorCode::kInvalidArgument, "--learning starts services of its own", "give --target and --draft");
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
  return slip::bench::show_result(
      "load", options.json, [&] { return slip::bench::run(options); }, slip::bench::print_table);
}
