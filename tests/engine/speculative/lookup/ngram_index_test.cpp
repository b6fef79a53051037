// SPDX-License-Identifier: Apache-2.0
#include "engine/speculative/lookup/ngram_index.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "tests/engine/speculative/lookup/repeating_text.h"

namespace slip {
namespace {

using testing::repeating_text;
using Tokens = std::vector<std::int32_t>;

NgramIndex index_of(const Tokens& text, std::size_t most_tokens = NgramIndex::kMostTokens) {
  NgramIndex index(most_tokens, text.size(), /*shortest=*/1);
  for (const std::int32_t token : text) index.append(token);
  return index;
}

// The definition, over the last `most` tokens of `text`: of all places whose 1 to 8 last tokens equal the context's,
// the longest; among these the most frequent token that followed, and of equally frequent ones the latest. Of places of
// one token the last 32 count.
NgramIndex::Match by_definition(const Tokens& text, const Tokens& context, std::size_t most) {
  NgramIndex::Match best;
  std::map<std::int32_t, std::int32_t> votes;
  const std::size_t first = text.size() - std::min(text.size(), most);
  for (std::size_t follower = text.size(); follower-- > first + 1;) {
    if (text[follower] < 0) continue;
    std::size_t length = 0;
    while (length < 8 && length < context.size() && follower - length > first &&
           text[follower - 1 - length] == context[context.size() - 1 - length]) {
      ++length;
    }
    if (length < 1 || static_cast<std::int32_t>(length) < best.length) continue;
    if (static_cast<std::int32_t>(length) > best.length) votes.clear(), best = {static_cast<std::int32_t>(length)};
    if (length == 1 && best.n_places == 32) continue;
    ++best.n_places;
    ++votes[text[follower]];
  }
  for (const auto& [token, n] : votes) best.n_agree = std::max(best.n_agree, n);
  for (std::size_t follower = text.size(); best.length > 0 && follower-- > first + 1;) {
    const auto length = static_cast<std::size_t>(best.length);
    if (follower < first + length || votes[text[follower]] != best.n_agree) continue;
    if (!std::equal(context.end() - best.length, context.end(), text.begin() + static_cast<long>(follower - length))) {
      continue;
    }
    best.token = text[follower];
    break;
  }
  return best;
}

TEST(NgramIndex, AgreesWithTheDefinition) {
  for (const double alphabet : {12.0, 40.0}) {
    const Tokens text = repeating_text(3, 400, alphabet);
    for (const std::size_t most : {std::size_t{64}, std::size_t{1024}}) {
      const NgramIndex index = index_of(text, most);
      for (std::uint64_t seed = 10; seed < 40; ++seed) {
        const auto place = static_cast<long>(350 + seed);
        Tokens context = repeating_text(seed, 3, alphabet);
        context.insert(context.end(), text.begin() + place - 9, text.begin() + place - static_cast<long>(seed % 3));
        const auto expected = by_definition(text, context, most), found = index.longest(context);
        EXPECT_EQ(found.length, expected.length) << alphabet << " " << most << " " << seed;
        EXPECT_EQ(found.token, expected.token) << alphabet << " " << most << " " << seed;
        EXPECT_EQ(found.n_places, expected.n_places);
        EXPECT_EQ(found.n_agree, expected.n_agree);
      }
    }
  }
}

TEST(NgramIndex, TheContextMayContinueIntoWhatIsProposed) {
  const NgramIndex index = index_of({1, 2, 3, 4, 5});
  EXPECT_EQ(index.longest(Tokens{9, 2}, Tokens{3}).token, 4);
  EXPECT_EQ(index.longest(Tokens{}, Tokens{2, 3}).token, 4);
  EXPECT_EQ(index.longest(Tokens{3}).token, 4);
  EXPECT_EQ(index.longest(Tokens{}).length, 0);
  EXPECT_EQ(NgramIndex().longest(Tokens{1, 2}).length, 0);
}

TEST(NgramIndex, PlacesVoteAndTheLatestOfEqualsWins) {
  const NgramIndex index = index_of({1, 2, 7, 1, 2, 8, 1, 2, 7, 1, 2, 9});
  const auto match = index.longest(Tokens{5, 1, 2});
  EXPECT_EQ(match.token, 7);
  EXPECT_EQ(match.n_places, 4);
  EXPECT_EQ(match.n_agree, 2);
  EXPECT_EQ(index.latest_longest(Tokens{5, 1, 2}).token, 9);
  EXPECT_EQ(index_of({1, 2, 7, 1, 2, 8}).longest(Tokens{1, 2}).token, 8);
}

TEST(NgramIndex, NothingReachesAcrossASeparator) {
  const NgramIndex index = index_of({1, 2, 3, NgramIndex::kSeparator, 4, 5, 6});
  EXPECT_EQ(index.longest(Tokens{2, 3}).length, 0) << "nothing followed within the text";
  EXPECT_EQ(index.longest(Tokens{3, 4}).length, 1);
  EXPECT_EQ(index.longest(Tokens{3}).length, 0);
  EXPECT_EQ(index.longest(Tokens{3, NgramIndex::kSeparator}).length, 0);
  EXPECT_EQ(index.longest(Tokens{2, 3, 4, 5}).length, 2);
  EXPECT_EQ(index.longest(Tokens{4, 5}).token, 6);
}

TEST(NgramIndex, OneTokenCountsOnlyWhereNoTwoWereFound) {
  const NgramIndex index = index_of({1, 2, 7, 3, 2, 8, 4, 2, 8});
  EXPECT_EQ(index.longest(Tokens{1, 2}).token, 7);
  const auto match = index.longest(Tokens{5, 2});
  EXPECT_EQ(match.length, 1);
  EXPECT_EQ(match.token, 8);
  EXPECT_EQ(match.n_places, 3);
  EXPECT_EQ(match.n_agree, 2);
  EXPECT_EQ(index.latest_longest(Tokens{5, 2}).token, 8);
  NgramIndex of_pairs(64, 64);
  for (const std::int32_t token : {1, 2, 7, 3, 2, 8}) of_pairs.append(token);
  EXPECT_EQ(of_pairs.longest(Tokens{5, 2}).length, 0);
  EXPECT_EQ(of_pairs.longest(Tokens{3, 2}).token, 8);
}

TEST(NgramIndex, ContextIsReachedButNeverGuessed) {
  NgramIndex index(64, 64, /*shortest=*/1);
  for (const std::int32_t token : {1, 2, 3}) index.append_context(token);
  for (const std::int32_t token : {4, 5}) index.append(token);
  EXPECT_EQ(index.longest(Tokens{1, 2}).length, 0);
  EXPECT_EQ(index.longest(Tokens{1, 2, 3}).token, 4);
  EXPECT_EQ(index.longest(Tokens{1, 2, 3}).length, 3);
}

TEST(NgramIndex, ForgetsTheOldest) {
  NgramIndex index(8, 8, /*shortest=*/1);
  for (std::int32_t token = 0; token < 20; ++token) index.append(token);
  EXPECT_EQ(index.longest(Tokens{2, 3}).length, 0);
  EXPECT_EQ(index.longest(Tokens{11, 12}).length, 1) << "its first token is gone";
  EXPECT_EQ(index.longest(Tokens{11, 12, 13}).length, 2);
  EXPECT_EQ(index.longest(Tokens{12, 13}).token, 14);
}

}  // namespace
}  // namespace slip
