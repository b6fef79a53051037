// SPDX-License-Identifier: Apache-2.0
#include "engine/speculative/lookup/past_answers.h"

#include <algorithm>

namespace slip {
namespace {

constexpr double kPriorGuesses = 4;
constexpr double kMostGuesses = 2048;  // then older guesses count half
constexpr double kAgreement = 0.75;    // least share of places that say the same
constexpr std::uint64_t kEntryBytes = std::uint64_t{5} << 18U;

}  // namespace

void HitRate::add(bool was_right) {
  if (all >= kMostGuesses) right /= 2, all /= 2;
  all += 1;
  right += was_right ? 1 : 0;
}

double HitRate::rate(double prior) const {
  return (right + kPriorGuesses * prior) / (all + kPriorGuesses);
}

std::size_t GuessOrDraft::cell(std::size_t guess_class, double lead) {
  const std::size_t kind = lead < 0.1 ? 0 : lead < 0.25 ? 1 : lead < 0.5 ? 2 : lead < 0.8 ? 3 : 4;
  return guess_class * kLeads + kind;
}

void GuessOrDraft::add(std::size_t guess_class, double lead, bool guess_right, bool draft_right) {
  guess_[cell(guess_class, lead)].add(guess_right);
  draft_[cell(guess_class, lead)].add(draft_right);
}

double GuessOrDraft::guess_rate(std::size_t guess_class, double w, double q_draft, double q_guess) const {
  return guess_[cell(guess_class, q_draft - q_guess)].rate(w + (1 - w) * q_guess);
}

double GuessOrDraft::draft_rate(std::size_t guess_class, double w, double q_draft, double q_guess) const {
  return draft_[cell(guess_class, q_draft - q_guess)].rate((1 - w) * q_draft);
}

std::size_t PastAnswers::length_class(std::int32_t length) {
  return length <= 1 ? 0 : length <= 3 ? static_cast<std::size_t>(length) - 1 : length <= 5 ? 3 : 4;
}

std::size_t PastAnswers::class_of(const NgramIndex::Match& match) {
  const bool agree = match.n_agree >= kAgreement * match.n_places;
  const std::size_t kind = match.n_places <= 1 ? 0 : agree ? 2 : 1;
  return kind * kLengths + length_class(match.length);
}

void PastAnswers::add(std::span<const std::int32_t> tokens, std::int32_t prompt_tokens) {
  const auto n_prompt = static_cast<std::size_t>(prompt_tokens);
  index_.append(NgramIndex::kSeparator);
  const auto prompt = tokens.first(n_prompt);
  for (const std::int32_t token : prompt.last(std::min(n_prompt, kPromptTokens))) index_.append_context(token);
  for (const std::int32_t token : tokens.subspan(n_prompt)) index_.append(token);
}

PastAnswersTable::PastAnswersTable(std::uint64_t max_bytes)
    : most_entries_(std::max<std::uint64_t>(max_bytes / kEntryBytes, 1)) {}

std::shared_ptr<PastAnswers> PastAnswersTable::of(TenantId tenant, TopicId topic) {
  const std::lock_guard lock(mutex_);
  if (!enabled_) return nullptr;
  Entry& entry = entries_[{tenant, topic}];
  entry.used = ++n_calls_;
  if (entry.answers == nullptr) entry.answers = std::make_shared<PastAnswers>();
  std::shared_ptr<PastAnswers> answers = entry.answers;
  if (entries_.size() > most_entries_) {
    entries_.erase(std::min_element(entries_.begin(), entries_.end(),
                                    [](const auto& a, const auto& b) { return a.second.used < b.second.used; }));
  }
  return answers;
}

void PastAnswersTable::forget(std::optional<TenantId> tenant) {
  const std::lock_guard lock(mutex_);
  std::erase_if(entries_, [&](const auto& entry) { return !tenant || entry.first.first == *tenant; });
}

void PastAnswersTable::set_enabled(bool enabled) {
  const std::lock_guard lock(mutex_);
  enabled_ = enabled;
}

std::uint64_t PastAnswersTable::bytes() const {
  const std::lock_guard lock(mutex_);
  return entries_.size() * kEntryBytes;
}

}  // namespace slip
