// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "text/tokenizer.h"

namespace slip {

// The text of a growing answer. What might still turn out to be a stop string, or is half a character, is held back, so
// that nothing once taken is ever wrong. One token at a time: what comes out does not depend on how tokens were grouped
// into steps.
class AnswerText {
 public:
  // `tokenizer` may be null: then there is no text, and `stop_strings` must be empty. `keep_stop`: the stop string that
  // ends the text stays in it.
  AnswerText(std::shared_ptr<const Tokenizer> tokenizer, std::vector<std::string> stop_strings, bool keep_stop = false,
             StreamDecoder::Start start = StreamDecoder::Start::kText);

  // Adds one token's text; true when it completed a stop string: the text ends before the earliest one, the shortest of
  // several at one place. With `may_stop` false no stop string counts that this token completes, now or later.
  bool push(std::int32_t token, bool may_stop = true);
  void finish();       // no more tokens: what was held back is text after all, half a character becomes U+FFFD
  std::string take();  // the text decided since the last call

 private:
  std::size_t undecided_bytes() const;
  bool cut_at_stop();

  bool has_text_;
  StreamDecoder decoder_;
  std::vector<std::string> stop_strings_;
  bool keep_stop_;
  std::string held_;        // the longest end of the text that may begin a stop string
  std::size_t waived_ = 0;  // bytes of held_ within which no stop string counts
  std::string decided_;     // not taken yet
};

}  // namespace slip
