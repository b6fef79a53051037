// SPDX-License-Identifier: Apache-2.0
#include "server/openai/call.h"

#include <algorithm>
#include <array>
#include <limits>
#include <nlohmann/json.hpp>
#include <string_view>
#include <utility>

#include "checkpoints/json_document.h"
#include "checkpoints/strict_json.h"
#include "common/error.h"
#include "engine/speculative/proposal.h"
#include "server/http/request_head.h"
#include "server/openai/message.h"
#include "server/openai/prompt_field.h"
#include "server/openai/request_fields.h"
#include "server/openai/sampling_fields.h"

namespace slip {
namespace {

using nlohmann::json;

constexpr std::int64_t kMaxChoicesOfPrompt = 128;  // the limit of OpenAI's API
constexpr std::size_t kMaxChoices = 128;
constexpr std::size_t kMaxStops = 16;
constexpr std::size_t kMaxStopBytes = 4096;
constexpr std::size_t kMaxMetadata = 16;
constexpr std::size_t kMaxValues = std::size_t{1} << 20;  // a body of 4 MiB has fewer
constexpr std::int64_t kMaxTopLogprobs = 20;
constexpr std::int64_t kMaxCompletionLogprobs = 5;
constexpr std::int64_t kMaxInt32 = std::numeric_limits<std::int32_t>::max();
constexpr std::int64_t kMaxLength = 9'007'199'254'740'991;  // JSON's largest exact integer; more than any context
// max_tokens −1: the rest of the context, for clients of vLLM and llama.cpp
constexpr std::int64_t kWhatIsLeft = -1;

// Tiers of OpenAI's API. Where the service has none of that name, they are hints.
constexpr std::array<std::string_view, 5> kHintedTiers = {"auto", "default", "flex", "scale", "priority"};

constexpr std::array<std::pair<const char*, std::optional<ProposeBy>>, 3> kProposers = {
    {{"auto", std::nullopt}, {"draft", ProposeBy::kDraft}, {"prompt_lookup", ProposeBy::kPromptLookup}}};

template <int number>
bool is_number(const json& value) {
  return whole_number(value, number, number).has_value();
}

// A known field that this build does not implement. Only its neutral value is accepted, so no request is silently
// ignored.
struct NeutralField {
  const char* name;
  bool (*is_neutral)(const json&);
};
constexpr auto kNever = [](const json&) { return false; };
constexpr auto kEmptyList = [](const json& value) { return value.is_array() && value.empty(); };
constexpr auto kFalse = [](const json& value) { return value.is_boolean() && !value.get<bool>(); };
constexpr auto kTrue = [](const json& value) { return value.is_boolean() && value.get<bool>(); };

const std::vector<NeutralField>& neutral_fields() {
  static const std::vector<NeutralField> fields = {
      {"best_of", is_number<1>},
      {"echo", kFalse},
      {"suffix", [](const json& value) { return value.is_string() && value.get_ref<const std::string&>().empty(); }},
      {"tools", kEmptyList},
      {"functions", kEmptyList},
      {"tool_choice", [](const json& value) { return value == "none" || value == "auto"; }},  // there are no tools
      {"function_call", [](const json& value) { return value == "none"; }},
      // Without tools it has no effect
      {"parallel_tool_calls", [](const json& value) { return value.is_boolean(); }},
      {"modalities", [](const json& value) { return value.is_array() && value.size() == 1 && value[0] == "text"; }},
      {"audio", kNever},
      {"images", kNever},
      {"prediction", kNever},
      {"web_search_options", kNever},
      {"skip_special_tokens", kTrue},
      {"spaces_between_special_tokens", kTrue},
      {"add_generation_prompt", kTrue},
      {"continue_final_message", kFalse},
      {"use_beam_search", kFalse},
      {"length_penalty", is_number<1>},
  };
  return fields;
}

class CallReader {
 public:
  CallReader(Endpoint endpoint, const json& body, std::string_view text) : body_(body), text_(text), fields_(body) {
    call_.endpoint = endpoint;
  }

  CompletionCall read(const CallHeaders& headers, std::span<const SloTier> tiers) {
    check_names();
    call_.model = fields_.text("model");
    read_prompt();
    read_choices();
    call_.sampling = read_sampling_fields(fields_);
    call_.format = read_response_format(fields_, text_);
    read_end_tokens();
    read_lengths();
    read_stops();
    read_stream();
    read_logprobs();
    read_speculative();
    read_slo();
    call_.priority = static_cast<std::int32_t>(fields_.integer("priority", -kMostPriority, kMostPriority).value_or(0));
    read_metadata();
    read_headers(headers);
    read_tier(headers, tiers);
    return std::move(call_);
  }

  static std::vector<std::string> known_fields(Endpoint endpoint) {
    const auto supported = supported_fields(endpoint);
    std::vector<std::string> names(supported.begin(), supported.end());
    names.insert(names.end(), kHints.begin(), kHints.end());
    for (const NeutralField& field : neutral_fields()) names.emplace_back(field.name);
    return names;
  }

 private:
  static constexpr std::array kCommon = {"model",
                                         "temperature",
                                         "top_p",
                                         "top_k",
                                         "min_p",
                                         "repetition_penalty",
                                         "presence_penalty",
                                         "frequency_penalty",
                                         "logit_bias",
                                         "min_tokens",
                                         "ignore_eos",
                                         "response_format",
                                         "stop_token_ids",
                                         "include_stop_str_in_output",
                                         "n",
                                         "seed",
                                         "max_tokens",
                                         "stop",
                                         "stream",
                                         "store",
                                         "metadata",
                                         "logprobs",
                                         "stream_options",
                                         "speculative",
                                         "slo",
                                         "service_tier",
                                         "priority"};

  // Fields that describe the caller or how the provider handles the request; none affects the answer's content.
  static constexpr std::array kHints = {
      "user", "safety_identifier", "prompt_cache_key", "reasoning_effort", "prompt_cache_retention", "verbosity"};

  static constexpr std::array kChatOnly = {"messages", "max_completion_tokens", "top_logprobs", "prediction"};
  static constexpr std::array kCompletionOnly = {"prompt", "best_of", "echo"};

  // Those that change what is done.
  static std::vector<std::string_view> supported_fields(Endpoint endpoint) {
    std::vector<std::string_view> names(kCommon.begin(), kCommon.end());
    if (endpoint == Endpoint::kChat) names.insert(names.end(), kChatOnly.begin(), kChatOnly.end());
    if (endpoint == Endpoint::kCompletion) names.insert(names.end(), kCompletionOnly.begin(), kCompletionOnly.end());
    return names;
  }

  bool is_known(const std::string& name) const {
    const auto in = [&](const auto& names) { return std::find(names.begin(), names.end(), name) != names.end(); };
    return in(kCommon) || in(kHints) || (call_.endpoint == Endpoint::kChat ? in(kChatOnly) : in(kCompletionOnly));
  }

  void check_names() const {
    for (const auto& field : body_.items()) {
      const std::string& name = field.key();
      const json& value = field.value();
      if (is_known(name)) continue;
      const auto& neutral = neutral_fields();
      const auto found = std::find_if(neutral.begin(), neutral.end(),
                                      [&wanted = name](const NeutralField& one) { return one.name == wanted; });
      if (found == neutral.end()) refuse_unknown_field("", name, supported_fields(call_.endpoint));
      if (value.is_null() || found->is_neutral(value)) continue;
      refuse_unsupported_field(name);
    }
  }

  void read_prompt() {
    if (call_.endpoint == Endpoint::kChat) {
      const json* messages = fields_.find("messages");
      if (messages == nullptr) refuse_field("messages", "is missing");
      call_.messages = parse_messages(*messages);
      read_prediction();
      return;
    }
    const json* prompt = fields_.find("prompt");
    if (prompt == nullptr) refuse_field("prompt", "is missing");
    call_.prompts = read_prompt_field(*prompt);
  }

  void read_prediction() {
    const json* prediction = fields_.find("prediction");
    if (prediction == nullptr) return;
    static constexpr std::array<std::string_view, 2> kMembers = {"type", "content"};
    check_members(*prediction, "prediction", kMembers);
    const auto type = prediction->find("type"), content = prediction->find("content");
    if (type == prediction->end() || *type != "content") refuse_field("prediction.type", "must be \"content\"");
    if (content == prediction->end()) refuse_field("prediction.content", "is missing");
    call_.prediction = parse_content(*content, "prediction.content");
  }

  // How tokens are proposed. It changes the speed of an answer alone.
  void read_speculative() {
    const json* given = fields_.find("speculative");
    if (given == nullptr) return;
    static constexpr std::array<std::string_view, 4> kMembers = {"enabled", "max_tokens", "proposer", "tree"};
    check_members(*given, "speculative", kMembers);
    const RequestFields fields(*given, "speculative.");
    const auto most = fields.integer("max_tokens", 0, kMaxProposalNodes);
    if (most) call_.k = static_cast<std::int32_t>(*most);
    if (const json* tree = fields.find("tree")) read_tree(*tree, most);
    if (fields.boolean("enabled") == false) call_.k = 0;
    const auto proposer = fields.text("proposer");
    if (!proposer) return;
    const auto known =
        std::find_if(kProposers.begin(), kProposers.end(), [&](const auto& one) { return *proposer == one.first; });
    if (known == kProposers.end()) {
      refuse_field("speculative.proposer", "must be \"auto\", \"draft\" or \"prompt_lookup\"");
    }
    call_.propose_by = known->second;
  }

  // A depth is the same limit as `max_tokens`. What is absent keeps its default, the largest value.
  void read_tree(const json& given, std::optional<std::int64_t> max_tokens) {
    static constexpr std::array<std::string_view, 3> kMembers = {"nodes", "depth", "width"};
    check_members(given, "speculative.tree", kMembers);
    const RequestFields fields(given, "speculative.tree.");
    const auto read = [&](const char* name, std::int32_t& limit) {
      const auto wanted = fields.integer(name, 1, limit);
      if (wanted) limit = static_cast<std::int32_t>(*wanted);
      return wanted;
    };
    read("nodes", call_.tree.nodes);
    read("width", call_.tree.width);
    const auto depth = read("depth", call_.tree.depth);
    if (depth && max_tokens && *depth != *max_tokens) {
      refuse_field("speculative.tree.depth", "and 'speculative.max_tokens' say different things: send one");
    }
  }

  // A target time in milliseconds, as microseconds; 0: none.
  static std::int64_t read_target(const RequestFields& fields, const std::string& name) {
    const auto ms = fields.number(name.c_str(), is_target_ms, "from 0.001 to 3600000");
    return ms ? us_of_ms(*ms) : 0;
  }

  void read_slo() {
    const json* given = fields_.find("slo");
    if (given == nullptr) return;
    static constexpr std::array<std::string_view, kSloTargets.size()> kMembers = {"tpot_ms", "ttft_ms", "e2e_ms"};
    check_members(*given, "slo", kMembers);
    const RequestFields fields(*given, "slo.");
    for (const auto& [name, target] : kSloTargets) call_.slo.*target = read_target(fields, std::string(name) + "_ms");
  }

  // The choices of a prompt differ only in the address of their randomness.
  void read_choices() {
    call_.n = static_cast<std::int32_t>(fields_.integer("n", 1, kMaxChoicesOfPrompt).value_or(1));
    if (call_.prompts.size() * static_cast<std::size_t>(call_.n) > kMaxChoices) {
      const std::string most = std::to_string(kMaxChoices);
      if (call_.n == 1) refuse_field("prompt", "must hold at most " + most + " prompts");
      refuse_field("n", "times the number of prompts is more than " + most);
    }
    if (call_.endpoint == Endpoint::kChat) return;
    const auto best_of = fields_.integer("best_of", 1, kMaxChoicesOfPrompt);
    if (best_of && *best_of != call_.n) refuse_unsupported_field("best_of", "must equal 'n': choices are not ranked");
    call_.echo = fields_.boolean("echo").value_or(false);
  }

  void read_end_tokens() {
    call_.ignore_eos = fields_.boolean("ignore_eos").value_or(false);
    call_.keep_stop = fields_.boolean("include_stop_str_in_output").value_or(false);
    const json* value = fields_.find("stop_token_ids");
    if (value == nullptr) return;
    if (!value->is_array() || value->size() > kMaxStops) {
      refuse_field("stop_token_ids", "must be a list of at most " + std::to_string(kMaxStops) + " token ids");
    }
    call_.stop_token_ids = read_token_ids(*value, "stop_token_ids");
  }

  std::optional<std::int64_t> read_length(const char* name) const {
    const auto length = fields_.integer(name, kWhatIsLeft, kMaxLength);
    if (length == 0 && call_.endpoint == Endpoint::kChat) refuse_field(name, "must be -1 or above 0");
    if (length == 0 && !call_.echo) refuse_field(name, "must be -1 or above 0; 0 is allowed with 'echo' only");
    return length;
  }

  void read_lengths() {
    const auto old_name = read_length("max_tokens");
    const auto new_name = call_.endpoint == Endpoint::kChat ? read_length("max_completion_tokens") : std::nullopt;
    if (old_name && new_name && *old_name != *new_name) {
      refuse_field("max_completion_tokens", "and 'max_tokens' say different things: send one");
    }
    const auto either = new_name ? new_name : old_name;
    if (either && *either != kWhatIsLeft) call_.max_tokens = static_cast<std::int32_t>(std::min(*either, kMaxInt32));
  }

  void read_stops() {
    const json* value = fields_.find("stop");
    if (value == nullptr) return;
    if (value->is_string()) {
      add_stop(*value);
    } else if (value->is_array() && value->size() <= kMaxStops) {
      for (const json& one : *value) add_stop(one);
    } else {
      refuse_field("stop", "must be a string or a list of at most " + std::to_string(kMaxStops));
    }
  }

  void add_stop(const json& value) {
    if (!value.is_string()) refuse_field("stop", "must hold strings");
    const auto& stop = value.get_ref<const std::string&>();
    if (stop.empty() || stop.size() > kMaxStopBytes) {
      refuse_field("stop", "must hold strings of 1 to " + std::to_string(kMaxStopBytes) + " bytes");
    }
    call_.stop.push_back(stop);
  }

  void read_stream() {
    call_.stream = fields_.boolean("stream").value_or(false);
    const json* options = fields_.find("stream_options");
    if (options == nullptr) return;
    if (!call_.stream) refuse_field("stream_options", "is only allowed when 'stream' is true");
    static constexpr std::array<std::string_view, 3> kMembers = {"include_usage", "include_obfuscation",
                                                                 "continuous_usage_stats"};
    check_members(*options, "stream_options", kMembers);
    const RequestFields fields(*options, "stream_options.");
    call_.include_usage = fields.boolean("include_usage").value_or(false);
    const bool continuous = fields.boolean("continuous_usage_stats").value_or(false);
    call_.continuous_usage = call_.include_usage && continuous;  // as in vLLM
    if (fields.boolean("include_obfuscation").value_or(false)) {
      refuse_unsupported_field("stream_options.include_obfuscation");
    }
  }

  void read_logprobs() {
    if (call_.endpoint == Endpoint::kCompletion) {
      const auto wanted = fields_.integer("logprobs", 0, kMaxCompletionLogprobs);
      if (wanted) call_.top_logprobs = static_cast<std::int32_t>(*wanted);
      return;
    }
    const bool wanted = fields_.boolean("logprobs").value_or(false);
    const auto top = fields_.integer("top_logprobs", 0, kMaxTopLogprobs);
    if (top && !wanted) refuse_field("top_logprobs", "is only allowed when 'logprobs' is true");
    if (wanted) call_.top_logprobs = static_cast<std::int32_t>(top.value_or(0));
  }

  void read_metadata() {
    for (const char* name : kHints) fields_.text(name);
    if (fields_.boolean("store") == false) call_.learn = false;
    const json* metadata = fields_.find("metadata");
    if (metadata == nullptr) return;
    if (!metadata->is_object()) refuse_field("metadata", "must be an object");
    if (metadata->size() > kMaxMetadata)
      refuse_field("metadata", "has more than " + std::to_string(kMaxMetadata) + " entries");
    const json* topic = RequestFields(*metadata).find("topic");
    if (topic == nullptr) return;
    if (!topic->is_string()) refuse_field("metadata.topic", "must be a string");
    call_.topic_label = topic->get<std::string>();
  }

  void read_headers(const CallHeaders& headers) {
    if (headers.topic) {
      if (call_.topic_label && *call_.topic_label != *headers.topic) {
        refuse_field("metadata.topic", "and the X-Slipstream-Topic header name different topics");
      }
      call_.topic_label = headers.topic;
    }
    if (headers.learn) read_learn(*headers.learn);
    if (headers.slo) read_slo_header(*headers.slo);
    if (call_.slo.any() && !headers.may_ask_slo) {
      throw Error(ErrorCode::kPermission, "this API key may not ask for a speed",
                  "the operator allows it with slo=true in the keys file",
                  fields_.find("slo") == nullptr ? kSloHeader : "slo");
    }
  }

  void read_slo_header(std::string_view list) {
    const auto named = parse_slo(list);
    if (!named) {
      refuse_field(kSloHeader, "must be like: tpot=40, ttft=500, e2e=4000, each from 0.001 to 3600000 milliseconds");
    }
    take_targets(*named, std::string("and the ") + kSloHeader + " header differ");
  }

  void take_targets(const SloTargets& named, const std::string& difference) {
    const bool in_body = fields_.find("slo") != nullptr;
    for (const auto& [name, target] : kSloTargets) {
      std::int64_t& asked_us = call_.slo.*target;
      const std::int64_t named_us = named.*target;
      if (named_us > 0 && asked_us > 0 && asked_us != named_us) {
        refuse_field(in_body ? "slo." + std::string(name) + "_ms" : kSloHeader, difference);
      }
      if (named_us > 0) asked_us = named_us;
    }
  }

  // A tier is a speed that the operator named.
  void read_tier(const CallHeaders& headers, std::span<const SloTier> tiers) {
    const auto name = fields_.text("service_tier");
    if (!name) return;
    const auto tier = std::find_if(tiers.begin(), tiers.end(), [&](const SloTier& one) { return one.name == *name; });
    if (tier == tiers.end()) {
      if (std::find(kHintedTiers.begin(), kHintedTiers.end(), *name) == kHintedTiers.end()) {
        refuse_field("service_tier", "names no tier of this service" + listed(tiers));
      }
      call_.service_tier = "default";
      return;
    }
    const auto& allowed = headers.slo_tiers;
    if (!headers.may_ask_slo && std::find(allowed.begin(), allowed.end(), *name) == allowed.end()) {
      throw Error(ErrorCode::kPermission, "this API key may not ask for the tier '" + *name + "'",
                  "the operator allows it with slo_tiers=" + *name + " in the keys file", "service_tier");
    }
    take_targets(tier->slo, "and service_tier differ");
    call_.slo_tier = call_.service_tier = *name;
  }

  static std::string listed(std::span<const SloTier> tiers) {
    std::string names;
    for (const SloTier& tier : tiers) names += (names.empty() ? "; it has " : ", ") + tier.name;
    return names;
  }

  // Repeated headers arrive as a list. A single "off" is enough: a client that asked for it must not be recorded.
  void read_learn(std::string_view list) {
    for_each_item(list, [&](std::string_view word) {
      if (word != "off" && word != "on") refuse_field("X-Slipstream-Learn", "must be on or off");
      if (word == "off") call_.learn = false;
    });
  }

  const json& body_;
  const std::string_view text_;
  RequestFields fields_;
  CompletionCall call_;
};

}  // namespace

std::vector<std::string> request_fields(Endpoint endpoint) {
  return CallReader::known_fields(endpoint);
}

CompletionCall parse_request(Endpoint endpoint, std::string_view body, const CallHeaders& headers,
                             std::span<const SloTier> tiers) {
  const JsonDocument document(parse_strict_json(body, "request body", {.max_values = kMaxValues}));
  const json& parsed = document.root();
  if (!parsed.is_object()) throw Error(ErrorCode::kInvalidArgument, "the request body must be a JSON object");
  return CallReader(endpoint, parsed, body).read(headers, tiers);
}

}  // namespace slip
