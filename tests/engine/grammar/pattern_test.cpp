// SPDX-License-Identifier: Apache-2.0
#include "engine/grammar/pattern.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <random>
#include <regex>

#include "common/error.h"
#include "tests/engine/grammar/grammar_walks.h"

namespace slip {
namespace {

using testing::accepts;

ByteAutomaton strings_with(const std::string& pattern) {
  AutomatonBudget budget{.where = "schema.pattern"};
  return pattern_automaton(pattern, budget);
}

std::string json_text(const std::string& text) {
  return nlohmann::json(text).dump();
}

TEST(PatternTest, EqualsAnotherEngineOnShortTexts) {
  std::mt19937_64 random(3);
  const std::string alphabet = "ab01-_. \n\"\\";
  for (const char* pattern : {"^a+b?$",    "b",          "^$",      "a|^b$",  "(a|b0)*1",
                              "^[^ab]+$",  "^\\d{2,3}$", "\\w-\\w", "^.{2}$", "^(?:a|b){3,}$",
                              "[\\s\\\\]", "^a{0}b$",    "^[a-]+$", "\\.$",   "^(a{1,2}){2}$",
                              "a*?b",      "^[\\w.]+$",  "\"\\\\$", "()",     "^\\D$"}) {
    const ByteAutomaton made = strings_with(pattern);
    const std::regex reference(pattern);
    int n_found = 0;
    for (int i = 0; i < 1500; ++i) {
      std::string text;
      for (std::size_t n = random() % 6; text.size() < n;) text.push_back(alphabet[random() % alphabet.size()]);
      const bool found = std::regex_search(text, reference);
      EXPECT_EQ(accepts(made, json_text(text)), found) << pattern << " in " << json_text(text);
      n_found += found ? 1 : 0;
    }
    EXPECT_GT(n_found, 0) << pattern;
  }
}

TEST(PatternTest, CharactersAreCodePoints) {
  EXPECT_TRUE(accepts(strings_with("^.$"), "\"€\""));
  EXPECT_TRUE(accepts(strings_with("^[à-ü]{2}$"), "\"éè\""));
  EXPECT_FALSE(accepts(strings_with("^[à-ü]$"), "\"ÿ\""));
  EXPECT_TRUE(accepts(strings_with("^\\u00e9$"), "\"é\""));
  EXPECT_TRUE(accepts(strings_with("^[^a]$"), "\"😀\""));
  EXPECT_FALSE(accepts(strings_with("^[^a]$"), "\"\xC0\xAF\"")) << "overlong";
  EXPECT_FALSE(accepts(strings_with("^[^a]$"), "\"\xED\xA0\x80\"")) << "a surrogate";
  EXPECT_TRUE(accepts(strings_with("^\\x01$"), "\"\\u0001\""));
}

TEST(PatternTest, WhatIsNotSupportedIsRefusedByName) {
  for (const char* pattern :
       {"(?=a)", "(?<n>a)", "\\bword", "(a)\\1", "\\p{L}", "a^b", "(^a)", "(a$)", "a$b", "[\\u{1F600}]", "\\ud83d"}) {
    try {
      strings_with(pattern);
      ADD_FAILURE() << pattern;
    } catch (const Error& error) {
      EXPECT_EQ(error.param(), "schema.pattern") << pattern;
    }
  }
  for (const char* pattern : {"(a", "a)", "[a", "*a", "a{2", "a{3,2}", "a**", "[b-a]", "\\", "\\xg0", "a{99999}"}) {
    try {
      strings_with(pattern);
      ADD_FAILURE() << pattern;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument) << pattern;
    }
  }
}

TEST(PatternTest, PatternsMadeToBeSlowAreRefused) {
  for (const char* pattern : {"(.*a){1,12}.{300}", "((a{100}){100}){100}", "(a|b)*a(a|b){20}", ".{5000}"}) {
    EXPECT_THROW(strings_with(pattern), Error) << pattern;
  }
}

}  // namespace
}  // namespace slip
