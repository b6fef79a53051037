// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <functional>
#include <future>
#include <memory>
#include <mutex>
#include <utility>

namespace slip {

// Calls into state that one thread owns: the owner runs them between two pieces of its work, and the caller waits. So
// the state needs no mutex, which a thread of low priority could hold while it gets no time. While no thread owns the
// state, a call runs on the caller's thread. Threads: call() any; the rest only the owner.
class OwnerCalls {
 public:
  // `wake` ends the owner's sleep; any thread.
  explicit OwnerCalls(std::function<void()> wake) : wake_(std::move(wake)) {}

  // Returns what `work` returns, and throws what it throws. Waits for earlier calls.
  template <class Work>
  auto call(Work work) -> decltype(work()) {
    const std::lock_guard one_at_a_time(callers_);
    std::packaged_task<decltype(work())()> task(std::move(work));
    auto result = task.get_future();
    waiting_.store(new Task([task = std::move(task)]() mutable { task(); }));
    if (owned_.load()) {
      wake_();
    } else {
      serve();
    }
    return result.get();
  }

  void begin() {  // waits for a call that runs on its caller's thread
    const std::lock_guard no_caller(callers_);
    owned_.store(true);
  }
  void serve() {
    if (const std::unique_ptr<Task> task{waiting_.exchange(nullptr)}) (*task)();
  }
  // The owner's last use of its state comes before this.
  void end() {
    owned_.store(false);
    serve();  // a call that still saw an owner; either side may find it, the exchange gives it to one
  }

 private:
  using Task = std::packaged_task<void()>;

  const std::function<void()> wake_;
  std::mutex callers_;
  std::atomic<bool> owned_{false};
  std::atomic<Task*> waiting_{nullptr};  // at most one, since callers take turns
};

}  // namespace slip
