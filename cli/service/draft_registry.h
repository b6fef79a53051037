// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "checkpoints/draft_store.h"
#include "cli/load_model.h"
#include "common/tensor_view.h"
#include "engine/speculative/live_draft.h"
#include "router/topic.h"

namespace slip::cli {

// The target model of the drafts.
struct DraftTarget {
  std::string name;
  std::filesystem::path folder;
  Dtype dtype = Dtype::kBFloat16;
  TargetModel model;
  PackDraft pack;  // as draft_packing()
};

// The drafts at start: the base draft as a version of "base", and a live draft per topic.
struct DraftRegistry {
  std::shared_ptr<const DraftVersion> base;
  // [topics.size()], index = TopicId = DraftId; each named like its topic
  std::vector<std::shared_ptr<LiveDraft>> live_drafts;
};

// Adds the base draft at `folder` (one file or shards) to the store if absent. Fills each topic's live draft with the
// store's current version of its draft. If that does not load, the newest older one that does becomes current. Without
// any, the base draft's weights are version 0. Discards versions published by a topic with the base draft's name. Logs
// what it does not use, and what another base draft than at the last start means for the topics.
// Error{kInvalidArgument} for a draft of another vocabulary, Error{kConflict} when the store's drafts belong to another
// target.
DraftRegistry open_draft_registry(DraftStore& store, const std::filesystem::path& folder, const DraftTarget& target,
                                  const TopicTable& topics);

// The same check for a service that opens no draft: Error{kConflict} when the store's drafts belong to another target
// than the one in the folder `target`. Reads no weights.
void refuse_another_target(const DraftStore& store, const std::filesystem::path& target);

}  // namespace slip::cli
