// SPDX-License-Identifier: Apache-2.0
#include <array>
#include <utility>

#include "engine/models/transformer.h"

namespace slip {

LocalWorker::LocalWorker(std::shared_ptr<const ModelWeights> weights, std::int32_t max_rows,
                         std::int32_t max_logit_rows, std::int32_t n_pages, kernels::ThreadPool& pool)
    : weights_(std::move(weights)),
      transformer_(weights_->config, pool),
      cache_(weights_->config, weights_->dtype, n_pages),
      workspace_(weights_->config, max_rows, max_logit_rows) {}

void LocalWorker::run(const StepInput& input, StepOutput& output) {
  const std::array<const ModelWeights*, 1> weight_sets{weights_.get()};
  transformer_.forward(weight_sets, input, cache_, workspace_, output);
}

}  // namespace slip
