// SPDX-License-Identifier: Apache-2.0
#include "bench/adapt/adapt_report.h"

#include <algorithm>
#include <cstdio>

namespace slip::bench {
namespace {

using nlohmann::json;

bool strip_prefix(std::string& text, const std::string& prefix) {
  if (!text.starts_with(prefix)) return false;
  text.erase(0, prefix.size());
  return true;
}

json window_report(const std::vector<AcceptanceScore>& served, std::size_t window) {
  json windows = json::array();
  for (std::size_t begin = 0; begin < served.size(); begin += window) {
    AcceptanceScore sum;
    const std::size_t end = std::min(begin + window, served.size());
    for (std::size_t i = begin; i < end; ++i) {
      sum.accepted += served[i].accepted;
      sum.first_rejections += served[i].first_rejections;
      sum.steps += served[i].steps;
      sum.tokens += served[i].tokens;
    }
    windows.push_back({{"requests", end}, {"alpha", sum.alpha()}, {"accepted_length", sum.accepted_length()}});
  }
  return windows;
}

json requests_to(const ArmRun& run, double level) {
  for (const ArmLook& look : run.looks) {
    if (look.alpha >= level) return look.requests;
  }
  return nullptr;
}

json median(std::vector<json> values) {
  std::sort(values.begin(), values.end(), [](const json& a, const json& b) {
    if (a.is_null() || b.is_null()) return !a.is_null() && b.is_null();
    return a.get<double>() < b.get<double>();
  });
  return values[(values.size() - 1) / 2];
}

}  // namespace

std::vector<Prompt> read_stream(const AdaptOptions& options) {
  std::vector<std::string> files = options.stream;
  const bool mixed = !files.empty() && strip_prefix(files.front(), "mix:");
  const bool shifted = !mixed && !files.empty() && strip_prefix(files.front(), "shift:");
  std::vector<std::vector<Prompt>> parts;
  const std::size_t each = mixed || shifted ? (options.requests + files.size() - 1) / files.size() : options.requests;
  for (const auto& file : files) parts.push_back(read_prompts(file, options.skip_share, each));
  std::vector<Prompt> prompts;
  for (std::size_t i = 0; mixed && i < each; ++i) {
    for (const auto& part : parts) {
      if (i < part.size()) prompts.push_back(part[i]);
    }
  }
  for (std::size_t p = 0; !mixed && p < parts.size(); ++p) {
    prompts.insert(prompts.end(), parts[p].begin(), parts[p].end());
  }
  prompts.resize(std::min(prompts.size(), options.requests));
  return prompts;
}

json recorded_report(const AdaptOptions& options, const std::map<std::string, ArmRun>& runs) {
  const auto offline = runs.find("offline-100");
  json report;
  for (const auto& [name, run] : runs) {
    json& arm = report[name];
    arm["final_alpha"] = run.final_alpha;
    const double first = run.looks.empty() ? 0 : run.looks.front().alpha;
    const double ceiling = offline == runs.end() ? run.final_alpha : offline->second.final_alpha;
    const bool rises = !run.looks.empty() && ceiling > first;
    for (const int share : {50, 90}) {
      const double level = first + share / 100.0 * (ceiling - first);
      arm["requests_to_" + std::to_string(share)] = rises ? requests_to(run, level) : json(nullptr);
    }
    arm["windows"] = window_report(run.served, options.window);
    arm["looks"] = json::array();
    for (const ArmLook& look : run.looks) arm["looks"].push_back({{"requests", look.requests}, {"alpha", look.alpha}});
    arm["tokens_per_s"] = nullptr;  // no target ran
    arm["optimizer_steps"] = run.optimizer_steps;
    arm["training_seconds"] = run.training_seconds;
    arm["publishes"] = run.publishes;
    arm["rollbacks"] = run.rollbacks;
    if (!run.chosen.empty()) arm["chosen"] = run.chosen;
  }
  return report;
}

json median_report(const json& seeds) {
  json result = seeds.front();  // lists and texts are from the first seed
  for (auto& [name, arm] : result.items()) {
    for (auto& [key, value] : arm.items()) {
      if (!value.is_number() && !value.is_null()) continue;
      std::vector<json> values;
      for (const json& seed : seeds) values.push_back(seed[name][key]);
      value = median(std::move(values));
    }
  }
  return result;
}

void print_adapt_table(const json& result) {
  std::printf("%s\n%-12s %7s %6s %6s %6s %8s %5s  α by windows of %zu requests\n",
              result["topic"].get<std::string>().c_str(), "arm", "final α", "to 50%", "to 90%", "steps", "seconds",
              "publ.", result["window"].get<std::size_t>());
  const auto text = [](const json& value) { return value.is_null() ? std::string("–") : value.dump(); };
  for (const auto& [name, arm] : result["arms"].items()) {
    std::printf(
        "%-12s %7.3f %6s %6s %6s %8.1f %5s ", name.c_str(), arm["final_alpha"].get<double>(),
        text(arm["requests_to_50"]).c_str(), text(arm["requests_to_90"]).c_str(), text(arm["optimizer_steps"]).c_str(),
        arm["training_seconds"].is_null() ? 0 : arm["training_seconds"].get<double>(), text(arm["publishes"]).c_str());
    for (const auto& window : arm["windows"]) std::printf(" %.3f", window["alpha"].get<double>());
    std::printf("\n");
  }
}

}  // namespace slip::bench
