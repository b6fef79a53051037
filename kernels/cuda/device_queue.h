// SPDX-License-Identifier: Apache-2.0
// The interface of a device for the layers above the kernels: memory, copies, jobs that run in order, and captured
// graphs. StreamQueue (stream_queue.h) is the real device. Tests use a queue that runs all jobs on the host, so the
// layers above are tested without a device.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>

#include "kernels/cuda/jobs.h"

namespace slip::kernels::cuda {

// Captured jobs that replay() enqueues with one call: the same operations on the same addresses, with their content at
// that time. Belongs to one queue, which must outlive it.
class DeviceGraph {
 public:
  virtual ~DeviceGraph() = default;
};

// Equally spaced blocks: `bytes` each, `stride` bytes from one start to the next.
struct StridedBlocks {
  std::size_t bytes = 0, stride = 0, count = 0;
};

// Threads: one at a time, except that allocate_host() and release_host() may be called at any time. Every call may
// throw DeviceFailure; a job's failure may surface in a later call.
class DeviceQueue {
 public:
  virtual ~DeviceQueue() = default;

  // SLIP_CHECKs that the job stays in bounds. All pointers are to device memory.
  void enqueue(const Job& job);
  template <class Operation>
  void enqueue(const Operation& operation, int n_rows) {
    enqueue(Job(OnRows<Operation>{operation, n_rows}));
  }
  void enqueue(const Attention& operation, const AttentionGrid& grid) { enqueue(Job(TiledAttention{operation, grid})); }

  // Uninitialized device memory, aligned to 256 bytes. Error{kTooLarge} when the device has no more.
  virtual void* allocate(std::size_t bytes) = 0;
  virtual void release(void* memory) noexcept = 0;
  // Pinned host memory, for copies without a staging buffer. Error{kTooLarge}.
  virtual void* allocate_host(std::size_t bytes) = 0;
  virtual void release_host(void* memory) noexcept = 0;
  virtual std::size_t free_bytes() = 0;  // an estimate of what allocate() can still return

  // Copies run in order with the jobs. The host buffer must not change until wait().
  virtual void copy_in(void* to, const void* from, std::size_t bytes) = 0;
  virtual void copy_out(void* to, const void* from, std::size_t bytes) = 0;
  // Copies within device memory. The blocks must not overlap.
  virtual void copy_blocks(void* to, const void* from, const StridedBlocks& blocks) = 0;
  // Waits until all enqueued work is done.
  virtual void wait() = 0;

  // Records the jobs that `put_jobs` enqueues as a graph, without running them. Copies are refused meanwhile.
  // Exceptions of put_jobs pass to the caller.
  virtual std::unique_ptr<DeviceGraph> capture(const std::function<void()>& put_jobs) = 0;
  virtual void replay(const DeviceGraph& graph) = 0;

 protected:
  // Enqueues a job that passed the checks and has rows.
  virtual void put(const Job& job) = 0;
};

// An owned array of n values in a queue's device memory. The queue must outlive it.
template <class T>
class DeviceMemory {
 public:
  DeviceMemory(DeviceQueue& queue, std::size_t n) : memory_(queue.allocate(n * sizeof(T)), Release{&queue}), n_(n) {}

  T* get() const { return static_cast<T*>(memory_.get()); }
  std::size_t size() const { return n_; }

 private:
  struct Release {
    DeviceQueue* queue;
    void operator()(void* memory) const { queue->release(memory); }
  };
  std::unique_ptr<void, Release> memory_;
  std::size_t n_;
};

// The same in pinned host memory.
template <class T>
class CopyMemory {
 public:
  CopyMemory(DeviceQueue& queue, std::size_t n) : memory_(queue.allocate_host(n * sizeof(T)), Release{&queue}), n_(n) {}

  T* get() const { return static_cast<T*>(memory_.get()); }
  std::size_t size() const { return n_; }

 private:
  struct Release {
    DeviceQueue* queue;
    void operator()(void* memory) const { queue->release_host(memory); }
  };
  std::unique_ptr<void, Release> memory_;
  std::size_t n_;
};

}  // namespace slip::kernels::cuda
