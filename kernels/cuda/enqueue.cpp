// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda/enqueue.h"

#include "kernels/cuda/foreign_stream.h"
#include "kernels/cuda/launch.h"

namespace slip::kernels::cuda {
namespace {

struct Launch {
  void operator()(const OnRows<Embed>& job) const { check(launch_embed(job.operation, job.n_rows, stream), "embed"); }
  void operator()(const OnRows<RmsNorm>& job) const {
    check(launch_rms_norm(job.operation, job.n_rows, stream), "rms_norm");
  }
  void operator()(const OnRows<RotateAndStore>& job) const {
    check(launch_rotate_and_store(job.operation, job.n_rows, stream), "rotate_and_store");
  }
  void operator()(const Matmul& job) const { check(launch_matmul(job, stream), "matmul"); }
  void operator()(const TiledAttention& job) const {
    check(launch_attention(job.operation, job.grid.n_tiles, stream), "attention");
    if (!job.operation.whole) check(launch_combine_splits(job.operation, job.grid.n_rows, stream), "combine_splits");
  }
  void operator()(const OnRows<ProcessLogits>& job) const {
    check(launch_process_logits(job.operation, job.n_rows, stream), "process_logits");
  }
  void operator()(const OnRows<MakeDistributions>& job) const {
    check(launch_make_distributions(job.operation, job.n_rows, stream), "make_distributions");
  }
  void operator()(const OnRows<GumbelParts>& job) const {
    check(launch_gumbel_parts(job.operation, job.n_rows, stream), "gumbel_parts");
  }
  void operator()(const OnRows<DrawTokens>& job) const {
    check(launch_draw_tokens(job.operation, job.n_rows, stream), "draw_tokens");
  }
  void operator()(const OnRows<Accept>& job) const {
    check(launch_accept(job.operation, job.n_rows, stream), "accept");
  }
  void operator()(const OnRows<Observe>& job) const {
    check(launch_observe(job.operation, job.n_rows, stream), "observe");
  }
  void operator()(const OnRows<FusedLoss>& job) const {
    check(launch_fused_loss(job.operation, job.n_rows, stream), "fused_loss");
  }
  cudaStream_t stream;
};

}  // namespace

DeviceFailure::DeviceFailure(cudaError_t error, const std::string& what)
    : std::runtime_error("cuda: " + what + ": " + cudaGetErrorString(error)) {}

void check(cudaError_t error, const char* what) {
  if (error != cudaSuccess) throw DeviceFailure(error, what);
}

void enqueue(const Job& job, cudaStream_t stream) {
  check_job(job);
  if (has_rows(job)) std::visit(Launch{stream}, job);
}

void enqueue_on(void* stream, const Job& job) {
  enqueue(job, static_cast<cudaStream_t>(stream));
}

}  // namespace slip::kernels::cuda
