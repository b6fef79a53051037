// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace slip {

// The work a rendering has done and its current line. A template is a program and messages are untrusted, so renderings
// that run or grow without end are stopped.
class TemplateWork {
 public:
  static constexpr std::int64_t kMostSteps = 8 << 20;       // about 200 times what 1,000 messages need
  static constexpr std::size_t kMostTextBytes = 64U << 20;  // of one text; larger than any allowed request body
  static constexpr std::size_t kBytesAStep = 64;            // copying this many bytes counts as one step
  static constexpr std::size_t kStepsAText = 8;             // making a text of its own: more than 100 bytes
  static constexpr int kMostLevels = 64;                    // of nested lists
  static constexpr int kMostCalls = 400;                    // of nested expressions and blocks at run time

  void at(int line) { line_ = line; }
  void spend(std::size_t steps);                               // Error{kTooLarge} beyond kMostSteps
  void spend_texts(std::size_t n) { spend(kStepsAText * n); }  // call before cutting a text into `n`
  void spend_bytes(std::size_t text_bytes);  // call before making a text of this size; Error{kTooLarge}
  // Counts one level of recursion while it lives; fails beyond kMostCalls, because a macro may call itself.
  class Level {
   public:
    explicit Level(TemplateWork& work) : work_(work) {
      if (++work_.level_ > kMostCalls) work_.fail("expressions and macros are nested too deeply");
    }
    ~Level() { --work_.level_; }
    Level(const Level&) = delete;

   private:
    TemplateWork& work_;
  };
  // Throws Error{kInvalidArgument}: "the chat template cannot render these messages: line 3: …".
  [[noreturn]] void fail(const std::string& why) const;

 private:
  std::int64_t steps_left_ = kMostSteps;
  int line_ = 0, level_ = 0;
};

}  // namespace slip
