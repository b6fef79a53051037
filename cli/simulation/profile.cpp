// SPDX-License-Identifier: Apache-2.0
#include "cli/simulation/profile.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <span>
#include <utility>
#include <vector>

#include "checkpoints/strict_json.h"
#include "cli/simulation/decoding.h"
#include "cli/simulation/samples.h"
#include "common/clock.h"
#include "common/error.h"
#include "common/file.h"
#include "engine/engine.h"

namespace slip {
namespace {

using nlohmann::json;

constexpr int kFormat = 1;
constexpr std::uint64_t kMostProfileBytes = 1 << 20;
constexpr int kRounds = 9;
constexpr double kPassBudgetSeconds = 0.01;  // for one shape in one round

// Row counts of the table: all that a small step has, and where kernels change their way.
constexpr std::int32_t kTableRows[] = {1, 2, 4, 8, 12, 16, 17, 24, 32, 48, 64, 96, 128, 192, 256};
constexpr std::int32_t kMostRows = 256, kLogitRows = 32, kSequences = 8;
constexpr std::int32_t kShort = 128, kLong = 512;  // contexts, in tokens

// A shape to time. Prompts have the logits of their last row alone.
struct Probe {
  StepShape shape;
  bool all_logits = true;
  Samples samples;
  double us() const { return 1e6 * samples.median(); }
  PassShape pass() const { return pass_shape(shape.n_sequences, shape.n_rows, shape.context, all_logits); }
};

// Shapes that no term is made from: steps of several answers that verify proposals, and prompts.
constexpr StepShape kHeldOutSteps[] = {{200, 3, 3}, {300, 5, 1}, {160, 8, 4}, {384, 2, 9}, {256, 6, 6}, {150, 4, 1}};
constexpr StepShape kHeldOutPrompts[] = {{300, 1, 40}, {200, 1, 80}, {350, 1, 150}};

// The contexts of a model with few positions are shorter.
std::int32_t fitting(std::int32_t context, const ModelConfig& config) {
  const std::int64_t room = config.max_positions - kMostRows;
  return static_cast<std::int32_t>(std::min<std::int64_t>(context, room * context / kLong));
}

void measure(Decoding& decoding, std::vector<Probe>& probes, const ProfileObserver& observer, const std::string& name) {
  for (int round = 0; round < kRounds; ++round) {
    observer("profile: " + name + ", round " + std::to_string(round + 1) + " of " + std::to_string(kRounds));
    for (Probe& probe : probes) {
      probe.samples.measure([&] { decoding.step(probe.shape, probe.all_logits); }, kPassBudgetSeconds);
    }
  }
}

double positive(double us) {
  return std::max(0.0, us);
}

// The terms, each from the two shapes that differ in it alone. The table's passes saw a context too, whose cost is
// taken off them.
PassCosts costs_of(std::span<const Probe> table, const Probe& logits, const Probe& few, const Probe& many,
                   const Probe& prompt_behind) {
  PassCosts::Terms terms;
  for (const Probe& probe : table) terms.row_us[probe.shape.n_rows] = probe.us();
  const auto at = [&](std::int32_t rows) { return terms.row_us.at(rows); };
  terms.more_row_us = positive(at(kMostRows) - at(kMostRows / 2)) / (kMostRows / 2.0);
  terms.logit_row_us = positive(logits.us() - at(kLogitRows)) / (kLogitRows - 1);

  const std::int32_t context = few.shape.context;
  const double further = many.shape.context - context;
  const double of_one_row = positive(many.us() - few.us()) / (further * kSequences);  // of a cached token
  const double of_many_rows = positive(prompt_behind.us() - at(kMostRows)) / further;
  terms.row_context_us = positive(of_many_rows - of_one_row) / (kMostRows - 1);
  terms.context_us = positive(of_one_row - terms.row_context_us);
  for (auto& [rows, us] : terms.row_us) {
    us = std::max(us / 2, us - context * (terms.context_us + rows * terms.row_context_us));
  }
  const double one_each = at(kSequences) + terms.logit_row_us * (kSequences - 1) + of_one_row * context * kSequences;
  terms.sequence_us = positive(few.us() - one_each) / (kSequences - 1);
  return PassCosts(std::move(terms));
}

ProfileError error_of(const PassCosts& costs, std::span<const Probe> probes) {
  std::vector<double> errors;
  for (const Probe& probe : probes) errors.push_back(std::abs(costs.us(probe.pass()) / probe.us() - 1));
  std::sort(errors.begin(), errors.end());
  return {static_cast<int>(errors.size()), errors[errors.size() / 2], errors.back()};
}

json model_json(const ModelProfile& model) {
  json out = {{"model", model.model}, {"costs", model.costs.to_json()}};
  if (model.error) {
    out["held_out"] = {
        {"passes", model.error->passes}, {"median_error", model.error->median}, {"worst_error", model.error->worst}};
  }
  return out;
}

[[noreturn]] void refuse(const std::string& what) {
  throw Error(ErrorCode::kInvalidArgument, what, "make it with slipstream profile", "--profile");
}

bool is_profile(const json& read) {
  return read.is_object() && read.contains("slipstream_profile");
}

double number_of(const json& object, const std::string& where, const char* key) {
  const bool is_number = object.is_object() && object.contains(key) && object[key].is_number();
  const double value = is_number ? object[key].get<double>() : -1;
  constexpr double kMost = 3.6e9;  // µs of an hour
  if (!(value >= 0 && value <= kMost)) refuse(where + ": " + key + " is no number from 0 to 3600000000");
  return value;
}

std::string text_of(const json& object, const char* key) {
  return object.contains(key) && object[key].is_string() ? object[key].get<std::string>() : "";
}

ModelProfile model_of(const json& object, const std::string& where) {
  if (!object.is_object() || !object.contains("costs")) refuse(where + ": costs is missing");
  ModelProfile model{text_of(object, "model"), PassCosts::from_json(object["costs"], where), std::nullopt};
  if (!object.contains("held_out")) return model;
  const json& error = object["held_out"];
  model.error = ProfileError{static_cast<int>(number_of(error, where, "passes")),
                             number_of(error, where, "median_error"), number_of(error, where, "worst_error")};
  return model;
}

// A target that keeps the time of its last pass.
class TimedTarget final : public Worker {
 public:
  explicit TimedTarget(std::unique_ptr<Worker> worker) : worker_(std::move(worker)) {}
  void run(const StepInput& input, StepOutput& output) override {
    const std::int64_t start_us = monotonic_us();
    worker_->run(input, output);
    pass_us_ = monotonic_us() - start_us;
  }
  const ModelConfig& config() const override { return worker_->config(); }
  PagePool& cache() override { return worker_->cache(); }
  std::int32_t max_rows() const override { return worker_->max_rows(); }
  std::int32_t max_logit_rows() const override { return worker_->max_logit_rows(); }
  std::int64_t pass_us() const { return pass_us_; }

 private:
  std::unique_ptr<Worker> worker_;
  std::int64_t pass_us_ = 0;
};

// Keeps what plain decoding's steps take beside their passes. A difference within a step: between steps, the speed of
// some machines changes by more than that.
class TimesBesidePasses final : public StepListener {
 public:
  explicit TimesBesidePasses(const TimedTarget& target) : target_(target) {}
  void on_step(const StepFigures& figures) noexcept override {
    if (figures.n_prefilling > 0 || figures.n_decoding == 0) return;
    us_.add(static_cast<double>(figures.step_us - target_.pass_us()));
  }
  double median_us() const { return us_.median(); }

 private:
  const TimedTarget& target_;
  Samples us_;
};

class NoSink final : public TokenSink {
 public:
  void on_tokens(const TokenDelta&) override {}
  void on_finished(const RequestSummary&) override {}
};

// Median time that an engine's step takes beside its pass while it decodes `n` answers.
double us_beside_pass(const std::shared_ptr<const ModelWeights>& weights, kernels::ThreadPool& pool, std::int32_t n) {
  constexpr std::int32_t kPrompt = 64, kAnswer = 48;
  EngineOptions options;
  options.k = 0;
  options.max_running = n;
  const std::int32_t pages = n * (PagePool::pages_for(kPrompt + kAnswer) + 1);
  auto target = std::make_unique<TimedTarget>(
      std::make_unique<LocalWorker>(weights, options.prefill_chunk + n + 1, n + 1, pages, pool));
  TimesBesidePasses times(*target);
  Engine engine(options, Target(std::move(target), &pool), nullptr, pool, nullptr, {&times});
  for (std::int32_t i = 0; i < n; ++i) {
    Request request;
    request.id = RequestId{static_cast<std::uint64_t>(i) + 1};
    for (std::int32_t at = 0; at < kPrompt; ++at) {
      request.prompt.push_back((31 * at + 7 * i) % weights->config.vocab_size);
    }
    request.sampling.temperature = 0;
    request.max_tokens = kAnswer;
    request.learn = false;
    request.sink = std::make_shared<NoSink>();
    engine.submit(std::move(request));
  }
  while (engine.step()) {
  }
  return times.median_us();
}

}  // namespace

ModelProfile measure_model(const std::string& name, const std::shared_ptr<const ModelWeights>& weights,
                           kernels::ThreadPool& pool, const ProfileObserver& observer) {
  if (weights->config.max_positions < 2 * kMostRows) {
    throw Error(ErrorCode::kUnsupported, name + " has " + std::to_string(weights->config.max_positions) +
                                             " positions; a profile needs " + std::to_string(2 * kMostRows));
  }
  const std::int32_t few = fitting(kShort, weights->config), many = fitting(kLong, weights->config);
  DecodingSize size;
  size.most_context = many;
  size.most_sequences = kSequences;
  size.most_rows = kMostRows;
  size.most_step_rows = 64;
  size.most_chunk = kMostRows;
  Decoding decoding(weights, size, pool);
  observer("profile: " + name);
  decoding.fill();
  std::vector<Probe> probes;
  for (const std::int32_t rows : kTableRows) probes.push_back({{few, 1, rows}, /*all_logits=*/false, {}});
  const std::size_t n_table = probes.size();
  probes.push_back({{few, 1, kLogitRows}, true, {}});
  probes.push_back({{few, kSequences, 1}, true, {}});
  probes.push_back({{many, kSequences, 1}, true, {}});
  probes.push_back({{many, 1, kMostRows}, false, {}});
  const std::size_t n_terms = probes.size();
  const auto hold_out = [&](std::span<const StepShape> shapes, bool all_logits) {
    for (StepShape shape : shapes) {
      shape.context = fitting(shape.context, weights->config);
      probes.push_back({shape, all_logits, {}});
    }
  };
  hold_out(kHeldOutSteps, true);
  hold_out(kHeldOutPrompts, false);
  measure(decoding, probes, observer, name);
  const std::span all(probes);
  const PassCosts costs =
      costs_of(all.first(n_table), all[n_table], all[n_table + 1], all[n_table + 2], all[n_table + 3]);
  return {name, costs, error_of(costs, all.subspan(n_terms))};
}

OtherCosts measure_other_costs(const std::shared_ptr<const ModelWeights>& weights, kernels::ThreadPool& pool,
                               const ProfileObserver& observer) {
  observer("profile: steps of the engine");
  const double one_us = us_beside_pass(weights, pool, 1), all_us = us_beside_pass(weights, pool, kSequences);
  OtherCosts other;
  other.row_us = positive(all_us - one_us) / (kSequences - 1);
  other.step_us = positive(one_us - other.row_us);
  return other;
}

std::string to_text(const Profile& profile) {
  json out = {{"slipstream_profile", kFormat},        {"machine", profile.machine},
              {"target", model_json(profile.target)}, {"step_us", profile.other.step_us},
              {"row_us", profile.other.row_us},       {"request_us", profile.other.request_us}};
  if (profile.draft) out["draft"] = model_json(*profile.draft);
  return out.dump(2) + "\n";
}

bool is_profile(const std::filesystem::path& file) {
  try {
    return is_profile(parse_strict_json(read_file(file, kMostProfileBytes), file.string()));
  } catch (const Error&) {
    return false;
  }
}

Profile read_profile(const std::filesystem::path& file) {
  const std::string name = file.string();
  const json read = parse_strict_json(read_file(file, kMostProfileBytes), name);
  if (!is_profile(read)) refuse(name + " is no profile");
  if (read["slipstream_profile"] != kFormat) {
    refuse(name + " has format " + read["slipstream_profile"].dump() + ", this program reads " +
           std::to_string(kFormat));
  }
  if (!read.contains("target")) refuse(name + ": target is missing");
  Profile profile{
      text_of(read, "machine"),
      model_of(read["target"], name + ": target"),
      std::nullopt,
      {number_of(read, name, "step_us"), number_of(read, name, "row_us"), number_of(read, name, "request_us")}};
  if (read.contains("draft")) profile.draft = model_of(read["draft"], name + ": draft");
  return profile;
}

}  // namespace slip
