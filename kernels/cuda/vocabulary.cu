// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda/early_start.cuh"
#include "kernels/cuda/launch.h"
#include "kernels/cuda/launch_early.cuh"

namespace slip::kernels::cuda {
namespace {

__device__ VocabularyBlock this_block() {
  return VocabularyBlock{static_cast<int>(blockIdx.x), static_cast<int>(blockIdx.y), 0};
}

LaunchShape parts_of(int n_rows) {
  return {dim3(static_cast<unsigned>(n_rows), kRowParts), kVocabularyThreads};
}

LaunchShape rows_of(int n_rows) {
  return {dim3(static_cast<unsigned>(n_rows)), kVocabularyThreads};
}

__global__ void __launch_bounds__(kVocabularyThreads) process_parts(ProcessLogits job) {
  __shared__ ProcessShared shared;
  start_in_turn();
  process_part(this_block(), job, shared);
}

__global__ void __launch_bounds__(kVocabularyThreads) scan_bests(MakeDistributions job) {
  __shared__ DistributionShared shared;
  start_in_turn();
  scan_best(this_block(), job, shared);
}

__global__ void __launch_bounds__(kVocabularyThreads) scan_masses(MakeDistributions job) {
  __shared__ DistributionShared shared;
  start_in_turn();
  scan_mass(this_block(), job, shared);
}

__global__ void __launch_bounds__(kVocabularyThreads) scan_gumbels(GumbelParts job) {
  __shared__ DistributionShared shared;
  start_in_turn();
  scan_gumbel(this_block(), job, shared);
}

__global__ void __launch_bounds__(kVocabularyThreads) make_distributions(MakeDistributions job) {
  __shared__ DistributionShared shared;
  start_in_turn();
  make_distribution(this_block(), job, shared);
}

__global__ void __launch_bounds__(kVocabularyThreads) draw_tokens(DrawTokens job) {
  __shared__ DistributionShared shared;
  start_in_turn();
  draw_token(this_block(), job, shared);
}

__global__ void __launch_bounds__(kVocabularyThreads) accept_proposals(Accept job) {
  __shared__ AcceptShared shared;
  start_in_turn();
  accept_proposal(this_block(), job, shared);
}

__global__ void __launch_bounds__(kVocabularyThreads) observe_rows(Observe job) {
  __shared__ ObserveShared shared;
  start_in_turn();
  observe_row(this_block(), job, shared);
}

__global__ void __launch_bounds__(kVocabularyThreads) fused_losses(FusedLoss job) {
  __shared__ LossShared shared;
  start_in_turn();
  fused_loss(this_block(), job, shared);
}

}  // namespace

cudaError_t launch_process_logits(const ProcessLogits& job, int n_rows, cudaStream_t stream) {
  return launch_early<process_parts>(parts_of(n_rows), job, stream);
}

cudaError_t launch_make_distributions(const MakeDistributions& job, int n_rows, cudaStream_t stream) {
  if (job.parts != nullptr) {
    cudaError_t error = launch_early<scan_bests>(parts_of(n_rows), job, stream);
    if (error == cudaSuccess) error = launch_early<scan_masses>(parts_of(n_rows), job, stream);
    if (error != cudaSuccess) return error;
  }
  return launch_early<make_distributions>(rows_of(n_rows), job, stream);
}

cudaError_t launch_gumbel_parts(const GumbelParts& job, int n_rows, cudaStream_t stream) {
  return launch_early<scan_gumbels>(parts_of(n_rows), job, stream);
}

cudaError_t launch_draw_tokens(const DrawTokens& job, int n_rows, cudaStream_t stream) {
  return launch_early<draw_tokens>(rows_of(n_rows), job, stream);
}

cudaError_t launch_accept(const Accept& job, int n_proposals, cudaStream_t stream) {
  return launch_early<accept_proposals>(rows_of(n_proposals), job, stream);
}

cudaError_t launch_observe(const Observe& job, int n_rows, cudaStream_t stream) {
  return launch_early<observe_rows>(rows_of(n_rows), job, stream);
}

cudaError_t launch_fused_loss(const FusedLoss& job, int n_rows, cudaStream_t stream) {
  return launch_early<fused_losses>(rows_of(n_rows), job, stream);
}

}  // namespace slip::kernels::cuda
