// SPDX-License-Identifier: Apache-2.0
#include "server/openai/call.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <string>

#include "common/error.h"
#include "server/http/reply.h"
#include "tests/server/openai/call_fixture.h"

namespace slip {
namespace {

using testing::fault_of_body;
using testing::kMessages;

CompletionCall chat(const std::string& fields, const CallHeaders& headers = {}) {
  return parse_request(Endpoint::kChat, "{" + kMessages + (fields.empty() ? "" : "," + fields) + "}", headers);
}

// vLLM's clients say -1 for "all tokens".
TEST(Call, TopKOfMinusOneIsOff) {
  EXPECT_EQ(chat(R"("top_k":-1)").sampling.top_k, 0);
  EXPECT_EQ(chat(R"("top_k":0)").sampling.top_k, 0);
}

TEST(Call, ReadsEveryField) {
  const auto call =
      chat(R"("model":"m","temperature":0.5,"top_p":0.25,"top_k":40,"seed":-1,"max_tokens":7,)"
           R"("stop":["a","b"],"stream":true,"stream_options":{"include_usage":true},"logprobs":true,)"
           R"("top_logprobs":3,"user":"u","service_tier":"auto","metadata":{"topic":"sql"},"min_p":0.125,)"
           R"("repetition_penalty":1.5,"presence_penalty":-2,"frequency_penalty":0.25,"min_tokens":3,)"
           R"("logit_bias":{"7":-100,"12":1.5},"ignore_eos":true,"stop_token_ids":[9,0],"n":2,)"
           R"("include_stop_str_in_output":true,"priority":-3)");
  EXPECT_EQ(call.priority, -3);
  EXPECT_EQ(call.model, "m");
  EXPECT_EQ(call.messages.at(0).role, "user");
  EXPECT_EQ(call.messages.at(0).content, "hi");
  EXPECT_FLOAT_EQ(call.sampling.temperature, 0.5F);
  EXPECT_FLOAT_EQ(call.sampling.top_p, 0.25F);
  EXPECT_EQ(call.sampling.top_k, 40);
  EXPECT_EQ(call.sampling.seed, std::numeric_limits<std::uint64_t>::max());
  EXPECT_FLOAT_EQ(call.sampling.min_p, 0.125F);
  EXPECT_FLOAT_EQ(call.sampling.repetition_penalty, 1.5F);
  EXPECT_FLOAT_EQ(call.sampling.presence_penalty, -2);
  EXPECT_FLOAT_EQ(call.sampling.frequency_penalty, 0.25F);
  EXPECT_EQ(call.sampling.min_tokens, 3);
  ASSERT_EQ(call.sampling.logit_bias.size(), 2U);
  EXPECT_EQ(call.sampling.logit_bias[0].id + call.sampling.logit_bias[1].id, 19);
  EXPECT_TRUE(call.ignore_eos);
  EXPECT_TRUE(call.keep_stop);
  EXPECT_EQ(call.n, 2);
  EXPECT_EQ(call.stop_token_ids, (std::vector<std::int32_t>{9, 0}));
  EXPECT_EQ(call.max_tokens, 7);
  EXPECT_EQ(call.stop, (std::vector<std::string>{"a", "b"}));
  EXPECT_TRUE(call.stream);
  EXPECT_TRUE(call.include_usage);
  EXPECT_EQ(call.top_logprobs, 3);
  EXPECT_EQ(call.topic_label, "sql");
  EXPECT_TRUE(call.learn);
}

TEST(Call, NullCountsAsAbsent) {
  const auto call =
      chat(R"("model":null,"temperature":null,"seed":null,"stop":null,"stream":null,"tools":null,"n":null,)"
           R"("logit_bias":null,"response_format":null,"metadata":null,"store":null,"max_tokens":null)");
  EXPECT_FALSE(call.model);
  EXPECT_FLOAT_EQ(call.sampling.temperature, 1.0F);
  EXPECT_FALSE(call.sampling.seed);
  EXPECT_FALSE(call.max_tokens);
  EXPECT_TRUE(call.learn);
}

TEST(Call, NeutralValuesPass) {
  EXPECT_NO_THROW(chat(R"("n":1,"presence_penalty":0,"frequency_penalty":0.0,"logit_bias":{},)"
                       R"("response_format":{"type":"text"},"tools":[],"tool_choice":"none","modalities":["text"])"));
  EXPECT_NO_THROW(chat(R"("skip_special_tokens":true,"use_beam_search":false,"length_penalty":1.0)"));
  EXPECT_NO_THROW(chat(R"("length_penalty":1)"));
  EXPECT_NO_THROW(
      chat(R"("spaces_between_special_tokens":true,"add_generation_prompt":true,"continue_final_message":false)"));
  EXPECT_NO_THROW(chat(R"("tool_choice":"auto")"));
  EXPECT_NO_THROW(chat(R"("tool_choice":"auto","tools":[],"parallel_tool_calls":false)"));
}

// OpenAI's clients and frameworks send these by themselves; they were refused as not supported.
TEST(Call, HintsPassAndChangeNothing) {
  const auto call = chat(R"("reasoning_effort":"low","verbosity":"high","prompt_cache_key":"k",)"
                         R"("prompt_cache_retention":"24h","safety_identifier":"u","user":"u","service_tier":"flex",)"
                         R"("stream":true,"stream_options":{"continuous_usage_stats":true},)"
                         R"("metadata":{"number":7,"list":[1],"nothing":null,"topic":"sql"})");
  EXPECT_EQ(call.topic_label, "sql");
  EXPECT_FALSE(call.include_usage);
  EXPECT_FALSE(call.continuous_usage) << "without the usage";
  EXPECT_FLOAT_EQ(call.sampling.temperature, chat("").sampling.temperature);
}

// Bug: it was accepted and ignored.
TEST(Call, TheUsageMayComeInEachChunk) {
  const std::string both = R"("stream":true,"stream_options":{"include_usage":true,"continuous_usage_stats":)";
  EXPECT_TRUE(chat(both + "true}").continuous_usage);
  EXPECT_FALSE(chat(both + "false}").continuous_usage);
}

// vLLM's and llama.cpp's clients say -1 for "as many as there is room for"; it was refused as out of range.
TEST(Call, MaxTokensOfMinusOneIsWhatIsLeft) {
  EXPECT_FALSE(chat(R"("max_tokens":-1)").max_tokens);
  EXPECT_FALSE(chat(R"("max_completion_tokens":-1)").max_tokens);
  for (const char* more_than_any_context : {"2147483648", "4294967296", "9007199254740991", "1e15"}) {
    EXPECT_EQ(chat(R"("max_tokens":)" + std::string(more_than_any_context)).max_tokens, 2147483647);
  }
  EXPECT_FALSE(chat(R"("max_completion_tokens":-1,"max_tokens":-1)").max_tokens);
}

// JavaScript has one kind of number, and some clients write 16 as 16.0; it was refused as no integer.
TEST(Call, WholeFloatsAreIntegers) {
  EXPECT_EQ(chat(R"("max_tokens":16.0)").max_tokens, 16);
  EXPECT_EQ(chat(R"("max_tokens":1e3)").max_tokens, 1000);
  EXPECT_EQ(chat(R"("seed":-0.0)").sampling.seed, 0U);
  EXPECT_EQ(chat(R"("seed":9007199254740991.0)").sampling.seed, 9007199254740991U);
  EXPECT_EQ(chat(R"("top_k":1.0,"n":2.0,"stop_token_ids":[5.0])").stop_token_ids, std::vector<std::int32_t>{5});
}

TEST(Call, SpeculativeSaysHowTokensAreProposed) {
  EXPECT_FALSE(chat("").k);
  EXPECT_EQ(chat("").propose_by, std::nullopt);
  EXPECT_FALSE(chat(R"("speculative":null)").k);
  EXPECT_FALSE(chat(R"("speculative":{"enabled":true,"max_tokens":null,"proposer":"auto"})").k);
  EXPECT_EQ(chat(R"("speculative":{"enabled":false})").k, 0);
  EXPECT_EQ(chat(R"("speculative":{"enabled":false,"max_tokens":4})").k, 0);
  EXPECT_EQ(chat(R"("speculative":{"max_tokens":4.0})").k, 4);
  EXPECT_EQ(chat(R"("speculative":{"proposer":"draft"})").propose_by, ProposeBy::kDraft);
  EXPECT_EQ(chat(R"("speculative":{"proposer":"prompt_lookup"})").propose_by, ProposeBy::kPromptLookup);
}

TEST(Call, SpeculativeLimitsTheTreeOfAProposal) {
  const auto tree = [](const std::string& limits) { return chat(R"("speculative":{"tree":)" + limits + "}").tree; };
  EXPECT_EQ(chat("").tree, TreeLimits{});
  EXPECT_EQ(tree("null"), TreeLimits{});
  EXPECT_EQ(tree("{}"), TreeLimits{});
  EXPECT_EQ(tree(R"({"nodes":null,"depth":null,"width":null})"), TreeLimits{});
  EXPECT_EQ(tree(R"({"nodes":1,"depth":1,"width":1})"), (TreeLimits{1, 1, 1}));
  EXPECT_EQ(tree(R"({"nodes":16,"depth":16.0,"width":4})"), (TreeLimits{16, 16, 4}));
  EXPECT_EQ(tree(R"({"depth":3})"), (TreeLimits{.depth = 3}));
  EXPECT_FALSE(chat(R"("speculative":{"tree":{"depth":3}})").k);
  const auto both = chat(R"("speculative":{"enabled":false,"max_tokens":3,"tree":{"depth":3,"nodes":2}})");
  EXPECT_EQ(both.tree, (TreeLimits{.nodes = 2, .depth = 3}));
  EXPECT_EQ(both.k, 0) << "nothing is proposed";
}

TEST(Call, ATreeLimitOutOfRangeSaysTheRange) {
  const auto said = [](const std::string& limits) {
    return fault_of_body(Endpoint::kChat, "{" + kMessages + R"(,"speculative":)" + limits + "}").message();
  };
  EXPECT_EQ(said(R"({"tree":{"nodes":17}})"), "'speculative.tree.nodes' must be an integer from 1 to 16");
  EXPECT_EQ(said(R"({"tree":{"depth":0}})"), "'speculative.tree.depth' must be an integer from 1 to 16");
  EXPECT_EQ(said(R"({"tree":{"width":5}})"), "'speculative.tree.width' must be an integer from 1 to 4");
  EXPECT_EQ(said(R"({"max_tokens":4,"tree":{"depth":3}})"),
            "'speculative.tree.depth' and 'speculative.max_tokens' say different things: send one");
}

// Only the likeliest token is in a mass of 0; OpenAI takes it, and so do some clients for greedy decoding.
TEST(Call, TopPOfZeroIsGreedy) {
  for (const char* top_p : {"0", "0.0", "1e-300"}) {
    const auto call = chat(std::string(R"("temperature":1.5,"seed":3,"top_p":)") + top_p);
    EXPECT_FLOAT_EQ(call.sampling.temperature, 0) << top_p;
    EXPECT_FLOAT_EQ(call.sampling.top_p, 1) << top_p;
  }
  EXPECT_FLOAT_EQ(chat(R"("top_p":0.001)").sampling.temperature, 1);
}

// LangChain names who speaks, and sends an answer's message back with what else it had.
TEST(Call, MessagesMayHaveNamesAndEmptyParts) {
  const auto call =
      parse_request(Endpoint::kChat,
                    R"({"messages":[{"role":"user","name":"anna","id":"msg_1","content":[{"type":"text","text":"a",)"
                    R"("cache_control":{"type":"ephemeral"}}]},{"role":"assistant","content":"b","tool_calls":[],)"
                    R"("reasoning_content":"","name":null}]})",
                    {});
  EXPECT_EQ(call.messages.at(0).name, "anna");
  EXPECT_EQ(call.messages.at(0).content, "a");
  EXPECT_EQ(call.messages.at(1).content, "b");
  EXPECT_FALSE(call.messages.at(1).name);
}

TEST(Call, DeveloperIsSystemAndPartsAreJoined) {
  const auto call = parse_request(
      Endpoint::kChat,
      R"({"messages":[{"role":"developer","content":[{"type":"text","text":"a"},{"type":"text","text":"b"}]},)"
      R"({"role":"assistant","content":"x","refusal":null,"tool_calls":null,"annotations":[]},)"
      R"({"role":"user","content":"y"}]})",
      {});
  EXPECT_EQ(call.messages.at(0).role, "system");
  EXPECT_EQ(call.messages.at(0).content, "ab");
  EXPECT_EQ(call.messages.size(), 3U);
}

TEST(Call, StopMayBeAStringAndMaxTokensHasTwoNames) {
  EXPECT_EQ(chat(R"("stop":"x")").stop, std::vector<std::string>{"x"});
  EXPECT_EQ(chat(R"("max_completion_tokens":9)").max_tokens, 9);
  EXPECT_EQ(chat(R"("max_completion_tokens":9,"max_tokens":9)").max_tokens, 9);
}

TEST(Call, LearningCanBeDeclined) {
  EXPECT_FALSE(chat(R"("store":false)").learn);
  EXPECT_TRUE(chat(R"("store":true)").learn);
  EXPECT_FALSE(chat("", {.learn = "off"}).learn);
  EXPECT_TRUE(chat("", {.learn = "on"}).learn);
  EXPECT_THROW(chat("", {.learn = "maybe"}), Error);
  EXPECT_FALSE(chat(R"("store":false)", {.learn = "on"}).learn) << "who declines in one place has declined";
  EXPECT_FALSE(chat(R"("store":true)", {.learn = "off"}).learn);
}

TEST(Call, TopicComesFromMetadataOrHeader) {
  EXPECT_EQ(chat("", {.topic = "math"}).topic_label, "math");
  EXPECT_EQ(chat(R"("metadata":{"topic":"math"})", {.topic = "math"}).topic_label, "math");
  EXPECT_THROW(chat(R"("metadata":{"topic":"sql"})", {.topic = "math"}), Error);
}

struct Refusal {
  const char* fields;  // beside the messages
  const char* param;
};

class CallRefusal : public ::testing::TestWithParam<Refusal> {};

TEST_P(CallRefusal, NamesTheField) {
  const Error error = fault_of_body(Endpoint::kChat, "{" + kMessages + "," + GetParam().fields + "}");
  EXPECT_EQ(http_status(error), 400) << error.message();
  EXPECT_EQ(error.param(), GetParam().param) << error.message();
  EXPECT_NE(error.message().find(GetParam().param), std::string::npos) << error.message();
}

// Each error led astray: by a field that was right, or by a next step that is refused too.
TEST(Call, AnErrorSaysWhatIsWrong) {
  const auto said = [](Endpoint endpoint, const std::string& body) { return fault_of_body(endpoint, body).message(); };
  std::string prompts = R"({"prompt":["a")";
  for (int i = 0; i < 128; ++i) prompts += R"(,"a")";
  EXPECT_EQ(said(Endpoint::kCompletion, prompts + "]}"), "'prompt' must hold at most 128 prompts");
  EXPECT_EQ(said(Endpoint::kChat, "{" + kMessages + R"(,"max_tokens":0})"), "'max_tokens' must be -1 or above 0");
  EXPECT_NE(said(Endpoint::kChat, "{" + kMessages + R"(,"seed":1e18})").find("without a fraction or an exponent"),
            std::string::npos);
  for (const char* prompt : {"{}", "[null]", "[{}]"}) {
    EXPECT_NE(
        said(Endpoint::kCompletion, R"({"prompt":)" + std::string(prompt) + "}").find("must be a string, a list of"),
        std::string::npos)
        << prompt;
  }
  EXPECT_NE(said(Endpoint::kChat,
                 R"({"messages":[{"role":"user","content":[{"type":"text","text":"x","cache_control":"y"}]}]})")
                .find("cache_control' must be an object"),
            std::string::npos);
}

// An unknown key of a configuration had such a hint, an unknown field of a request had none.
TEST(Call, AnUnknownFieldIsToldTheOneThatItResembles) {
  const auto hint = [](const std::string& field) {
    return fault_of_body(Endpoint::kChat, "{" + kMessages + "," + field + "}").hint();
  };
  EXPECT_EQ(hint(R"("slo":{"tpot":40})"), "did you mean 'slo.tpot_ms'?");
  EXPECT_EQ(hint(R"("max_token":4)"), "did you mean 'max_tokens'?");
  EXPECT_EQ(hint(R"("speculative":{"proposers":"auto"})"), "did you mean 'speculative.proposer'?");
  EXPECT_EQ(hint(R"("weather":1)"), "");
  EXPECT_EQ(fault_of_body(Endpoint::kCompletion, R"({"promt":"x"})").hint(), "did you mean 'prompt'?");
}

// Bug: within `messages` it was told none.
TEST(Call, AnUnknownFieldOfAMessageIsToldTheOneThatItResembles) {
  const auto hint = [](const std::string& message) {
    return fault_of_body(Endpoint::kChat, R"({"messages":[)" + message + "]}").hint();
  };
  EXPECT_EQ(hint(R"({"role":"user","contents":"x"})"), "did you mean 'messages[0].content'?");
  EXPECT_EQ(hint(R"({"role":"user","content":"x","weather":1})"), "");
  EXPECT_EQ(hint(R"({"role":"user","content":[{"type":"text","txt":"x"}]})"),
            "did you mean 'messages[0].content[0].text'?");
}

INSTANTIATE_TEST_SUITE_P(
    Types, CallRefusal,
    ::testing::Values(
        Refusal{R"("temperature":"1")", "temperature"}, Refusal{R"("temperature":true)", "temperature"},
        Refusal{R"("temperature":-0.1)", "temperature"}, Refusal{R"("temperature":2.01)", "temperature"},
        Refusal{R"("top_p":-0.1)", "top_p"}, Refusal{R"("top_p":1.5)", "top_p"}, Refusal{R"("top_k":-2)", "top_k"},
        Refusal{R"("top_k":4294967297)", "top_k"}, Refusal{R"("top_k":1.5)", "top_k"},
        Refusal{R"("max_tokens":0)", "max_tokens"}, Refusal{R"("max_tokens":true)", "max_tokens"},
        Refusal{R"("max_tokens":-2)", "max_tokens"}, Refusal{R"("max_tokens":1e30)", "max_tokens"},
        Refusal{R"("max_completion_tokens":0)", "max_completion_tokens"},
        Refusal{R"("max_tokens":-1,"max_completion_tokens":3)", "max_completion_tokens"},
        Refusal{R"("seed":9007199254740992.0)", "seed"}, Refusal{R"("max_tokens":9223372036854775808)", "max_tokens"},
        Refusal{R"("max_tokens":2,"max_completion_tokens":3)", "max_completion_tokens"},
        Refusal{R"("seed":9223372036854775808)", "seed"}, Refusal{R"("seed":1.5)", "seed"},
        Refusal{R"("stream":1)", "stream"}, Refusal{R"("stream":"true")", "stream"}, Refusal{R"("stop":5)", "stop"},
        Refusal{R"("stop":[1])", "stop"}, Refusal{R"("stop":"")", "stop"},
        Refusal{R"("stop":["1","2","3","4","5","6","7","8","9","a","b","c","d","e","f","g","h"])", "stop"},
        Refusal{R"("model":7)", "model"}, Refusal{R"("user":7)", "user"}, Refusal{R"("store":"no")", "store"},
        Refusal{R"("metadata":[])", "metadata"}, Refusal{R"("metadata":{"topic":1})", "metadata.topic"},
        Refusal{R"("stream_options":{"include_usage":true})", "stream_options"},
        Refusal{R"("stream":true,"stream_options":{"x":1})", "stream_options.x"},
        Refusal{R"("stream":true,"stream_options":{"include_usage":1})", "stream_options.include_usage"},
        Refusal{R"("stream":true,"stream_options":{"continuous_usage_stats":1})",
                "stream_options.continuous_usage_stats"},
        Refusal{R"("reasoning_effort":1)", "reasoning_effort"}, Refusal{R"("verbosity":{})", "verbosity"},
        Refusal{R"("prompt_cache_key":7)", "prompt_cache_key"}, Refusal{R"("min_p":1.5)", "min_p"},
        Refusal{R"("min_p":"0")", "min_p"}, Refusal{R"("repetition_penalty":0)", "repetition_penalty"},
        Refusal{R"("presence_penalty":2.5)", "presence_penalty"},
        Refusal{R"("frequency_penalty":true)", "frequency_penalty"}, Refusal{R"("logit_bias":[])", "logit_bias"},
        Refusal{R"("logit_bias":{"x":1})", "logit_bias.x"}, Refusal{R"("logit_bias":{"-1":1})", "logit_bias.-1"},
        Refusal{R"("logit_bias":{"07":1})", "logit_bias.07"}, Refusal{R"("logit_bias":{"7":101})", "logit_bias.7"},
        Refusal{R"("logit_bias":{"7":null})", "logit_bias.7"}, Refusal{R"("min_tokens":-1)", "min_tokens"},
        Refusal{R"("ignore_eos":1)", "ignore_eos"}, Refusal{R"("stop_token_ids":7)", "stop_token_ids"},
        Refusal{R"("stop_token_ids":[1.5])", "stop_token_ids[0]"},
        Refusal{R"("include_stop_str_in_output":"x")", "include_stop_str_in_output"}, Refusal{R"("echo":true)", "echo"},
        Refusal{R"("best_of":2)", "best_of"}, Refusal{R"("logprobs":1)", "logprobs"},
        Refusal{R"("top_logprobs":2)", "top_logprobs"},
        Refusal{R"("logprobs":true,"top_logprobs":21)", "top_logprobs"}));

INSTANTIATE_TEST_SUITE_P(
    Unsupported, CallRefusal,
    ::testing::Values(
        Refusal{R"("n":129)", "n"}, Refusal{R"("n":true)", "n"}, Refusal{R"("n":0)", "n"},
        Refusal{R"("tools":[{"type":"function"}])", "tools"}, Refusal{R"("functions":[{}])", "functions"},
        Refusal{R"("tools":{})", "tools"}, Refusal{R"("functions":{})", "functions"},
        Refusal{R"("tool_choice":"required")", "tool_choice"}, Refusal{R"("audio":{})", "audio"},
        Refusal{R"("modalities":["audio"])", "modalities"}, Refusal{R"("speculative":true)", "speculative"},
        Refusal{R"("speculative":{"enabled":1})", "speculative.enabled"},
        Refusal{R"("speculative":{"max_tokens":17})", "speculative.max_tokens"},
        Refusal{R"("speculative":{"max_tokens":-1})", "speculative.max_tokens"},
        Refusal{R"("speculative":{"max_tokens":"4"})", "speculative.max_tokens"},
        Refusal{R"("speculative":{"proposer":"ngram"})", "speculative.proposer"},
        Refusal{R"("speculative":{"proposer":2})", "speculative.proposer"},
        Refusal{R"("speculative":{"tree":3})", "speculative.tree"},
        Refusal{R"("speculative":{"tree":[]})", "speculative.tree"},
        Refusal{R"("speculative":{"tree":{"nodes":0}})", "speculative.tree.nodes"},
        Refusal{R"("speculative":{"tree":{"nodes":"8"}})", "speculative.tree.nodes"},
        Refusal{R"("speculative":{"tree":{"nodes":true}})", "speculative.tree.nodes"},
        Refusal{R"("speculative":{"tree":{"depth":17}})", "speculative.tree.depth"},
        Refusal{R"("speculative":{"tree":{"depth":1.5}})", "speculative.tree.depth"},
        Refusal{R"("speculative":{"tree":{"depth":4294967297}})", "speculative.tree.depth"},
        Refusal{R"("speculative":{"tree":{"width":0}})", "speculative.tree.width"},
        Refusal{R"("speculative":{"tree":{"width":-1}})", "speculative.tree.width"},
        Refusal{R"("speculative":{"tree":{"branches":2}})", "speculative.tree.branches"},
        Refusal{R"("speculative":{"max_tokens":0,"tree":{"depth":1}})", "speculative.tree.depth"},
        Refusal{R"("speculative":{"k":2})", "speculative.k"}, Refusal{R"("prediction":{})", "prediction.type"},
        Refusal{R"("prediction":"a text")", "prediction"}, Refusal{R"("slo":40)", "slo"},
        Refusal{R"("slo":{"tpot_ms":0})", "slo.tpot_ms"}, Refusal{R"("slo":{"tpot_ms":-1})", "slo.tpot_ms"},
        Refusal{R"("slo":{"tpot_ms":"40"})", "slo.tpot_ms"},
        Refusal{R"("slo":{"tpot_ms":9223372036854775808})", "slo.tpot_ms"},
        Refusal{R"("slo":{"ttft_ms":3600001})", "slo.ttft_ms"}, Refusal{R"("slo":{"e2e_ms":0})", "slo.e2e_ms"},
        Refusal{R"("slo":{"e2e":5})", "slo.e2e"}, Refusal{R"("service_tier":"fastest")", "service_tier"},
        Refusal{R"("service_tier":7)", "service_tier"},
        Refusal{R"("prediction":{"type":"content"})", "prediction.content"},
        Refusal{R"("prediction":{"type":"content","content":5})", "prediction.content"},
        Refusal{R"("prediction":{"type":"content","content":"x","id":1})", "prediction.id"},
        Refusal{R"("tool_choice":"auto","tools":[{"type":"function"}])", "tools"},
        Refusal{R"("skip_special_tokens":false)", "skip_special_tokens"},
        Refusal{R"("use_beam_search":true)", "use_beam_search"}, Refusal{R"("length_penalty":1.5)", "length_penalty"},
        Refusal{R"("priority":1001)", "priority"}, Refusal{R"("priority":"high")", "priority"},
        Refusal{R"("no_such_field":1)", "no_such_field"}, Refusal{R"("prompt":"x")", "prompt"},
        Refusal{R"("no_such_null":null)", "no_such_null"}));

TEST(Call, MessagesAreCheckedWhereTheyAreWrong) {
  const std::pair<const char*, const char*> cases[] = {
      {R"({"messages":[]})", "messages"},
      {R"({"messages":"hi"})", "messages"},
      {R"({})", "messages"},
      {R"({"messages":[7]})", "messages[0]"},
      {R"({"messages":[{"content":"x"}]})", "messages[0].role"},
      {R"({"messages":[{"role":"root","content":"x"}]})", "messages[0].role"},
      {R"({"messages":[{"role":"tool","content":"x"}]})", "messages[0].role"},
      {R"({"messages":[{"role":"user"}]})", "messages[0].content"},
      {R"({"messages":[{"role":"user","content":null}]})", "messages[0].content"},
      {R"({"messages":[{"role":"user","content":[]}]})", "messages[0].content"},
      {R"({"messages":[{"role":"user","content":[{"type":"image_url","image_url":{}}]}]})",
       "messages[0].content[0].type"},
      {R"({"messages":[{"role":"user","content":[{"type":"input_audio"}]}]})", "messages[0].content[0].type"},
      {R"({"messages":[{"role":"user","content":[{"type":"text"}]}]})", "messages[0].content[0].text"},
      {R"({"messages":[{"role":"user","content":[{"type":"text","text":"a","b":1}]}]})", "messages[0].content[0].b"},
      {R"({"messages":[{"role":"user","content":"x","name":7}]})", "messages[0].name"},
      {R"({"messages":[{"role":"user","content":"x","id":7}]})", "messages[0].id"},
      {R"({"messages":[{"role":"assistant","content":"x","reasoning_content":"why"}]})",
       "messages[0].reasoning_content"},
      {R"({"messages":[{"role":"user","content":[{"type":"text","text":"a","cache_control":"x"}]}]})",
       "messages[0].content[0].cache_control"},
      {R"({"messages":[{"role":"assistant","content":"x","tool_calls":[{}]}]})", "messages[0].tool_calls"},
      {R"({"messages":[{"role":"user","content":"x","colour":"red"}]})", "messages[0].colour"},
  };
  for (const auto& [body, param] : cases) {
    const Error error = fault_of_body(Endpoint::kChat, body);
    EXPECT_EQ(http_status(error), 400) << body;
    EXPECT_EQ(error.param(), param) << body;
  }
}

CompletionCall completion(const std::string& fields) {
  return parse_request(Endpoint::kCompletion, "{" + fields + "}", {});
}

TEST(Call, CompletionsTakeTextsAndTokenIds) {
  using Ids = std::vector<std::int32_t>;
  EXPECT_EQ(completion(R"("prompt":"x")").prompts, (std::vector<Prompt>{"x"}));
  EXPECT_EQ(completion(R"("prompt":["x","y"])").prompts, (std::vector<Prompt>{"x", "y"}));
  EXPECT_EQ(completion(R"("prompt":[1,2])").prompts, (std::vector<Prompt>{Ids{1, 2}}));
  EXPECT_EQ(completion(R"("prompt":[[1,2],[3]])").prompts, (std::vector<Prompt>{Ids{1, 2}, Ids{3}}));
  const std::vector<std::pair<std::string, std::string>> refusals = {{R"([])", "prompt"},
                                                                     {R"([[]])", "prompt[0]"},
                                                                     {R"(["x",""])", "prompt[1]"},
                                                                     {R"([1,"x"])", "prompt[1]"},
                                                                     {R"([1.5])", "prompt[0]"},
                                                                     {R"([-1])", "prompt[0]"},
                                                                     {R"([4294967296])", "prompt[0]"},
                                                                     {R"([[1],[2,-3]])", "prompt[1][1]"},
                                                                     // Lists of both kinds were taken.
                                                                     {R"([[1],"a"])", "prompt[1]"},
                                                                     {R"(["a","b",[1]])", "prompt[2]"},
                                                                     {R"({})", "prompt"},
                                                                     {R"([null])", "prompt[0]"},
                                                                     {R"("")", "prompt"},
                                                                     {R"(1)", "prompt"},
                                                                     {R"(null)", "prompt"}};
  for (const auto& [prompt, param] : refusals) {
    EXPECT_EQ(fault_of_body(Endpoint::kCompletion, R"({"prompt":)" + prompt + "}").param(), param) << prompt;
  }
  EXPECT_EQ(fault_of_body(Endpoint::kCompletion, "{}").param(), "prompt");
}

TEST(Call, CompletionsHaveFieldsOfTheirOwn) {
  EXPECT_EQ(completion(R"("prompt":"x","echo":false,"best_of":1,"logprobs":2)").top_logprobs, 2);
  EXPECT_TRUE(completion(R"("prompt":"x","echo":true)").echo);
  const auto fault = [](const std::string& fields) {
    return fault_of_body(Endpoint::kCompletion, R"({"prompt":"x",)" + fields + "}").param();
  };
  EXPECT_EQ(completion(R"("prompt":"x","echo":true,"logprobs":0)").top_logprobs, 0);
  EXPECT_EQ(completion(R"("prompt":"x","echo":true,"max_tokens":0)").max_tokens, 0);
  EXPECT_EQ(fault(R"("max_tokens":0)"), "max_tokens");
  EXPECT_EQ(fault(R"("echo":false,"max_tokens":0)"), "max_tokens");
  EXPECT_FALSE(completion(R"("prompt":"x","echo":true,"max_tokens":-1)").max_tokens);
  EXPECT_EQ(fault(R"("echo":true,"max_tokens":-2)"), "max_tokens");
  EXPECT_EQ(fault(R"("messages":[])"), "messages");
  EXPECT_EQ(fault(R"("logprobs":6)"), "logprobs");
}

// S8: each at its bound and one above.
TEST(Call, TheBoundsAreWhatTheySay) {
  const auto biased = [](int n) {
    std::string entries;
    for (int i = 0; i < n; ++i) entries += (i == 0 ? "\"" : ",\"") + std::to_string(i) + "\":1";
    return "\"logit_bias\":{" + entries + "}";
  };
  const auto messages = [](int n) {
    std::string list;
    for (int i = 0; i < n; ++i) list += (i == 0 ? "" : ",") + std::string(R"({"role":"user","content":"x"})");
    return R"({"messages":[)" + list + "]}";
  };
  EXPECT_EQ(chat(biased(1024)).sampling.logit_bias.size(), 1024U);
  EXPECT_EQ(fault_of_body(Endpoint::kChat, "{" + kMessages + "," + biased(1025) + "}").param(), "logit_bias");
  EXPECT_EQ(chat(R"("logprobs":true,"top_logprobs":20)").top_logprobs, 20);
  EXPECT_EQ(fault_of_body(Endpoint::kChat, "{" + kMessages + R"(,"logprobs":true,"top_logprobs":21})").param(),
            "top_logprobs");
  EXPECT_EQ(parse_request(Endpoint::kChat, messages(4096), {}).messages.size(), 4096U);
  EXPECT_EQ(fault_of_body(Endpoint::kChat, messages(4097)).param(), "messages");
}

TEST(Call, ChoicesAreBoundedAndNeverRanked) {
  EXPECT_EQ(chat("").n, 1);
  EXPECT_EQ(chat(R"("n":128)").n, 128);
  EXPECT_EQ(completion(R"("prompt":"x","n":3,"best_of":3)").n, 3);
  const auto fault = [](const std::string& fields) {
    return fault_of_body(Endpoint::kCompletion, "{" + fields + "}").param();
  };
  EXPECT_EQ(fault(R"("prompt":"x","best_of":2)"), "best_of");
  EXPECT_EQ(fault(R"("prompt":"x","n":2,"best_of":1)"), "best_of");
  EXPECT_EQ(completion(R"("prompt":["a","b"],"n":64)").n, 64);
  EXPECT_EQ(fault(R"("prompt":["a","b","c"],"n":43)"), "n");
}

}  // namespace
}  // namespace slip
