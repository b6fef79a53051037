// SPDX-License-Identifier: Apache-2.0
#include "server/openai/token_call.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>

#include "common/error.h"
#include "tests/text/tiny_tokenizer.h"

namespace slip {
namespace {

std::string param_of(const std::string& body, bool detokenize = false) {
  try {
    detokenize ? void(parse_detokenize(body)) : void(parse_tokenize(body));
  } catch (const Error& error) {
    EXPECT_TRUE(error.code() == ErrorCode::kInvalidArgument || error.code() == ErrorCode::kUnsupported);
    return error.param();
  }
  return "accepted";
}

TEST(TokenizeCall, TakesAPromptOrMessages) {
  auto call = parse_tokenize(R"({"prompt":"x","model":"m","add_special_tokens":true,"messages":null})");
  EXPECT_EQ(call.prompt, "x");
  EXPECT_EQ(call.model, "m");
  EXPECT_TRUE(call.add_special_tokens);
  EXPECT_FALSE(call.return_token_strs);
  call = parse_tokenize(
      R"({"messages":[{"role":"user","content":"x"}],"add_generation_prompt":false,"return_token_strs":true})");
  EXPECT_FALSE(call.prompt);
  EXPECT_EQ(call.messages.size(), 1U);
  EXPECT_FALSE(call.add_special_tokens) << "the template writes its own";
  EXPECT_FALSE(call.add_generation_prompt);
  EXPECT_TRUE(call.return_token_strs);
  EXPECT_TRUE(parse_tokenize(R"({"prompt":"x"})").add_special_tokens);
  EXPECT_FALSE(parse_tokenize(R"({"prompt":"x","add_special_tokens":false})").add_special_tokens);
  EXPECT_TRUE(
      parse_tokenize(R"({"messages":[{"role":"user","content":"x"}],"add_special_tokens":true})").add_special_tokens);
}

TEST(TokenizeCall, RefusesByName) {
  EXPECT_EQ(param_of(R"({})"), "prompt");
  EXPECT_EQ(param_of(R"({"prompt":"x","messages":[{"role":"user","content":"x"}]})"), "messages");
  EXPECT_EQ(param_of(R"({"prompt":1})"), "prompt");
  EXPECT_EQ(param_of(R"({"prompt":"x","model":1})"), "model");
  EXPECT_EQ(param_of(R"({"prompt":"x","add_special_tokens":1})"), "add_special_tokens");
  EXPECT_EQ(param_of(R"({"prompt":"x","add_generation_prompt":true})"), "add_generation_prompt");
  EXPECT_EQ(param_of(R"({"prompt":"x","return_token_strs":"yes"})"), "return_token_strs");
  EXPECT_EQ(param_of(R"({"prompt":"x","echo":true})"), "echo");
  EXPECT_EQ(param_of(R"({"messages":[]})"), "messages");
  EXPECT_EQ(param_of(R"([])"), "");
}

// Each value takes memory while the body is read.
TEST(DetokenizeCall, AMillionValuesAreTheBound) {
  std::string ids = "[0";
  for (int i = 1; i < 1'100'000; ++i) ids += ",0";
  ids += "]";
  for (const auto& [body, detokenize] :
       {std::pair(R"({"tokens":)" + ids + "}", true), std::pair(R"({"prompt":"x","messages":)" + ids + "}", false)}) {
    try {
      detokenize ? void(parse_detokenize(body)) : void(parse_tokenize(body));
      ADD_FAILURE() << "accepted";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument);
      EXPECT_NE(error.message().find("too many values"), std::string::npos) << error.message();
    }
  }
}

TEST(DetokenizeCall, TakesIdsOfExactType) {
  EXPECT_EQ(parse_detokenize(R"({"tokens":[0,2147483647]})").tokens, (std::vector<std::int32_t>{0, 2147483647}));
  EXPECT_EQ(param_of(R"({})", true), "tokens");
  EXPECT_EQ(param_of(R"({"tokens":"1"})", true), "tokens");
  for (const char* bad : {"-1", "1.5", "true", "\"1\"", "4294967297", "2147483648", "null", "[1]", "1e400"}) {
    EXPECT_NE(param_of("{\"tokens\":[7," + std::string(bad) + "]}", true), "accepted") << bad;
  }
  EXPECT_EQ(param_of(R"({"tokens":[7,-1]})", true), "tokens[1]");
}

// Each run between special tokens lost the space that begins it, and the one that ends it, as if it were a text.
TEST(DetokenizeCall, OnlyTheFirstTokenLosesItsSpace) {
  nlohmann::json file = testing::tiny_tokenizer_json();
  const nlohmann::json space{{"type", "Replace"}, {"pattern", {{"String", spelling_of_byte(' ')}}}, {"content", " "}};
  const nlohmann::json strip{{"type", "Strip"}, {"content", " "}, {"start", 1}, {"stop", 1}};
  file["decoder"] = {{"type", "Sequence"}, {"decoders", {space, {{"type", "Fuse"}}, strip}}};
  const auto tokenizer = testing::load_tokenizer(file);
  constexpr std::int32_t kEnd = 260, kUser = 261;
  const auto text = [&](const std::vector<std::int32_t>& ids) { return text_with_specials(tokenizer, ids); };
  EXPECT_EQ(text({' ', 'a', ' '}), "a");
  EXPECT_EQ(text({kUser, ' ', 'a', kEnd, ' ', 'b'}), "<|user|> a<|end|> b");
  EXPECT_EQ(text({' ', 'a', ' ', kEnd, ' ', 'b', ' '}), "a <|end|> b");
  EXPECT_EQ(text({' ', 'a', ' ', kEnd}), "a <|end|>");
  EXPECT_EQ(text({kUser, kEnd}), "<|user|><|end|>");
  EXPECT_EQ(text({}), "");
}

}  // namespace
}  // namespace slip
