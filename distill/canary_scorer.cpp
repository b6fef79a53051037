// SPDX-License-Identifier: Apache-2.0
#include "distill/canary_scorer.h"

#include <algorithm>
#include <utility>

#include "common/clock.h"
#include "common/log.h"

namespace slip {

namespace {

constexpr std::size_t kHeldoutRecords = 16;  // held-out records that confirm a candidate
constexpr double kRequestMemory = 0.95;      // decay per request of the recent scores

// A draft computed a logit that is not a number.
struct BrokenDraft {
  const ModelWeights* draft;
  Error error;
};

// Sums are smoothed, not ratios: a short answer says less than a long one.
void add_to_recent(AcceptanceScore& recent, const AcceptanceScore& next) {
  recent.accepted = kRequestMemory * recent.accepted + next.accepted;
  recent.first_rejections = kRequestMemory * recent.first_rejections + next.first_rejections;
  recent.rows = kRequestMemory * recent.rows + next.rows;
  recent.alone = kRequestMemory * recent.alone + next.alone;
}

}  // namespace

AcceptanceScore CanaryScorer::score(const ModelWeights& draft, const ReplayRecord& record) {
  if (scored_ != &record) scores_.clear();
  scored_ = &record;
  const auto known = scores_.find(&draft);
  if (known != scores_.end()) return known->second;
  try {
    return scores_[&draft] = scorer_.score(draft, record, k_);
  } catch (const Error& error) {
    if (error.code() != ErrorCode::kDataLoss) throw;
    throw BrokenDraft{&draft, error};
  }
}

// What the draft was to be compared for is decided without it. The base draft has no older one to fall back to.
void CanaryScorer::give_up(TopicState& topic, const ModelWeights& draft, const Error& error) {
  if (&draft == base_->weights.get()) throw error;
  CanaryVerdict verdict;
  verdict.outcome = CanaryOutcome::kRefuse;
  verdict.requests = 1;
  verdict.harmful = true;
  verdict.reason = error.message();
  if (topic.candidate && topic.candidate->weights.get() == &draft) return publisher_.refuse(topic, verdict);
  if (topic.live.version->weights.get() == &draft) {
    return publisher_.roll_back(topic, verdict, /*to_base=*/!topic.previous);
  }
  log_warn("learning: " + topic.topic + " is watched against the base draft only: " + error.message());
  topic.previous.reset();
  topic.against_previous = LiveWatch();
}

void CanaryScorer::add_to_candidate(TopicState& topic, const ReplayRecord& record) {
  Candidate& candidate = *topic.candidate;
  const AcceptanceScore own = score(*candidate.weights, record);
  topic.candidate_test.add(pair_of(own, score(*topic.live.version->weights, record)));
  candidate.own += own;
}

// Skips pairs of equal weights: the predecessor may be the base draft, and the live version may have the base's
// weights.
void CanaryScorer::add_to_watch(TopicState& topic, const ReplayRecord& record) {
  const ModelWeights& live = *topic.live.version->weights;
  const AcceptanceScore of_live = score(live, record);
  if (topic.previous && topic.previous->version->weights.get() != base_->weights.get()) {
    const AcceptanceScore of_previous = score(*topic.previous->version->weights, record);
    topic.against_previous.add(pair_of(of_live, of_previous));
    add_to_recent(topic.recent_previous, of_previous);
  }
  if (&live == base_->weights.get()) return;
  const AcceptanceScore of_base = score(*base_->weights, record);
  topic.against_base.add(pair_of(of_live, of_base));
}

void CanaryScorer::score_new(TopicState& topic, const WaitingRecord& waiting) {
  try {
    compare(topic, waiting);
  } catch (const BrokenDraft& broken) {
    give_up(topic, *broken.draft, broken.error);
  }
}

void CanaryScorer::compare(TopicState& topic, const WaitingRecord& waiting) {
  scored_ = nullptr;  // another record may live at the same address
  const ReplayRecord& record = waiting.record;
  newest_scored_ = std::max(newest_scored_, record.sequence);
  SameTextScore same_text;
  same_text.at_us = wall_us();
  same_text.topic = topic.topic;
  same_text.draft = topic.live.version->name;
  same_text.version = topic.live.version->number;
  same_text.request = record.request;
  same_text.live = score(*topic.live.version->weights, record);
  same_text.base = score(*base_->weights, record);
  decisions_.on_scored(same_text);
  add_to_recent(topic.recent_live, same_text.live);
  add_to_recent(topic.recent_base, same_text.base);
  smooth(topic.steps_per_answer, same_text.live.steps, kRequestMemory);
  topic.figures.alpha_live = topic.recent_live.alpha();
  topic.figures.alpha_base = topic.recent_base.alpha();
  if (!waiting.is_evidence) return;
  add_to_watch(topic, record);
  if (topic.candidate && record.sequence > topic.candidate->cut_off) add_to_candidate(topic, record);
  // The live version first: a rollback also drops the candidate.
  if (evaluate_live_now(topic)) return;
  evaluate_candidate_now(topic);
}

bool CanaryScorer::score_heldout(TopicState& topic) {
  if (!topic.candidate || topic.candidate->heldout_left.empty()) return false;
  try {
    compare_heldout(topic);
  } catch (const BrokenDraft& broken) {
    give_up(topic, *broken.draft, broken.error);
  }
  return true;
}

void CanaryScorer::compare_heldout(TopicState& topic) {
  scored_ = nullptr;
  Candidate& candidate = *topic.candidate;
  const ReplayRecord record = std::move(candidate.heldout_left.front());
  candidate.heldout_left.pop_front();
  const auto pair = pair_of(score(*candidate.weights, record), score(*topic.live.version->weights, record));
  candidate.heldout->candidate += pair.candidate;
  candidate.heldout->live += pair.live;
  ++candidate.heldout_requests;
  if (candidate.heldout_left.empty()) evaluate_candidate_now(topic);
}

void CanaryScorer::ask_for_heldout(TopicState& topic) const {
  Candidate& candidate = *topic.candidate;
  candidate.heldout.emplace();
  for (ReplayRecord& record : replay_.heldout(topic.topic, kHeldoutRecords, newest_scored_)) {
    if (!record.processed_logits && fits_vocabulary(record, base_->weights->config.vocab_size)) {
      candidate.heldout_left.push_back(std::move(record));
    }
  }
}

// Publishes a candidate that passed on new text if held-out text, which is never trained on, raises no objection.
void CanaryScorer::evaluate_candidate_now(TopicState& topic) {
  if (!topic.candidate || !topic.candidate->heldout_left.empty()) return;
  const CanaryVerdict verdict = evaluate_candidate(options_, topic.candidate_test);
  if (verdict.outcome == CanaryOutcome::kRefuse) return publisher_.refuse(topic, verdict);
  if (verdict.outcome != CanaryOutcome::kPublish) return;
  if (!topic.candidate->heldout) {
    ask_for_heldout(topic);
    if (!topic.candidate->heldout_left.empty()) return;
  }
  if (const auto objection = heldout_objection(*topic.candidate->heldout, topic.candidate->heldout_requests, verdict)) {
    return publisher_.refuse(topic, *objection);
  }
  publisher_.publish(topic, verdict);
}

// True when the live version was replaced.
bool CanaryScorer::evaluate_live_now(TopicState& topic) {
  CanaryVerdict on_base = evaluate_live(options_, topic.against_base);
  if (on_base.outcome == CanaryOutcome::kRefuse) {
    on_base.reason = "worse than the base draft, " + on_base.reason;
    publisher_.roll_back(topic, on_base, /*to_base=*/true);
    return true;
  }
  if (!topic.previous) return false;
  CanaryVerdict on_previous = evaluate_live(options_, topic.against_previous);
  if (on_previous.outcome != CanaryOutcome::kRefuse) return false;
  on_previous.reason = "worse than its predecessor, " + on_previous.reason;
  publisher_.roll_back(topic, on_previous, /*to_base=*/false);
  return true;
}

}  // namespace slip
