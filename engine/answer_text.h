// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "text/tokenizer.h"

namespace slip {

// The text of a growing answer. Holds back the end of the text while it may become a stop string or is an incomplete
// character. So text once taken never changes. Takes one token at a time: the output does not depend on how tokens were
// grouped into steps.
class AnswerText {
 public:
  // `tokenizer` may be null: then there is no text, and `stop_strings` must be empty. `keep_stop`: the stop string that
  // ends the text stays in it.
  AnswerText(std::shared_ptr<const Tokenizer> tokenizer, std::vector<std::string> stop_strings, bool keep_stop = false,
             StreamDecoder::Start start = StreamDecoder::Start::kText);

  // Adds one token's text; true when it completed a stop string. The text then ends before the earliest stop string in
  // it, or before the shortest of several that begin at the same place. With `may_stop` false, a stop string that this
  // token completes does not count, neither now nor later.
  bool push(std::int32_t token, bool may_stop = true);
  void finish();       // no more tokens: held-back text is released, an incomplete character becomes U+FFFD
  std::string take();  // the text decided since the last call

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
