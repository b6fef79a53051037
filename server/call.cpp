// SPDX-License-Identifier: Apache-2.0
#include "server/call.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "checkpoints/strict_json.h"
#include "common/error.h"
#include "server/message.h"

namespace slip {
namespace {

using nlohmann::json;

constexpr std::size_t kMaxStops = 16;
constexpr std::size_t kMaxStopBytes = 4096;
constexpr std::size_t kMaxMetadata = 16;
constexpr std::size_t kMaxValues = std::size_t{1} << 20;  // a body of 4 MiB has fewer
constexpr std::int64_t kMaxTopLogprobs = 20;
constexpr std::int64_t kMaxCompletionLogprobs = 5;
constexpr std::int64_t kMaxInt32 = std::numeric_limits<std::int32_t>::max();

[[noreturn]] void refuse(const std::string& field, const std::string& why) {
  throw Error(ErrorCode::kInvalidArgument, "'" + field + "' " + why, {}, field);
}

[[noreturn]] void refuse_unsupported(const std::string& field, const std::string& why = "is not supported yet") {
  throw Error(ErrorCode::kUnsupported, "'" + field + "' " + why, {}, field);
}

bool is_one(const json& value) {
  return exact_integer(value, {1, 1}).has_value();
}
bool is_number_equal(const json& value, double neutral) {
  return value.is_number() && value.get<double>() == neutral;
}
bool is_empty(const json& value) {
  return (value.is_array() || value.is_object()) && value.empty();
}

// Understood, but not done by this build: only the value that changes nothing passes, so that nothing is ever ignored.
struct NeutralField {
  const char* name;
  bool (*is_neutral)(const json&);
};
constexpr auto kNever = [](const json&) { return false; };
constexpr auto kZero = [](const json& value) { return is_number_equal(value, 0); };
constexpr auto kOne = [](const json& value) { return is_number_equal(value, 1); };
constexpr auto kEmpty = [](const json& value) { return is_empty(value); };
constexpr auto kFalse = [](const json& value) { return value.is_boolean() && !value.get<bool>(); };

const std::vector<NeutralField>& neutral_fields() {
  static const std::vector<NeutralField> fields = {
      {"n", [](const json& value) { return is_one(value); }},
      {"best_of", [](const json& value) { return is_one(value); }},
      {"presence_penalty", kZero},
      {"frequency_penalty", kZero},
      {"repetition_penalty", kOne},
      {"min_p", kZero},
      {"logit_bias", kEmpty},
      {"response_format",
       [](const json& value) {
         return value == json{{"type", "text"}};
       }},
      {"echo", kFalse},
      {"suffix", [](const json& value) { return value.is_string() && value.get_ref<const std::string&>().empty(); }},
      {"tools", kEmpty},
      {"functions", kEmpty},
      {"tool_choice", [](const json& value) { return value == "none"; }},
      {"function_call", [](const json& value) { return value == "none"; }},
      {"parallel_tool_calls", [](const json& value) { return value.is_boolean(); }},  // says nothing without tools
      {"modalities", [](const json& value) { return value == json::array({"text"}); }},
      {"audio", kNever},
      {"images", kNever},
      {"prediction", kNever},
      {"reasoning_effort", kNever},
      {"verbosity", kNever},
      {"web_search_options", kNever},
      {"safety_identifier", kNever},
      {"prompt_cache_key", kNever},
      {"speculative", kNever},
  };
  return fields;
}

class CallReader {
 public:
  CallReader(Endpoint endpoint, const json& body) : body_(body), fields_(body, "request") { call_.endpoint = endpoint; }

  CompletionCall read(const CallHeaders& headers) {
    check_names();
    call_.model = text("model");
    read_prompt();
    read_sampling();
    read_lengths();
    read_stops();
    read_stream();
    read_logprobs();
    read_metadata();
    read_headers(headers);
    return std::move(call_);
  }

  static std::vector<std::string> known_fields(Endpoint endpoint) {
    std::vector<std::string> names(kCommon.begin(), kCommon.end());
    if (endpoint == Endpoint::kChat) names.insert(names.end(), kChatOnly.begin(), kChatOnly.end());
    if (endpoint == Endpoint::kCompletion) names.insert(names.end(), kCompletionOnly.begin(), kCompletionOnly.end());
    for (const NeutralField& field : neutral_fields()) names.emplace_back(field.name);
    return names;
  }

 private:
  static constexpr std::array kCommon = {"model",      "temperature", "top_p",          "top_k",       "seed",
                                         "max_tokens", "stop",        "stream",         "user",        "store",
                                         "metadata",   "logprobs",    "stream_options", "service_tier"};

  static constexpr std::array kChatOnly = {"messages", "max_completion_tokens", "top_logprobs"};
  static constexpr std::array kCompletionOnly = {"prompt"};

  bool is_known(const std::string& name) const {
    const auto in = [&](const auto& names) { return std::find(names.begin(), names.end(), name) != names.end(); };
    return in(kCommon) || (call_.endpoint == Endpoint::kChat ? in(kChatOnly) : in(kCompletionOnly));
  }

  void check_names() const {
    for (const auto& [name, value] : body_.items()) {
      if (is_known(name)) continue;
      const auto& neutral = neutral_fields();
      const auto found =
          std::find_if(neutral.begin(), neutral.end(), [&](const auto& one) { return one.name == name; });
      if (found == neutral.end()) refuse(name.substr(0, 64), "is not a field of this request");
      if (value.is_null() || found->is_neutral(value)) continue;
      if (name == "n" || name == "best_of") refuse_unsupported(name, "must be 1: more choices are not supported yet");
      refuse_unsupported(name);
    }
  }

  // JsonFields' message with the field's name as clients know it.
  std::optional<std::string> text(const char* name) const {
    const json* value = fields_.find(name);
    if (value == nullptr) return std::nullopt;
    if (!value->is_string()) refuse(name, "must be a string");
    return value->get<std::string>();
  }
  std::optional<bool> boolean(const char* name) const {
    const json* value = fields_.find(name);
    if (value == nullptr) return std::nullopt;
    if (!value->is_boolean()) refuse(name, "must be true or false");
    return value->get<bool>();
  }
  std::optional<std::int64_t> integer(const char* name, std::int64_t low, std::int64_t high) const {
    const json* value = fields_.find(name);
    if (value == nullptr) return std::nullopt;
    const auto number = exact_integer(*value, {low, high});
    if (!number) refuse(name, "must be an integer from " + std::to_string(low) + " to " + std::to_string(high));
    return number;
  }

  void read_prompt() {
    if (call_.endpoint == Endpoint::kChat) {
      const json* messages = fields_.find("messages");
      if (messages == nullptr) refuse("messages", "is missing");
      call_.messages = parse_messages(*messages);
      return;
    }
    const json* prompt = fields_.find("prompt");
    if (prompt == nullptr) refuse("prompt", "is missing");
    if (prompt->is_array()) refuse_unsupported("prompt", "as a list is not supported yet: send one string");
    if (!prompt->is_string()) refuse("prompt", "must be a string");
    call_.prompt = prompt->get<std::string>();
    if (call_.prompt.empty()) refuse("prompt", "must not be empty");
  }

  void read_sampling() {
    if (const json* value = fields_.find("temperature")) {
      call_.sampling.temperature = number(
          *value, "temperature", [](double t) { return t >= 0 && t <= 2; }, "from 0 to 2");
    }
    if (const json* value = fields_.find("top_p")) {
      call_.sampling.top_p = number(
          *value, "top_p", [](double p) { return p > 0 && p <= 1; }, "above 0 and up to 1");
      // A positive double may still vanish as a float, which would mean something else.
      if (call_.sampling.top_p <= 0) call_.sampling.top_p = std::numeric_limits<float>::min();
    }
    call_.sampling.top_k = static_cast<std::int32_t>(integer("top_k", 0, kMaxInt32).value_or(0));
    const auto seed =
        integer("seed", std::numeric_limits<std::int64_t>::min(), std::numeric_limits<std::int64_t>::max());
    if (seed) call_.sampling.seed = static_cast<std::uint64_t>(*seed);
  }

  template <class Allowed>
  float number(const json& value, const char* name, Allowed allowed, const char* range) const {
    const double found = value.is_number() ? value.get<double>() : std::nan("");
    if (!allowed(found)) refuse(name, std::string("must be a number ") + range);
    return static_cast<float>(found);
  }

  void read_lengths() {
    const auto old_name = integer("max_tokens", 1, kMaxInt32);
    const auto new_name =
        call_.endpoint == Endpoint::kChat ? integer("max_completion_tokens", 1, kMaxInt32) : std::nullopt;
    if (old_name && new_name && *old_name != *new_name) {
      refuse("max_completion_tokens", "and 'max_tokens' say different things: send one");
    }
    const auto either = new_name ? new_name : old_name;
    if (either) call_.max_tokens = static_cast<std::int32_t>(*either);
  }

  void read_stops() {
    const json* value = fields_.find("stop");
    if (value == nullptr) return;
    if (value->is_string()) {
      add_stop(*value);
    } else if (value->is_array() && value->size() <= kMaxStops) {
      for (const json& one : *value) add_stop(one);
    } else {
      refuse("stop", "must be a string or a list of at most " + std::to_string(kMaxStops));
    }
  }

  void add_stop(const json& value) {
    if (!value.is_string()) refuse("stop", "must hold strings");
    const auto& stop = value.get_ref<const std::string&>();
    if (stop.empty() || stop.size() > kMaxStopBytes) {
      refuse("stop", "must hold strings of 1 to " + std::to_string(kMaxStopBytes) + " bytes");
    }
    call_.stop.push_back(stop);
  }

  void read_stream() {
    call_.stream = boolean("stream").value_or(false);
    const json* options = fields_.find("stream_options");
    if (options == nullptr) return;
    if (!call_.stream) refuse("stream_options", "is only allowed when 'stream' is true");
    if (!options->is_object()) refuse("stream_options", "must be an object");
    for (const auto& [name, value] : options->items()) {
      const std::string field = "stream_options." + name.substr(0, 64);
      if (name != "include_usage" && name != "include_obfuscation") refuse(field, "is not a field of this request");
      if (value.is_null()) continue;
      if (!value.is_boolean()) refuse(field, "must be true or false");
      if (name == "include_usage") call_.include_usage = value.get<bool>();
      if (name == "include_obfuscation" && value.get<bool>()) refuse_unsupported(field);
    }
  }

  void read_logprobs() {
    if (call_.endpoint == Endpoint::kCompletion) {
      const auto wanted = integer("logprobs", 0, kMaxCompletionLogprobs);
      if (wanted) call_.top_logprobs = static_cast<std::int32_t>(*wanted);
      return;
    }
    const bool wanted = boolean("logprobs").value_or(false);
    const auto top = integer("top_logprobs", 0, kMaxTopLogprobs);
    if (top && !wanted) refuse("top_logprobs", "is only allowed when 'logprobs' is true");
    if (wanted) call_.top_logprobs = static_cast<std::int32_t>(top.value_or(0));
  }

  void read_metadata() {
    for (const char* name : {"user", "service_tier"}) text(name);
    if (boolean("store") == false) call_.learn = false;
    const json* metadata = fields_.find("metadata");
    if (metadata == nullptr) return;
    if (!metadata->is_object()) refuse("metadata", "must be an object of strings");
    if (metadata->size() > kMaxMetadata)
      refuse("metadata", "has more than " + std::to_string(kMaxMetadata) + " entries");
    for (const auto& [name, value] : metadata->items()) {
      if (!value.is_string()) refuse("metadata." + name.substr(0, 64), "must be a string");
      if (name == "topic") call_.topic_label = value.get<std::string>();
    }
  }

  void read_headers(const CallHeaders& headers) {
    if (headers.topic) {
      if (call_.topic_label && *call_.topic_label != *headers.topic) {
        refuse("metadata.topic", "and the X-Slipstream-Topic header name different topics");
      }
      call_.topic_label = headers.topic;
    }
    if (!headers.learn) return;
    if (*headers.learn != "off" && *headers.learn != "on") refuse("X-Slipstream-Learn", "must be on or off");
    if (*headers.learn == "off") call_.learn = false;
  }

  const json& body_;
  JsonFields fields_;
  CompletionCall call_;
};

}  // namespace

std::vector<std::string> request_fields(Endpoint endpoint) {
  return CallReader::known_fields(endpoint);
}

CompletionCall parse_request(Endpoint endpoint, std::string_view body, const CallHeaders& headers) {
  const json parsed = parse_strict_json(body, "request body", {.max_values = kMaxValues});
  if (!parsed.is_object()) throw Error(ErrorCode::kInvalidArgument, "the request body must be a JSON object");
  return CallReader(endpoint, parsed).read(headers);
}

}  // namespace slip
