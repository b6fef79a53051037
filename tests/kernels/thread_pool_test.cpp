// SPDX-License-Identifier: Apache-2.0
#include "kernels/thread_pool.h"

#include <gtest/gtest.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <ctime>
#include <iterator>
#include <set>
#include <span>
#include <thread>
#include <vector>

#include "common/thread_priority.h"
#include "tests/common/core_time.h"
#include "tests/failing_allocations.h"

namespace slip::kernels {
namespace {

TEST(ThreadPool, RunsEveryIndexOnce) {
  for (const int n_threads : {1, 2, 3, 8}) {
    ThreadPool pool(n_threads);
    EXPECT_EQ(pool.n_threads(), n_threads);
    for (const std::size_t n : {0, 1, 2, 7, 1000}) {
      std::vector<int> counts(n, 0);  // plain: two workers on one index would be a race
      std::atomic<int> stray{0};
      pool.parallel_for(n, [&](std::size_t index, int worker) {
        ++counts[index];
        if (worker < 0 || worker >= n_threads) ++stray;
      });
      EXPECT_EQ(counts, std::vector<int>(n, 1)) << n_threads << " threads";
      EXPECT_EQ(stray, 0);
    }
  }
}

TEST(ThreadPool, AtLeastOneThreadWhateverIsAskedFor) {
  ThreadPool pool(0);
  int sum = 0;
  pool.parallel_for(4, [&](std::size_t index, int) { sum += static_cast<int>(index); });
  EXPECT_EQ(sum, 6);
}

// What one loop wrote, the next one reads on whichever worker: the end of a loop orders everything in it before all
// that follows.
TEST(ThreadPool, ALoopSeesWhatTheOneBeforeWrote) {
  ThreadPool pool(3);
  std::vector<int> values(64, 0), next(64, 0);
  for (int round = 0; round < 500; ++round) {
    pool.parallel_for(64, [&](std::size_t index, int) { next[index] = values[(index + 17) % 64] + 1; });
    values.swap(next);
  }
  EXPECT_EQ(values, std::vector<int>(64, 500));
}

TEST(ThreadPool, WakesWorkersThatWentToSleep) {
  ThreadPool pool(2);
  for (int round = 0; round < 5; ++round) {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    // Each index waits for the other: done only if two workers run at once.
    std::atomic<int> arrived{0};
    pool.parallel_for(2, [&](std::size_t, int) {
      ++arrived;
      while (arrived < 2) std::this_thread::yield();
    });
    EXPECT_EQ(arrived, 2);
  }
}

TEST(ThreadPool, StretchesCoverEveryIndexOnceAndShrink) {
  ThreadPool pool(3);
  for (const std::size_t n : {0, 1, 2, 7, 100, 4096}) {
    std::vector<std::atomic<int>> seen(n);
    std::atomic<std::size_t> longest{0};
    pool.parallel_stretches(n, [&](std::size_t begin, std::size_t end, int worker) {
      EXPECT_LT(begin, end);
      EXPECT_LT(worker, 3);
      for (std::size_t i = begin; i < end; ++i) ++seen[i];
      for (std::size_t old = longest; old < end - begin && !longest.compare_exchange_weak(old, end - begin);) {
      }
    });
    for (std::size_t i = 0; i < n; ++i) ASSERT_EQ(seen[i], 1) << i << " of " << n;
    if (n >= 100) {
      EXPECT_EQ(longest, n / 6);
    }
  }
}

TEST(ThreadPool, WorkersAreThreadsOfTheirOwnAndTheCallerTakesPart) {
  ThreadPool pool(2);
  std::atomic<int> arrived{0};
  std::vector<std::thread::id> ids(2);
  std::vector<int> workers(2, -1);
  pool.parallel_for(2, [&](std::size_t index, int worker) {
    ids[index] = std::this_thread::get_id();
    workers[index] = worker;
    ++arrived;
    while (arrived < 2) std::this_thread::yield();
  });
  EXPECT_EQ(std::set<int>(workers.begin(), workers.end()), (std::set<int>{0, 1}));
  EXPECT_NE(ids[0], ids[1]);
  EXPECT_EQ(ids[workers[0] == 0 ? 0 : 1], std::this_thread::get_id());
}

// ---- fewer threads ----

// The CPU time that the calling thread has used, in µs.
std::int64_t cpu_time_us() {
  return testing::clock_us(CLOCK_THREAD_CPUTIME_ID);
}

// The workers that took part in a loop which every worker in use has to enter.
std::set<int> workers_of_a_loop(ThreadPool& pool) {
  const int n = pool.n_used();
  std::vector<std::atomic<int>> ran(static_cast<std::size_t>(pool.n_threads()));
  std::atomic<int> arrived{0};
  pool.parallel_for(static_cast<std::size_t>(n), [&](std::size_t, int worker) {
    ++ran[static_cast<std::size_t>(worker)];
    ++arrived;
    while (arrived < n) std::this_thread::yield();
  });
  std::set<int> workers;
  for (std::size_t worker = 0; worker < ran.size(); ++worker) {
    if (ran[worker] > 0) workers.insert(static_cast<int>(worker));
  }
  return workers;
}

TEST(ThreadPoolUse, TheFirstWorkersRunTheLoopsThatFollow) {
  ThreadPool pool(3);
  EXPECT_EQ(pool.n_used(), 3);
  const std::set<int> all{0, 1, 2};
  for (int round = 0; round < 100; ++round) {
    pool.use_threads(1);
    EXPECT_EQ(workers_of_a_loop(pool), std::set<int>{0});
    pool.use_threads(3);
    EXPECT_EQ(workers_of_a_loop(pool), all);
    // A worker that was told to sleep may still enter one loop, so that two workers need not be 0 and 1.
    pool.use_threads(2);
    EXPECT_EQ(workers_of_a_loop(pool).size(), 2U);
  }
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  EXPECT_EQ(workers_of_a_loop(pool), (std::set<int>{0, 1}));
}

TEST(ThreadPoolUse, IsClampedToTheTeam) {
  ThreadPool pool(2);
  pool.use_threads(0);
  EXPECT_EQ(pool.n_used(), 1);
  pool.use_threads(9);
  EXPECT_EQ(pool.n_used(), 2);
  EXPECT_EQ(pool.n_threads(), 2);
}

TEST(ThreadPoolUse, EveryIndexRunsOnceWhateverIsInUse) {
  ThreadPool pool(4);
  for (int round = 0; round < 300; ++round) {
    pool.use_threads(1 + round % 4);
    std::vector<std::atomic<int>> seen(50);
    pool.parallel_stretches(50, [&](std::size_t begin, std::size_t end, int) {
      for (std::size_t i = begin; i < end; ++i) ++seen[i];
    });
    for (const std::atomic<int>& count : seen) ASSERT_EQ(count, 1);
  }
}

// The learner gives the engine its cores back in the middle of a step.
TEST(ThreadPoolUse, AnotherThreadMaySetItWhileLoopsRun) {
  ThreadPool pool(4);
  std::atomic<bool> done{false};
  std::thread other([&] {
    for (int round = 0; !done; ++round) pool.use_threads(1 + round % 4);
  });
  for (int round = 0; round < 2'000; ++round) {
    std::vector<std::atomic<int>> seen(50);
    pool.parallel_stretches(50, [&](std::size_t begin, std::size_t end, int) {
      for (std::size_t i = begin; i < end; ++i) ++seen[i];
    });
    for (const std::atomic<int>& count : seen) EXPECT_EQ(count, 1);
  }
  done = true;
  other.join();
}

// The CPU time of a pool's second worker over 200 ms of loops 20 µs apart, in µs: an idle worker spins between them.
std::int64_t second_workers_time_us(int n_used) {
  ThreadPool pool(2);
  std::atomic<clockid_t> clock{};
  std::atomic<int> arrived{0};
  pool.parallel_for(2, [&](std::size_t, int worker) {
    clockid_t mine{};
    if (worker == 1 && ::pthread_getcpuclockid(::pthread_self(), &mine) == 0) clock = mine;
    ++arrived;
    while (arrived < 2) std::this_thread::yield();
  });
  pool.use_threads(n_used);
  const std::int64_t before_us = testing::clock_us(clock);
  const std::int64_t end_us = cpu_time_us() + 200'000;
  while (cpu_time_us() < end_us) {
    const std::int64_t next_us = cpu_time_us() + 20;
    pool.parallel_for(2, [&](std::size_t, int) {});
    while (cpu_time_us() < next_us) {
    }
  }
  return testing::clock_us(clock) - before_us;
}

TEST(ThreadPoolUse, AnUnusedWorkerSleeps) {
  EXPECT_LT(second_workers_time_us(1), 10'000);
}

TEST(ThreadPoolUse, NegativeAUsedWorkerSpins) {
  EXPECT_GT(second_workers_time_us(2), 20'000);
}

TEST(ThreadPoolPins, ACoreEachBeforeAnybodySharesOne) {
  const std::vector<AllowedCpu> neighbours{{2, 0}, {3, 1}, {4, 0}, {5, 1}, {9, 0}};
  EXPECT_EQ(plan_pins(neighbours, 1), (std::vector<int>{2}));
  EXPECT_EQ(plan_pins(neighbours, 3), (std::vector<int>{2, 4, 9}));
  EXPECT_EQ(plan_pins(neighbours, 5), (std::vector<int>{2, 4, 9, 3, 5}));
  EXPECT_EQ(plan_pins(neighbours, 6), std::vector<int>{});
  EXPECT_EQ(plan_pins({}, 1), std::vector<int>{});
}

// Bug: the workers before one that could not be pinned stayed pinned, in a pool that said it was not.
TEST(ThreadPoolPins, NobodyStaysPinnedIfOneCannotBe) {
  const std::vector<AllowedCpu> allowed{{2, 0}, {3, 0}, {4, 0}, {5, 0}};
  for (int refused = 0; refused < 4; ++refused) {
    std::vector<std::vector<int>> cpus(4, {2, 3, 4, 5});
    const auto keep_to = [&](int worker, std::span<const int> to) {
      if (worker == refused) return false;
      cpus[static_cast<std::size_t>(worker)].assign(to.begin(), to.end());
      return true;
    };
    EXPECT_EQ(pin_all_or_none(allowed, 4, keep_to), std::vector<int>{});
    EXPECT_EQ(cpus, (std::vector<std::vector<int>>(4, {2, 3, 4, 5}))) << "worker " << refused << " was refused";
    EXPECT_EQ(pin_all_or_none(allowed, refused, keep_to).size(), static_cast<std::size_t>(refused));
  }
}

std::vector<int> own_cpus() {
  std::vector<int> cpus;
  for (const AllowedCpu& allowed : allowed_cpus()) cpus.push_back(allowed.cpu);
  return cpus;
}

TEST(ThreadPoolPins, EachWorkerStaysOnItsOwnCpuAndTheCallerIsAsked) {
  const std::vector<int> mine = own_cpus();
  const auto n = static_cast<int>(std::min<std::size_t>(mine.size(), 4));
  // In a thread of its own, which may be pinned without harm to the tests that follow.
  std::thread([&] {
    ThreadPool pool(n, Pinning::kOwnCpus);
    EXPECT_TRUE(pool.is_pinned());
    EXPECT_EQ(own_cpus(), mine) << "the constructor left the caller alone";
    EXPECT_TRUE(pool.pin_caller());
    std::vector<std::vector<int>> cpus(static_cast<std::size_t>(n));
    std::atomic<int> arrived{0};
    pool.parallel_for(static_cast<std::size_t>(n), [&](std::size_t, int worker) {
      cpus[static_cast<std::size_t>(worker)] = own_cpus();
      ++arrived;
      while (arrived < n) std::this_thread::yield();
    });
    std::set<int> taken;
    for (const auto& of_worker : cpus) {
      ASSERT_EQ(of_worker.size(), 1U);
      taken.insert(of_worker.front());
    }
    EXPECT_EQ(std::ssize(taken), n);
  }).join();
}

TEST(ThreadPoolPins, NobodyIsPinnedWhenThereAreMoreThreadsThanCpusOrNobodyAsked) {
  const std::vector<int> mine = own_cpus();
  const auto n = static_cast<int>(mine.size());
  const ThreadPool crowded(n + 1, Pinning::kOwnCpus), plain(n);
  for (const ThreadPool* pool : {&crowded, &plain}) {
    EXPECT_FALSE(pool->is_pinned());
    EXPECT_FALSE(pool->pin_caller());
    EXPECT_EQ(own_cpus(), mine);
  }
}

// Lets sched_setaffinity fail in this thread and in those that it starts, as some containers do. False: it cannot.
bool forbid_affinity() {
  sock_filter filter[] = {BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
                          BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_sched_setaffinity, 0, 1),
                          BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
                          BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)};
  const sock_fprog program{std::size(filter), filter};
  return ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 && ::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

// Bug: the pool counted as pinned all the same, so its caller never yielded the CPU that it had to share with workers.
TEST(ThreadPoolPins, NobodyIsPinnedWhereTheMachineForbidsIt) {
  if (allowed_cpus().size() < 2) GTEST_SKIP() << "needs two CPUs";
  const std::vector<int> mine = own_cpus();
  bool is_forbidden = false;
  std::thread([&] {
    const ThreadPool before(2, Pinning::kOwnCpus);
    is_forbidden = forbid_affinity();
    if (!is_forbidden) return;
    EXPECT_TRUE(before.is_pinned());
    EXPECT_FALSE(before.pin_caller());
    for (const int n_threads : {1, 2}) {  // the only worker of a pool is its caller, whom nobody had tried to pin
      const ThreadPool after(n_threads, Pinning::kOwnCpus);
      EXPECT_FALSE(after.is_pinned());
      EXPECT_FALSE(after.pin_caller());
    }
    EXPECT_EQ(own_cpus(), mine);
  }).join();
  if (!is_forbidden) GTEST_SKIP() << "needs seccomp";
}

// The CPU time that an idle thread on the caller's CPU gets while the caller waits 100 times 2 ms for a worker on
// another CPU, in µs.
std::int64_t idle_threads_time_us(bool pinned) {
  constexpr int kLoops = 100;
  constexpr std::int64_t kWorkUs = 2000;
  std::int64_t used_us = 0;
  std::thread([&] {  // may be pinned without harm to the tests that follow
    const std::vector<AllowedCpu> allowed = allowed_cpus();
    ThreadPool pool(2, Pinning::kOwnCpus);
    if (!pinned || !pool.pin_caller()) testing::keep_caller_to(allowed.front().cpu);
    std::atomic<bool> done{false};
    std::thread idle([&] {
      set_idle_priority();
      while (!done.load(std::memory_order_relaxed)) {
      }
    });
    const std::int64_t before_us = testing::thread_time_us(idle.native_handle());
    for (int loop = 0; loop < kLoops; ++loop) {
      std::atomic<bool> arrived{false};
      pool.parallel_for(2, [&](std::size_t, int worker) {
        if (worker == 0) {
          while (!arrived.load(std::memory_order_relaxed)) {
          }
          return;
        }
        arrived = true;
        const std::int64_t end_us = cpu_time_us() + kWorkUs;
        while (cpu_time_us() < end_us) {
        }
      });
    }
    used_us = testing::thread_time_us(idle.native_handle()) - before_us;
    done = true;
    idle.join();
  })
      .join();
  return used_us;
}

TEST(ThreadPoolPins, APinnedCallerThatWaitsKeepsItsCpu) {
  if (allowed_cpus().size() < 2) GTEST_SKIP() << "needs two CPUs";
  EXPECT_LT(idle_threads_time_us(/*pinned=*/true), 40'000);
}

TEST(ThreadPoolPins, NegativeACallerThatIsNotPinnedYields) {
  if (allowed_cpus().size() < 2) GTEST_SKIP() << "needs two CPUs";
  std::int64_t most_us = 0;  // of five tries: other programs take what is yielded too
  for (int i = 0; i < 5 && most_us <= 60'000; ++i) most_us = std::max(most_us, idle_threads_time_us(/*pinned=*/false));
  EXPECT_GT(most_us, 60'000);
}

// Bug: if a later thread could not be started, the constructor joined the earlier ones, which had no word to stop, for
// ever.
TEST(ThreadPool, AThreadThatCannotBeStartedEndsThoseBefore) {
  EXPECT_GE(testing::fail_each([] { ThreadPool pool(4); }), 4) << "the pool and three threads allocate";
  EXPECT_GT(testing::fail_each([] { const ThreadPool pool(3, Pinning::kOwnCpus); }), 3);
}

TEST(ThreadPool, EndsWhileWorkersSpinOrSleep) {
  for (int round = 0; round < 50; ++round) {
    ThreadPool pool(4);
    if (round % 2 == 0) pool.parallel_for(8, [](std::size_t, int) {});
    if (round % 10 == 0) std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
}

}  // namespace
}  // namespace slip::kernels
