// SPDX-License-Identifier: Apache-2.0
// The base of tests that launch kernels: they are skipped on a machine without a device.
#pragma once

#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include "kernels/cuda/device_array.h"

namespace slip::kernels::cuda {

class GpuTest : public ::testing::Test {
 protected:
  void SetUp() override {
    int n_devices = 0;
    const cudaError_t error = cudaGetDeviceCount(&n_devices);
    if (error != cudaSuccess || n_devices == 0) {
      GTEST_SKIP() << "no CUDA device here: " << cudaGetErrorString(error);
    }
  }
};

}  // namespace slip::kernels::cuda
