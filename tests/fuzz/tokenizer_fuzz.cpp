// SPDX-License-Identifier: Apache-2.0
// A tokenizer.json, and after a NUL byte a text to encode with it.
#include <string>

#include "engine/model/tokenizer.h"
#include "tests/fuzz/fuzz.h"

namespace slip {
namespace {

void check(const Tokenizer& tokenizer, std::string_view text) {
  for (const auto specials : {SpecialTokens::kParse, SpecialTokens::kAsText}) {
    const auto ids = tokenizer.encode(text, specials);
    for (const std::int32_t id : ids) {
      SLIP_CHECK(id >= 0 && id < tokenizer.vocab_size(), "ids are the vocabulary's");
      SLIP_CHECK(specials == SpecialTokens::kParse || !tokenizer.is_special(id), "user text makes no special token");
    }
    tokenizer.decode(ids);
  }
}

}  // namespace
}  // namespace slip

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view input = slip::as_text(data, size);
  const auto border = input.find('\0');
  slip::write_scratch("tokenizer.json", input.substr(0, border));
  const std::string text(border == std::string_view::npos ? "Two words, 42 and a \xC3\xA9.\n"
                                                          : input.substr(border + 1));
  slip::accepts([&] { slip::check(*slip::Tokenizer::load(slip::scratch_folder()), text); });
  return 0;
}
