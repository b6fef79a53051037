// SPDX-License-Identifier: Apache-2.0
#include "cli/service/draft_registry.h"

#include <algorithm>
#include <set>

#include "checkpoints/model_config.h"
#include "checkpoints/weight_files.h"
#include "common/error.h"
#include "common/file.h"
#include "common/log.h"
#include "engine/models/fingerprint.h"
#include "text/tokenizer_paths.h"

namespace slip::cli {
namespace {

constexpr const char* kWeightsFile = "model.safetensors";

static_assert(is_reserved_topic_name(kBaseDraft), "a topic of that name would publish into the base draft's folder");

// Earlier versions allowed a topic named "base". Its versions have a topic; the base draft's own have none.
void discard_topics_versions(DraftStore& store) {
  std::set<std::uint64_t> of_a_topic;
  std::string named;
  for (const DraftMeta& meta : store.versions(kBaseDraft)) {
    if (meta.topic.empty() || meta.weights_retired) continue;
    of_a_topic.insert(meta.version);
    named += (named.empty() ? "" : ", ") + std::to_string(meta.version);
  }
  if (of_a_topic.empty()) return;
  store.discard(kBaseDraft, of_a_topic);
  log_warn("repaired " + (store.root() / kBaseDraft).string() + ": versions " + named +
           " belonged to a topic with the base draft's name, so their weights were deleted; rename the topic");
}

// `base`: a version of the base draft. `fingerprint`: of the target in `folder`.
void check_target(const DraftStore& store, const DraftMeta& base, const std::string& fingerprint,
                  const std::filesystem::path& folder) {
  if (base.target_fingerprint == fingerprint) return;
  throw Error(ErrorCode::kConflict,
              "the drafts in " + store.root().string() + " were made for another target (" + base.target +
                  "), not for " + folder.string(),
              "use another --data-dir for this one", "data.directory");
}

struct ImportedBase {
  DraftMeta meta;
  std::uint64_t replaced = 0;  // the version that was the base draft before this start; 0: none, or the same
};

// Whether a stored version of the base draft is the model in `folder`, with these weights. Trainers and rollbacks read
// the stored one. Its weights have a checksum, its config.json has none.
bool is_stored_as(const std::filesystem::path& stored, const std::filesystem::path& folder,
                  const WeightFiles& weights) {
  try {
    return weights.tensors() == WeightFiles(stored).tensors() &&
           load_model_config(stored).same_shape(load_model_config(folder));
  } catch (const Error& error) {
    log_warn("draft version " + stored.string() + " is not used, and " + folder.string() +
             " is stored again: " + error.message());
    return false;
  }
}

ImportedBase import_base(DraftStore& store, const std::filesystem::path& folder, const DraftTarget& target) {
  discard_topics_versions(store);
  const auto stored = store.current(kBaseDraft);
  const std::string fingerprint = target_fingerprint(target.folder);
  if (stored) check_target(store, *stored, fingerprint, target.folder);
  const WeightFiles weights(folder);
  if (stored && is_stored_as(store.folder(kBaseDraft, stored->version), folder, weights)) return {*stored};
  const auto staged = store.staging_folder(kBaseDraft);
  const auto copy = [&](const char* name) {
    if (std::filesystem::exists(folder / name)) copy_durably(folder / name, staged / name);
  };
  copy("config.json");
  for (const char* name : kTokenizerFiles) copy(name);
  write_safetensors(staged / kWeightsFile, weights.tensors(), {{"format", "pt"}}, "import");
  DraftMeta meta;
  meta.draft = kBaseDraft;
  meta.parent = stored ? stored->version : 0;
  meta.parent_draft = kBaseDraft;
  meta.target = target.name;
  meta.target_fingerprint = fingerprint;
  meta.reason = "base";
  return {store.publish(staged, meta), stored && stored->topic.empty() ? stored->version : 0};
}

void say_replaced(const ImportedBase& base, const std::filesystem::path& folder, const DraftRegistry& registry) {
  std::string kept;
  for (const auto& live_draft : registry.live_drafts) {
    if (live_draft->get()->number > 0) kept += (kept.empty() ? "" : ", ") + live_draft->name();
  }
  log_info("base draft: " + folder.string() + " is its version " + std::to_string(base.meta.version) +
           " and replaces version " + std::to_string(base.replaced) + "; " +
           (kept.empty()
                ? "every topic begins with it"
                : "topics that go on with a version of their own: " + kept + "; every other one begins with it"));
}

// The topic's own draft: the store's current version, or if that cannot be used the newest older one that was not
// rolled back, which then becomes current. Null if there is none of the base draft's shape.
std::shared_ptr<const DraftVersion> stored_version(DraftStore& store, const LiveDraft& live_draft,
                                                   const ModelConfig& shape, const DraftTarget& target) {
  const auto current = store.current(live_draft.name());
  if (!current) return nullptr;
  auto versions = store.versions(live_draft.name());
  std::erase_if(versions, [&](const DraftMeta& meta) {
    if (meta.version == current->version) return false;
    return meta.version > current->version || meta.rolled_back || meta.weights_retired;
  });
  std::string of_another_shape;  // numbers, newest first
  const auto say_shapes = [&] {
    if (of_another_shape.empty()) return;
    log_warn("draft " + live_draft.name() +
             ": these versions differ in shape from the base draft and are not used: " + of_another_shape);
  };
  for (auto meta = versions.rbegin(); meta != versions.rend(); ++meta) {
    const std::filesystem::path folder = store.folder(meta->draft, meta->version);
    try {
      auto weights = ModelWeights::load(folder, target.dtype, /*check_finite=*/true);
      if (!weights->config.same_shape(shape)) {
        of_another_shape += (of_another_shape.empty() ? "" : ", ") + std::to_string(meta->version);
        continue;
      }
      if (meta->version != current->version) store.set_current(meta->draft, meta->version);
      say_shapes();
      return packed({live_draft.id(), live_draft.name(), meta->version, meta->parent, std::move(weights)}, target.pack);
    } catch (const Error& error) {
      log_warn("draft version " + folder.string() + " is not used: " + error.message());
    }
  }
  say_shapes();
  log_warn("draft " + live_draft.name() + " restarts from the base draft's weights" +
           (of_another_shape.empty() ? "" : "; a start with a base draft of their shape uses these versions again"));
  return nullptr;
}

}  // namespace

void refuse_another_target(const DraftStore& store, const std::filesystem::path& target) {
  const auto versions = store.versions(kBaseDraft);
  const auto own =
      std::find_if(versions.rbegin(), versions.rend(), [](const DraftMeta& meta) { return meta.topic.empty(); });
  if (own != versions.rend()) check_target(store, *own, target_fingerprint(target), target);
}

DraftRegistry open_draft_registry(DraftStore& store, const std::filesystem::path& folder, const DraftTarget& target,
                                  const TopicTable& topics) {
  const auto weights = load_draft_weights(folder, target.dtype, target.model);
  const ImportedBase imported = import_base(store, folder, target);
  const DraftMeta& meta = imported.meta;
  const auto n_topics = static_cast<std::uint32_t>(topics.size());
  DraftRegistry registry;
  registry.base = packed({{n_topics}, kBaseDraft, meta.version, meta.parent, weights}, target.pack);
  for (std::uint32_t i = 0; i < n_topics; ++i) {
    auto live_draft = std::make_shared<LiveDraft>(DraftId{i}, topics[{i}].name);
    auto version = stored_version(store, *live_draft, weights->config, target);
    if (!version)
      version = packed({live_draft->id(), live_draft->name(), 0, 0, weights, registry.base->image}, target.pack);
    live_draft->set(std::move(version));
    registry.live_drafts.push_back(std::move(live_draft));
  }
  if (imported.replaced > 0) say_replaced(imported, folder, registry);
  return registry;
}

}  // namespace slip::cli
