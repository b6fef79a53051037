// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda/launch.h"

namespace slip::kernels::cuda {
namespace {

__device__ LawBlock this_block() {
  return LawBlock{static_cast<int>(blockIdx.x), static_cast<int>(blockIdx.y), 0};
}

dim3 parts_of(int n_rows) {
  return dim3(static_cast<unsigned>(n_rows), kRowParts);
}

__global__ void __launch_bounds__(kLawThreads) edit_parts(EditLogits job) {
  __shared__ EditShared shared;
  edit_part(this_block(), job, shared);
}

__global__ void __launch_bounds__(kLawThreads) scan_bests(MakeLaws job) {
  __shared__ LawShared shared;
  scan_best(this_block(), job, shared);
}

__global__ void __launch_bounds__(kLawThreads) scan_masses(MakeLaws job) {
  __shared__ LawShared shared;
  scan_mass(this_block(), job, shared);
}

__global__ void __launch_bounds__(kLawThreads) scan_gumbels(GumbelParts job) {
  __shared__ LawShared shared;
  scan_gumbel(this_block(), job, shared);
}

__global__ void __launch_bounds__(kLawThreads) make_laws(MakeLaws job) {
  __shared__ LawShared shared;
  make_law(this_block(), job, shared);
}

__global__ void __launch_bounds__(kLawThreads) draw_tokens(DrawTokens job) {
  __shared__ LawShared shared;
  draw_token(this_block(), job, shared);
}

__global__ void __launch_bounds__(kLawThreads) accept_proposals(Accept job) {
  __shared__ AcceptShared shared;
  accept_proposal(this_block(), job, shared);
}

__global__ void __launch_bounds__(kLawThreads) observe_rows(Observe job) {
  __shared__ ObserveShared shared;
  observe_row(this_block(), job, shared);
}

__global__ void __launch_bounds__(kLawThreads) fused_losses(FusedLoss job) {
  __shared__ LossShared shared;
  fused_loss(this_block(), job, shared);
}

}  // namespace

cudaError_t launch_edit_logits(const EditLogits& job, int n_rows, cudaStream_t stream) {
  edit_parts<<<parts_of(n_rows), kLawThreads, 0, stream>>>(job);
  return cudaGetLastError();
}

cudaError_t launch_make_laws(const MakeLaws& job, int n_rows, cudaStream_t stream) {
  if (job.parts != nullptr) {
    scan_bests<<<parts_of(n_rows), kLawThreads, 0, stream>>>(job);
    scan_masses<<<parts_of(n_rows), kLawThreads, 0, stream>>>(job);
  }
  make_laws<<<n_rows, kLawThreads, 0, stream>>>(job);
  return cudaGetLastError();
}

cudaError_t launch_gumbel_parts(const GumbelParts& job, int n_rows, cudaStream_t stream) {
  scan_gumbels<<<parts_of(n_rows), kLawThreads, 0, stream>>>(job);
  return cudaGetLastError();
}

cudaError_t launch_draw_tokens(const DrawTokens& job, int n_rows, cudaStream_t stream) {
  draw_tokens<<<n_rows, kLawThreads, 0, stream>>>(job);
  return cudaGetLastError();
}

cudaError_t launch_accept(const Accept& job, int n_proposals, cudaStream_t stream) {
  accept_proposals<<<n_proposals, kLawThreads, 0, stream>>>(job);
  return cudaGetLastError();
}

cudaError_t launch_observe(const Observe& job, int n_rows, cudaStream_t stream) {
  observe_rows<<<n_rows, kLawThreads, 0, stream>>>(job);
  return cudaGetLastError();
}

cudaError_t launch_fused_loss(const FusedLoss& job, int n_rows, cudaStream_t stream) {
  fused_losses<<<n_rows, kLawThreads, 0, stream>>>(job);
  return cudaGetLastError();
}

}  // namespace slip::kernels::cuda
