// SPDX-License-Identifier: Apache-2.0
#include "engine/request_check.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>

#include "tests/engine/engine_answers.h"
#include "tests/engine/toy_target.h"

namespace slip {
namespace {

const RequestLimits kLimits{.vocab_size = 10, .max_positions = 100, .cache_tokens = 80, .has_tokenizer = true};

std::shared_ptr<LiveDraft> live_draft_of_vocabulary(std::int32_t vocab_size) {
  auto weights = std::make_shared<ModelWeights>();
  weights->config = testing::toy_config(vocab_size);
  auto version = std::make_shared<DraftVersion>();
  version->name = "foreign";
  version->weights = std::move(weights);
  return std::make_shared<LiveDraft>(DraftId{0}, "foreign", std::move(version));
}

struct Fault {
  const char* param;
  ErrorCode code;
  std::function<void(Request&)> plant;
};

TEST(RequestCheck, NamesTheFieldAtFault) {
  constexpr auto kBad = ErrorCode::kInvalidArgument;
  const std::vector<Fault> faults{
      {"prompt", kBad, [](Request& r) { r.prompt.clear(); }},
      {"prompt", kBad,
       [](Request& r) {
         r.prompt = {1, 10};
       }},
      {"prompt", kBad, [](Request& r) { r.prompt = {-1}; }},
      // The error named end_ids, a field that no client knows.
      {"stop_token_ids", kBad, [](Request& r) { r.end_ids = {10}; }},
      {"max_tokens", kBad, [](Request& r) { r.max_tokens = -1; }},
      {"max_tokens", ErrorCode::kTooLarge, [](Request& r) { r.max_tokens = 99; }},
      {"max_tokens", ErrorCode::kTooLarge, [](Request& r) { r.max_tokens = 79; }},  // fits the model, not the cache
      {"max_tokens", ErrorCode::kTooLarge, [](Request& r) { r.max_tokens = 0x7fffffff; }},
      {"temperature", kBad, [](Request& r) { r.sampling.temperature = -0.1F; }},
      {"temperature", kBad, [](Request& r) { r.sampling.temperature = 2.1F; }},
      {"temperature", kBad, [](Request& r) { r.sampling.temperature = std::nanf(""); }},
      {"top_p", kBad, [](Request& r) { r.sampling.top_p = 0; }},
      {"top_p", kBad, [](Request& r) { r.sampling.top_p = 1.5F; }},
      {"top_p", kBad, [](Request& r) { r.sampling.top_p = std::nanf(""); }},
      {"top_k", kBad, [](Request& r) { r.sampling.top_k = -1; }},
      {"min_p", kBad, [](Request& r) { r.sampling.min_p = 1.1F; }},
      {"min_p", kBad, [](Request& r) { r.sampling.min_p = std::nanf(""); }},
      {"repetition_penalty", kBad, [](Request& r) { r.sampling.repetition_penalty = 0; }},
      {"presence_penalty", kBad, [](Request& r) { r.sampling.presence_penalty = -2.1F; }},
      {"frequency_penalty", kBad, [](Request& r) { r.sampling.frequency_penalty = std::nanf(""); }},
      {"logit_bias", kBad,
       [](Request& r) {
         r.sampling.logit_bias = {{10, 1}};
       }},
      {"logit_bias", kBad,
       [](Request& r) {
         r.sampling.logit_bias = {{1, 101}};
       }},
      {"logit_bias", kBad,
       [](Request& r) {
         r.sampling.logit_bias = {{1, 1}, {1, 2}};
       }},
      {"min_tokens", kBad, [](Request& r) { r.sampling.min_tokens = -1; }},
      {"top_logprobs", kBad, [](Request& r) { r.score_prompt = true, r.top_logprobs = -1; }},
      {"min_tokens", kBad, [](Request& r) { r.sampling.min_tokens = r.max_tokens + 1; }},
      {"stop", kBad, [](Request& r) { r.stop_strings = {""}; }},
      {"top_logprobs", kBad, [](Request& r) { r.top_logprobs = -2; }},
      {"top_logprobs", kBad, [](Request& r) { r.top_logprobs = 11; }},
      {"k", kBad, [](Request& r) { r.k = -1; }},
      {"k", kBad, [](Request& r) { r.k = 17; }},
      {"tree.nodes", kBad, [](Request& r) { r.tree.nodes = 0; }},
      {"tree.nodes", kBad, [](Request& r) { r.tree.nodes = 17; }},
      {"tree.depth", kBad, [](Request& r) { r.tree.depth = 0; }},
      {"tree.depth", kBad, [](Request& r) { r.tree.depth = 17; }},
      {"tree.width", kBad, [](Request& r) { r.tree.width = -1; }},
      {"tree.width", kBad, [](Request& r) { r.tree.width = 5; }},
      {"draft", kBad, [](Request& r) { r.draft = live_draft_of_vocabulary(11); }},
      {"sink", kBad, [](Request& r) { r.sink = nullptr; }},
  };
  for (const Fault& fault : faults) {
    testing::Answer answer;
    Request request = testing::full_request(1, {1, 2}, answer);
    request.max_tokens = 70;
    request.draft = live_draft_of_vocabulary(10);
    EXPECT_NO_THROW(check_request(request, kLimits));
    fault.plant(request);
    try {
      check_request(request, kLimits);
      ADD_FAILURE() << "nothing wrong with " << fault.param;
    } catch (const Error& error) {
      EXPECT_EQ(error.param(), fault.param) << error.message();
      EXPECT_EQ(error.code(), fault.code) << error.message();
    }
  }
}

TEST(RequestCheck, StopStringsNeedATokenizer) {
  testing::Answer answer;
  Request request = testing::full_request(1, {1, 2}, answer);
  request.stop_strings = {"x"};
  RequestLimits limits = kLimits;
  EXPECT_NO_THROW(check_request(request, limits));
  limits.has_tokenizer = false;
  EXPECT_THROW(check_request(request, limits), Error);
}

}  // namespace
}  // namespace slip
