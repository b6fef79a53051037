// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <utility>

#include "common/ids.h"
#include "engine/speculative/lookup/ngram_index.h"

namespace slip {

// How often guesses of one class were right. A class groups guesses that are about equally good, such as those by an
// n-gram of the same length.
struct HitRate {
  double right = 0, all = 0;

  void add(bool was_right);
  // Starts as `prior`, which counts for four guesses.
  double rate(double prior) const;
};

// How often a guess and a draft's most likely token were right where they differed. Counted by the class of the guess
// and by the draft's lead, the difference of the probabilities that it gave the two tokens. It is a table, since the
// formula tried before, a fixed weight for each hit rate, chose worse on math: there a draft with a lead is often
// right.
class GuessOrDraft {
 public:
  // Classes of guesses from past answers, the request's own text and a prediction, as PromptLookup numbers them.
  static constexpr std::size_t kGuessClasses = 25;

  void add(std::size_t guess_class, double lead, bool guess_right, bool draft_right);
  // P(the guess is right) and P(the draft is), given that they differ. They start at those of the mixture
  // (1 − w) q + w [guess], with q_draft and q_guess the draft's probabilities of the two tokens.
  double guess_rate(std::size_t guess_class, double w, double q_draft, double q_guess) const;
  double draft_rate(std::size_t guess_class, double w, double q_draft, double q_guess) const;

 private:
  static constexpr std::size_t kLeads = 5;
  static std::size_t cell(std::size_t guess_class, double lead);
  std::array<HitRate, kGuessClasses * kLeads> guess_, draft_;
};

// The last answers to requests of one topic and one API key, as a source of guesses: answers to requests that are alike
// repeat each other (SuffixDecoding, Oliaro et al., arXiv 2411.04975). After one answer it already guesses, where a
// draft needs dozens of requests to learn. It also remembers how good guesses of each class were, so that a new request
// need not find out again. Guesses change no answer. Threads: the engine thread only. Memory: up to 1.25 MiB.
class PastAnswers {
 public:
  static constexpr std::size_t kMostTokens = 65536;  // older ones are forgotten
  static constexpr std::size_t kLengths = 5;         // classes of n-gram lengths
  static constexpr std::size_t kPromptTokens = 8;  // kept before each answer, so that its first tokens are guessed too
  static constexpr std::size_t kClasses = 3 * kLengths;

  // The class of a match. For each length there are three: one place, several that disagree, several that agree.
  static std::size_t length_class(std::int32_t length);
  static std::size_t class_of(const NgramIndex::Match& match);

  // Adds a finished answer: the tokens after the prompt.
  void add(std::span<const std::int32_t> tokens, std::int32_t prompt_tokens);
  // The longest n-gram at the end of `committed`, then `proposed`, that occurred in past answers.
  NgramIndex::Match longest(std::span<const std::int32_t> committed, std::span<const std::int32_t> proposed) const {
    return index_.longest(committed, proposed);
  }

  // Hit rates over all requests: of guesses from past answers [class_of()], and of those from the request's own text
  // [length_class()].
  std::array<HitRate, kClasses> past_rates;
  std::array<HitRate, kLengths> own_rates;
  GuessOrDraft guess_or_draft;

 private:
  NgramIndex index_{kMostTokens, kMostTokens, /*shortest=*/1};
};

// The past answers of all topics and API keys. One key's answers never serve another's requests: their speed would
// reveal others' requests. Beyond the limit of memory, the least recently used are forgotten. Threads: any.
class PastAnswersTable {
 public:
  // Each topic and key counts as 1.25 MiB.
  explicit PastAnswersTable(std::uint64_t max_bytes);

  // Null while disabled.
  std::shared_ptr<PastAnswers> of(TenantId tenant, TopicId topic);
  // Forgets all past answers, or one key's. Running requests keep theirs until they end.
  void forget(std::optional<TenantId> tenant);
  // Disabled: of() returns null, and what was kept stays.
  void set_enabled(bool enabled);
  std::uint64_t bytes() const;

 private:
  struct Entry {
    std::shared_ptr<PastAnswers> answers;
    std::uint64_t used = 0;  // the number of the call that used it last
  };
  const std::size_t most_entries_;
  mutable std::mutex mutex_;
  bool enabled_ = true;
  std::uint64_t n_calls_ = 0;
  std::map<std::pair<TenantId, TopicId>, Entry> entries_;
};

}  // namespace slip
