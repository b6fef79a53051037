// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdlib>
#include <memory>
#include <utility>
#include <vector>

namespace slip {

// Objects of one thread, freed at its end.
class ThreadObjects {
 public:
  ThreadObjects() = default;
  ~ThreadObjects() {
    for (const Entry& entry : entries_) entry.free(entry.object);
  }
  ThreadObjects(const ThreadObjects&) = delete;
  ThreadObjects& operator=(const ThreadObjects&) = delete;

  // std::bad_alloc: nothing was kept.
  template <class T>
  T* keep(std::unique_ptr<T> object) {
    entries_.push_back({object.get(), [](void* kept) { delete static_cast<T*>(kept); }});
    return object.release();
  }

  static ThreadObjects& of_this_thread() {
    thread_local ThreadObjects objects;
    return objects;
  }

 private:
  struct Entry {
    void* object;
    void (*free)(void*);
  };
  std::vector<Entry> entries_;
};

// Prepares the calling thread for the time when memory is exhausted. A thread that lives as long as the service calls
// it first. Otherwise jemalloc 5.3 ends the process (tcache_arena_associate) if the thread's first allocation fails,
// and glibc does (__cxa_thread_atexit_impl) if its first thread_local object with a destructor cannot be registered.
inline void prepare_thread_memory() noexcept {
  void* volatile memory = std::malloc(1);  // volatile: otherwise the compiler removes both calls
  std::free(memory);
  static_cast<void>(ThreadObjects::of_this_thread());
}

// An object that a function keeps from call to call, one for each thread and `Tag`; made of `arguments` in the thread's
// first call. Unlike a thread_local object of its own, it registers nothing. Errors: std::bad_alloc, T's.
template <class T, class Tag, class... Arguments>
T& thread_scratch(Arguments&&... arguments) {
  thread_local T* object = nullptr;
  if (object == nullptr) {
    object = ThreadObjects::of_this_thread().keep(std::make_unique<T>(std::forward<Arguments>(arguments)...));
  }
  return *object;
}

}  // namespace slip
