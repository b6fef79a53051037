// SPDX-License-Identifier: Apache-2.0
#include "engine/answer_text.h"

#include <gtest/gtest.h>

#include "tests/text/tiny_tokenizer.h"

namespace slip {
namespace {

struct Told {
  std::vector<std::string> pieces;  // what each token decided
  bool stopped = false;
  std::string all() const {
    std::string text;
    for (const std::string& piece : pieces) text += piece;
    return text;
  }
};

Told tell(const std::string& text, const std::vector<std::string>& stops) {
  AnswerText answer(testing::tiny_tokenizer(), stops);
  Told told;
  for (const char c : text) {
    told.stopped = answer.push(static_cast<unsigned char>(c));
    told.pieces.push_back(answer.take());
    if (told.stopped) return told;
  }
  answer.finish();
  told.pieces.push_back(answer.take());
  return told;
}

TEST(AnswerText, HoldsBackOnlyWhatMayBecomeAStop) {
  const Told told = tell("xabay", {"abc"});
  EXPECT_EQ(told.pieces, (std::vector<std::string>{"x", "", "", "ab", "ay", ""}));
}

TEST(AnswerText, CutsBeforeTheEarliestOfSeveralStops) {
  EXPECT_EQ(tell("one two", {"two", "ne t"}).all(), "o");
  EXPECT_EQ(tell("ababac", {"abac"}).all(), "ab");
  EXPECT_EQ(tell("\n\n", {"\n\n"}).all(), "");
  EXPECT_TRUE(tell("\n\n", {"\n\n"}).stopped);
}

TEST(AnswerText, ATokenThatHoldsAWholeStopIsCutInside) {
  AnswerText answer(testing::tiny_tokenizer(), {"ab"});
  EXPECT_FALSE(answer.push(256));  // aa
  EXPECT_TRUE(answer.push(259));   // ab
  EXPECT_EQ(answer.take(), "aa");
}

TEST(AnswerText, AStopInsideACharactersBytesWaitsForTheWholeCharacter) {
  const Told told = tell("a\xC3\xA9!", {"\xC3\xA9"});
  EXPECT_EQ(told.all(), "a");
  EXPECT_TRUE(told.stopped);
}

// On SentencePiece models the answer's first space was lost when it went on from a prompt.
TEST(AnswerText, InTheMiddleOfATextTheFirstSpaceStays) {
  const auto tokenizer =
      Tokenizer::load(std::filesystem::path(SLIPSTREAM_SOURCE_DIR) / "tests/data/tokenizers/sentencepiece_bpe");
  for (const auto start : {StreamDecoder::Start::kText, StreamDecoder::Start::kMiddle}) {
    AnswerText answer(tokenizer, {}, /*keep_stop=*/false, start);
    for (const std::int32_t id : tokenizer->encode("fox", SpecialTokens::kAsText)) answer.push(id);
    answer.finish();
    EXPECT_EQ(answer.take(), start == StreamDecoder::Start::kMiddle ? " fox" : "fox");
  }
}

TEST(AnswerText, AStopCompletedTooEarlyNeverCounts) {
  AnswerText answer(testing::tiny_tokenizer(), {"abcd", "b", "bcx"});
  EXPECT_FALSE(answer.push('a', /*may_stop=*/false));
  EXPECT_FALSE(answer.push('b', /*may_stop=*/false));  // completes "b", may yet become "abcd"
  EXPECT_EQ(answer.take(), "");
  EXPECT_FALSE(answer.push('c'));
  EXPECT_TRUE(answer.push('x')) << "begins within what does not count, ends beyond";
  EXPECT_EQ(answer.take(), "a");
}

TEST(AnswerText, TheStopMayBeKept) {
  const auto kept = [](const std::string& text, const std::vector<std::string>& stops) {
    AnswerText answer(testing::tiny_tokenizer(), stops, /*keep_stop=*/true);
    for (const char c : text) {
      if (answer.push(static_cast<unsigned char>(c))) break;
    }
    return answer.take();
  };
  EXPECT_EQ(kept("one two three", {"two"}), "one two");
  EXPECT_EQ(kept("abab", {"bx", "b"}), "ab");
  AnswerText several(testing::tiny_tokenizer(), {"aaa", "aa"}, /*keep_stop=*/true);
  EXPECT_TRUE(several.push(257));  // aaaa: both stand at its beginning
  EXPECT_EQ(several.take(), "aa");
}

TEST(AnswerText, WithoutATokenizerThereIsNoText) {
  AnswerText answer(nullptr, {});
  EXPECT_FALSE(answer.push(3));
  answer.finish();
  EXPECT_EQ(answer.take(), "");
}

}  // namespace
}  // namespace slip
