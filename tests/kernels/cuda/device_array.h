// SPDX-License-Identifier: Apache-2.0
// What the tests that launch kernels share: arrays in device memory, and being skipped where there is no device.
#pragma once

#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "kernels/cuda/enqueue.h"

namespace slip::kernels::cuda {

template <class T>
class DeviceArray {
 public:
  explicit DeviceArray(const std::vector<T>& values) : n_(values.size()) {
    check(cudaMalloc(&data_, std::max<std::size_t>(n_, 1) * sizeof(T)), "cudaMalloc");
    put(values);
  }
  DeviceArray(const DeviceArray&) = delete;
  DeviceArray& operator=(const DeviceArray&) = delete;
  ~DeviceArray() { cudaFree(data_); }

  T* get() const { return static_cast<T*>(data_); }
  void put(const std::vector<T>& values) {
    check(cudaMemcpy(data_, values.data(), n_ * sizeof(T), cudaMemcpyHostToDevice), "copy to the device");
  }
  std::vector<T> values() const {
    check(cudaDeviceSynchronize(), "the kernels before this copy");
    std::vector<T> out(n_);
    check(cudaMemcpy(out.data(), data_, n_ * sizeof(T), cudaMemcpyDeviceToHost), "copy from the device");
    return out;
  }

 private:
  void* data_ = nullptr;
  std::size_t n_;
};

class GpuTest : public testing::Test {
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
