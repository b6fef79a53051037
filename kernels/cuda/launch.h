// SPDX-License-Identifier: Apache-2.0
// Launchers: each puts one operation on a stream and returns the runtime's error code. They check no bounds; callers
// use enqueue.h.
#pragma once

#include <cuda_runtime_api.h>

#include "kernels/cuda/attention.cuh"
#include "kernels/cuda/logits_processors.cuh"
#include "kernels/cuda/loss.cuh"
#include "kernels/cuda/matmul.cuh"
#include "kernels/cuda/observe.cuh"
#include "kernels/cuda/rows.cuh"
#include "kernels/cuda/sample.cuh"

namespace slip::kernels::cuda {

cudaError_t launch_embed(const Embed& job, int n_rows, cudaStream_t stream);
cudaError_t launch_rms_norm(const RmsNorm& job, int n_rows, cudaStream_t stream);
cudaError_t launch_rotate_and_store(const RotateAndStore& job, int n_rows, cudaStream_t stream);
cudaError_t launch_matmul(const Matmul& job, cudaStream_t stream);
cudaError_t launch_attention(const Attention& job, int n_tiles, cudaStream_t stream);
// Follows launch_attention() of a job that is not `whole`.
cudaError_t launch_combine_splits(const Attention& job, int n_rows, cudaStream_t stream);
cudaError_t launch_process_logits(const ProcessLogits& job, int n_rows, cudaStream_t stream);
cudaError_t launch_make_distributions(const MakeDistributions& job, int n_rows, cudaStream_t stream);
cudaError_t launch_gumbel_parts(const GumbelParts& job, int n_rows, cudaStream_t stream);
cudaError_t launch_draw_tokens(const DrawTokens& job, int n_rows, cudaStream_t stream);
cudaError_t launch_accept(const Accept& job, int n_proposals, cudaStream_t stream);
cudaError_t launch_observe(const Observe& job, int n_rows, cudaStream_t stream);
cudaError_t launch_fused_loss(const FusedLoss& job, int n_rows, cudaStream_t stream);

}  // namespace slip::kernels::cuda
