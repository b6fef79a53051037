// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>

#include "kernels/cuda/device_queue.h"

namespace slip {

// The offset of a table of T in DeviceTables.
template <class T>
struct TablePlace {
  std::size_t at = 0;  // bytes
  std::size_t end(std::size_t n) const { return at + n * sizeof(T); }
};

// Places tables one after the other, aligned to 16 bytes.
struct TableLayout {
  std::size_t bytes = 0;

  template <class T>
  TablePlace<T> take(std::size_t n) {
    constexpr std::size_t kBorder = 16;
    const TablePlace<T> place{bytes};
    bytes += (n * sizeof(T) + kBorder - 1) / kBorder * kBorder;
    return place;
  }
};

// Tables that are written on the host and read on a device, at fixed addresses. Threads: those of the queue, which
// outlives them.
class DeviceTables {
 public:
  // Zeroed on the host, since unwritten parts are copied too. Error{kTooLarge}.
  DeviceTables(kernels::cuda::DeviceQueue& queue, std::size_t bytes)
      : queue_(&queue), host_(queue, bytes), device_(queue, bytes) {
    std::fill_n(host_.get(), bytes, std::byte{0});
  }

  template <class T>
  T* on_host(const TablePlace<T>& table) const {
    return reinterpret_cast<T*>(host_.get() + table.at);
  }
  template <class T>
  const T* on_device(const TablePlace<T>& table) const {
    return reinterpret_cast<const T*>(device_.get() + table.at);
  }
  // Enqueues the copy of these bytes to the device; they must not change until it is done.
  void put(std::size_t begin, std::size_t end) const {
    queue_->copy_in(device_.get() + begin, host_.get() + begin, end - begin);
  }

 private:
  kernels::cuda::DeviceQueue* queue_;
  kernels::cuda::CopyMemory<std::byte> host_;
  kernels::cuda::DeviceMemory<std::byte> device_;
};

}  // namespace slip
