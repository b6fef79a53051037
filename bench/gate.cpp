// SPDX-License-Identifier: Apache-2.0
// Tests the gate on recorded text: requests until a better draft is live, and the effect of faulty drafts. Every score
// is a real draft's on a record of the target's own answers. Runs no target; deterministic.
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <bit>
#include <cstdio>
#include <filesystem>
#include <functional>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <numeric>
#include <optional>
#include <string>
#include <vector>

#include "bench/adapt/adapt_replay.h"
#include "bench/common/result.h"
#include "checkpoints/safetensors.h"
#include "cli/progress_line.h"
#include "common/error.h"
#include "distill/canary/canary.h"
#include "distill/replay/near_copies.h"
#include "engine/sampling/random.h"

namespace slip::bench {
namespace {

using nlohmann::json;

constexpr double kStepsToBeGone = 200;  // target steps that a faulty version may serve
constexpr double kTolerance = 0.005;    // of α: draft pairs whose gain is --better within this
constexpr std::size_t kCopies = 13;

struct Options {
  std::string draft, stream, dev, other;
  std::size_t trained = 150, every = 10;
  std::uint64_t trials = 301, seeds = 20;
  double better = 0.03;
  int k = 3;
  bool json = false;
};

using Scores = std::vector<AcceptanceScore>;  // of one draft, one per record
using Order = std::vector<std::size_t>;       // indices of records in order of arrival

// A permutation of 0 … n − 1, determined by `seed`.
Order shuffled(std::size_t n, std::uint64_t seed, std::uint32_t what = 0) {
  Order order(n);
  std::iota(order.begin(), order.end(), std::size_t{0});
  for (std::size_t i = n; i > 1; --i) {
    const double at = uniform(RandomAddress{seed, what, static_cast<std::uint32_t>(i)}, RandomPurpose::kDraft, 1);
    std::swap(order[i - 1], order[static_cast<std::size_t>(at * static_cast<double>(i))]);
  }
  return order;
}

double alpha_of(const Scores& scores) {
  return std::accumulate(scores.begin(), scores.end(), AcceptanceScore{},
                         [](AcceptanceScore sum, const AcceptanceScore& one) { return sum += one; })
      .alpha();
}

struct Fate {
  std::optional<std::size_t> published_after;  // requests
  bool gone = false;                           // rolled back after publication
  double served = 0;                           // target steps that the version served
};

// Runs one candidate against the live draft on the records in the given order: first the gate, then the watch. A
// near-copy of an earlier record is no evidence, unless `count_copies`.
Fate follow(const Scores& live, const Scores& candidate, const std::vector<ReplayRecord>& records, const Order& order,
            bool count_copies = false) {
  const CanaryOptions canary;
  PairedTest test(canary.margin);
  LiveWatch watch;
  NearCopies copies;
  Fate fate;
  for (std::size_t i = 0; i < order.size(); ++i) {
    const std::size_t at = order[i];
    const PairedScore pair = pair_of(candidate[at], live[at]);
    if (fate.published_after) fate.served += pair.candidate.steps;
    const ReplayRecord& record = records[at];
    if (copies.add(record.tokens, static_cast<std::size_t>(record.prompt_tokens)).seen && !count_copies) continue;
    if (!fate.published_after) {
      test.add(pair);
      if (evaluate_candidate(canary, test).outcome == CanaryOutcome::kPublish) fate.published_after = i + 1;
      continue;
    }
    watch.add(pair);
    fate.gone = evaluate_live(canary, watch).outcome == CanaryOutcome::kRefuse;
    if (fate.gone) break;
  }
  return fate;
}

// How long a faulty version would serve if it were published without a gate.
double steps_served_without_gate(const Scores& live, const Scores& faulty, const Order& order) {
  LiveWatch watch;
  double served = 0;
  for (const std::size_t at : order) {
    served += faulty[at].steps;
    watch.add({faulty[at], live[at]});
    if (evaluate_live({}, watch).outcome == CanaryOutcome::kRefuse) return served;
  }
  return std::numeric_limits<double>::infinity();
}

template <class Value>
Value quantile(std::vector<Value> values, double share) {
  std::sort(values.begin(), values.end());
  return values[static_cast<std::size_t>(share * static_cast<double>(values.size() - 1))];
}

// A copy of a draft folder with tensors modified by `change`.
class ChangedDraft {
 public:
  ChangedDraft(const std::filesystem::path& from, const std::string& name,
               const std::function<void(std::vector<std::byte>&, Dtype, std::uint32_t)>& change)
      : folder_(std::filesystem::temp_directory_path() /
                ("slipstream-gate-" + std::to_string(::getpid()) + "-" + name)) {
    std::filesystem::remove_all(folder_);
    std::filesystem::copy(from, folder_, std::filesystem::copy_options::recursive);
    const SafetensorsFile file(from / "model.safetensors");
    TensorMap tensors = file.tensors();
    std::vector<std::vector<std::byte>> bytes;
    bytes.reserve(tensors.size());
    for (auto& [tensor, stored] : tensors) {
      bytes.emplace_back(stored.bytes.begin(), stored.bytes.end());
      change(bytes.back(), stored.dtype, static_cast<std::uint32_t>(bytes.size()));
      stored.bytes = bytes.back();
    }
    write_safetensors(folder_ / "model.safetensors", tensors, file.metadata(), "bench.gate");
  }
  ~ChangedDraft() {
    std::error_code ignored;
    std::filesystem::remove_all(folder_, ignored);
  }
  ChangedDraft(const ChangedDraft&) = delete;
  ChangedDraft& operator=(const ChangedDraft&) = delete;
  std::shared_ptr<const ModelWeights> load() const {
    return ModelWeights::load(folder_, Dtype::kBFloat16, /*check_finite=*/true);
  }

 private:
  std::filesystem::path folder_;
};

std::size_t width(Dtype dtype) {
  return dtype == Dtype::kFloat32 ? 4 : 2;
}

// Shuffles the values within every tensor.
std::shared_ptr<const ModelWeights> shuffled_weights(const std::string& draft, std::uint64_t seed) {
  const ChangedDraft changed(draft, "shuffled", [&](std::vector<std::byte>& bytes, Dtype dtype, std::uint32_t tensor) {
    const std::vector<std::byte> before = bytes;
    const std::size_t size = width(dtype);
    const Order order = shuffled(bytes.size() / size, seed, tensor);
    for (std::size_t i = 0; i < order.size(); ++i) {
      std::copy_n(before.begin() + static_cast<std::ptrdiff_t>(order[i] * size), size,
                  bytes.begin() + static_cast<std::ptrdiff_t>(i * size));
    }
  });
  return changed.load();
}

// Replaces one value of the draft, chosen by `seed`, by NaN.
std::shared_ptr<const ModelWeights> weights_with_nan(const std::string& draft, std::uint64_t seed) {
  const ChangedDraft changed(draft, "nan", [&](std::vector<std::byte>& bytes, Dtype dtype, std::uint32_t tensor) {
    if (tensor != 1 + seed % 3) return;
    const std::size_t size = width(dtype);
    const std::size_t at = shuffled(bytes.size() / size, seed, tensor).front() * size;
    std::fill_n(bytes.begin() + static_cast<std::ptrdiff_t>(at), size,
                std::byte{0xff});  // all ones: a NaN in each format
  });
  return changed.load();
}

// A poisoned record: each row of the target's distribution is paired with another token of its answer.
ReplayRecord poisoned(ReplayRecord record) {
  const auto half = static_cast<std::ptrdiff_t>(record.target.size() / 2);
  std::rotate(record.target.begin(), record.target.begin() + half, record.target.end());
  return record;
}

class GateBench {
 public:
  explicit GateBench(const Options& options) : options_(options), scorer_(options.draft, options.k) {
    stream_ = read_recorded(options.stream);
    records_ = read_recorded(options.dev);
    other_ = read_recorded(options.other);
    if (stream_.size() < 2 * options.trained || other_.size() < options.trained) {
      throw Error(ErrorCode::kInvalidArgument, "the streams are too short for --trained",
                  "give --stream twice and --other once as many records", "trained");
    }
    records_.insert(records_.end(), stream_.begin() + static_cast<std::ptrdiff_t>(options.trained), stream_.end());
    stream_.resize(options.trained);
  }

  json run() {
    json result = {{"topic", stream_.front().topic}, {"records", records_.size()}};
    const std::vector<Scores> versions = versions_of_a_training();
    live_ = versions.back();
    result["base"] = alpha_of(versions.front());
    result["live"] = alpha_of(live_);
    result["better"] = better(versions);
    result["faults"] = json::array();
    const auto fault = [&](const std::string& name, const auto& make) {
      result["faults"].push_back(plant(name, make));
    };
    fault("not a number", [&](std::uint64_t seed) { return weights_with_nan(options_.draft, seed); });
    fault("weights shuffled", [&](std::uint64_t seed) { return shuffled_weights(options_.draft, seed); });
    fault("fitted to another topic", [&](std::uint64_t seed) { return trained_on(other_, seed); });
    fault("stale: the base draft", [&](std::uint64_t) { return scorer_.shared_base(); });
    std::vector<ReplayRecord> bad;
    std::transform(stream_.begin(), stream_.end(), std::back_inserter(bad), poisoned);
    fault("poisoned records", [&](std::uint64_t seed) { return trained_on(bad, seed); });
    result["copies"] = thirteen_copies();
    return result;
  }

 private:
  Scores scores(const ModelWeights& draft) {
    Scores result;
    for (const ReplayRecord& record : records_) result.push_back(scorer_.score(draft, record));
    return result;
  }

  std::vector<Scores> versions_of_a_training() {
    OnlineTraining training(options_.draft, {}, 1);
    std::vector<Scores> versions = {scores(scorer_.base())};
    for (std::size_t i = 0; i < stream_.size(); ++i) {
      training.take(stream_[i]);
      if ((i + 1) % options_.every != 0) continue;
      cli::redraw_line("training: " + std::to_string(i + 1) + " of " + std::to_string(stream_.size()));
      versions.push_back(scores(*training.weights()));
    }
    cli::redraw_line("");
    return versions;
  }

  // Requests until a candidate better by `better` is live, over all pairs of versions with that gain.
  json better(const std::vector<Scores>& versions) const {
    std::vector<std::pair<std::size_t, std::size_t>> pairs;
    for (std::size_t live = 0; live < versions.size(); ++live) {
      for (std::size_t candidate = live + 1; candidate < versions.size(); ++candidate) {
        const double gain = alpha_of(versions[candidate]) - alpha_of(versions[live]);
        if (std::abs(gain - options_.better) <= kTolerance) pairs.emplace_back(live, candidate);
      }
    }
    if (pairs.empty()) return nullptr;
    std::vector<std::size_t> requests;
    std::size_t missed = 0;
    for (std::uint64_t trial = 0; trial < options_.trials; ++trial) {
      const auto [live, candidate] = pairs[trial % pairs.size()];
      const Fate fate = follow(versions[live], versions[candidate], records_, shuffled(records_.size(), trial + 1));
      missed += fate.published_after ? 0 : 1;
      requests.push_back(fate.published_after.value_or(records_.size() + 1));
    }
    return {{"pairs", pairs.size()},
            {"trials", options_.trials},
            {"requests_median", quantile(requests, 0.5)},
            {"requests_p90", quantile(requests, 0.9)},
            {"missed", missed}};
  }

  std::shared_ptr<const ModelWeights> trained_on(const std::vector<ReplayRecord>& records, std::uint64_t seed) const {
    OnlineTraining training(options_.draft, {}, seed);
    for (std::size_t i = 0; i < options_.trained / 2; ++i) training.take(records[i]);
    return training.weights();
  }

  // Runs a faulty candidate per seed against the live draft.
  json plant(const std::string& name, const std::function<std::shared_ptr<const ModelWeights>(std::uint64_t)>& make) {
    json row = {
        {"fault", name}, {"seeds", options_.seeds}, {"refused_when_read", 0}, {"live", 0}, {"live_too_long", 0}};
    std::vector<double> alphas, served, without_gate;
    for (std::uint64_t seed = 1; seed <= options_.seeds; ++seed) {
      cli::redraw_line(name + ": " + std::to_string(seed) + " of " + std::to_string(options_.seeds));
      Scores faulty;
      try {
        faulty = scores(*make(seed));
      } catch (const Error& error) {
        if (error.code() != ErrorCode::kDataLoss) throw;
        row["refused_when_read"] = row["refused_when_read"].get<int>() + 1;
        continue;
      }
      const Order order = shuffled(records_.size(), seed);
      const Fate fate = follow(live_, faulty, records_, order);
      alphas.push_back(alpha_of(faulty));
      without_gate.push_back(steps_served_without_gate(live_, faulty, order));
      if (!fate.published_after) continue;
      row["live"] = row["live"].get<int>() + 1;
      served.push_back(fate.served);
      if (!fate.gone || fate.served > kStepsToBeGone) row["live_too_long"] = row["live_too_long"].get<int>() + 1;
    }
    cli::redraw_line("");
    if (!alphas.empty()) {
      row["alpha_median"] = quantile(alphas, 0.5);
      row["without_gate"] = {{"steps_median", quantile(without_gate, 0.5)},
                             {"gone_in_time", std::count_if(without_gate.begin(), without_gate.end(),
                                                            [](double steps) { return steps <= kStepsToBeGone; })}};
    }
    if (!served.empty()) row["steps_served"] = served;
    return row;
  }

  // A draft that memorized one prompt, evaluated on copies of that prompt. The control counts the copies.
  json thirteen_copies() {
    json row = {{"seeds", options_.seeds}, {"live", 0}, {"live_when_copies_count", 0}};
    std::vector<double> alphas;
    for (std::uint64_t seed = 1; seed <= options_.seeds; ++seed) {
      cli::redraw_line("13 copies: " + std::to_string(seed) + " of " + std::to_string(options_.seeds));
      const ReplayRecord& record = stream_[seed % stream_.size()];
      const std::vector<ReplayRecord> copies(kCopies, record);
      OnlineTraining training(options_.draft, {}, seed);
      for (int pass = 0; pass < 4; ++pass) {
        for (const ReplayRecord& copy : copies) training.take(copy);
      }
      const auto by_heart = training.weights();
      alphas.push_back(alpha_of(scores(*by_heart)));
      const Scores candidate(kCopies, scorer_.score(*by_heart, record));
      const Scores base(kCopies, scorer_.score(scorer_.base(), record));
      const Order order = shuffled(kCopies, seed);
      row["live"] = row["live"].get<int>() + (follow(base, candidate, copies, order).published_after ? 1 : 0);
      row["live_when_copies_count"] = row["live_when_copies_count"].get<int>() +
                                      (follow(base, candidate, copies, order, true).published_after ? 1 : 0);
    }
    cli::redraw_line("");
    row["alpha_median"] = quantile(alphas, 0.5);
    return row;
  }

  Options options_;
  RecordScorer scorer_;
  std::vector<ReplayRecord> stream_, records_, other_;
  Scores live_;
};

void print_table(const json& result) {
  std::printf("%s: %zu records, base α %.3f, live α %.3f\n", result["topic"].get<std::string>().c_str(),
              result["records"].get<std::size_t>(), result["base"].get<double>(), result["live"].get<double>());
  const json& better = result["better"];
  if (better.is_null()) {
    std::printf("no two versions are that far apart\n");
  } else {
    std::printf("better: %zu pairs of versions, %zu trials: live after %zu requests (median), %zu (p90); missed %zu\n",
                better["pairs"].get<std::size_t>(), better["trials"].get<std::size_t>(),
                better["requests_median"].get<std::size_t>(), better["requests_p90"].get<std::size_t>(),
                better["missed"].get<std::size_t>());
  }
  for (const json& row : result["faults"]) {
    std::printf("%-24s of %d: refused when read %d, live %d, of these over %.0f steps %d",
                row["fault"].get<std::string>().c_str(), row["seeds"].get<int>(), row["refused_when_read"].get<int>(),
                row["live"].get<int>(), kStepsToBeGone, row["live_too_long"].get<int>());
    if (row.contains("without_gate")) {
      std::printf("; α %.3f; put live by hand, gone in time %d, after %.0f steps (median)",
                  row["alpha_median"].get<double>(), row["without_gate"]["gone_in_time"].get<int>(),
                  row["without_gate"]["steps_median"].get<double>());
    }
    std::printf("\n");
  }
  const json& copies = result["copies"];
  std::printf("13 copies of a prompt    of %d: live %d (%d if copies counted); α %.3f\n", copies["seeds"].get<int>(),
              copies["live"].get<int>(), copies["live_when_copies_count"].get<int>(),
              copies["alpha_median"].get<double>());
}

}  // namespace
}  // namespace slip::bench

int main(int argc, char** argv) {
  slip::bench::Options options;
  CLI::App app{"The gate on recorded text: requests until a better draft is live, and what faulty drafts do to it."};
  app.add_option("--draft", options.draft, "Base draft folder")->required();
  app.add_option("--stream", options.stream, "Replay folder of a recorded stream (bench/adapt --record)")->required();
  app.add_option("--dev", options.dev, "Replay folder of prompts never streamed")->required();
  app.add_option("--other", options.other, "Replay folder of another topic's stream")->required();
  app.add_option("--trained", options.trained, "Number of records to train versions on; the rest evaluates them");
  app.add_option("--every", options.every, "Records between two versions");
  app.add_option("--better", options.better, "Gain in α of candidates that should be published");
  app.add_option("--trials", options.trials, "Record orders to try for these candidates");
  app.add_option("--seeds", options.seeds, "Drafts and record orders per fault");
  app.add_option("--k", options.k, "Draft length");
  app.add_flag("--json", options.json, "Print JSON");
  CLI11_PARSE(app, argc, argv);
  return slip::bench::show_result(
      "gate", options.json, [&] { return slip::bench::GateBench(options).run(); }, slip::bench::print_table);
}
