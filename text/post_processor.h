// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

namespace slip {

class TokenizerFields;

// The special tokens that a tokenizer.json's "post_processor" puts around one text.
struct PostProcessor {
  std::vector<std::int32_t> before, after;

  // Supports TemplateProcessing, ByteLevel (which changes offsets only) and sequences of them; throws
  // Error{kUnsupported} naming the key of anything else. Ids must be below `n_entries`.
  static PostProcessor read(const TokenizerFields& fields, std::size_t n_entries);
};

}  // namespace slip
