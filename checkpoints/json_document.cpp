// SPDX-License-Identifier: Apache-2.0
#include "checkpoints/json_document.h"

#include <cstddef>
#include <string>
#include <vector>

#include "common/error.h"

namespace slip {
namespace {

using Json = nlohmann::ordered_json;

// Counts the members of each object, in the order in which the objects begin.
class MemberCounter {
 public:
  std::vector<std::size_t> take() { return std::move(counts_); }

  // Event handlers with the names that nlohmann requires.
  bool null() { return true; }
  bool boolean(bool) { return true; }
  bool number_integer(Json::number_integer_t) { return true; }
  bool number_unsigned(Json::number_unsigned_t) { return true; }
  bool number_float(Json::number_float_t, const std::string&) { return true; }
  bool string(std::string&) { return true; }
  bool binary(Json::binary_t&) { return true; }
  bool start_array(std::size_t) { return true; }
  bool end_array() { return true; }
  bool parse_error(std::size_t, const std::string&, const Json::exception&) { return false; }
  bool start_object(std::size_t) {
    open_.push_back(counts_.size());
    counts_.push_back(0);
    return true;
  }
  bool key(std::string&) {
    ++counts_[open_.back()];
    return true;
  }
  bool end_object() {
    open_.pop_back();
    return true;
  }

 private:
  std::vector<std::size_t> counts_, open_;
};

class OrderedBuilder {
 public:
  OrderedBuilder(std::vector<std::size_t> counts, std::string_view member)
      : counts_(std::move(counts)), member_(member) {}
  ~OrderedBuilder() { dismantle(root_); }
  OrderedBuilder(const OrderedBuilder&) = delete;
  OrderedBuilder& operator=(const OrderedBuilder&) = delete;

  Json take() { return std::move(root_); }

  // Event handlers.
  bool null() { return add(nullptr); }
  bool boolean(bool value) { return add(value); }
  bool number_integer(Json::number_integer_t value) { return add(value); }
  bool number_unsigned(Json::number_unsigned_t value) { return add(value); }
  bool number_float(Json::number_float_t value, const std::string&) { return add(value); }
  bool string(std::string& value) { return skipped_ || add(std::move(value)); }
  bool binary(Json::binary_t&) { return false; }
  bool parse_error(std::size_t, const std::string&, const Json::exception&) { return false; }
  bool start_object(std::size_t) {
    const std::size_t n_members = counts_[next_object_++];
    if (open(Json::value_t::object) && !skipped_) open_.back()->get_ref<Json::object_t&>().reserve(n_members);
    return true;
  }
  bool start_array(std::size_t) { return open(Json::value_t::array); }
  bool end_object() { return close(); }
  bool end_array() { return close(); }

  bool key(std::string& name) {
    if (depth_ == 1) skipped_ = !member_.empty() && name != member_;
    if (!skipped_) open_.back()->get_ref<Json::object_t&>().emplace_back(std::move(name), nullptr);
    return true;
  }

 private:
  bool add(Json value) {
    if (!skipped_) place(std::move(value));
    return true;
  }
  bool open(Json::value_t kind) {
    ++depth_;
    if (!skipped_) open_.push_back(place(Json(kind)));
    return true;
  }
  bool close() {
    --depth_;
    if (depth_ == 0) skipped_ = false;
    if (!skipped_) open_.pop_back();
    return true;
  }

  Json* place(Json value) {
    if (open_.empty()) return &(root_ = std::move(value));
    if (open_.back()->is_object()) {
      return &(open_.back()->get_ref<Json::object_t&>().back().second = std::move(value));
    }
    auto& items = open_.back()->get_ref<Json::array_t&>();
    items.push_back(std::move(value));
    return &items.back();
  }

  const std::vector<std::size_t> counts_;
  const std::string_view member_;
  Json root_;
  std::vector<Json*> open_;
  std::size_t next_object_ = 0, depth_ = 0;
  bool skipped_ = false;  // inside a member that is not wanted
};

}  // namespace

Json parse_ordered_json(std::string_view text, std::string_view member) {
  MemberCounter counter;
  Json::sax_parse(text, &counter);
  OrderedBuilder builder(counter.take(), member);
  SLIP_CHECK(Json::sax_parse(text, &builder), "the strict parser took this text");
  return builder.take();
}

}  // namespace slip
