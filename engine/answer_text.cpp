// SPDX-License-Identifier: Apache-2.0
#include "engine/answer_text.h"

#include <algorithm>
#include <string_view>
#include <utility>

namespace slip {

AnswerText::AnswerText(std::shared_ptr<const Tokenizer> tokenizer, std::vector<std::string> stop_strings,
                       StreamDecoder::Start start)
    : has_text_(tokenizer != nullptr),
      decoder_(std::move(tokenizer), start),
      stop_strings_(std::move(stop_strings)) {}

bool AnswerText::push(std::int32_t token) {
  if (!has_text_) return false;
  held_ += decoder_.push(token);
  if (cut_at_stop()) return true;
  const std::size_t n_decided = held_.size() - undecided_bytes();
  decided_.append(held_, 0, n_decided);
  held_.erase(0, n_decided);
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
  std::size_t first = std::string::npos;
  for (const std::string& stop : stop_strings_) first = std::min(first, held_.find(stop));
  if (first == std::string::npos) return false;
  decided_.append(held_, 0, first);
  held_.clear();
  return true;
}

// The longest end of held_ that begins a stop string without completing it.
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
