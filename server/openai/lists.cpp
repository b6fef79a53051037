// SPDX-License-Identifier: Apache-2.0
#include "server/openai/lists.h"

#include <cstdint>
#include <optional>
#include <utility>

#include "checkpoints/draft_meta.h"
#include "common/error.h"
#include "server/http/json_text.h"

namespace slip {
namespace {

// {"object":"list","data":[…]}, plus the members that `write_more` adds.
template <class WriteItems, class WriteMore>
Reply list_reply(const WriteItems& write_items, const WriteMore& write_more) {
  JsonText json;
  json.begin_object();
  json.member("object", "list");
  json.key("data");
  json.begin_array();
  write_items(json);
  json.end_array();
  write_more(json);
  json.end_object();
  return json_reply(std::move(json).take());
}

template <class WriteItems>
Reply list_reply(const WriteItems& write_items) {
  return list_reply(write_items, [](JsonText&) {});
}

void write_model(JsonText& json, const ServedModel& model, const std::string& name) {
  json.begin_object();
  json.member("id", name);
  json.member("object", "model");
  json.member("created", 0);
  json.member("owned_by", "slipstream");
  json.member("root", model.names.front());
  json.member("max_model_len", model.max_positions);
  json.end_object();
}

// Null if the denominator is 0.
std::optional<double> ratio(std::uint64_t part, std::uint64_t whole) {
  if (whole == 0) return std::nullopt;
  return static_cast<double>(part) / static_cast<double>(whole);
}

void write_acceptance(JsonText& json, const AcceptanceCount& count) {
  json.key("acceptance");
  json.begin_object();
  json.member("requests", count.requests);
  json.member("accepted", count.accepted);
  json.member("first_rejections", count.first_rejections);
  json.member("proposed", count.proposed);
  json.member("acceptance_rate", ratio(count.accepted, count.accepted + count.first_rejections));
  json.member("accepted_length", ratio(count.emitted, count.steps));
  json.end_object();
}

// `with_figures`: also how much the version was trained on other clients' traffic, and what that brought.
void write_version(JsonText& json, const DraftMeta& meta, bool with_figures) {
  json.begin_object();
  json.member("version", meta.version);
  json.member("parent", meta.parent);
  json.member("reason", meta.reason);
  json.member("created_us", meta.created_us);
  json.member("rolled_back", meta.rolled_back);
  json.member("weights_sha256", meta.weights_sha256);
  if (with_figures) {
    json.member("optimizer_steps", meta.optimizer_steps);
    json.member("trained_requests", meta.trained_requests);
    json.member("heldout_alpha_before", if_measured(meta, meta.heldout_alpha_before));
    json.member("heldout_alpha", if_measured(meta, meta.heldout_alpha));
    json.member("p_value", if_measured(meta, meta.p_value));
  }
  json.end_object();
}

void write_versions(JsonText& json, const DraftStore* store, const std::string& draft, bool with_figures) {
  json.begin_array();
  try {
    if (store != nullptr) {
      for (const auto& meta : store->versions(draft)) write_version(json, meta, with_figures);
    }
  } catch (const Error& error) {
    throw Error(ErrorCode::kIo, error.message());  // a server fault: file names go to the log only
  }
  json.end_array();
}

}  // namespace

Reply model_list(const ServedModel* served) {
  return list_reply([&](JsonText& json) {
    if (served == nullptr) return;
    for (const auto& name : served->names) write_model(json, *served, name);
  });
}

Reply model_reply(const ServedModel& served, const std::string& name) {
  JsonText json;
  write_model(json, served, name);
  return json_reply(std::move(json).take());
}

Reply draft_list(const ServedModel* served, const Metrics& metrics, bool with_figures) {
  const auto write_draft = [&](JsonText& json, std::uint32_t i) {
    const LiveDraft& live_draft = *served->live_drafts[i];
    const auto live = live_draft.get();
    json.begin_object();
    json.member("name", live_draft.name());
    json.member("topic", (*served->router->topics())[{i}].name);
    json.member("live_version", live ? std::optional(live->number) : std::nullopt);
    json.member("parameters", live && live->weights ? std::optional(live->weights->config.parameters()) : std::nullopt);
    json.key("versions");
    write_versions(json, served->drafts, live_draft.name(), with_figures);
    if (live && with_figures) write_acceptance(json, metrics.acceptance(live_draft.name(), live->number));
    json.end_object();
  };
  const auto write_drafts = [&](JsonText& json) {
    for (std::uint32_t i = 0; served != nullptr && i < served->live_drafts.size(); ++i) write_draft(json, i);
  };
  return list_reply(write_drafts, [&](JsonText& json) {
    const bool any = served != nullptr && !served->live_drafts.empty();
    json.key("base");
    write_versions(json, any ? served->drafts : nullptr, "base", with_figures);
  });
}

Reply topic_list(const ServedModel* served) {
  const auto topics = served != nullptr ? served->router->topics() : nullptr;
  return list_reply([&](JsonText& json) {
    for (std::uint32_t i = 0; topics && i < topics->size(); ++i) {
      const Topic& topic = (*topics)[{i}];
      json.begin_object();
      json.member("name", topic.name);
      json.key("aliases");
      json.begin_array();
      for (const auto& alias : topic.aliases) json.value(alias);
      json.end_array();
      json.member("draft",
                  i < served->live_drafts.size() ? std::optional(served->live_drafts[i]->name()) : std::nullopt);
      json.end_object();
    }
  });
}

}  // namespace slip
