// SPDX-License-Identifier: Apache-2.0
// The kernels for the architecture's baseline CPU.
#include "kernels/activations_body.h"
#include "kernels/attention_body.h"
#include "kernels/elementwise_body.h"
#include "kernels/isa_tables.h"
#include "kernels/matmul_body.h"
#include "kernels/training_body.h"

namespace slip::kernels {

const KernelTable kScalarKernels = {.matmul_f32 = matmul_tile<Float32Step>,
                                    .matmul_bf16 = matmul_tile<WidenedPairStep>,
                                    .f32_tile_rows = kTileRows,
                                    .bf16_tile_rows = kTileRows,
                                    .f32_stretch = kStretch,
                                    .bf16_stretch = kStretch,
                                    .bf16_rows = widened_rows,
                                    .bf16_pair_bytes = WidenedPairStep::kStepBytes,
                                    .attention = attention_tile,
                                    .rms_norm = rms_norm_lanes,
                                    .rope = rope_lanes,
                                    .silu_multiply = silu_multiply_lanes,
                                    .add = add_lanes,
                                    .argmax = argmax_lanes,
                                    .to_bf16 = to_bf16_lanes,
                                    .rms_norm_back = rms_norm_back_lanes,
                                    .silu_multiply_back = silu_multiply_back_lanes,
                                    .dense_attention = dense_attention_lanes,
                                    .dense_attention_back = dense_attention_back_lanes};

}  // namespace slip::kernels
