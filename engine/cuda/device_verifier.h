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

// Whether rows of logits have to be on the host for what is asked of a task: because the request needs them, to be
// verified there, or to be observed with more tokens than a device keeps.
bool wants_logits_on_host(const ScoreTask& task);

// Verifies where the logits are: behind the pass, on its queue, the distribution of each row is made, proposals are
// verified by it and the K likeliest tokens are picked. The results and those tokens are all that crosses to the host,
// but for tasks that want their logits there. Distributions are added up in fixed point, so a result may differ from
// the host's in what hangs on a probability's last bits: hence one place for a whole answer.
class DeviceVerifier final : public Verifier {
 public:
  // Takes about as much memory again as the worker's logits; the worker outlives it. Error{kTooLarge}.
  explicit DeviceVerifier(DeviceWorker& worker);

  bool verifies_on_device(const SamplingParams& sampling) const override {
    return has_distribution_on_device(sampling);
  }
  void verify(std::size_t task, VerifyResult& result) override;
  TopK observed(std::size_t task, std::int32_t row) override;

 private:
  // What the jobs behind a pass are captured for.
  struct Shape {
    VerificationGrid grid;
    std::int32_t top_k = 0;   // 0: nothing is observed
    bool processors = false;  // of logits, before distributions are made of them
    bool coupled = false;     // tokens are drawn by Gumbel noise
    auto operator<=>(const Shape&) const = default;
  };

  // Rows that something is asked of, in runs of such as follow each other. A captured pass has few and takes them all:
  // its jobs' grids are those it was captured with.
  struct AskedRows {
    std::span<const LogitRows> verified, observed;
  };

  void run(const StepInput& input) override;
  void put_host_rows();
  void gather_proposals();
  Shape put_tables(const PassShape& pass);
  void put_jobs(const Shape& shape, const AskedRows& asked) const;
  void put_distributions(const Shape& shape, const LogitRows& rows) const;
  void put_accept(const Shape& shape) const;
  void put_observations(const Shape& shape, const LogitRows& rows) const;
  void copy_answers_out(const Shape& shape);

  DeviceWorker& worker_;
  kernels::cuda::DeviceQueue& queue_;
  std::int32_t vocab_;
  std::size_t n_rows_;  // of each table with an entry a row
  VerificationTables tables_;
  kernels::cuda::DeviceMemory<float> processed_;  // [n_rows, vocab]
  kernels::cuda::DeviceMemory<kernels::cuda::RowDistribution> distributions_;
  kernels::cuda::DeviceMemory<kernels::cuda::RowPart> distribution_parts_, gumbel_parts_;
  kernels::cuda::DeviceMemory<kernels::cuda::DeviceVerifyResult> results_;
  kernels::cuda::DeviceMemory<std::int32_t> top_ids_;  // [n_rows, K], as the next
  kernels::cuda::DeviceMemory<float> top_logprobs_, log_tails_;
  kernels::cuda::CopyMemory<kernels::cuda::DeviceVerifyResult> host_results_;
  kernels::cuda::CopyMemory<std::int32_t> seen_ids_;
  kernels::cuda::CopyMemory<float> seen_logprobs_, seen_tails_;
  std::map<Shape, std::unique_ptr<kernels::cuda::DeviceGraph>> graphs_;
  // Of the last pass.
  std::vector<VerifiedProposal> verified_;
  std::vector<std::int32_t> result_of_;  // [n_task] −1: verified on the host, or not
  std::vector<LogitRows> verified_rows_, observed_rows_;
  std::int32_t top_k_ = 0;
};

}  // namespace slip
