// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <exception>
#include <vector>

#include "engine/speculative/verifier.h"
#include "kernels/thread_pool.h"

namespace slip {

// Verifies on the host, with the logits that the worker wrote there: the proposals of several sequences together on the
// pool's threads, within score(), and all others when verify() is called. The result is the same.
class LocalVerifier final : public Verifier {
 public:
  // Worker and pool outlive it. Without a pool every proposal is verified when verify() is called.
  explicit LocalVerifier(Worker& worker, kernels::ThreadPool* pool = nullptr) : Verifier(worker), pool_(pool) {}

  bool verifies_on_device(const SamplingParams& /*sampling*/) const override { return false; }
  void score(std::span<const ScoreTask> tasks) override;
  void verify(std::size_t task, VerifyResult& result) override;
  TopK observed(std::size_t task, std::int32_t row) override;

 private:
  struct ObservedRow {
    std::int32_t row = 0;
    TopK top;
  };
  // One task's results, if they were made within score(): verify() and observed() take them.
  struct EarlyResult {
    bool verified = false;
    VerifyResult result;
    std::exception_ptr failure;
    std::vector<ObservedRow> observed;
    Scratch scratch;
  };

  void verify_together();
  void choose_together();
  void make_early(std::size_t index, EarlyResult& early) const noexcept;

  kernels::ThreadPool* pool_;
  Scratch scratch_;
  std::vector<EarlyResult> early_;     // [n_task] and more, reused
  std::vector<std::size_t> together_;  // the tasks that are verified within score()
};

}  // namespace slip
