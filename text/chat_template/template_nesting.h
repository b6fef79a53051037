// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "text/chat_template/template_source.h"

namespace slip {

// Guards a recursive descent against a template made of parentheses: one level while it lives.
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
