// SPDX-License-Identifier: Apache-2.0
#include "bench/common/load_report.h"

#include <cstdint>
#include <cstdio>
#include <string>
#include <utility>

namespace slip::bench {

using nlohmann::json;

json by_vllm_names(const json& figures) {
  const double seconds = figures["duration_s"];
  json named = {{"completed", figures["completed"]},
                {"duration", seconds},
                {"total_output_tokens", figures["output_tokens"]},
                {"request_throughput", figures["completed"].get<double>() / seconds},
                {"output_throughput", figures["tokens_per_s"]}};
  for (const auto& [ours, theirs] : {std::pair{"ttft_ms", "ttft_ms"}, {"tpot_ms", "tpot_ms"}, {"e2e_ms", "e2el_ms"}}) {
    for (const auto& [which, prefix] : {std::pair{"mean", "mean_"}, {"p50", "median_"}, {"p99", "p99_"}}) {
      named[std::string(prefix) + theirs] = figures[ours][which];
    }
  }
  return named;
}

json by_llama_cpp_names(const json& figures) {
  const auto count = [&](const char* name) { return figures[name].get<std::int64_t>(); };
  const std::int64_t failed = count("rejected") + count("failed"), drafted = count("draft_tokens");
  const json& latency_ms = figures["e2e_ms"]["mean"];
  json overall = {{"category", "overall"},
                  {"requests", count("completed")},
                  {"turns", count("completed")},  // one of each request
                  {"failed", failed},
                  {"avg_latency", nullptr},  // in seconds
                  {"draft_n", drafted},
                  {"accepted", count("accepted_draft_tokens")},
                  {"accept_rate", nullptr}};
  if (latency_ms.is_number()) overall["avg_latency"] = latency_ms.get<double>() / 1e3;
  if (drafted > 0) {
    overall["accept_rate"] = figures["accepted_draft_tokens"].get<double>() / static_cast<double>(drafted);
  }
  return {{"selected_samples", count("completed") + failed},
          {"completed_samples", count("completed")},
          {"failed_samples", failed},
          {"summary", json::array({overall})}};
}

LoadDrawing load_drawing(const json& result) {
  bool has_targets = false;
  for (const json& load : result["loads"]) {
    for (const json& arm : load["arms"]) has_targets |= arm.contains("goodput_per_s");
  }
  char subtitle[96];
  std::snprintf(subtitle, sizeof subtitle, "%d rounds of %g s a load. Lines: p50; dashes: p99",
                result["rounds"].get<int>(), result["duration_s"].get<double>());
  return {"Measured load",
          "What clients see over the load",
          subtitle,
          "Goodput, time to the first token and time between tokens of each arm over the load.",
          {{.title = has_targets ? "Goodput: requests a second that met the targets" : "Requests answered a second",
            .line = has_targets ? "/goodput_per_s" : "/vllm/request_throughput",
            .dashes = "",
            .logarithmic = false},
           {.title = "Time to the first token, ms", .line = "/ttft_ms/p50", .dashes = "/ttft_ms/p99"},
           // The tokens of one chunk are 0 ms apart, which has no logarithm.
           {.title = "Time between tokens, ms", .line = "/itl_ms/p50", .dashes = "/itl_ms/p99", .logarithmic = false}}};
}

}  // namespace slip::bench
