// SPDX-License-Identifier: Apache-2.0
#include "checkpoints/strict_json.h"

#include <cmath>
#include <iterator>
#include <limits>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "checkpoints/json_document.h"
#include "common/error.h"

namespace slip {
namespace {

using nlohmann::json;

// Counts the bytes that nlohmann's parser has read, since its events carry no position.
class CountingIterator {
 public:
  using difference_type = std::ptrdiff_t;
  using value_type = char;
  using pointer = const char*;
  using reference = const char&;
  using iterator_category = std::input_iterator_tag;

  CountingIterator(const char* at, std::size_t& n_taken) : at_(at), n_taken_(&n_taken) {}
  reference operator*() const { return *at_; }
  CountingIterator& operator++() {
    ++at_;
    ++*n_taken_;
    return *this;
  }
  bool operator==(const CountingIterator& other) const { return at_ == other.at_; }

 private:
  const char* at_;
  std::size_t* n_taken_;
};

// Builds a document from nlohmann's events and stops at the first fault, before the faulty value is built. Frees
// partial results without allocating, unlike nlohmann's own builder.
class TreeBuilder {
 public:
  TreeBuilder(const std::string& where, std::size_t text_bytes, const std::size_t& n_taken, JsonBounds bounds)
      : where_(where), text_bytes_(text_bytes), n_taken_(n_taken), bounds_(bounds) {}
  ~TreeBuilder() { dismantle(root_); }
  TreeBuilder(const TreeBuilder&) = delete;
  TreeBuilder& operator=(const TreeBuilder&) = delete;

  json take() { return std::move(root_); }

  // Event handlers with the names that nlohmann requires.
  bool null() { return add(nullptr); }
  bool boolean(bool value) { return add(value); }
  bool number_integer(json::number_integer_t value) { return add(value); }
  bool number_unsigned(json::number_unsigned_t value) { return add(value); }
  bool number_float(json::number_float_t value, const std::string&) { return add(value); }
  bool string(std::string& value) { return add(std::move(value)); }
  bool binary(json::binary_t&) { return false; }  // never occurs in JSON text
  bool start_object(std::size_t) { return open(json::value_t::object); }
  bool start_array(std::size_t) { return open(json::value_t::array); }
  bool end_object() { return close(); }
  bool end_array() { return close(); }

  bool key(std::string& name) {
    if (open_.size() == 1) outermost_key_ = name.size() <= kMostParamBytes ? name : std::string();
    const auto [at, is_new] = open_.back()->get_ref<json::object_t&>().emplace(std::move(name), nullptr);
    if (!is_new) fail("the JSON has a key twice in one object", n_taken_);
    member_ = &at->second;
    count();
    return true;
  }

  bool parse_error(std::size_t byte, const std::string&, const json::exception& fault) {
    constexpr int kNumberOutOfRange = 406;
    if (fault.id == kNumberOutOfRange) fail("not valid JSON: a number is out of range", byte);
    outermost_key_.clear();  // after a syntax error the last key may be unrelated
    if (byte > text_bytes_) fail("not valid JSON: the text ends too early", text_bytes_);
    fail("not valid JSON", byte);
  }

 private:
  bool add(json value) {
    count();
    place(std::move(value));
    return true;
  }

  bool open(json::value_t kind) {
    if (open_.size() >= static_cast<std::size_t>(bounds_.max_depth)) fail("the JSON is nested too deeply", n_taken_);
    count();
    open_.push_back(place(json(kind)));
    return true;
  }

  bool close() {
    open_.pop_back();
    return true;
  }

  // The address of an open container stays valid: its parent does not grow meanwhile.
  json* place(json value) {
    if (open_.empty()) return &(root_ = std::move(value));
    if (open_.back()->is_object()) return &(*member_ = std::move(value));
    auto& items = open_.back()->get_ref<json::array_t&>();
    items.push_back(std::move(value));
    return &items.back();
  }

  void count() {
    if (++n_values_ > bounds_.max_values) fail("the JSON has too many values", n_taken_);
  }
  [[noreturn]] void fail(const char* what, std::size_t byte) const {
    throw Error(ErrorCode::kInvalidArgument,
                where_ + ": " + what + " at byte " + std::to_string(byte) + " of " + std::to_string(text_bytes_), {},
                outermost_key_);
  }

  static constexpr std::size_t kMostParamBytes = 64;

  const std::string& where_;
  const std::size_t text_bytes_;
  const std::size_t& n_taken_;  // bytes read by the parser
  const JsonBounds bounds_;
  json root_;
  std::vector<json*> open_;
  std::string outermost_key_;
  json* member_ = nullptr;  // destination of the last key's value
  std::size_t n_values_ = 0;
};

}  // namespace

json parse_strict_json(std::string_view text, const std::string& where, JsonBounds bounds) {
  // The parser treats NUL as the end of its input and ignores all that follows.
  if (const auto nul = text.find('\0'); nul != std::string_view::npos) {
    throw Error(ErrorCode::kInvalidArgument, where + ": not valid JSON at byte " + std::to_string(nul) + " (a NUL)");
  }
  std::size_t n_taken = 0;
  TreeBuilder builder(where, text.size(), n_taken, bounds);
  json::sax_parse(CountingIterator(text.data(), n_taken), CountingIterator(text.data() + text.size(), n_taken),
                  &builder);
  return builder.take();
}

std::optional<std::int64_t> exact_integer(const json& value, JsonFields::IntegerRange range) {
  if (!value.is_number_integer()) return std::nullopt;
  if (value.is_number_unsigned() &&
      value.get<std::uint64_t>() > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max())) {
    return std::nullopt;
  }
  const auto number = value.get<std::int64_t>();
  if (number < range.low || number > range.high) return std::nullopt;
  return number;
}

JsonFields::JsonFields(const json& object, std::string where) : object_(&object), where_(std::move(where)) {
  if (!object.is_object()) throw Error(ErrorCode::kInvalidArgument, where_ + ": expected a JSON object");
}

bool JsonFields::has(const char* key) const {
  return object_->contains(key);
}

const json* JsonFields::find(const char* key) const {
  const auto found = object_->find(key);
  return found == object_->end() || found->is_null() ? nullptr : &*found;
}

void JsonFields::refuse(const char* key, const std::string& why) const {
  throw Error(ErrorCode::kInvalidArgument, where_ + ": \"" + key + "\" " + why, {}, key);
}

std::int64_t JsonFields::integer(const char* key, IntegerRange range) const {
  const auto value = optional_integer(key, range);
  if (!value) refuse(key, "is missing");
  return *value;
}

std::optional<std::int64_t> JsonFields::optional_integer(const char* key, IntegerRange range) const {
  const json* value = find(key);
  if (value == nullptr) return std::nullopt;
  const auto number = exact_integer(*value, range);
  if (!number) {
    refuse(key, "must be an integer from " + std::to_string(range.low) + " to " + std::to_string(range.high));
  }
  return number;
}

std::optional<double> JsonFields::optional_number(const char* key, NumberRange range) const {
  const json* value = find(key);
  if (value == nullptr) return std::nullopt;
  const double number = value->is_number() ? value->get<double>() : std::nan("");
  if (!(number >= range.low && number <= range.high)) {
    refuse(key, "must be a number from " + json(range.low).dump() + " to " + json(range.high).dump());
  }
  return number;
}

std::optional<bool> JsonFields::optional_boolean(const char* key) const {
  const json* value = find(key);
  if (value == nullptr) return std::nullopt;
  if (!value->is_boolean()) refuse(key, "must be true or false");
  return value->get<bool>();
}

std::optional<std::string> JsonFields::optional_string(const char* key) const {
  const json* value = find(key);
  if (value == nullptr) return std::nullopt;
  if (!value->is_string()) refuse(key, "must be a string");
  return value->get<std::string>();
}

}  // namespace slip
