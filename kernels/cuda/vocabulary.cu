// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda/launch.h"

namespace slip::kernels::cuda {
namespace {

__device__ VocabularyBlock this_block() {
  return VocabularyBlock{static_cast<int>(blockIdx.x), static_cast<int>(blockIdx.y), 0};
}

dim3 parts_of(int n_rows) {
  return dim3(static_cast<unsigned>(n_rows), kRowParts);
}

__global__ void __launch_bounds__(kVocabularyThreads) process_parts(ProcessLogits job) {
  __shared__ ProcessShared shared;
  process_part(this_block(), job, shared);
}

__global__ void __launch_bounds__(kVocabularyThreads) scan_bests(MakeDistributions job) {
  __shared__ DistributionShared shared;
  scan_best(this_block(), job, shared);
}

__global__ void __launch_bounds__(kVocabularyThreads) scan_masses(MakeDistributions job) {
  __shared__ DistributionShared shared;
  scan_mass(this_block(), job, shared);
}

__global__ void __launch_bounds__(kVocabularyThreads) scan_gumbels(GumbelParts job) {
  __shared__ DistributionShared shared;
  scan_gumbel(this_block(), job, shared);
}

__global__ void __launch_bounds__(kVocabularyThreads) make_distributions(MakeDistributions job) {
  __shared__ DistributionShared shared;
  make_distribution(this_block(), job, shared);
}

__global__ void __launch_bounds__(kVocabularyThreads) draw_tokens(DrawTokens job) {
  __shared__ DistributionShared shared;
  draw_token(this_block(), job, shared);
}

__global__ void __launch_bounds__(kVocabularyThreads) accept_proposals(Accept job) {
  __shared__ AcceptShared shared;
  accept_proposal(this_block(), job, shared);
}

__global__ void __launch_bounds__(kVocabularyThreads) observe_rows(Observe job) {
  __shared__ ObserveShared shared;
  observe_row(this_block(), job, shared);
}

__global__ void __launch_bounds__(kVocabularyThreads) fused_losses(FusedLoss job) {
  __shared__ LossShared shared;
  fused_loss(this_block(), job, shared);
}

}  // namespace

cudaError_t launch_process_logits(const ProcessLogits& job, int n_rows, cudaStream_t stream) {
  process_parts<<<parts_of(n_rows), kVocabularyThreads, 0, stream>>>(job);
  return cudaGetLastError();
}

cudaError_t launch_make_distributions(const MakeDistributions& job, int n_rows, cudaStream_t stream) {
  if (job.parts != nullptr) {
    scan_bests<<<parts_of(n_rows), kVocabularyThreads, 0, stream>>>(job);
    scan_masses<<<parts_of(n_rows), kVocabularyThreads, 0, stream>>>(job);
  }
  make_distributions<<<n_rows, kVocabularyThreads, 0, stream>>>(job);
  return cudaGetLastError();
}

cudaError_t launch_gumbel_parts(const GumbelParts& job, int n_rows, cudaStream_t stream) {
  scan_gumbels<<<parts_of(n_rows), kVocabularyThreads, 0, stream>>>(job);
  return cudaGetLastError();
}

cudaError_t launch_draw_tokens(const DrawTokens& job, int n_rows, cudaStream_t stream) {
  draw_tokens<<<n_rows, kVocabularyThreads, 0, stream>>>(job);
  return cudaGetLastError();
}

cudaError_t launch_accept(const Accept& job, int n_proposals, cudaStream_t stream) {
  accept_proposals<<<n_proposals, kVocabularyThreads, 0, stream>>>(job);
  return cudaGetLastError();
}

cudaError_t launch_observe(const Observe& job, int n_rows, cudaStream_t stream) {
  observe_rows<<<n_rows, kVocabularyThreads, 0, stream>>>(job);
  return cudaGetLastError();
}

cudaError_t launch_fused_loss(const FusedLoss& job, int n_rows, cudaStream_t stream) {
  fused_losses<<<n_rows, kVocabularyThreads, 0, stream>>>(job);
  return cudaGetLastError();
}

}  // namespace slip::kernels::cuda
