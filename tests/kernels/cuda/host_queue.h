// SPDX-License-Identifier: Apache-2.0
// A device queue on the host: put() runs every job's body at once, block by block as in tests/kernels/cuda/host_grid.h.
// Memory is initialised with NaN, so that reads of unwritten values are detected.
#pragma once

#include <array>
#include <atomic>
#include <cmath>
#include <cstring>
#include <memory>
#include <new>
#include <span>
#include <vector>

#include "common/error.h"
#include "kernels/cuda/device_queue.h"
#include "tests/kernels/cuda/host_grid.h"

namespace slip::kernels::cuda {

// The grids of launch.h's functions, on the host.
struct RunOnHost {
  void operator()(const OnRows<Embed>& job) const {
    run_on_host<kRowThreads>({job.n_rows}, [&](const RowBlock& block) { embed(block, job.operation); });
  }
  void operator()(const OnRows<RmsNorm>& job) const {
    RmsNormShared shared;
    run_on_host<kRowThreads>({job.n_rows}, [&](const RowBlock& block) { rms_norm(block, job.operation, shared); });
  }
  void operator()(const OnRows<RotateAndStore>& job) const {
    run_on_host<kRowThreads>({job.n_rows, head_groups(job.operation)},
                             [&](const RowBlock& block) { rotate_and_store(block, job.operation); });
  }
  void operator()(const Matmul& job) const { job.epilogue == Epilogue::kGateUp ? multiply<2>(job) : multiply<1>(job); }
  void operator()(const TiledAttention& tiled) const {
    const Attention& job = tiled.operation;
    const auto bytes = static_cast<std::size_t>(attention_shared_bytes(job.kv.head_dim, job.whole));
    std::vector<float> memory(bytes / sizeof(float) + 1, std::nanf(""));
    const Grid grid{tiled.grid.n_tiles, static_cast<int>(job.kv.n_kv_heads * job.stretches()),
                    job.whole ? 1 : job.n_splits};
    run_on_host<kAttentionThreads>(grid, [&](const AttentionBlock& block) { attend(block, job, memory.data()); });
    if (job.whole) return;
    run_on_host<kCombineThreads>({tiled.grid.n_rows, job.n_heads},
                                 [&](const Block<kCombineThreads>& block) { combine_splits(block, job); });
  }
  void operator()(const OnRows<ProcessLogits>& job) const {
    on_vocabulary<ProcessShared>({job.n_rows, kRowParts}, [&](const VocabularyBlock& block, ProcessShared& shared) {
      process_part(block, job.operation, shared);
    });
  }
  void operator()(const OnRows<MakeDistributions>& job) const {
    const auto shared = std::make_unique<DistributionShared>();
    const MakeDistributions& make = job.operation;
    if (make.parts != nullptr) {
      const Grid parts{job.n_rows, kRowParts};
      run_on_host<kVocabularyThreads>(parts, [&](const VocabularyBlock& block) { scan_best(block, make, *shared); });
      run_on_host<kVocabularyThreads>(parts, [&](const VocabularyBlock& block) { scan_mass(block, make, *shared); });
    }
    run_on_host<kVocabularyThreads>({job.n_rows},
                                    [&](const VocabularyBlock& block) { make_distribution(block, make, *shared); });
  }
  void operator()(const OnRows<GumbelParts>& job) const {
    on_vocabulary<DistributionShared>(
        {job.n_rows, kRowParts},
        [&](const VocabularyBlock& block, DistributionShared& shared) { scan_gumbel(block, job.operation, shared); });
  }
  void operator()(const OnRows<DrawTokens>& job) const {
    on_vocabulary<DistributionShared>({job.n_rows}, [&](const VocabularyBlock& block, DistributionShared& shared) {
      draw_token(block, job.operation, shared);
    });
  }
  void operator()(const OnRows<Accept>& job) const {
    on_vocabulary<AcceptShared>({job.n_rows}, [&](const VocabularyBlock& block, AcceptShared& shared) {
      accept_proposal(block, job.operation, shared);
    });
  }
  void operator()(const OnRows<Observe>& job) const {
    on_vocabulary<ObserveShared>({job.n_rows}, [&](const VocabularyBlock& block, ObserveShared& shared) {
      observe_row(block, job.operation, shared);
    });
  }
  void operator()(const OnRows<FusedLoss>& job) const {
    on_vocabulary<LossShared>({job.n_rows}, [&](const VocabularyBlock& block, LossShared& shared) {
      fused_loss(block, job.operation, shared);
    });
  }

 private:
  template <int kTiles>
  static void multiply(const Matmul& job) {
    const auto shared = std::make_unique<MatmulShared<kTiles, 1>>();
    const Grid grid{static_cast<int>((output_tiles(job.n_out) + kTiles - 1) / kTiles),
                    static_cast<int>(row_tiles(job.n_rows))};
    run_on_host<kMatmulThreads>(grid, [&](const MatmulBlock& block) { matmul(block, job, *shared); });
  }
  template <class Shared, class Body>
  static void on_vocabulary(const Grid& grid, const Body& body) {
    const auto shared = std::make_unique<Shared>();
    run_on_host<kVocabularyThreads>(grid, [&](const VocabularyBlock& block) { body(block, *shared); });
  }
};

class HostQueue final : public DeviceQueue {
 public:
  void* allocate(std::size_t bytes) override {
    if (is_full_) throw Error(ErrorCode::kTooLarge, "no memory on the device", "take less of it");
    void* memory = ::operator new (bytes, std::align_val_t{256});
    std::memset(memory, 0xFF, bytes);
    ++n_allocations_;
    return memory;
  }
  void release(void* memory) noexcept override {
    ::operator delete (memory, std::align_val_t{256});
    --n_allocations_;
  }
  void* allocate_host(std::size_t bytes) override { return allocate(bytes); }
  void release_host(void* memory) noexcept override { release(memory); }
  std::size_t free_bytes() override { return std::size_t{1} << 30; }

  void copy_in(void* to, const void* from, std::size_t bytes) override {
    copy(to, from, bytes);
    ++n_copies_in_;
    copied_in_last_ = {static_cast<const std::byte*>(from), bytes};
  }
  void copy_out(void* to, const void* from, std::size_t bytes) override {
    copy(to, from, bytes);
    bytes_out_ += bytes;
  }
  void copy_blocks(void* to, const void* from, const StridedBlocks& blocks) override {
    for (std::size_t i = 0; i < blocks.count; ++i) {
      copy(static_cast<std::byte*>(to) + i * blocks.stride, static_cast<const std::byte*>(from) + i * blocks.stride,
           blocks.bytes);
    }
  }
  void wait() override {}

  std::unique_ptr<DeviceGraph> capture(const std::function<void()>& put_jobs) override {
    auto graph = std::make_unique<Recorded>();
    recording_ = &graph->jobs;
    try {
      put_jobs();
    } catch (...) {
      recording_ = nullptr;
      throw;
    }
    recording_ = nullptr;
    ++n_captures_;
    return graph;
  }
  void replay(const DeviceGraph& graph) override {
    for (const Job& job : static_cast<const Recorded&>(graph).jobs) run(job);
    ++n_replays_;
  }

  void fill() { is_full_ = true; }                      // later allocations fail
  int n_allocations() const { return n_allocations_; }  // not released yet
  int n_captures() const { return n_captures_; }
  int n_replays() const { return n_replays_; }
  int n_puts() const { return n_puts_; }  // jobs that were run outside of graphs
  int n_copies_in() const { return n_copies_in_; }
  std::span<const std::byte> copied_in_last() const { return copied_in_last_; }  // source of the last copy
  std::size_t bytes_out() const { return bytes_out_; }
  // The number of rows that an operation has processed, in graphs and outside.
  template <class Operation>
  int rows_of() const {
    return n_rows_[Job(OnRows<Operation>{}).index()];
  }

 private:
  struct Recorded final : DeviceGraph {
    std::vector<Job> jobs;
  };

  void put(const Job& job) override {
    if (recording_ != nullptr) return recording_->push_back(job);
    run(job);
    ++n_puts_;
  }
  void run(const Job& job) {
    std::visit(RunOnHost{}, job);
    n_rows_[job.index()] += std::visit(
        [](const auto& one) {
          if constexpr (requires { one.operation, one.n_rows; }) {
            return one.n_rows;
          } else {
            return 0;
          }
        },
        job);
  }
  void copy(void* to, const void* from, std::size_t bytes) {
    SLIP_CHECK(recording_ == nullptr, "a copy while jobs are captured");
    std::memcpy(to, from, bytes);
  }

  std::array<int, std::variant_size_v<Job>> n_rows_{};
  std::vector<Job>* recording_ = nullptr;
  std::atomic<int> n_allocations_ = 0;
  int n_captures_ = 0, n_replays_ = 0, n_puts_ = 0, n_copies_in_ = 0;
  std::span<const std::byte> copied_in_last_;
  std::size_t bytes_out_ = 0;
  bool is_full_ = false;
};

}  // namespace slip::kernels::cuda
