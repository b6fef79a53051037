// SPDX-License-Identifier: Apache-2.0
#include "bench/adapt/adapt_gated.h"

#include <cstdlib>
#include <utility>
#include <vector>

#include "common/error.h"
#include "common/file.h"

namespace slip::bench {
namespace {

// As measured on two cores: an engine whose other core trains loses this share of its speed.
constexpr double kLeaseCost = 0.5;
constexpr std::int64_t kPatienceUs = 600'000'000;

std::filesystem::path new_folder() {
  std::string name = (std::filesystem::temp_directory_path() / "slip-gated-XXXXXX").string();
  if (::mkdtemp(name.data()) == nullptr) throw Error(ErrorCode::kIo, "no temporary folder can be made");
  return name;
}

ReplayOptions replay_in(const std::filesystem::path& folder) {
  ReplayOptions options;
  options.folder = folder / "replay";
  return options;
}

LearnerOptions learner_options(const std::filesystem::path& folder, const GatedSetting& setting) {
  LearnerOptions options;
  options.optimizer_folder = folder / "optimizer";
  options.prompt_lookup = true;
  options.at_idle_priority = false;
  options.seed = setting.seed;
  options.sampled_answers = static_cast<std::int32_t>(setting.sampled.most());
  return options;
}

void publish_base(DraftStore& store, const std::filesystem::path& folder) {
  const auto staged = store.staging_folder("base");
  for (const char* name : {"config.json", "tokenizer.json", "model.safetensors"})
    copy_durably(folder / name, staged / name);
  DraftMeta meta;
  meta.draft = "base";
  meta.reason = "base";
  store.publish(staged, meta);
}

}  // namespace

StepDecision AssumedPace::allow_step(const TopicProgress& topic) noexcept {
  PaybackTerms terms;
  terms.steps_per_request = steps_per_request_;
  terms.lease_cost = at_rest_ ? 0 : kLeaseCost;
  return decide_training(topic, terms, pause_);
}

void AssumedPace::on_decision(const CanaryDecision& decision) noexcept {
  if (decision.kind == "rollback") ++rollbacks;
}

void AssumedPace::on_learning(const LearningFigures& figures) noexcept {
  optimizer_steps = static_cast<std::int64_t>(figures.topics.at(0).optimizer_steps);
  training_s = figures.topics.at(0).training_s;
}

GatedLearning::GatedLearning(const std::filesystem::path& base_folder, std::shared_ptr<const ModelWeights> base,
                             const GatedSetting& setting)
    : folder_(new_folder()),
      sampled_(setting.sampled),
      store_(folder_ / "drafts"),
      replay_(replay_in(folder_)),
      topics_(std::vector<Topic>{{"stream", {}, {}}}),
      pace_(setting.steps_per_request, setting.sampled.most() > 0),
      base_(std::make_shared<DraftVersion>(DraftVersion{DraftId{0}, "base", 1, 0, base})),
      live_(std::make_shared<LiveDraft>(
          DraftId{1}, "stream",
          std::make_shared<DraftVersion>(DraftVersion{DraftId{1}, "stream", 0, 0, std::move(base)}))) {
  publish_base(store_, base_folder);
  LearnerOptions options = learner_options(folder_, setting);
  options.answer_again = [this](const Request& request) { answer_again(request); };
  learner_ =
      std::make_unique<Learner>(std::move(options), topics_, std::vector<std::shared_ptr<LiveDraft>>{nullptr, live_},
                                base_, store_, replay_, pace_, pace_);
  learner_->start();
}

GatedLearning::~GatedLearning() {
  learner_.reset();
  std::error_code ignored;
  std::filesystem::remove_all(folder_, ignored);
}

const AssumedPace& GatedLearning::stop() {
  learner_->stop();
  return pace_;
}

void GatedLearning::take(const ReplayRecord& record) {
  ObservedRequest request;
  request.request = record.request;
  request.route.topic = TopicId{1};
  request.sampling = record.sampling;
  const auto prompt = prompt_of(record);
  request.prompt.assign(prompt.begin(), prompt.end());
  tell(std::move(request), record);
  wait();
  wait();  // for what the learner then asked for
}

void GatedLearning::wait() {
  if (!learner_->wait_idle(kPatienceUs)) throw Error(ErrorCode::kInternal, "the learner does not come to rest");
}

// Tells the answer as plain decoding would have given it.
void GatedLearning::tell(ObservedRequest request, const ReplayRecord& answer) {
  ObservationSink& sink = learner_->observations();
  const RequestId id = request.request;
  sink.begin(std::move(request));
  for (std::size_t i = 0; i < answer.target.size(); ++i) {
    Observation observation;
    observation.request = id;
    observation.base_position = answer.prompt_tokens + static_cast<std::int32_t>(i);
    observation.committed = {answer.tokens[static_cast<std::size_t>(observation.base_position)]};
    observation.targets = {answer.target[i]};
    sink.record(std::move(observation));
  }
  sink.finish(id, /*completed=*/true);
}

void GatedLearning::answer_again(const Request& request) {
  const auto& answers = sampled_.to(request.prompt);
  std::size_t& n_told = n_told_[request.prompt];
  if (n_told < answers.size()) tell(observed_request(request, AcceptanceRule::kCoupled), answers[n_told++]);
  request.sink->on_finished({});
}

}  // namespace slip::bench
