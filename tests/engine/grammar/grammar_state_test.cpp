// SPDX-License-Identifier: Apache-2.0
#include "engine/grammar/grammar_state.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "common/error.h"
#include "tests/engine/grammar/grammar_walks.h"

namespace slip {
namespace {

using testing::accepts;

// The language of json_object by another parser, plus our own rules about gaps and digits.
bool gap_is_right(std::string_view gap) {
  if (gap == " ") return true;
  if (gap.substr(0, 2) == "\r\n") gap.remove_prefix(1);
  if (gap.substr(0, 1) != "\n") return false;
  gap.remove_prefix(1);
  return gap.size() <= JsonLexemes::kMostIndent && gap.find_first_not_of(" \t") == std::string_view::npos;
}

bool numbers_and_gaps_are_right(std::string_view text) {
  for (std::size_t i = 0; i < text.size();) {
    if (text[i] == '"') {
      for (++i; text[i] != '"'; ++i) i += text[i] == '\\' ? 1 : 0;
      ++i;
      continue;
    }
    const std::string_view digits = "0123456789", blanks = " \t\r\n";
    const bool digit = digits.find(text[i]) != std::string_view::npos;
    const bool blank = blanks.find(text[i]) != std::string_view::npos;
    const auto end = digit || blank ? std::min(text.find_first_not_of(digit ? digits : blanks, i), text.size()) : i + 1;
    const bool exponent = digit && i > 0 && std::string_view("eE+").find(text[i - 1]) != std::string_view::npos;
    const bool negative_exponent = digit && i > 1 && text[i - 1] == '-' && (text[i - 2] == 'e' || text[i - 2] == 'E');
    if (digit && end - i > (exponent || negative_exponent ? 2U : 32U)) return false;
    if (blank && (i == 0 || end == text.size() || !gap_is_right(text.substr(i, end - i)))) return false;
    i = end;
  }
  return true;
}

bool is_our_object(const std::string& text) {
  if (!nlohmann::json::accept(text) || !numbers_and_gaps_are_right(text)) return false;
  return nlohmann::json::parse(text).is_object();
}

std::string mutate(std::string text, std::mt19937_64& random) {
  static const std::vector<std::string> pieces = {"{",
                                                  "}",
                                                  "[",
                                                  "]",
                                                  "\"",
                                                  ":",
                                                  ",",
                                                  " ",
                                                  "\n",
                                                  "\t",
                                                  "\r\n",
                                                  "0",
                                                  "-1",
                                                  "1.5",
                                                  "e3",
                                                  "E+",
                                                  "e-21",
                                                  "true",
                                                  "null",
                                                  "\\",
                                                  "\\u",
                                                  "d83d",
                                                  "\\ud83d\\ude00",
                                                  "00e9",
                                                  "\xC3",
                                                  "\xA9",
                                                  "é",
                                                  "\x7F",
                                                  "/",
                                                  "b",
                                                  "\"a\":",
                                                  "\"a\":1",
                                                  ",\"b\":[]",
                                                  "\x01",
                                                  "\xED\xA0\x80",
                                                  "\xF4\x90\x80\x80"};
  for (std::size_t n = 1 + random() % 3; n > 0; --n) {
    const std::size_t place = random() % (text.size() + 1);
    const std::size_t n_cut = random() % 3 == 0 ? random() % 3 : 0;
    text.replace(place, std::min(n_cut, text.size() - place), random() % 4 > 0 ? pieces[random() % pieces.size()] : "");
  }
  return text;
}

TEST(JsonObjectGrammarTest, AcceptsExactlyJsonsObjects) {
  const auto grammar = json_object_grammar();
  std::mt19937_64 random(11);
  int n_right = 0, n_wrong = 0;
  for (int i = 0; i < 400; ++i) {
    const std::string document = testing::random_document(*grammar, random, 10 + random() % 80);
    ASSERT_TRUE(is_our_object(document)) << document;
    for (int j = 0; j < 40; ++j) {
      const std::string text = mutate(document, random);
      const bool right = is_our_object(text);
      ASSERT_EQ(accepts(*grammar, text), right) << text;
      (right ? n_right : n_wrong) += 1;
    }
  }
  EXPECT_GT(n_right, 1000);
  EXPECT_GT(n_wrong, 1000);
}

TEST(JsonObjectGrammarTest, AGapIsOneSpaceOrALineEndAndItsIndent) {
  const auto grammar = json_object_grammar();
  const std::string line = "\r\n" + std::string(JsonLexemes::kMostIndent, ' ');
  EXPECT_TRUE(accepts(*grammar, "{" + line + "\"a\"" + line + ":" + line + "1" + line + "," + line + "\"b\" : 2 }"));
  EXPECT_TRUE(accepts(*grammar, "{\n\t\"a\":{}\n}"));
  for (const char* text : {" {}", "\n{}", "{} ", "{}\n", "{  }", "{\t}", "{ \n}", "{\n\n}", "{\r}", "{\"a\":  1}"}) {
    EXPECT_FALSE(accepts(*grammar, text)) << text;
  }
  EXPECT_FALSE(accepts(*grammar, "{" + line + " }"));
}

TEST(JsonObjectGrammarTest, DepthIsBoundedAndTheRootIsAnObject) {
  const auto grammar = json_object_grammar();
  const auto nested = [](int depth) {
    std::string text = "{}";
    for (int i = 0; i < depth; ++i) text = R"({"a":)" + text + "}";
    return text;
  };
  EXPECT_TRUE(accepts(*grammar, nested(Grammar::kMostDepth)));
  EXPECT_FALSE(accepts(*grammar, nested(Grammar::kMostDepth + 1)));
  EXPECT_FALSE(accepts(*grammar, "[]"));
  EXPECT_FALSE(accepts(*grammar, "1"));
}

TEST(GrammarStateTest, ACopyIsAForkAndTheWayBack) {
  const auto grammar = json_object_grammar();
  GrammarState state = GrammarState::start(*grammar);
  ASSERT_TRUE(state.advance(*grammar, R"({"a": [1, )"));
  const GrammarState before = state;
  GrammarState other = state;
  EXPECT_TRUE(state.advance(*grammar, R"({"b": "x"}]})"));
  EXPECT_TRUE(state.is_complete());
  EXPECT_TRUE(state.is_over());
  EXPECT_FALSE(other.advance(*grammar, "]"));
  EXPECT_FALSE(other.is_alive());
  other = before;
  EXPECT_TRUE(other.advance(*grammar, "2]}"));
  EXPECT_TRUE(other.is_complete());
  std::string key, same_key;
  before.append_key(key);
  GrammarState again = GrammarState::start(*grammar);
  again.advance(*grammar, R"({"a": [7, )");
  again.append_key(same_key);
  EXPECT_EQ(key, same_key) << "what was written before does not matter, only where it led";
}

TEST(GrammarStateTest, ANumberMayEndOrGoOn) {
  const auto grammar = testing::grammar_of(R"({"type": "integer"})");
  GrammarState state = GrammarState::start(*grammar);
  ASSERT_TRUE(state.advance(*grammar, "12"));
  EXPECT_TRUE(state.is_complete());
  EXPECT_FALSE(state.is_over());
  ASSERT_TRUE(state.advance(*grammar, "3"));
  EXPECT_FALSE(state.advance(*grammar, "}"));
}

// Each level doubles the number of parses, and no two are the same.
TEST(GrammarStateTest, TooManyWaysToReadATextAreRefused) {
  SchemaJson schema = {{"$ref", "#/$defs/0"}};
  for (int i = 0; i < 12; ++i) {
    const SchemaJson items = {{"$ref", "#/$defs/" + std::to_string(i + 1)}};
    schema["$defs"][std::to_string(i)]["anyOf"] = {{{"type", "array"}, {"maxItems", 1}, {"items", items}},
                                                   {{"type", "array"}, {"maxItems", 2}, {"items", items}}};
  }
  schema["$defs"]["12"] = {{"type", "integer"}};
  const auto grammar = compile_schema(schema, "schema");
  GrammarState state = GrammarState::start(*grammar);
  EXPECT_THROW(state.advance(*grammar, std::string(12, '[')), Error);
}

}  // namespace
}  // namespace slip
