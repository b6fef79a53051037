// SPDX-License-Identifier: Apache-2.0
#include "common/thread_priority.h"

#include <gtest/gtest.h>
#include <sched.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <thread>

namespace slip {
namespace {

// What sched_getattr(2) says of the calling thread.
struct Settings {
  int policy = 0, nice = 0;
  std::uint64_t slice_ns = 0;  // 0 before Linux 6.12
  bool operator==(const Settings&) const = default;
};

Settings settings() {
  std::array<std::uint32_t, 12> words{};
  EXPECT_EQ(::syscall(SYS_sched_getattr, 0, words.data(), sizeof words, 0U), 0);
  Settings found{.policy = static_cast<int>(words[1]), .nice = static_cast<int>(words[4])};
  std::memcpy(&found.slice_ns, &words[6], sizeof found.slice_ns);
  return found;
}

template <class Body>
void on_a_thread(const Body& body) {
  std::thread(body).join();
}

TEST(ThreadPriority, ShortSlicesAreInheritedUntilAThreadIsNiced) {
  on_a_thread([] {
    const Settings usual = settings();
    if (usual.slice_ns == 0) GTEST_SKIP() << "Linux before 6.12 has no slices to ask for";
    ask_for_short_slices();
    EXPECT_EQ(settings(), (Settings{SCHED_OTHER, usual.nice, 100'000}));
    on_a_thread([&] {
      EXPECT_EQ(settings().slice_ns, 100'000U);
      const int nicer = std::max(5, usual.nice);  // the test itself may be niced
      set_nice(nicer);
      EXPECT_EQ(settings(), (Settings{SCHED_OTHER, nicer, usual.slice_ns}));
      ask_for_short_slices();
      EXPECT_EQ(settings(), (Settings{SCHED_OTHER, nicer, 100'000})) << "the nice level stays";
    });
    EXPECT_EQ(settings().slice_ns, 100'000U) << "a setting is of one thread";
  });
}

TEST(ThreadPriority, IdlePriorityIsInherited) {
  on_a_thread([] {
    ask_for_short_slices();
    ASSERT_TRUE(set_idle_priority());
    ask_for_short_slices();
    EXPECT_EQ(settings().policy, SCHED_IDLE) << "the policy stays";
    on_a_thread([] { EXPECT_EQ(settings().policy, SCHED_IDLE); });
  });
  EXPECT_EQ(settings().policy, SCHED_OTHER);
}

}  // namespace
}  // namespace slip
