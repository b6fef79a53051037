// SPDX-License-Identifier: Apache-2.0
#include "bench/common_load_report.h"

#include <cstdint>
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

}  // namespace slip::bench
