// SPDX-License-Identifier: Apache-2.0
#include "cli/simulation/load_figures.h"

#include <algorithm>
#include <array>
#include <map>
#include <numeric>

namespace slip {
namespace {

nlohmann::json spread(std::vector<double> values) {
  if (values.empty()) return {{"mean", nullptr}, {"p50", nullptr}, {"p99", nullptr}};
  std::sort(values.begin(), values.end());
  const auto at = [&](double q) {
    return values[static_cast<std::size_t>(q * static_cast<double>(values.size() - 1))];
  };
  const double mean = std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
  return {{"mean", mean}, {"p50", at(0.5)}, {"p99", at(0.99)}};
}

// One gap for each token after the first. Gaps between chunks alone would make the same pauses more frequent, the more
// tokens a chunk has.
void add_gaps(const ReplyFigures& reply, std::vector<double>& gaps_ms) {
  if (reply.gaps_ms.empty()) return;  // not streamed, or in one chunk
  gaps_ms.insert(gaps_ms.end(), reply.gaps_ms.begin(), reply.gaps_ms.end());
  const std::int64_t n_in_chunks = reply.completion_tokens - 1 - std::ssize(reply.gaps_ms);
  if (n_in_chunks > 0) gaps_ms.insert(gaps_ms.end(), static_cast<std::size_t>(n_in_chunks), 0.0);
}

double tpot_ms(const ReplyFigures& reply) {
  return (reply.e2e_ms - reply.ttft_ms) / static_cast<double>(std::max<std::int64_t>(1, reply.completion_tokens - 1));
}

bool meets(const ReplyFigures& reply) {
  return reply.status == 200 &&
         (reply.slo.ttft_us == 0 || 1e3 * reply.ttft_ms <= static_cast<double>(reply.slo.ttft_us)) &&
         (reply.slo.tpot_us == 0 || 1e3 * tpot_ms(reply) <= static_cast<double>(reply.slo.tpot_us)) &&
         (reply.slo.e2e_us == 0 || 1e3 * reply.e2e_ms <= static_cast<double>(reply.slo.e2e_us));
}

// How many requests asked for the same targets, and how many got them.
struct Attained {
  std::int64_t asked = 0, met = 0;
  double share() const { return static_cast<double>(met) / static_cast<double>(std::max<std::int64_t>(1, asked)); }
};

void add_attainment(const std::vector<LoadFigures>& runs, double elapsed_s, nlohmann::json& figures) {
  std::map<std::array<std::int64_t, 3>, Attained> by_target;
  Attained all;
  std::int64_t tokens = 0;
  for (const LoadFigures& run : runs) {
    for (const ReplyFigures& reply : run.replies) {
      if (!reply.slo.any()) continue;
      const bool met = meets(reply);
      for (Attained* sum : {&all, &by_target[{reply.slo.tpot_us, reply.slo.ttft_us, reply.slo.e2e_us}]}) {
        ++sum->asked;
        sum->met += met ? 1 : 0;
      }
      tokens += met ? reply.completion_tokens : 0;
    }
  }
  if (all.asked == 0) return;
  figures["attainment"] = all.share();
  figures["goodput_per_s"] = static_cast<double>(all.met) / elapsed_s;
  figures["goodput_tokens_per_s"] = static_cast<double>(tokens) / elapsed_s;
  for (const auto& [target, sum] : by_target) {
    figures["attainments"].push_back({{"tpot_ms", static_cast<double>(target[0]) / 1e3},
                                      {"ttft_ms", static_cast<double>(target[1]) / 1e3},
                                      {"e2e_ms", static_cast<double>(target[2]) / 1e3},
                                      {"requests", sum.asked},
                                      {"attainment", sum.share()}});
  }
}

}  // namespace

nlohmann::json summarize(const std::vector<LoadFigures>& runs) {
  std::vector<double> ttft, tpot, itl, e2e;
  std::int64_t completed = 0, rejected = 0, failed = 0, tokens = 0, steps = 0, accepted = 0, first_rejections = 0,
               proposed = 0, accepted_siblings = 0;
  double elapsed_s = 1e-9;
  for (const LoadFigures& run : runs) {
    elapsed_s += run.elapsed_s;
    for (const ReplyFigures& reply : run.replies) {
      rejected += reply.status == 429 ? 1 : 0;
      failed += reply.status != 200 && reply.status != 429 ? 1 : 0;
      if (reply.status != 200) continue;
      ++completed;
      tokens += reply.completion_tokens;
      steps += reply.steps;
      proposed += reply.proposed;
      accepted += reply.accepted;
      accepted_siblings += reply.accepted_siblings;
      first_rejections += reply.first_rejections;
      ttft.push_back(reply.ttft_ms);
      if (reply.completion_tokens > 1) tpot.push_back(tpot_ms(reply));
      e2e.push_back(reply.e2e_ms);
      add_gaps(reply, itl);
    }
  }
  const auto tested = static_cast<double>(std::max<std::int64_t>(1, accepted + first_rejections));
  nlohmann::json figures = {{"completed", completed},
                            {"rejected", rejected},
                            {"failed", failed},
                            {"alpha", static_cast<double>(accepted) / tested},
                            {"draft_tokens", proposed},
                            {"accepted_draft_tokens", accepted + accepted_siblings},
                            {"accepted_siblings", accepted_siblings},
                            {"ttft_ms", spread(ttft)},
                            {"tpot_ms", spread(tpot)},
                            {"itl_ms", spread(itl)},
                            {"e2e_ms", spread(e2e)},
                            {"output_tokens", tokens},
                            {"duration_s", elapsed_s},
                            {"tokens_per_s", static_cast<double>(tokens) / elapsed_s}};
  if (steps > 0) figures["accepted_length"] = static_cast<double>(tokens) / static_cast<double>(steps);
  add_attainment(runs, elapsed_s, figures);
  return figures;
}

}  // namespace slip
