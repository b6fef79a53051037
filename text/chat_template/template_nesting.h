// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "text/chat_template/template_source.h"

namespace slip {

// Counts one level of a recursive-descent parser while it lives. Protects the stack against deeply nested templates.
class TemplateNesting {
 public:
  static constexpr int kMost = 64;
  TemplateNesting(int& depth, int line) : depth_(depth) {
    if (depth_ >= kMost) throw template_error("more than 64 levels of nesting", line);
    ++depth_;
  }
  ~TemplateNesting() { --depth_; }
  TemplateNesting(const TemplateNesting&) = delete;

 private:
  int& depth_;
};

}  // namespace slip
