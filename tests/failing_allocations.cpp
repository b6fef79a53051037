// SPDX-License-Identifier: Apache-2.0
#include "tests/failing_allocations.h"

#include <cstddef>
#include <cstdlib>

namespace slip::testing {

std::atomic<int> until_failure{0}, n_failed{0};
std::atomic<bool> all_fail{false};
thread_local bool may_fail = true;

}  // namespace slip::testing

namespace {

using slip::testing::all_fail;
using slip::testing::may_fail;
using slip::testing::n_failed;
using slip::testing::until_failure;

bool fails_now() {
  if (all_fail.load(std::memory_order_relaxed)) return true;
  return until_failure.load(std::memory_order_relaxed) > 0 && until_failure.fetch_sub(1) == 1;
}

// Neither is inlined: GCC 12 with sanitizers takes what one gave and the other frees for a mismatch.
[[gnu::noinline]] void* allocate(std::size_t bytes, std::size_t alignment) {
  if (may_fail && fails_now()) {
    ++n_failed;
    throw std::bad_alloc();
  }
  // Not one byte more than asked for: sanitizers and Valgrind then see every access beyond the end.
  const std::size_t size = bytes == 0 ? 1 : bytes;
  void* memory = nullptr;
  if (alignment <= alignof(std::max_align_t)) {
    memory = std::malloc(size);
  } else if (::posix_memalign(&memory, alignment, size) != 0) {
    memory = nullptr;
  }
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}

[[gnu::noinline]] void release(void* memory) noexcept {
  std::free(memory);
}

}  // namespace

// For the whole of this test program. All forms, since AddressSanitizer brings its own of each.
void* operator new(std::size_t bytes) {
  return allocate(bytes, alignof(std::max_align_t));
}
void* operator new(std::size_t bytes, std::align_val_t alignment) {
  return allocate(bytes, static_cast<std::size_t>(alignment));
}
void* operator new(std::size_t bytes, const std::nothrow_t&) noexcept {
  try {
    return allocate(bytes, alignof(std::max_align_t));
  } catch (const std::bad_alloc&) {
    return nullptr;
  }
}
void* operator new(std::size_t bytes, std::align_val_t alignment, const std::nothrow_t&) noexcept {
  try {
    return allocate(bytes, static_cast<std::size_t>(alignment));
  } catch (const std::bad_alloc&) {
    return nullptr;
  }
}
void* operator new[](std::size_t bytes) {
  return ::operator new(bytes);
}
void* operator new[](std::size_t bytes, std::align_val_t alignment) {
  return ::operator new(bytes, alignment);
}
void* operator new[](std::size_t bytes, const std::nothrow_t& tag) noexcept {
  return ::operator new(bytes, tag);
}
void* operator new[](std::size_t bytes, std::align_val_t alignment, const std::nothrow_t& tag) noexcept {
  return ::operator new(bytes, alignment, tag);
}
void operator delete(void* memory) noexcept {
  release(memory);
}
void operator delete(void* memory, std::size_t) noexcept {
  release(memory);
}
void operator delete(void* memory, std::align_val_t) noexcept {
  release(memory);
}
void operator delete(void* memory, std::size_t, std::align_val_t) noexcept {
  release(memory);
}
void operator delete(void* memory, const std::nothrow_t&) noexcept {
  release(memory);
}
void operator delete(void* memory, std::align_val_t, const std::nothrow_t&) noexcept {
  release(memory);
}
void operator delete[](void* memory) noexcept {
  release(memory);
}
void operator delete[](void* memory, std::size_t) noexcept {
  release(memory);
}
void operator delete[](void* memory, std::align_val_t) noexcept {
  release(memory);
}
void operator delete[](void* memory, std::size_t, std::align_val_t) noexcept {
  release(memory);
}
void operator delete[](void* memory, const std::nothrow_t&) noexcept {
  release(memory);
}
void operator delete[](void* memory, std::align_val_t, const std::nothrow_t&) noexcept {
  release(memory);
}
