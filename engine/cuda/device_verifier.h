// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <compare>
#include <map>
#include <memory>
#include <vector>

#include "engine/cuda/device_distribution.h"
#include "engine/cuda/device_worker.h"
#include "engine/cuda/verification_tables.h"
#include "engine/speculative/verifier.h"

namespace slip {

// Whether a task needs its logits on the host: because its request needs them, because it is verified there, or because
// it is observed with more tokens than a device keeps.
bool wants_logits_on_host(const ScoreTask& task);

// Verifies proposals on the device. Jobs after the pass, on its queue, make the distribution of each row, verify the
// proposals and pick the K most likely tokens. Only the results and those tokens are copied to the host, except for
// tasks that want their logits there. Probabilities are summed in fixed point, so a result may differ from the host's
// where it depends on a probability's last bits. So one place verifies a whole answer.
class DeviceVerifier final : public Verifier {
 public:
  // Takes about as much memory as the worker's logits; the worker outlives it. Error{kTooLarge}.
  explicit DeviceVerifier(DeviceWorker& worker);

  bool verifies_on_device(const SamplingParams& sampling) const override {
    return has_distribution_on_device(sampling);
  }
  void score(std::span<const ScoreTask> tasks) override;
  void verify(std::size_t task, VerifyResult& result) override;
  TopK observed(std::size_t task, std::int32_t row) override;

 private:
  // The capture key of the jobs after a pass.
  struct Shape {
    VerificationGrid grid;
    std::int32_t top_k = 0;   // 0: nothing is observed
    bool processors = false;  // some request has logits processors
    bool coupled = false;     // tokens are drawn by Gumbel noise
    auto operator<=>(const Shape&) const = default;
  };

  // The requested rows, as contiguous ranges. A captured pass has few rows and takes all of them, since its grids are
  // fixed at capture.
  struct AskedRows {
    std::span<const LogitRows> verified, observed;
  };

  void put_host_rows();
  void gather_proposals();
  Shape put_tables(const DevicePassShape& pass);
  void put_jobs(const Shape& shape, const AskedRows& asked) const;
  void put_distributions(const Shape& shape, const LogitRows& rows) const;
  void put_accept(const Shape& shape) const;
  void put_observations(const Shape& shape, const LogitRows& rows) const;
  void copy_answers_out(const Shape& shape);

  DeviceWorker& worker_;
  kernels::cuda::DeviceQueue& queue_;
  std::int32_t vocab_;
  std::size_t n_rows_;  // size of each table with one entry per row
  VerificationTables tables_;
  kernels::cuda::DeviceMemory<float> processed_;  // [n_rows, vocab]
  kernels::cuda::DeviceMemory<kernels::cuda::RowDistribution> distributions_;
  kernels::cuda::DeviceMemory<kernels::cuda::RowPart> distribution_parts_, gumbel_parts_;
  kernels::cuda::DeviceMemory<kernels::cuda::DeviceVerifyResult> results_;
  kernels::cuda::DeviceMemory<std::int32_t> top_ids_;  // [n_rows, K], also the next
  kernels::cuda::DeviceMemory<float> top_logprobs_, log_tails_;
  kernels::cuda::CopyMemory<kernels::cuda::DeviceVerifyResult> host_results_;
  kernels::cuda::CopyMemory<std::int32_t> seen_ids_;
  kernels::cuda::CopyMemory<float> seen_logprobs_, seen_tails_;
  std::map<Shape, std::unique_ptr<kernels::cuda::DeviceGraph>> graphs_;
  // Of the last pass.
  std::vector<VerifiedProposal> verified_;
  std::vector<std::int32_t> result_of_;  // [n_task] −1: verified on the host, or not at all
  std::vector<LogitRows> verified_rows_, observed_rows_;
  std::int32_t top_k_ = 0;
  Scratch scratch_;
};

}  // namespace slip
