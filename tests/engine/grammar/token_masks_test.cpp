// SPDX-License-Identifier: Apache-2.0
#include "engine/grammar/token_masks.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <iostream>
#include <limits>
#include <set>

#include "common/error.h"
#include "engine/grammar/answer_grammar.h"
#include "tests/engine/grammar/grammar_walks.h"
#include "tests/engine/grammar/random_schema.h"
#include "text/tokenizer.h"

namespace slip {
namespace {

using testing::grammar_of;

// Every byte, and texts that run across the borders of JSON's lexemes.
class SmallVocabulary {
 public:
  explicit SmallVocabulary(std::uint64_t seed) {
    std::mt19937_64 random(seed);
    for (int byte = 0; byte < 256; ++byte) owned_.emplace_back(1, static_cast<char>(byte));
    owned_.insert(owned_.end(), {"",      "",     "\":",   "\",", "\"}",  "\": \"",  "[{", "}]",  "},{\"",
                                 "{\"",   "null", "true,", "  ",  "\n  ", "\": ",    "ab", "é",   "\\\"",
                                 "\\u00", "\xC3", "12",    ".5",  "0]",   "\"a\":[", "},", "\"a", "a\""});
    const std::string alphabet = "{}[]\":, \nab01.-etn\\u\xC3\xA9";
    for (int i = 0; i < 400; ++i) {
      std::string& text = owned_.emplace_back();
      for (std::size_t n = 2 + random() % 5; text.size() < n;) text.push_back(alphabet[random() % alphabet.size()]);
    }
    texts.assign(owned_.begin(), owned_.end());
  }
  std::vector<std::string_view> texts;

 private:
  std::vector<std::string> owned_;
};

std::vector<std::int32_t> allowed_one_by_one(const Grammar& grammar, const GrammarState& state,
                                             const std::vector<std::string_view>& texts) {
  std::vector<std::int32_t> ids;
  for (std::size_t id = 0; id < texts.size(); ++id) {
    GrammarState after = state;
    if (!texts[id].empty() && after.advance(grammar, texts[id])) ids.push_back(static_cast<std::int32_t>(id));
  }
  return ids;
}

std::vector<std::int32_t> allowed_by(const TokenMask& mask, std::size_t n_tokens) {
  std::vector<std::int32_t> ids;
  for (std::size_t id = 0; id < n_tokens + 100; ++id) {
    if (mask.allows(static_cast<std::int32_t>(id))) ids.push_back(static_cast<std::int32_t>(id));
  }
  return ids;
}

TEST(TokenTrieTest, HoldsEveryTextOnce) {
  const SmallVocabulary vocabulary(1);
  const TokenTrie trie(vocabulary.texts);
  std::multiset<std::int32_t> found;
  std::vector<char> path;
  for (std::uint32_t i = 0; i < trie.n_nodes(); ++i) {
    const TokenTrie::Node& node = trie.node(i);
    path.resize(node.depth);
    path[node.depth - 1U] = static_cast<char>(node.byte);
    EXPECT_GT(node.end, i);
    for (const std::int32_t id : trie.ids_at(i)) {
      EXPECT_EQ(vocabulary.texts[static_cast<std::size_t>(id)], std::string_view(path.data(), path.size()));
      found.insert(id);
    }
  }
  const auto n_texts = std::count_if(vocabulary.texts.begin(), vocabulary.texts.end(),
                                     [](std::string_view text) { return !text.empty(); });
  EXPECT_EQ(found.size(), static_cast<std::size_t>(n_texts));
  EXPECT_EQ(std::set(found.begin(), found.end()).size(), found.size());
}

TEST(TokenMasksTest, EqualTryingEveryToken) {
  std::mt19937_64 random(23);
  int n_masks = 0;
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    const SmallVocabulary vocabulary(seed);
    // A cache so small that it is dropped now and then.
    TokenMasks masks(vocabulary.texts, seed % 2 == 0 ? 4000 : 1 << 20);
    std::shared_ptr<const Grammar> grammar = json_object_grammar();
    if (seed % 6 > 0) {
      try {
        grammar = compile_schema(testing::RandomSchema(seed).document(), "schema");
      } catch (const Error&) {
        continue;
      }
    }
    for (int walk = 0; walk < 3; ++walk) {
      GrammarState state = GrammarState::start(*grammar);
      for (int step = 0; step < 25 && !state.is_over(); ++step) {
        const TokenMask& mask = masks.mask(*grammar, state);
        const auto expected = allowed_one_by_one(*grammar, state, vocabulary.texts);
        ASSERT_EQ(allowed_by(mask, vocabulary.texts.size()), expected) << "seed " << seed << " step " << step;
        ASSERT_EQ(mask.ends, state.is_complete());
        ++n_masks;
        if (expected.empty()) break;
        const auto token = static_cast<std::size_t>(expected[random() % expected.size()]);
        ASSERT_TRUE(state.advance(*grammar, vocabulary.texts[token]));
      }
    }
  }
  EXPECT_GT(n_masks, 1000);
}

TEST(TokenMasksNegative, AMaskOfAnotherStateIsNoticed) {
  const SmallVocabulary vocabulary(1);
  TokenMasks masks(vocabulary.texts);
  const auto grammar = json_object_grammar();
  GrammarState one = GrammarState::start(*grammar), other = one;
  ASSERT_TRUE(one.advance(*grammar, R"({"a":)"));
  ASSERT_TRUE(other.advance(*grammar, R"({"a":[)"));  // one call deeper, the same lexemes
  EXPECT_NE(allowed_by(masks.mask(*grammar, other), vocabulary.texts.size()),
            allowed_one_by_one(*grammar, one, vocabulary.texts));
}

TEST(TokenMasksTest, EndTokensAreAllowedWhereTheAnswerMayEndOnly) {
  const std::vector<std::string_view> texts = {"1", "a", "2", "", "3"};
  TokenMasks masks(texts);
  const auto grammar = grammar_of(R"({"type": "integer", "maximum": 99})");
  const std::vector<std::int32_t> end_ids = {3, 4};  // one without text, one with
  GrammarState state = GrammarState::start(*grammar);
  const auto kept = [&] {
    std::vector<float> logits(7, 1.0F);  // two more rows than the tokenizer has tokens
    keep_allowed(masks.mask(*grammar, state), end_ids, logits);
    std::string which;
    for (const float logit : logits) which += std::isfinite(logit) ? 'x' : '.';
    return which;
  };
  EXPECT_EQ(kept(), "x.x....");
  ASSERT_TRUE(state.advance(*grammar, "1"));
  EXPECT_EQ(kept(), "x.xxx..");
}

TEST(TokenMasksTest, AVocabularyThatCannotGoOnIsAnError) {
  const std::vector<std::string_view> texts = {"a", "b"};
  TokenMasks masks(texts);
  const auto grammar = json_object_grammar();
  std::vector<float> logits(2);
  EXPECT_THROW(keep_allowed(masks.mask(*grammar, GrammarState::start(*grammar)), {}, logits), Error);
}

// Bug: stop tokens that the format needs were called a fault of response_format.
TEST(TokenMasksTest, StopTokensThatTheFormatNeedsAreNamed) {
  const std::vector<std::string_view> texts = {"{", "}"};
  TokenMasks masks(texts);
  const auto grammar = json_object_grammar();
  const std::vector<std::int32_t> end_ids = {0};
  std::vector<float> logits(2);
  try {
    keep_allowed(masks.mask(*grammar, GrammarState::start(*grammar)), end_ids, logits);
    ADD_FAILURE() << "only { can begin an object";
  } catch (const Error& error) {
    EXPECT_EQ(error.param(), "stop_token_ids");
  }
}

// ---- along an answer ----

TEST(AnswerGrammarTest, StatesFollowThePathAndFallBack) {
  const SmallVocabulary vocabulary(1);
  TokenMasks masks(vocabulary.texts);
  const auto grammar = json_object_grammar();
  const auto ids_of = [](std::string_view text) {
    std::vector<std::int32_t> ids;
    for (const char one : text) ids.push_back(static_cast<std::uint8_t>(one));
    return ids;
  };
  AnswerGrammar answer(grammar, masks);
  const auto expect_after = [&](std::string_view text) {
    const auto ids = ids_of(text);
    const TokenMask* mask = answer.mask_after(ids);
    GrammarState state = GrammarState::start(*grammar);
    if (!state.advance(*grammar, text) || state.is_over()) {
      EXPECT_EQ(mask, nullptr) << text;
      return;
    }
    ASSERT_NE(mask, nullptr) << text;
    EXPECT_EQ(allowed_by(*mask, vocabulary.texts.size()), allowed_one_by_one(*grammar, state, vocabulary.texts))
        << text;
  };
  // A proposal's rows, the target's rows over the same path, then two branches that return to earlier states.
  for (const char* path : {"", "{", "{\"", "{\"a", "", "{", "{\"", "{}", "{\"b\":", "{\"b\":[1", "{x", "{x}"})
    expect_after(path);
  for (const std::int32_t token : ids_of("{\"b\"")) EXPECT_FALSE(answer.commit(token));
  for (const char* path : {"{\"b\":[", "{\"b\"", "{\"b\":{}}", "{\"b\":{}} "}) expect_after(path);
  for (const std::int32_t token : ids_of(":{}")) EXPECT_FALSE(answer.commit(token));
  EXPECT_TRUE(answer.commit('}'));
}

// ---- what it costs, printed and not checked: SLIPSTREAM_MASK_TOKENIZER=<folder of a tokenizer.json> ----

TEST(TokenMasksTest, CostByHand) {
  const char* folder = std::getenv("SLIPSTREAM_MASK_TOKENIZER");
  if (folder == nullptr) GTEST_SKIP() << "set SLIPSTREAM_MASK_TOKENIZER to a tokenizer's folder";
  const auto now_us = [] {
    return std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now().time_since_epoch()).count();
  };
  const auto tokenizer = Tokenizer::load(folder);
  const auto texts = token_texts(*tokenizer);
  double begin = now_us();
  TokenMasks masks(texts);
  std::cout << texts.size() << " tokens, trie built in " << now_us() - begin << " us\n";
  begin = now_us();
  const auto grammar =
      grammar_of(R"({"properties": {"name": {"type": "string"}, "tags": {"type": "array", "items": {"enum": ["red",
      "green", "blue"]}}, "size": {"type": "integer", "minimum": 0}, "notes": {"type": "string", "maxLength": 200}},
      "required": ["name", "tags", "size", "notes"], "additionalProperties": false})");
  std::cout << "schema compiled in " << now_us() - begin << " us\n";
  const std::string text =
      R"({"name": "Ada Lovelace", "tags": ["red", "blue"], "size": 12, "notes": "It goes on for a while."})";
  const auto ids = tokenizer->encode(text, SpecialTokens::kAsText);
  std::vector<float> logits(texts.size());
  for (const char* round : {"first", "second"}) {
    AnswerGrammar answer(grammar, masks);
    double step_us = 0, most_us = 0, apply_us = 0;
    for (std::size_t i = 0; i < ids.size(); ++i) {
      const double start = now_us();
      const TokenMask* mask = answer.mask_after(std::span(ids).first(i));
      const double masked = now_us();
      ASSERT_NE(mask, nullptr);
      ASSERT_TRUE(mask->allows(ids[i])) << i;
      keep_allowed(*mask, {}, logits);
      apply_us += now_us() - masked;
      step_us += masked - start;
      most_us = std::max(most_us, masked - start);
      answer.commit(ids[i]);
    }
    const auto n = static_cast<double>(ids.size());
    std::cout << round << " answer: " << step_us / n << " us a row for the mask (at most " << most_us << "), "
              << apply_us / n << " us to apply it\n";
  }
}

}  // namespace
}  // namespace slip
