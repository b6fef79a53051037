// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>

namespace slip {

enum class Dtype : std::uint8_t { kFloat32, kBFloat16, kFloat16 };
enum class Device : std::uint8_t { kCpu, kCuda };

constexpr std::size_t dtype_bytes(Dtype dtype) {
  return dtype == Dtype::kFloat32 ? 4 : 2;
}

// A non-owning, possibly strided view of a tensor of at most four dimensions; strides count elements. The engine's only
// tensor type: no LibTorch type appears in an engine signature.
struct TensorView {
  static constexpr int kMaxDims = 4;

  void* data = nullptr;
  std::array<std::int64_t, kMaxDims> shape{};
  std::array<std::int64_t, kMaxDims> strides{};
  int n_dims = 0;
  Dtype dtype = Dtype::kFloat32;
  Device device = Device::kCpu;

  static TensorView contiguous(void* data, std::initializer_list<std::int64_t> shape, Dtype dtype = Dtype::kFloat32,
                               Device device = Device::kCpu) {
    TensorView view;
    view.data = data;
    view.dtype = dtype;
    view.device = device;
    view.n_dims = static_cast<int>(shape.size());
    int dim = 0;
    for (std::int64_t extent : shape) view.shape[dim++] = extent;
    std::int64_t stride = 1;
    for (dim = view.n_dims - 1; dim >= 0; --dim) {
      view.strides[dim] = stride;
      stride *= view.shape[dim];
    }
    return view;
  }

  template <class T>
  T* row(std::int64_t index) const {
    return static_cast<T*>(data) + index * strides[0];
  }
};

}  // namespace slip
