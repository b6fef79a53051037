// SPDX-License-Identifier: Apache-2.0
#include "engine/model/tokenizer.h"
#include "engine/model/utf8.h"

namespace slip {

std::string StreamDecoder::push(std::int32_t token) {
  std::string text;
  pending_ += tokenizer_->token_bytes(token);
  take_whole_characters(pending_, text);
  return text;
}

std::string StreamDecoder::finish() {
  const bool half = !pending_.empty();
  pending_.clear();
  return half ? std::string(kReplacementCharacter) : std::string();
}

}  // namespace slip
