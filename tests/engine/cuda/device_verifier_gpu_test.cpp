// SPDX-License-Identifier: Apache-2.0
// Verification results and observations launched: those of the host's verifier on the same device's logits.
#include "kernels/cuda/stream_queue.h"
#include "tests/engine/cuda/verified_passes.h"
#include "tests/kernels/cuda/gpu_test.h"

namespace slip {
namespace {

using GpuVerifier = kernels::cuda::GpuTest;

// A result may hang on the last bits of a logarithm that the two compute differently.
TEST_F(GpuVerifier, VerifyResultsAndObservationsAreTheHosts) {
  testing::VerifiedPasses passes(kernels::cuda::open_device());
  for (unsigned seed = 0; seed < 100; ++seed) passes.run(seed, seed % 4 == 0 ? 14 : 4, static_cast<int>(seed % 6));
  EXPECT_LE(passes.counts().different, 1);
  EXPECT_GT(passes.counts().results, 500);
  EXPECT_GT(passes.counts().accepted, 300);
}

}  // namespace
}  // namespace slip
