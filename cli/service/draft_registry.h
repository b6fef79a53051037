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

// The model that drafts are for.
struct DraftTarget {
  std::string name;
  std::filesystem::path folder;
  Dtype dtype = Dtype::kBFloat16;
  TargetModel model;
  PackDraft pack;  // as draft_packing()
};

// What the draft store holds at start: the base draft as version n of "base", and one live draft per topic.
struct DraftRegistry {
  std::shared_ptr<const DraftVersion> base;
  std::vector<std::shared_ptr<LiveDraft>> live_drafts;  // by TopicId = DraftId; named like the topic
};

// Puts the base draft at `folder` (in one file or in shards) into the store when it is not there yet, and fills each
// topic's live draft with the store's current version of its draft, or else with the base draft's weights as version 0.
// Versions that a topic of the base draft's name published there are discarded, and the log says so.
// Error{kInvalidArgument} for a draft of another vocabulary, Error{kConflict} when the store's drafts were made for
// another target.
DraftRegistry open_draft_registry(DraftStore& store, const std::filesystem::path& folder, const DraftTarget& target,
                                  const TopicTable& topics);

}  // namespace slip::cli
