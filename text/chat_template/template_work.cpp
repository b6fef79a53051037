// SPDX-License-Identifier: Apache-2.0
#include "text/chat_template/template_work.h"

#include "common/error.h"

namespace slip {

void TemplateWork::spend(std::size_t steps) {
  if (static_cast<std::uint64_t>(steps_left_) >= steps) {
    steps_left_ -= static_cast<std::int64_t>(steps);
    return;
  }
  throw Error(
      ErrorCode::kTooLarge,
      "rendering the chat takes too long: it was stopped in line " + std::to_string(line_) + " of the chat template",
      "send fewer messages", "messages");
}

void TemplateWork::spend_bytes(std::size_t text_bytes) {
  if (text_bytes > kMostTextBytes) {
    throw Error(ErrorCode::kTooLarge, "the rendered chat is over 64 MiB", {}, "messages");
  }
  spend(1 + text_bytes / kBytesAStep);
}

void TemplateWork::fail(const std::string& why) const {
  throw Error(ErrorCode::kInvalidArgument,
              "the chat template cannot render these messages: line " + std::to_string(line_) + ": " + why, {},
              "messages");
}

}  // namespace slip
