// SPDX-License-Identifier: Apache-2.0
#include "common/topic_name.h"

#include <algorithm>

namespace slip {
namespace {

bool is_letter_or_digit(char c) {
  return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9');
}

}  // namespace

bool is_topic_name(std::string_view text) {
  return !text.empty() && text.size() <= kMaxTopicNameBytes && is_letter_or_digit(text.front()) &&
         std::all_of(text.begin(), text.end(), [](char c) { return is_letter_or_digit(c) || c == '_' || c == '-'; });
}

}  // namespace slip
