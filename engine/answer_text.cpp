// SPDX-License-Identifier: Apache-2.0
#include "engine/answer_text.h"

#include <algorithm>
#include <string_view>
#include <utility>

namespace slip {

AnswerText::AnswerText(std::shared_ptr<const Tokenizer> tokenizer, std::vector<std::string> stop_strings,
                       bool keep_stop, StreamDecoder::Start start)
    : has_text_(tokenizer != nullptr),
      decoder_(std::move(tokenizer), start),
      stop_strings_(std::move(stop_strings)),
      keep_stop_(keep_stop) {}

bool AnswerText::push(std::int32_t token, bool may_stop) {
  if (!has_text_) return false;
  held_ += decoder_.push(token);
  if (!may_stop) waived_ = held_.size();
  if (cut_at_stop()) return true;
  const std::size_t n_decided = held_.size() - undecided_bytes();
  decided_.append(held_, 0, n_decided);
  held_.erase(0, n_decided);
  waived_ -= std::min(waived_, n_decided);
  return false;
}

void AnswerText::finish() {
  if (has_text_) decided_ += held_ + decoder_.finish();
  held_.clear();
}

std::string AnswerText::take() {
  return std::exchange(decided_, {});
}

bool AnswerText::cut_at_stop() {
  std::size_t first = std::string::npos, end = std::string::npos;
  for (const std::string& stop : stop_strings_) {
    // A stop string wholly within the waived bytes does not count; one that only begins there does.
    const std::size_t begin = held_.find(stop, waived_ < stop.size() ? 0 : waived_ - stop.size() + 1);
    if (begin < first) end = std::string::npos;
    if (begin <= first && begin != std::string::npos) end = std::min(end, begin + stop.size());
    first = std::min(first, begin);
  }
  if (first == std::string::npos) return false;
  decided_.append(held_, 0, keep_stop_ ? end : first);
  held_.clear();
  return true;
}

// Length of the longest suffix of held_ that begins a stop string without completing it.
std::size_t AnswerText::undecided_bytes() const {
  std::size_t longest = 0;
  const std::string_view text = held_;
  for (const std::string_view stop : stop_strings_) {
    for (std::size_t n = std::min(stop.size() - 1, text.size()); n > longest; --n) {
      if (text.ends_with(stop.substr(0, n))) longest = n;
    }
  }
  return longest;
}

}  // namespace slip
