// SPDX-License-Identifier: Apache-2.0
// A device as seen by what stands above the kernels: memory, copies, jobs that run in the order they were put, and
// captured sequences of jobs. StreamQueue (stream_queue.h) is the device itself; tests have one that runs every body on
// the host, so nothing above needs a device to be tested.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>

#include "kernels/cuda/jobs.h"

namespace slip::kernels::cuda {

// Jobs that replay() puts again with one call: the same operations on the same addresses, whatever stands there by
// then. Of one queue, which outlives it.
class DeviceGraph {
 public:
  virtual ~DeviceGraph() = default;
};

// Blocks of `bytes` each, `stride` bytes from one to the next.
struct StridedBlocks {
  std::size_t bytes = 0, stride = 0, count = 0;
};

// Threads: one at a time, but allocate_host() and release_host() at any time. Every call may throw DeviceFailure: a
// job's failure may first be told by a later call.
class DeviceQueue {
 public:
  virtual ~DeviceQueue() = default;

  // Checks what would read or write out of bounds (our bugs: SLIP_CHECK). All pointers are to device memory.
  void enqueue(const Job& job);
  template <class Operation>
  void enqueue(const Operation& operation, int n_rows) {
    enqueue(Job(OnRows<Operation>{operation, n_rows}));
  }
  void enqueue(const Attention& operation, const AttentionGrid& grid) { enqueue(Job(TiledAttention{operation, grid})); }

  // Device memory, whatever was there; on a border of 256 bytes. Error{kTooLarge} when the device has no more.
  virtual void* allocate(std::size_t bytes) = 0;
  virtual void release(void* memory) noexcept = 0;
  // Host memory that copies go to and from without another copy. Error{kTooLarge}.
  virtual void* allocate_host(std::size_t bytes) = 0;
  virtual void release_host(void* memory) noexcept = 0;
  virtual std::size_t free_bytes() = 0;  // that allocate() could still give, by and large

  // In order with the jobs. The host's side must stay as it is until wait().
  virtual void copy_in(void* to, const void* from, std::size_t bytes) = 0;
  virtual void copy_out(void* to, const void* from, std::size_t bytes) = 0;
  // Within device memory; blocks do not overlap.
  virtual void copy_blocks(void* to, const void* from, const StridedBlocks& blocks) = 0;
  // Until everything that was put is done.
  virtual void wait() = 0;

  // What `put_jobs` enqueues, and nothing else, becomes a graph; none of it runs. Copies are refused meanwhile. What
  // put_jobs throws goes on to the caller.
  virtual std::unique_ptr<DeviceGraph> capture(const std::function<void()>& put_jobs) = 0;
  virtual void replay(const DeviceGraph& graph) = 0;

 protected:
  // A job that was checked and has rows.
  virtual void put(const Job& job) = 0;
};

// n values of T in a queue's device memory, which it owns. The queue outlives it.
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

// The same on the host's side of copies.
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
