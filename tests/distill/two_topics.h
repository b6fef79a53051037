// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "common/file.h"
#include "tests/distill/learner_fixture.h"

namespace slip::testing {

// A learner fixture with a second topic.
class TwoTopics : public LearnerSetup {
 public:
  TwoTopics() {
    topics = TopicTable({{"sql", {}}, {"math", {}}});
    other = std::make_shared<LiveDraft>(DraftId{2}, "math", version_of(DraftId{2}, "math"));
  }
  std::shared_ptr<const DraftVersion> version_of(DraftId id, const std::string& name) {
    if (const auto current = store.current(name)) {
      const auto weights = ModelWeights::load(store.folder(name, current->version), Dtype::kFloat32, true);
      return std::make_shared<DraftVersion>(DraftVersion{id, name, current->version, 0, weights});
    }
    return std::make_shared<DraftVersion>(DraftVersion{id, name, 0, 0, base->weights});
  }
  std::unique_ptr<Learner> learner_of_both(Governor& policy) {
    return std::make_unique<Learner>(options, topics,
                                     std::vector<std::shared_ptr<LiveDraft>>{nullptr, live_draft, other}, base, store,
                                     replay, policy, recorded);
  }
  // A batch of one topic's requests and then one of the other's, so that topics change with every batch.
  void stream_both(Learner& learner, std::uint64_t first_id, int rounds) {
    for (int round = 0; round < rounds; ++round) {
      for (const std::uint32_t topic : {1U, 2U}) {
        for (std::int32_t i = 0; i < options.batch_requests; ++i) {
          tell(learner, answered(first_id++), true, topic);
        }
        ASSERT_TRUE(learner.wait_idle(kPatienceUs));
      }
    }
  }
  std::string state_of(const std::string& draft) const {
    return read_file(options.optimizer_folder / (draft + ".opt"), std::uint64_t{1} << 30);
  }

  std::shared_ptr<LiveDraft> other;
};

}  // namespace slip::testing
