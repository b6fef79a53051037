// SPDX-License-Identifier: Apache-2.0
// Where answers end: stop strings, end tokens, limits, half characters.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "common/error.h"
#include "tests/engine/engine_bench.h"
#include "tests/text/tiny_tokenizer.h"

namespace slip {
namespace {

using testing::Answer;
using testing::drain;
using Bench = testing::EngineBench;

constexpr std::int32_t kTinyVocab = 263, kTinyEnd = 260;

std::vector<std::int32_t> bytes_of(const std::string& text) {
  std::vector<std::int32_t> ids;
  for (const char c : text) ids.push_back(static_cast<unsigned char>(c));
  return ids;
}

// The engine's answer when the target generates `script`, with drafts of length k that are always right.
Answer say(
    const std::vector<std::int32_t>& script, std::int32_t k, const std::vector<std::string>& stops,
    std::int32_t max_tokens, const std::function<void(Request&)>& also = [](Request&) {}) {
  Bench bench({.vocab_size = kTinyVocab, .script = script}, {.k = k}, {}, testing::tiny_tokenizer());
  Answer answer;
  Request request = bench.request(1, answer, max_tokens);
  request.stop_strings = stops;
  request.end_ids = {kTinyEnd};
  also(request);
  bench.engine->submit(std::move(request));
  EXPECT_TRUE(drain(*bench.engine));
  return answer;
}

TEST(EngineEnds, AtAStopStringOverSeveralTokensInsideAnAcceptedRun) {
  for (std::int32_t k = 0; k <= 8; ++k) {
    const Answer answer = say(bytes_of("Hello STOP world, and more of it"), k, {"nothing", "STOP"}, 30);
    EXPECT_EQ(answer.text, "Hello ");
    EXPECT_EQ(answer.tokens, bytes_of("Hello STOP"));
    EXPECT_EQ(answer.summary.reason, StopReason::kStopString);
    EXPECT_EQ(answer.logprobs.size(), 3 * answer.tokens.size());
  }
}

TEST(EngineEnds, AnAlmostStopStringIsTextAfterAll) {
  for (const std::int32_t k : {0, 5}) {
    const Answer answer = say(bytes_of("a STO b ST"), k, {"STOP"}, 10);
    EXPECT_EQ(answer.text, "a STO b ST");
    EXPECT_EQ(answer.summary.reason, StopReason::kLength);
  }
}

TEST(EngineEnds, AtAnEndTokenThatIsPartOfTheTokensButNotOfTheText) {
  std::vector<std::int32_t> script = bytes_of("yes");
  script.push_back(kTinyEnd);
  for (std::int32_t k = 0; k <= 8; ++k) {
    const Answer answer = say(script, k, {}, 30);
    EXPECT_EQ(answer.text, "yes");
    EXPECT_EQ(answer.tokens, script);
    EXPECT_EQ(answer.summary.reason, StopReason::kEndToken);
    EXPECT_EQ(answer.summary.figures.output_tokens, 4);
    EXPECT_LE(answer.summary.figures.accepted, 4);
  }
}

TEST(EngineEnds, NotBeforeMinTokensInsideAProposalEither) {
  std::vector<std::int32_t> script = bytes_of("yes");
  script.push_back(kTinyEnd);
  const auto at_least_six = [](Request& request) {
    request.sampling.temperature = 0;
    request.sampling.min_tokens = 6;
  };
  std::vector<std::int32_t> expected = bytes_of("yes");
  expected.push_back(0);  // the best of what is left where the end is forbidden
  expected.insert(expected.end(), script.begin(), script.end());
  for (std::int32_t k = 0; k <= 8; ++k) {
    const Answer answer = say(script, k, {}, 30, at_least_six);
    EXPECT_EQ(answer.tokens, expected) << k;
    EXPECT_EQ(answer.summary.reason, StopReason::kEndToken);
    EXPECT_EQ(say(bytes_of("ab"), k, {"ab"}, 30, at_least_six).text, "abab") << k;
  }
}

TEST(EngineEnds, WhatStoppedTheAnswerMayBeKept) {
  const auto keep = [](Request& request) {
    request.keep_stop = true;
    request.end_ids = {'w', kTinyEnd};
  };
  for (const std::int32_t k : {0, 3, 8}) {
    EXPECT_EQ(say(bytes_of("Hello STOP world"), k, {"STOP"}, 30, keep).text, "Hello STOP");
    EXPECT_EQ(say(bytes_of("Hello STOP world"), k, {}, 30, keep).text, "Hello STOP w");
    EXPECT_EQ(say({'h', 'i', kTinyEnd}, k, {}, 30, keep).text, "hi") << "special tokens are no text";
  }
}

TEST(EngineEnds, AtMaxTokensToTheToken) {
  for (std::int32_t k = 0; k <= 8; ++k) {
    for (std::int32_t max_tokens = 1; max_tokens <= 10; ++max_tokens) {
      const Answer answer = say(bytes_of("abcdefghijklmnop"), k, {}, max_tokens);
      EXPECT_EQ(static_cast<std::int32_t>(answer.tokens.size()), max_tokens);
      EXPECT_EQ(answer.summary.reason, StopReason::kLength);
      EXPECT_EQ(answer.text, std::string("abcdefghijklmnop").substr(0, static_cast<std::size_t>(max_tokens)));
      // The last token is always the target's own, so a token that could not be committed is never drafted.
      EXPECT_LT(answer.summary.figures.proposed, max_tokens);
    }
  }
}

TEST(EngineEnds, HalfACharacterIsReplacedAtTheEnd) {
  for (const std::int32_t k : {0, 3}) {
    EXPECT_EQ(say(bytes_of("caf\xC3\xA9!"), k, {}, 6).text, "caf\xC3\xA9!");
    EXPECT_EQ(say(bytes_of("caf\xC3\xA9!"), k, {}, 4).text, "caf\xEF\xBF\xBD");
  }
}

// Bug: a row after the end of an answer, which only speculation computes, failed the answer if its logits were broken.
TEST(EngineEnds, WithoutTheErrorsOfRowsBehindTheEnd) {
  constexpr std::size_t kBehind = '!';  // the row that chooses it is broken
  std::vector<std::int32_t> script = bytes_of("yes");
  script.push_back(kTinyEnd);
  const std::vector<std::int32_t> expected = script;
  script.push_back(kBehind);
  for (std::int32_t k = 0; k <= 8; ++k) {
    for (const bool ends : {true, false}) {
      Bench bench({.vocab_size = kTinyVocab, .script = script}, {.k = k}, {}, testing::tiny_tokenizer());
      bench.worker->spoil = [](const StepInput&, std::span<float> logits) {
        if (logits[kBehind] > 0) logits[0] = std::nanf("");
      };
      Answer answer;
      Request request = bench.request(1, answer, 30);
      if (ends) request.end_ids = {kTinyEnd};
      bench.engine->submit(std::move(request));
      EXPECT_TRUE(drain(*bench.engine));
      EXPECT_EQ(answer.tokens, expected) << k << ": an answer that goes on fails, but not before this token";
      EXPECT_EQ(answer.summary.reason, ends ? StopReason::kEndToken : StopReason::kFailed) << k;
      if (ends) continue;
      ASSERT_TRUE(answer.summary.error);
      EXPECT_EQ(answer.summary.error->code(), ErrorCode::kDataLoss);
    }
  }
}

TEST(EngineEnds, AtTheEdgeOfTheContext) {
  Bench bench({}, {.k = 8}, {.max_positions = 20});
  Answer answer, refused;
  Request request = bench.request(1, answer, 17);
  request.prompt = {1, 2, 3};
  bench.engine->submit(std::move(request));
  EXPECT_TRUE(drain(*bench.engine));
  EXPECT_EQ(answer.tokens.size(), 17U);
  Request over = bench.request(2, refused, 18);
  over.prompt = {1, 2, 3};
  try {
    bench.engine->submit(std::move(over));
    FAIL() << "accepted";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kTooLarge);
    EXPECT_EQ(error.param(), "max_tokens");
    EXPECT_NE(error.message().find("18"), std::string::npos);
    EXPECT_NE(error.message().find("20"), std::string::npos);
  }
}

}  // namespace
}  // namespace slip
