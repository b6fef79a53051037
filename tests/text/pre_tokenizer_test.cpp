// SPDX-License-Identifier: Apache-2.0
#include "text/pre_tokenizer.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "text/tokenizer_fields.h"

namespace slip {
namespace {

using Pieces = std::vector<std::string>;

Pieces pieces(const std::string& text, std::string_view input, bool starts_text = true) {
  const nlohmann::json json = nlohmann::json::parse(text);
  const TextPieces found =
      PreTokenizer::read(TokenizerFields(json, "t.json", "pre_tokenizer")).apply(input, starts_text);
  Pieces out;
  for (std::size_t i = 0; i < found.size(); ++i) out.emplace_back(found[i]);
  return out;
}

Pieces split_at_dash(const std::string& behavior, bool invert = false) {
  return pieces(R"({"type": "Split", "pattern": {"String": "-"}, "behavior": ")" + behavior + R"(", "invert": )" +
                    (invert ? "true}" : "false}"),
                "the-final--countdown");
}

TEST(PreTokenizerTest, SplitBehaviors) {
  EXPECT_EQ(split_at_dash("Removed"), (Pieces{"the", "final", "countdown"}));
  EXPECT_EQ(split_at_dash("Isolated"), (Pieces{"the", "-", "final", "-", "-", "countdown"}));
  EXPECT_EQ(split_at_dash("MergedWithPrevious"), (Pieces{"the-", "final-", "-", "countdown"}));
  EXPECT_EQ(split_at_dash("MergedWithNext"), (Pieces{"the", "-final", "-", "-countdown"}));
  EXPECT_EQ(split_at_dash("Contiguous"), (Pieces{"the", "-", "final", "--", "countdown"}));
  EXPECT_EQ(split_at_dash("Removed", /*invert=*/true), (Pieces{"-", "-", "-"}));
}

TEST(PreTokenizerTest, ByteLevel) {
  const std::string plain = R"({"type": "ByteLevel", "add_prefix_space": false, "use_regex": true})";
  EXPECT_EQ(pieces(plain, "a b's  c\xFF"), (Pieces{"a", "Ġb", "'s", "Ġ", "Ġc", "ÿ"}));
  const std::string prefix = R"({"type": "ByteLevel", "add_prefix_space": true, "use_regex": false})";
  EXPECT_EQ(pieces(prefix, "a b"), Pieces{"ĠaĠb"});
  EXPECT_EQ(pieces(prefix, " a"), Pieces{"Ġa"});
  EXPECT_EQ(pieces(prefix, ""), Pieces{});
}

TEST(PreTokenizerTest, Metaspace) {
  const std::string start = R"({"type": "Metaspace", "replacement": "▁", )";
  EXPECT_EQ(pieces(start + R"("prepend_scheme": "always", "split": true})", "a  b"), (Pieces{"▁a", "▁", "▁b"}));
  EXPECT_EQ(pieces(start + R"("prepend_scheme": "never", "split": false})", "a b"), Pieces{"a▁b"});
  EXPECT_EQ(pieces(start + R"("prepend_scheme": "first"})", "a", /*starts_text=*/true), Pieces{"▁a"});
  EXPECT_EQ(pieces(start + R"("prepend_scheme": "first"})", "a", /*starts_text=*/false), Pieces{"a"});
  EXPECT_EQ(pieces(start + R"("add_prefix_space": false})", "a b"), (Pieces{"a", "▁b"}));  // older files
  EXPECT_EQ(pieces(start + R"("add_prefix_space": true})", "a"), Pieces{"▁a"});
}

TEST(PreTokenizerTest, CharacterClasses) {
  EXPECT_EQ(pieces(R"({"type": "Digits", "individual_digits": true})", "a12½b"), (Pieces{"a", "1", "2", "½", "b"}));
  EXPECT_EQ(pieces(R"({"type": "Digits", "individual_digits": false})", "a12½b"), (Pieces{"a", "12½", "b"}));
  EXPECT_EQ(pieces(R"({"type": "Punctuation"})", "a+b«c»"), (Pieces{"a", "+", "b", "«", "c", "»"}));
  EXPECT_EQ(pieces(R"({"type": "WhitespaceSplit"})", " a,\u3000b\n"), (Pieces{"a,", "b"}));
  EXPECT_EQ(pieces(R"({"type": "Whitespace"})", " a_1,?\u3000e\u0301"), (Pieces{"a_1", ",?", "e\u0301"}));
  EXPECT_EQ(pieces(R"({"type": "CharDelimiterSplit", "delimiter": "|"})", "a||b"), (Pieces{"a", "b"}));
}

// Metaspace asks whether a piece begins the text; what an earlier step removed did.
TEST(PreTokenizerTest, ARemovedBeginningIsNotTheTexts) {
  const std::string steps = R"({"type": "Sequence", "pretokenizers": [{"type": "WhitespaceSplit"},
      {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "first"}]})";
  EXPECT_EQ(pieces(steps, "a b"), (Pieces{"▁a", "b"}));
  EXPECT_EQ(pieces(steps, " a b"), (Pieces{"a", "b"}));
}

}  // namespace
}  // namespace slip
