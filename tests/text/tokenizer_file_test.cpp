// SPDX-License-Identifier: Apache-2.0
#include "text/tokenizer_file.h"

#include <gtest/gtest.h>

#include <functional>
#include <random>

#include "common/error.h"
#include "tests/text/tiny_tokenizer.h"

namespace slip {
namespace {

using nlohmann::json;
using testing::tiny_tokenizer_json;

struct Refusal {
  std::string key;  // what the error must name
  ErrorCode code;
  std::function<void(json&)> change;
};

void expect_refused(const Refusal& refusal) {
  json file = tiny_tokenizer_json();
  refusal.change(file);
  try {
    parse_tokenizer_file(file.dump(), "t.json");
    ADD_FAILURE() << refusal.key << " was accepted";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), refusal.code) << error.message();
    EXPECT_NE(error.message().find("t.json: " + refusal.key), std::string::npos) << error.message();
  }
}

json& model(json& file) {
  return file["model"];
}
json& step(json& file, int i) {
  return file["pre_tokenizer"]["pretokenizers"][i];
}

TEST(TokenizerFileTest, ReadsTheTinyTokenizer) {
  const TokenizerFile file = parse_tokenizer_file(tiny_tokenizer_json().dump(), "t.json");
  EXPECT_EQ(file.entries.size(), 263U);
  EXPECT_EQ(file.merges.size(), 4U);
  EXPECT_EQ(file.entries[' '].content, "Ġ");
  EXPECT_EQ(file.entries[' '].bytes, " ");
  EXPECT_EQ(file.entries[260].bytes, "");
  EXPECT_EQ(file.entries[262].bytes, "[pad]");
  EXPECT_EQ(file.added.size(), 3U);
}

TEST(TokenizerFileTest, OldMergeSpellingIsTheSame) {
  json file = tiny_tokenizer_json();
  file["model"]["merges"] = {"a a", "aa aa", "aaaa aaaa", "a b"};
  EXPECT_EQ(parse_tokenizer_file(file.dump(), "t.json").merges[2].result, 258);
}

TEST(TokenizerFileTest, RefusesWhatItDoesNotImplementByName) {
  const json replacement{{"type", "Other"}};
  constexpr ErrorCode kUnsupported = ErrorCode::kUnsupported;
  const auto decoders = [](json& f, json steps) {
    f["decoder"] = {{"type", "Sequence"}, {"decoders", std::move(steps)}};
  };
  const json fuse{{"type", "Fuse"}}, bytes{{"type", "ByteFallback"}}, byte_level{{"type", "ByteLevel"}};
  const json single = json::parse(R"([{"Sequence": {"id": "B"}}])");
  const std::vector<Refusal> refusals{
      {"truncation", kUnsupported, [&](json& f) { f["truncation"]["max_length"] = 3; }},
      {"padding", kUnsupported, [&](json& f) { f["padding"]["length"] = 3; }},
      {"normalizer.type", kUnsupported, [&](json& f) { f["normalizer"] = replacement; }},
      {"normalizer.normalizers[0].type", kUnsupported,
       [&](json& f) {
         f["normalizer"] = {{"type", "Sequence"}, {"normalizers", {replacement}}};
       }},
      {"post_processor.type", kUnsupported, [&](json& f) { f["post_processor"] = replacement; }},
      {"post_processor.single[0].Sequence.id", kUnsupported,
       [&](json& f) {
         f["post_processor"] = {{"type", "TemplateProcessing"}, {"single", single}};
       }},
      {"decoder.type", kUnsupported, [&](json& f) { f["decoder"] = replacement; }},
      {"decoder.decoders[1].type", kUnsupported,
       [&](json& f) {
         decoders(f, {fuse, bytes});
       }},
      {"decoder.decoders[1].type", kUnsupported,
       [&](json& f) {
         decoders(f, {bytes, byte_level});
       }},
      {"model.type", kUnsupported, [&](json& f) { model(f)["type"] = "Unigram"; }},
      {"model.dropout", kUnsupported, [&](json& f) { model(f)["dropout"] = 0.1; }},
      {"model.continuing_subword_prefix", kUnsupported, [&](json& f) { model(f)["continuing_subword_prefix"] = "##"; }},
      {"model.end_of_word_suffix", kUnsupported, [&](json& f) { model(f)["end_of_word_suffix"] = "</w>"; }},
      {"pre_tokenizer.type", kUnsupported, [&](json& f) { f["pre_tokenizer"] = replacement; }},
      {"pre_tokenizer.pretokenizers[2].type", kUnsupported,
       [&](json& f) { f["pre_tokenizer"]["pretokenizers"].push_back(replacement); }},
      {"pre_tokenizer.pretokenizers[0].behavior", kUnsupported, [&](json& f) { step(f, 0)["behavior"] = "Other"; }},
      {"pre_tokenizer.pretokenizers[0].pattern.Regex", kUnsupported,
       [&](json& f) { step(f, 0)["pattern"]["Regex"] = "(open"; }},
      {"pre_tokenizer.pretokenizers[0].pattern.Regex", kUnsupported,
       [&](json& f) { step(f, 0)["pattern"]["Regex"] = R"(\h)"; }}};
  for (const Refusal& refusal : refusals) expect_refused(refusal);
}

TEST(TokenizerFileTest, RefusesContradictions) {
  constexpr ErrorCode kInvalid = ErrorCode::kInvalidArgument;
  const std::vector<Refusal> refusals{
      {"model.vocab", kInvalid, [](json& f) { model(f)["vocab"]["ab"] = 7; }},     // two with one id
      {"model.vocab", kInvalid, [](json& f) { model(f)["vocab"]["ab"] = 1000; }},  // a hole
      {"model.vocab", kInvalid, [](json& f) { model(f)["vocab"]["ab"] = -1; }},
      {"model.vocab", kInvalid, [](json& f) { model(f)["vocab"]["ab"] = 4294967296; }},
      {"model.vocab", kInvalid, [](json& f) { model(f)["vocab"]["ab"] = 259.0; }},
      {"model.vocab", kInvalid, [](json& f) { model(f)["vocab"]["ab"] = true; }},
      {"model.vocab", kInvalid, [](json& f) { model(f)["vocab"][""] = 263; }},
      {"model.vocab", kInvalid, [](json& f) { model(f)["vocab"][std::string(5000, 'a')] = 263; }},
      {"model.vocab", kInvalid, [](json& f) { model(f)["vocab"] = json::array(); }},
      {"model.vocab", kInvalid, [](json& f) { f["added_tokens"].erase(0); }},  // a hole again
      {"model.merges[1]", kInvalid,
       [](json& f) {
         model(f)["merges"][1] = {"a", "z"};
       }},  // makes no entry
      {"model.merges[1]", kInvalid,
       [](json& f) {
         model(f)["merges"][1] = {"a", "a"};
       }},  // repeated
      {"model.merges[1]", kInvalid, [](json& f) { model(f)["merges"][1] = "aa"; }},
      {"model.merges[1]", kInvalid, [](json& f) { model(f)["merges"][1] = 5; }},
      {"model.merges", kInvalid, [](json& f) { model(f)["merges"] = "a a"; }},
      {"added_tokens[1].id", kInvalid, [](json& f) { f["added_tokens"][0]["id"] = 261; }},
      {"added_tokens[2].id", kInvalid, [](json& f) { f["added_tokens"][2]["content"] = "ab"; }},  // another's content
      {"added_tokens[2].content", kInvalid, [](json& f) { f["added_tokens"][2].erase("content"); }},
      {"added_tokens", kInvalid, [](json& f) { f["added_tokens"] = "x"; }},
      {"added_tokens[2].lstrip", kInvalid, [](json& f) { f["added_tokens"][2]["lstrip"] = "yes"; }},
      {"pre_tokenizer", kInvalid, [](json& f) { f["pre_tokenizer"] = 3; }},
      {"model.unk_token", kInvalid, [](json& f) { f.erase("pre_tokenizer"); }},  // nothing spells a space
      {"pre_tokenizer.pretokenizers", kInvalid,
       [](json& f) { f["pre_tokenizer"]["pretokenizers"] = json::array_t(65, step(f, 1)); }},
      {"pre_tokenizer.pretokenizers[0].pattern.String", kInvalid,
       [](json& f) {
         step(f, 0)["pattern"] = {{"String", ""}};
       }},
      {"normalizer.content", kInvalid,
       [](json& f) {
         f["normalizer"] = {{"type", "Replace"}, {"pattern", {{"String", "a"}}}, {"content", std::string(5000, 'b')}};
       }},
      {"decoder.content", kInvalid,
       [](json& f) {
         f["decoder"] = {{"type", "Strip"}, {"content", "ab"}, {"start", 1}, {"stop", 0}};
       }},
      {"model.unk_token", kInvalid, [](json& f) { model(f)["unk_token"] = "nowhere"; }},
      {"post_processor.special_tokens.<s>.ids", kInvalid,
       [](json& f) {
         f["post_processor"] = json::parse(R"({"type": "TemplateProcessing",
             "single": [{"SpecialToken": {"id": "<s>"}}, {"Sequence": {"id": "A"}}],
             "special_tokens": {"<s>": {"ids": [263]}}})");
       }},
      {"decoder", kInvalid, [](json& f) { f.erase("decoder"); }},
      {"model", kInvalid, [](json& f) { f["model"] = 3; }},
      {"model.merges", kInvalid, [](json& f) { model(f).erase("merges"); }}};
  for (const Refusal& refusal : refusals) expect_refused(refusal);
}

TEST(TokenizerFileTest, RefusesAVocabularyWithoutAByte) {
  json file = tiny_tokenizer_json();
  file["model"]["vocab"].erase("x");
  file["model"]["vocab"]["bb"] = 'x';  // no hole is left
  EXPECT_THROW(parse_tokenizer_file(file.dump(), "t.json"), Error);
}

std::string damaged(std::string text, std::mt19937& bits) {
  for (std::uint32_t n = 1 + bits() % 3; n > 0; --n) {
    const std::size_t at = bits() % text.size();
    switch (bits() % 4) {
      case 0:
        text[at] = static_cast<char>(bits());
        break;
      case 1:
        text.erase(at, 1 + bits() % 20);
        break;
      case 2:
        text.insert(at, text.substr(bits() % text.size(), bits() % 30));
        break;
      default:
        text[at] = "0123456789[]{}\",:-ae"[bits() % 20];
        break;
    }
  }
  return text;
}

// A damaged file is refused, or is a tokenizer that works; never anything else.
TEST(TokenizerFileTest, RandomDamageIsReadOrRefused) {
  const std::string good = tiny_tokenizer_json().dump();
  const testing::TemporaryFolder folder;
  std::mt19937 bits(8);
  const std::string text = "aaab 1234, \xFF\u65e5<|end|>";
  int refused = 0;
  for (int round = 0; round < 2000; ++round) {
    folder.write("tokenizer.json", damaged(good, bits));
    try {
      const auto tokenizer = Tokenizer::load(folder.path());
      std::string bytes;
      for (const std::int32_t id : tokenizer->encode(text, SpecialTokens::kAsText)) {
        bytes += tokenizer->token_bytes(id);
      }
      ASSERT_EQ(bytes, text);
    } catch (const Error&) {
      ++refused;
    }
  }
  EXPECT_GT(refused, 700);
}

}  // namespace
}  // namespace slip
