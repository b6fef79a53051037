// SPDX-License-Identifier: Apache-2.0
// An open-loop load client: requests start when they are due, whether or not earlier ones have finished, so that a slow
// server shows as latency instead of as a slower client.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <mutex>
#include <nlohmann/json.hpp>
#include <numeric>
#include <sstream>
#include <thread>
#include <vector>

#include "bench/common_client.h"
#include "bench/common_prompts.h"
#include "bench/common_result.h"
#include "common/clock.h"
#include "common/error.h"
#include "engine/sample/random.h"

namespace slip::bench {
namespace {

struct Options {
  std::string url, trace, prompts, topic;
  double rate = 0, scale = 1, duration_s = 30, temperature = 0;
  int max_tokens = 128;
  std::uint64_t seed = 1;
  bool json = false;
};

struct Arrival {
  double at_s = 0;
  int max_tokens = 0;
};

// Poisson arrivals at `rate` from an addressed generator: the same seed gives the same instants.
std::vector<Arrival> poisson_arrivals(const Options& options) {
  std::vector<Arrival> arrivals;
  double at = 0;
  for (std::uint32_t i = 0;; ++i) {
    at += -std::log(1.0 - uniform({options.seed, 0, i}, RandomPurpose::kDraft)) / options.rate;
    if (at >= options.duration_s) return arrivals;
    arrivals.push_back({at, options.max_tokens});
  }
}

double seconds_of_day(const std::string& stamp) {
  int hour = 0;
  int minute = 0;
  double second = 0;
  const auto space = stamp.find(' ');
  if (space == std::string::npos || std::sscanf(stamp.c_str() + space, " %d:%d:%lf", &hour, &minute, &second) != 3) {
    throw Error(ErrorCode::kInvalidArgument, "the trace has a time stamp that cannot be read: " + stamp);
  }
  return hour * 3600.0 + minute * 60.0 + second;
}

// Azure's LLM inference trace: TIMESTAMP,ContextTokens,GeneratedTokens; `scale` 2 replays it twice as fast.
std::vector<Arrival> trace_arrivals(const Options& options) {
  std::ifstream in(options.trace);
  if (!in) throw Error(ErrorCode::kNotFound, "cannot open " + options.trace);
  std::vector<Arrival> arrivals;
  std::string line;
  std::getline(in, line);
  double first = -1;
  while (std::getline(in, line)) {
    std::stringstream row(line);
    std::string stamp, context, generated;
    std::getline(row, stamp, ',');
    std::getline(row, context, ',');
    std::getline(row, generated, ',');
    const double second = seconds_of_day(stamp);
    if (first < 0) first = second;
    const double at = (second - first) / options.scale;
    if (at >= options.duration_s) break;
    arrivals.push_back({at, std::clamp(std::atoi(generated.c_str()), 1, options.max_tokens)});
  }
  return arrivals;
}

nlohmann::json spread(std::vector<double> values) {
  if (values.empty()) return {{"mean", nullptr}, {"p50", nullptr}, {"p99", nullptr}};
  std::sort(values.begin(), values.end());
  const auto at = [&](double q) {
    return values[static_cast<std::size_t>(q * static_cast<double>(values.size() - 1))];
  };
  const double mean = std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
  return {{"mean", mean}, {"p50", at(0.5)}, {"p99", at(0.99)}};
}

nlohmann::json summarize(const std::vector<ChatReply>& replies, double elapsed_s) {
  std::vector<double> ttft, itl, e2e;
  std::int64_t completed = 0, rejected = 0, failed = 0, tokens = 0;
  for (const auto& reply : replies) {
    rejected += reply.status == 429 ? 1 : 0;
    failed += reply.status != 200 && reply.status != 429 ? 1 : 0;
    if (reply.status != 200) continue;
    ++completed;
    tokens += reply.completion_tokens;
    ttft.push_back(reply.ttft_ms);
    e2e.push_back(reply.e2e_ms);
    itl.insert(itl.end(), reply.gaps_ms.begin(), reply.gaps_ms.end());
  }
  return {{"completed", completed},
          {"rejected", rejected},
          {"failed", failed},
          {"ttft_ms", spread(ttft)},
          {"itl_ms", spread(itl)},
          {"e2e_ms", spread(e2e)},
          {"tokens_per_s", static_cast<double>(tokens) / elapsed_s}};
}

nlohmann::json run(const Options& options) {
  if (options.rate <= 0 && options.trace.empty()) throw Error(ErrorCode::kInvalidArgument, "give --rate or --trace");
  const Endpoint endpoint = parse_url(options.url);
  const auto prompts = read_prompts(options.prompts);
  const auto arrivals = options.trace.empty() ? poisson_arrivals(options) : trace_arrivals(options);
  std::vector<ChatReply> replies(arrivals.size());
  std::vector<std::jthread> calls;
  const auto start = std::chrono::steady_clock::now();
  for (std::size_t i = 0; i < arrivals.size(); ++i) {
    std::this_thread::sleep_until(start + std::chrono::duration<double>(arrivals[i].at_s));
    calls.emplace_back([&, i] {
      const auto& prompt = prompts[i % prompts.size()];
      const std::string topic = options.topic.empty() ? prompt.topic : options.topic;
      replies[i] = stream_chat(endpoint, {prompt.text, topic, options.temperature, arrivals[i].max_tokens});
    });
  }
  calls.clear();
  return summarize(replies, std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
}

void print_table(const nlohmann::json& result) {
  std::printf("completed %ld · rejected (429) %ld · failed %ld · %.1f tokens/s\n", result["completed"].get<long>(),
              result["rejected"].get<long>(), result["failed"].get<long>(), result["tokens_per_s"].get<double>());
  for (const char* name : {"ttft_ms", "itl_ms", "e2e_ms"}) {
    const auto& row = result[name];
    if (row["mean"].is_null()) continue;
    std::printf("%-8s mean %8.2f   p50 %8.2f   p99 %8.2f\n", name, row["mean"].get<double>(), row["p50"].get<double>(),
                row["p99"].get<double>());
  }
}

}  // namespace
}  // namespace slip::bench

int main(int argc, char** argv) {
  slip::bench::Options options;
  CLI::App app{
      "Sends chat completions to a running service at a rate or along a trace, and reports latency as its clients see "
      "it."};
  app.add_option("--url", options.url, "The service, e.g. http://127.0.0.1:8080")->required();
  auto* rate =
      app.add_option("--rate", options.rate, "Requests a second, Poisson arrivals")->check(CLI::PositiveNumber);
  app.add_option("--trace", options.trace, "CSV of TIMESTAMP,ContextTokens,GeneratedTokens to take arrivals from")
      ->excludes(rate);
  app.add_option("--scale", options.scale, "Replays the trace so many times as fast")->check(CLI::PositiveNumber);
  app.add_option("--duration", options.duration_s, "Seconds in which requests start")->check(CLI::PositiveNumber);
  app.add_option("--prompts", options.prompts, "JSONL with `prompt` and `topic`, used in turn")->required();
  app.add_option("--topic", options.topic, "Send this topic instead of each row's own");
  app.add_option("--max-tokens", options.max_tokens, "At most so many tokens an answer");
  app.add_option("--temperature", options.temperature, "0 is greedy");
  app.add_option("--seed", options.seed, "Of the arrival times");
  app.add_flag("--json", options.json, "Print JSON");
  CLI11_PARSE(app, argc, argv);
  return slip::bench::show_result(
      "load", options.json, [&] { return slip::bench::run(options); }, slip::bench::print_table);
}
