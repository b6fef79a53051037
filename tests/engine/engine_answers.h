// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "engine/engine.h"

namespace slip::testing {

// All outputs of an answer that tests of losslessness compare.
struct Answer {
  std::vector<std::int32_t> tokens;
  std::string text;
  std::vector<float> logprobs;  // the tokens' own, then the best of each
  std::vector<TokenLogprobs> prompt_logprobs;
  RequestSummary summary;
  int n_deltas = 0, n_finished = 0;

  bool same_as(const Answer& other) const {
    return tokens == other.tokens && text == other.text && logprobs == other.logprobs &&
           summary.reason == other.summary.reason && summary.figures.checksum == other.summary.figures.checksum;
  }
};

class CollectingSink final : public TokenSink {
 public:
  explicit CollectingSink(Answer& answer, int throw_at_delta = 0) : answer_(answer), throw_at_delta_(throw_at_delta) {}
  void on_tokens(const TokenDelta& delta) override {
    ++answer_.n_deltas;
    if (answer_.n_deltas == throw_at_delta_) throw std::runtime_error("the client went away");
    if (answer_.n_finished > 0) throw std::logic_error("tokens after the end");
    answer_.tokens.insert(answer_.tokens.end(), delta.tokens.begin(), delta.tokens.end());
    answer_.text += delta.text;
    if (answer_.tokens.size() > delta.tokens.size() && !delta.prompt_logprobs.empty()) {
      throw std::logic_error("the prompt behind its answer");
    }
    answer_.prompt_logprobs.insert(answer_.prompt_logprobs.end(), delta.prompt_logprobs.begin(),
                                   delta.prompt_logprobs.end());
    for (const TokenLogprobs& token : delta.logprobs) {
      answer_.logprobs.push_back(token.logprob);
      for (const TokenLogprob& best : token.top) answer_.logprobs.push_back(best.logprob);
    }
  }
  void on_finished(const RequestSummary& summary) override {
    ++answer_.n_finished;
    answer_.summary = summary;
  }

 private:
  Answer& answer_;
  int throw_at_delta_;
};

// A request for all outputs that can be compared.
inline Request full_request(std::uint64_t id, std::vector<std::int32_t> prompt, Answer& answer) {
  Request request;
  request.id = {id};
  request.prompt = std::move(prompt);
  request.top_logprobs = 2;
  request.checksum = true;
  request.sink = std::make_shared<CollectingSink>(answer);
  return request;
}

// Steps until all requests are finished; false when `most_steps` did not suffice.
inline bool drain(Engine& engine, int most_steps = 100000) {
  for (int step = 0; step < most_steps; ++step) {
    if (!engine.step()) return true;
  }
  return false;
}

// A live draft without a version, for proposers that need none: it only enables drafting.
inline std::shared_ptr<LiveDraft> empty_live_draft() {
  return std::make_shared<LiveDraft>(DraftId{3}, "toy");
}

struct RecordingListener final : StepListener {
  std::vector<StepFigures> steps;
  std::vector<RequestSummary> finished;
  void on_step(const StepFigures& figures) noexcept override { steps.push_back(figures); }
  void on_finished(const RequestSummary& summary) noexcept override { finished.push_back(summary); }
};

struct RecordingObservations final : ObservationSink {
  std::map<std::uint64_t, ObservedRequest> begun;
  std::map<std::uint64_t, std::vector<Observation>> recorded;
  std::map<std::uint64_t, bool> finished;
  void begin(ObservedRequest request) noexcept override { begun.emplace(request.request.value, std::move(request)); }
  void record(Observation observation) noexcept override {
    recorded[observation.request.value].push_back(std::move(observation));
  }
  void finish(RequestId request, bool completed) noexcept override { finished.emplace(request.value, completed); }
};

}  // namespace slip::testing
