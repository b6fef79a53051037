// SPDX-License-Identifier: Apache-2.0
// Ids and texts of the reference implementations (tools/goldens_tokenizers.py), one small tokenizer for each kind of
// component, and real ones where SLIPSTREAM_TOKENIZER_CASES names a folder with them.
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "tests/checkpoints/temporary_folder.h"
#include "text/tokenizer.h"
#include "text/utf8.h"

namespace slip {
namespace {

using Ids = std::vector<std::int32_t>;
using nlohmann::json;

const std::filesystem::path kSmall = std::filesystem::path(SLIPSTREAM_SOURCE_DIR) / "tests/data/tokenizers";

struct Differences {
  std::size_t cases = 0, ids = 0, full = 0, decoded = 0, streamed = 0;
};

std::string streamed(const std::shared_ptr<const Tokenizer>& tokenizer, const Ids& ids) {
  StreamDecoder decoder(tokenizer);
  std::string text;
  for (const std::int32_t id : ids) {
    const std::string piece = decoder.push(id);
    EXPECT_EQ(valid_utf8_prefix(piece), piece.size());
    text += piece;
  }
  return text + decoder.finish();
}

Differences compare(const std::filesystem::path& folder) {
  const auto tokenizer = Tokenizer::load(folder);
  Differences out;
  for (const json& golden : json::parse(std::ifstream(folder / "cases.json"))) {
    const std::string text = golden.at("text"), decoded = golden.at("decoded");
    const Ids expected = golden.at("ids"), ids = tokenizer->encode(text, SpecialTokens::kParse);
    if (ids != expected && out.ids < 3) ADD_FAILURE() << folder.filename() << " ids of " << golden.at("text");
    if (tokenizer->decode(expected) != decoded && out.decoded < 3) {
      ADD_FAILURE() << folder.filename() << " text " << tokenizer->decode(expected) << "\ninstead of " << decoded;
    }
    ++out.cases;
    out.ids += ids == expected ? 0 : 1;
    out.full += tokenizer->with_special_tokens(ids) == golden.at("full").get<Ids>() ? 0 : 1;
    out.decoded += tokenizer->decode(expected) == decoded ? 0 : 1;
    out.streamed += streamed(tokenizer, expected) == decoded ? 0 : 1;
  }
  return out;
}

void expect_equal_in(const std::filesystem::path& folder, std::size_t least_tokenizers, std::size_t least_cases) {
  std::size_t tokenizers = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    if (!entry.is_directory()) continue;
    const Differences found = compare(entry.path());
    std::printf("%-32s %zu texts; differ: ids %zu, with special tokens %zu, decoded %zu, streamed %zu\n",
                entry.path().filename().c_str(), found.cases, found.ids, found.full, found.decoded, found.streamed);
    EXPECT_GE(found.cases, least_cases);
    EXPECT_EQ(found.ids + found.full + found.decoded + found.streamed, 0U) << entry.path();
    ++tokenizers;
  }
  EXPECT_GE(tokenizers, least_tokenizers);
}

TEST(TokenizerReferenceTest, SmallTokenizersOfEachKind) {
  expect_equal_in(kSmall, 21, 100);
}

TEST(TokenizerReferenceTest, RealTokenizersByHand) {
  const char* folder = std::getenv("SLIPSTREAM_TOKENIZER_CASES");
  if (folder != nullptr) expect_equal_in(folder, 1, 5000);
}

// The comparison must notice a step that is missing.
TEST(TokenizerReferenceNegative, AMissingNormalizerIsCaught) {
  json file = json::parse(std::ifstream(kSmall / "nfd_replace/tokenizer.json"));
  file["normalizer"] = nullptr;
  const testing::TemporaryFolder folder;
  folder.write("tokenizer.json", file.dump());
  const auto wrong = Tokenizer::load(folder.path());
  std::size_t different = 0;
  for (const json& golden : json::parse(std::ifstream(kSmall / "nfd_replace/cases.json"))) {
    different +=
        wrong->encode(golden.at("text").get<std::string>(), SpecialTokens::kParse) == golden.at("ids").get<Ids>() ? 0
                                                                                                                  : 1;
  }
  EXPECT_GT(different, 50U);
}

}  // namespace
}  // namespace slip
