// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "text/tokenizer.h"

namespace slip {

// The text of an answer while its tokens arrive. It holds back the end of the text while that may still become a stop
// string, or is part of a character; so text that take() returned never changes. It takes one token at a time, so the
// text does not depend on how the engine grouped tokens into steps. Threads: one owner.
class AnswerText {
 public:
  // `tokenizer` null: there is no text. `keep_stop`: the stop string that ends the text stays in it. `start`: whether
  // the answer begins a text or continues the prompt's. REQUIRES: no stop string is empty; none without a tokenizer.
  AnswerText(std::shared_ptr<const Tokenizer> tokenizer, std::vector<std::string> stop_strings, bool keep_stop = false,
             StreamDecoder::Start start = StreamDecoder::Start::kText);

  // Adds one token's text; true when it completed a stop string, which ends the text. Of several, the one that begins
  // first counts; of those that begin together, the shortest. With `may_stop` false, a stop string that this token
  // completes never counts. REQUIRES: no earlier call returned true, and finish() was not called.
  bool push(std::int32_t token, bool may_stop = true);
  void finish();       // no more tokens: releases the text held back; an incomplete character becomes U+FFFD
  std::string take();  // the text that became final since the last call; may be empty

 private:
  std::size_t undecided_bytes() const;
  bool cut_at_stop();

  bool has_text_;
  StreamDecoder decoder_;
  std::vector<std::string> stop_strings_;
  bool keep_stop_;
  std::string held_;        // the longest suffix of the text that may begin a stop string
  std::size_t waived_ = 0;  // a stop string that lies wholly in these first bytes of held_ does not count
  std::string decided_;     // text that take() has not returned yet
};

}  // namespace slip
