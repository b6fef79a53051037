// SPDX-License-Identifier: Apache-2.0
#include "engine/scheduler/speculation_policy.h"

#include <algorithm>
#include <cstddef>

#include "engine/scheduler/capped_batch_policy.h"
#include "engine/scheduler/goodput_policy.h"
#include "engine/scheduler/static_tree_policy.h"
#include "engine/scheduler/tree_policy.h"

namespace slip {
namespace {

class FixedPolicy final : public SpeculationPolicy {
 public:
  explicit FixedPolicy(PolicyOptions options) : options_(options) {}

  void choose(std::span<const DraftOutlook> outlooks, std::int32_t /*prompt_rows*/, const StepCurve& /*curve*/,
              std::vector<DraftOrder>& orders) override {
    orders.assign(outlooks.size(), {});
    for (std::size_t i = 0; i < outlooks.size(); ++i) {
      DraftOrder& order = orders[i];
      const bool guesses = outlooks[i].most == 0;
      order.most = guesses ? outlooks[i].guesses.most : outlooks[i].most;
      order.length = {order.most, guesses};
      if (guesses || outlooks[i].rates == nullptr) continue;
      order.width = std::min(options_.tree_width, outlooks[i].width);
    }
  }

  void select(std::vector<ProposedNode>& nodes, std::int32_t /*rows*/, std::int32_t room) override {
    nodes.resize(std::min(nodes.size(), static_cast<std::size_t>(std::max(room, 0))));
  }

 private:
  PolicyOptions options_;
};

}  // namespace

void SpeculationPolicy::limit_step(std::span<const DeadlineLoad> loads, const StepForecast& /*forecast*/,
                                   const StepCurve& /*curve*/, std::int32_t most_rows, DeadlineLimits& limits) {
  limits.prompt_rows = most_rows;
  limits.skipped.assign(loads.size(), 0);
}

std::unique_ptr<SpeculationPolicy> make_policy(PolicyKind kind, PolicyOptions options) {
  if (kind == PolicyKind::kGoodput) return std::make_unique<GoodputPolicy>(options);
  if (kind == PolicyKind::kStaticTree) return std::make_unique<StaticTreePolicy>(options);
  if (kind == PolicyKind::kFcfs || kind == PolicyKind::kStta) return std::make_unique<CappedBatchPolicy>(kind);
  return std::make_unique<TreePolicy>(kind, options);
}

std::unique_ptr<SpeculationPolicy> make_fixed_policy(PolicyOptions options) {
  return std::make_unique<FixedPolicy>(options);
}

}  // namespace slip
