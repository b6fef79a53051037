// SPDX-License-Identifier: Apache-2.0
#include "engine/grammar/token_trie.h"
#include "text/tokenizer.h"

namespace slip {

std::vector<std::string_view> token_texts(const Tokenizer& tokenizer) {
  std::vector<std::string_view> texts;
  for (std::int32_t id = 0; id < tokenizer.vocab_size(); ++id) {
    texts.push_back(tokenizer.is_special(id) ? std::string_view() : tokenizer.token_bytes(id));
  }
  return texts;
}

}  // namespace slip
