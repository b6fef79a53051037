// SPDX-License-Identifier: Apache-2.0
#include "bench/common/open_loop.h"

#include <atomic>
#include <chrono>
#include <thread>

namespace slip::bench {
namespace {

using SteadyClock = std::chrono::steady_clock;

double seconds_since(SteadyClock::time_point start) {
  return std::chrono::duration<double>(SteadyClock::now() - start).count();
}

ChatReply send(const Endpoint& endpoint, const LoadCalls& calls, std::size_t prompt, int max_tokens) {
  const Prompt& one = calls.prompts[prompt % calls.prompts.size()];
  return stream_chat(endpoint,
                     {one.text, calls.topic.empty() ? one.topic : calls.topic, calls.temperature, max_tokens});
}

}  // namespace

LoadFigures run_open_loop(const Endpoint& endpoint, const LoadCalls& calls, const std::vector<Arrival>& arrivals,
                          std::size_t first_prompt) {
  LoadFigures run;
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

LoadFigures run_closed_loop(const Endpoint& endpoint, const LoadCalls& calls, const std::vector<Arrival>& requests,
                            int clients) {
  LoadFigures run;
  run.replies.resize(requests.size());
  std::atomic<std::size_t> next{0};
  const auto start = SteadyClock::now();
  {
    std::vector<std::jthread> threads;
    for (int c = 0; c < clients; ++c) {
      threads.emplace_back([&] {
        for (std::size_t i = next++; i < requests.size(); i = next++) {
          run.replies[i] = send(endpoint, calls, i, requests[i].max_tokens);
        }
      });
    }
  }
  run.elapsed_s = seconds_since(start);
  return run;
}

}  // namespace slip::bench
