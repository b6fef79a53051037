// SPDX-License-Identifier: Apache-2.0
// A tokenizer.json, and after a NUL byte a text to encode with it.
#include <nlohmann/json.hpp>
#include <string>

#include "tests/fuzz/fuzz.h"
#include "text/tokenizer.h"

namespace slip {
namespace {

// What the file has for characters that it has no token for: the one special token that any text may become.
std::string unknown_token(std::string_view file) {
  const auto model = nlohmann::json::parse(file).at("model");
  return model.contains("unk_token") && model["unk_token"].is_string() ? model["unk_token"] : "";
}

void check(const Tokenizer& tokenizer, std::string_view text, const std::string& unknown) {
  for (const auto specials : {SpecialTokens::kParse, SpecialTokens::kAsText}) {
    const auto ids = tokenizer.encode(text, specials);
    for (const std::int32_t id : ids) {
      SLIP_CHECK(id >= 0 && id < tokenizer.vocab_size(), "ids are the vocabulary's");
      const bool may_be = specials == SpecialTokens::kParse || !tokenizer.is_special(id);
      SLIP_CHECK(may_be || tokenizer.token_content(id) == unknown, "user text makes no special token");
    }
    tokenizer.decode(ids);
  }
}

}  // namespace
}  // namespace slip

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view input = slip::as_text(data, size);
  const auto border = input.find('\0');
  const std::string_view file = input.substr(0, border);
  slip::write_scratch("tokenizer.json", file);
  const std::string text(border == std::string_view::npos ? "Two words, 42 and a \xC3\xA9.\n"
                                                          : input.substr(border + 1));
  slip::accepts([&] {
    const auto tokenizer = slip::Tokenizer::load(slip::scratch_folder());
    slip::check(*tokenizer, text, slip::unknown_token(file));
  });
  return 0;
}
