// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>

namespace slip {

// Writes JSON into one string in the order of the calls, without a tree of values that takes several times the text's
// memory. Each maximal ill-formed part of UTF-8 becomes one U+FFFD, so the text is always valid JSON. REQUIRES: the
// calls nest as JSON does. Not thread-safe.
class JsonText {
 public:
  JsonText() = default;
  // A call that would exceed `max_bytes` throws Error{kInvalidArgument} naming `limit`, the key that sets it.
  JsonText(std::size_t max_bytes, const char* limit) : max_bytes_(max_bytes), limit_(limit) {}

  void begin_object() { open('{'); }
  void end_object() { close('}'); }
  void begin_array() { open('['); }
  void end_array() { close(']'); }
  void key(std::string_view name);

  void value(std::string_view text);
  void value(const char* text) { value(std::string_view(text)); }
  void value(std::nullptr_t) { literal("null"); }
  void value(bool truth) { literal(truth ? "true" : "false"); }
  void value(double number);  // null for NaN and infinities
  template <std::integral Integer>
  void value(Integer number) {
    literal(std::to_string(number));
  }
  template <class Value>
  void value(const std::optional<Value>& perhaps) {  // null for nullopt
    perhaps ? value(*perhaps) : value(nullptr);
  }
  void json(std::string_view text) { literal(text); }  // one complete value that is already JSON

  template <class Value>
  void member(std::string_view name, const Value& of) {
    key(name);
    value(of);
  }

  std::string take() && { return std::move(text_); }

 private:
  void open(char bracket);
  void close(char bracket);
  void literal(std::string_view text);
  void comma();
  void append(std::string_view bytes);
  void append_string(std::string_view text);
  void append_escaped(std::string_view valid);

  const std::size_t max_bytes_ = std::numeric_limits<std::size_t>::max();
  const char* const limit_ = "";
  std::string text_;
  bool follows_ = false;  // a value precedes, so the next one needs a comma
};

}  // namespace slip
