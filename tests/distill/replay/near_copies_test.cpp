// SPDX-License-Identifier: Apache-2.0
#include "distill/replay/near_copies.h"

#include <gtest/gtest.h>
#include <algorithm>
#include <set>
#include <vector>

#include "engine/sampling/random.h"

namespace slip {
namespace {

using Tokens = std::vector<std::int32_t>;

constexpr std::int32_t kVocabulary = 4096;

// `n` tokens that are the same for the same seed.
Tokens text(std::uint64_t seed, std::size_t n) {
  Tokens tokens;
  for (std::size_t i = 0; i < n; ++i) {
    const double u = uniform(RandomAddress{seed, 0, static_cast<std::uint32_t>(i)}, RandomPurpose::kDraft);
    tokens.push_back(static_cast<std::int32_t>(u * kVocabulary));
  }
  return tokens;
}

Tokens operator+(Tokens left, const Tokens& right) {
  left.insert(left.end(), right.begin(), right.end());
  return left;
}

struct Record {
  Tokens prompt, answer;
};

ContentGroup add(NearCopies& copies, const Record& record) {
  const Tokens tokens = record.prompt + record.answer;
  return copies.add(tokens, record.prompt.size());
}

std::size_t groups_of(NearCopies& copies, const std::vector<Record>& records) {
  std::set<std::uint64_t> ids;
  for (const Record& record : records) ids.insert(add(copies, record).id);
  return ids.size();
}

// `n` different questions after a shared text.
std::vector<Record> requests_behind(const Tokens& shared, std::uint64_t seed, std::size_t n) {
  std::vector<Record> records;
  for (std::size_t i = 0; i < n; ++i) {
    const std::size_t length = 10 + i % 40;
    records.push_back({shared + text(seed + 2 * i, length), text(seed + 2 * i + 1, 70)});
  }
  return records;
}

// Changes `n_changes` single tokens, evenly spaced: each changes five shingles.
Tokens paraphrase(Tokens tokens, std::uint64_t seed, std::size_t n_changes) {
  const Tokens words = text(seed, n_changes);
  for (std::size_t i = 0; i < n_changes; ++i) {
    std::int32_t& token = tokens[(2 * i + 1) * tokens.size() / (2 * n_changes)];
    token = (token + 1 + words[i] % (kVocabulary - 1)) % kVocabulary;
  }
  return tokens;
}

// The former split, by the hash of the first 32 prompt tokens.
std::size_t groups_by_first_tokens(const std::vector<Record>& records) {
  std::set<Tokens> beginnings;
  for (const Record& record : records) {
    beginnings.insert(
        Tokens(record.prompt.begin(), record.prompt.begin() + std::min<std::ptrdiff_t>(32, std::ssize(record.prompt))));
  }
  return beginnings.size();
}

// Regression: groups were formed by the first 32 prompt tokens, so a system prompt put a whole topic into one group,
// and with probability .1 all of it was held out.
TEST(NearCopies, ASharedSystemPromptDoesNotMakeRequestsAlike) {
  const std::vector<Record> records = requests_behind(text(1, 300), 1000, 200);
  NearCopies copies;
  for (const Record& record : records) EXPECT_FALSE(add(copies, record).seen);
  EXPECT_EQ(copies.groups(), 200U);
}

TEST(NearCopies, NegativeTheFirstTokensAloneMakeOneGroup) {
  EXPECT_EQ(groups_by_first_tokens(requests_behind(text(1, 300), 1000, 200)), 1U);
}

TEST(NearCopies, ASystemPromptThatChangesHidesNothing) {
  NearCopies copies;
  EXPECT_EQ(groups_of(copies, requests_behind(text(1, 300), 1000, 100)), 100U);
  EXPECT_EQ(groups_of(copies, requests_behind(text(2, 300), 5000, 100)), 100U);
}

// A prompt that is sent again is one group, whether the answers are equal or not: at the start of a topic, amid other
// traffic, and after its answer has become the most frequent text.
TEST(NearCopies, ThirteenCopiesOfAPromptAreOneGroup) {
  const Tokens system = text(1, 300);
  for (const bool same_answer : {true, false}) {
    for (const std::size_t before : {0U, 50U}) {
      NearCopies copies;
      groups_of(copies, requests_behind(system, 1000, before));
      std::vector<ContentGroup> found;
      for (std::size_t i = 0; i < 13; ++i) {
        found.push_back(add(copies, {system + text(77, 25), text(same_answer ? 78 : 80 + i, 70)}));
      }
      EXPECT_FALSE(found.front().seen);
      for (const ContentGroup& group : found) EXPECT_EQ(group.id, found.front().id);
      EXPECT_EQ(std::count_if(found.begin(), found.end(), [](const ContentGroup& group) { return group.seen; }), 12);
    }
  }
}

// 100 own prompt tokens, 4 of them changed: 20 of 96 shingles are new, about .8 are shared.
TEST(NearCopies, ParaphrasesAreOneGroupAndAreNotSetAsideAsShared) {
  const Tokens system = text(1, 300);
  for (std::uint64_t seed = 100; seed < 110; ++seed) {
    NearCopies copies;
    groups_of(copies, requests_behind(system, 1000, 30));
    const Tokens question = text(seed, 100);
    const ContentGroup first = add(copies, {system + question, text(seed + 1000, 70)});
    EXPECT_FALSE(first.seen);
    for (std::uint64_t i = 0; i < 12; ++i) {
      const ContentGroup again =
          add(copies, {system + paraphrase(question, 10 * seed + i, 4), text(seed + 2000 + i, 70)});
      EXPECT_TRUE(again.seen) << "seed " << seed << ", paraphrase " << i;
      EXPECT_EQ(again.id, first.id);
    }
  }
}

// With half of its shingles changed, a text is no near-copy.
TEST(NearCopies, NegativeARewrittenTextIsItsOwnGroup) {
  for (std::uint64_t seed = 100; seed < 120; ++seed) {
    NearCopies copies;
    add(copies, {text(seed, 100), text(seed + 1000, 70)});
    EXPECT_FALSE(add(copies, {paraphrase(text(seed, 100), seed + 1, 14), text(seed + 2000, 70)}).seen);
  }
}

// An answer of 200 tokens that comes again is no new evidence, whatever the question.
TEST(NearCopies, AnAnswerThatComesAgainIsACopy) {
  NearCopies copies;
  const ContentGroup first = add(copies, {text(1, 20), text(2, 200)});
  const ContentGroup again = add(copies, {text(3, 20), text(2, 200)});
  EXPECT_TRUE(again.seen);
  EXPECT_EQ(again.id, first.id);
}

TEST(NearCopies, QuestionsOverOneSchemaAreDifferent) {
  NearCopies before;  // the schema in front of the question: at once
  EXPECT_EQ(groups_of(before, requests_behind(text(5, 200), 1000, 2)), 2U);
  NearCopies behind;  // and after it, where half of the recent prompts hold it
  std::vector<Record> records = requests_behind({}, 1000, 60);
  for (Record& record : records) record.prompt = record.prompt + text(5, 100);
  groups_of(behind, {records.begin(), records.begin() + 20});
  EXPECT_EQ(groups_of(behind, {records.begin() + 20, records.end()}), 40U);
}

TEST(NearCopies, MemoryIsBoundedAndTheLeastRecentlyUsedIsForgotten) {
  NearCopies copies({.max_groups = 100});
  const Record kept{text(1, 40), text(2, 70)};
  const Record forgotten{text(3, 40), text(4, 70)};
  const ContentGroup first = add(copies, forgotten);
  add(copies, kept);
  std::size_t bytes = 0;
  for (std::uint64_t i = 0; i < 400; ++i) {
    add(copies, {text(10 + 2 * i, 40), text(11 + 2 * i, 70)});
    EXPECT_TRUE(add(copies, kept).seen) << i;
    if (i == 200) bytes = copies.bytes();
  }
  EXPECT_EQ(copies.groups(), 100U);
  EXPECT_NEAR(static_cast<double>(copies.bytes()), static_cast<double>(bytes), 0.02 * static_cast<double>(bytes));
  const ContentGroup again = add(copies, forgotten);
  EXPECT_FALSE(again.seen);
  EXPECT_EQ(again.id, first.id) << "the same prompt stays on the same side of the held-out split";
}

TEST(NearCopies, ShortAndEmptyRecordsAreTheirOwn) {
  NearCopies copies;
  EXPECT_FALSE(add(copies, {{}, {}}).seen);
  EXPECT_TRUE(add(copies, {{}, {}}).seen);
  EXPECT_FALSE(add(copies, {{1, 2}, {3}}).seen);
  EXPECT_FALSE(add(copies, {{1, 3}, {3}}).seen);
  EXPECT_FALSE(add(copies, {{}, {1, 2}}).seen);
  EXPECT_FALSE(add(copies, {{}, {1, 4}}).seen) << "without a prompt the answer tells them apart";
}

TEST(NearCopies, TheHeldOutShareIsThatOfTheGroups) {
  std::size_t n = 0;
  for (std::uint64_t group = 0; group < 20'000; ++group) n += heldout(group, 0.1) ? 1 : 0;
  EXPECT_NEAR(static_cast<double>(n) / 20'000, 0.1, 4 * 0.3 / 141.4);  // 4 standard errors
  EXPECT_FALSE(heldout(1, 0));
  EXPECT_TRUE(heldout(1, 1));
}

}  // namespace
}  // namespace slip
