// SPDX-License-Identifier: Apache-2.0
#include "bench/common_open_loop.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <numeric>
#include <sstream>
#include <thread>

#include "common/error.h"
#include "engine/sampling/random.h"

namespace slip::bench {
namespace {

using SteadyClock = std::chrono::steady_clock;

double seconds_since(SteadyClock::time_point start) {
  return std::chrono::duration<double>(SteadyClock::now() - start).count();
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

ChatReply send(const Endpoint& endpoint, const LoadCalls& calls, std::size_t prompt, int max_tokens) {
  const Prompt& one = calls.prompts[prompt % calls.prompts.size()];
  return stream_chat(endpoint,
                     {one.text, calls.topic.empty() ? one.topic : calls.topic, calls.temperature, max_tokens});
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

}  // namespace

std::vector<Arrival> poisson_arrivals(double rate, double duration_s, int max_tokens, std::uint64_t seed) {
  std::vector<Arrival> arrivals;
  double at = 0;
  for (std::uint32_t i = 0;; ++i) {
    at += -std::log(1.0 - uniform({seed, 0, i}, RandomPurpose::kDraft)) / rate;
    if (at >= duration_s) return arrivals;
    arrivals.push_back({at, max_tokens});
  }
}

std::vector<Arrival> trace_arrivals(const std::filesystem::path& trace, double scale, double duration_s,
                                    int max_tokens) {
  std::ifstream in(trace);
  if (!in) throw Error(ErrorCode::kNotFound, "cannot open " + trace.string());
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
    const double at = (second - first) / scale;
    if (at >= duration_s) break;
    arrivals.push_back({at, std::clamp(std::atoi(generated.c_str()), 1, max_tokens)});
  }
  return arrivals;
}

LoadRun run_open_loop(const Endpoint& endpoint, const LoadCalls& calls, const std::vector<Arrival>& arrivals,
                      std::size_t first_prompt) {
  LoadRun run;
  run.replies.resize(arrivals.size());
  std::vector<std::jthread> requests;
  const auto start = SteadyClock::now();
  for (std::size_t i = 0; i < arrivals.size(); ++i) {
    std::this_thread::sleep_until(start + std::chrono::duration<double>(arrivals[i].at_s));
    requests.emplace_back([&, i] { run.replies[i] = send(endpoint, calls, first_prompt + i, arrivals[i].max_tokens); });
  }
  requests.clear();
  run.elapsed_s = seconds_since(start);
  return run;
}

LoadRun run_closed_loop(const Endpoint& endpoint, const LoadCalls& calls, std::size_t n, int clients, int max_tokens) {
  LoadRun run;
  run.replies.resize(n);
  std::atomic<std::size_t> next{0};
  const auto start = SteadyClock::now();
  {
    std::vector<std::jthread> threads;
    for (int c = 0; c < clients; ++c) {
      threads.emplace_back([&] {
        for (std::size_t i = next++; i < n; i = next++) run.replies[i] = send(endpoint, calls, i, max_tokens);
      });
    }
  }
  run.elapsed_s = seconds_since(start);
  return run;
}

nlohmann::json summarize(const std::vector<LoadRun>& runs) {
  std::vector<double> ttft, itl, e2e;
  std::int64_t completed = 0, rejected = 0, failed = 0, tokens = 0, accepted = 0, first_rejections = 0;
  double elapsed_s = 0;
  for (const LoadRun& run : runs) {
    elapsed_s += run.elapsed_s;
    for (const ChatReply& reply : run.replies) {
      rejected += reply.status == 429 ? 1 : 0;
      failed += reply.status != 200 && reply.status != 429 ? 1 : 0;
      if (reply.status != 200) continue;
      ++completed;
      tokens += reply.completion_tokens;
      accepted += reply.accepted;
      first_rejections += reply.first_rejections;
      ttft.push_back(reply.ttft_ms);
      e2e.push_back(reply.e2e_ms);
      itl.insert(itl.end(), reply.gaps_ms.begin(), reply.gaps_ms.end());
    }
  }
  const auto tested = static_cast<double>(std::max<std::int64_t>(1, accepted + first_rejections));
  return {{"completed", completed},  {"rejected", rejected},
          {"failed", failed},        {"alpha", static_cast<double>(accepted) / tested},
          {"ttft_ms", spread(ttft)}, {"itl_ms", spread(itl)},
          {"e2e_ms", spread(e2e)},   {"tokens_per_s", static_cast<double>(tokens) / std::max(1e-9, elapsed_s)}};
}

}  // namespace slip::bench
