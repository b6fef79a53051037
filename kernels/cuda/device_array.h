// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_runtime_api.h>

#include <algorithm>
#include <cstddef>
#include <vector>

#include "kernels/cuda/enqueue.h"

namespace slip::kernels::cuda {

// An owned array of n values in device memory. Copies wait for earlier work on the default stream, values() for the
// whole device. Throws DeviceFailure. Threads: one at a time.
template <class T>
class DeviceArray {
 public:
  explicit DeviceArray(std::size_t n) : n_(n) {  // uninitialized
    check(cudaMalloc(&data_, std::max<std::size_t>(n, 1) * sizeof(T)), "cudaMalloc");
  }
  explicit DeviceArray(const std::vector<T>& values) : DeviceArray(values.size()) { put(values); }
  DeviceArray(const DeviceArray&) = delete;
  DeviceArray& operator=(const DeviceArray&) = delete;
  ~DeviceArray() { cudaFree(data_); }

  T* get() const { return static_cast<T*>(data_); }
  std::size_t bytes() const { return n_ * sizeof(T); }
  void put(const std::vector<T>& values) {
    check(cudaMemcpy(data_, values.data(), n_ * sizeof(T), cudaMemcpyHostToDevice), "copy to the device");
  }
  std::vector<T> values() const { return values(n_); }
  // The first n values.
  std::vector<T> values(std::size_t n) const {
    check(cudaDeviceSynchronize(), "the kernels before this copy");
    std::vector<T> out(n);
    check(cudaMemcpy(out.data(), data_, n * sizeof(T), cudaMemcpyDeviceToHost), "copy from the device");
    return out;
  }

 private:
  void* data_ = nullptr;
  std::size_t n_;
};

}  // namespace slip::kernels::cuda
