// SPDX-License-Identifier: Apache-2.0
// CPU times of threads and cores, for tests of core sharing. Their ratios are valid on a loaded machine too.
#pragma once

#include <pthread.h>
#include <sched.h>

#include <cstdint>
#include <ctime>
#include <fstream>
#include <string>
#include <vector>

namespace slip::testing {

inline std::int64_t clock_us(clockid_t clock) {
  timespec time{};
  ::clock_gettime(clock, &time);
  return time.tv_sec * 1'000'000 + time.tv_nsec / 1000;
}

inline std::int64_t thread_time_us(pthread_t thread) {
  clockid_t clock{};
  return ::pthread_getcpuclockid(thread, &clock) == 0 ? clock_us(clock) : 0;
}

// The idle time of one CPU since the machine started, by /proc/stat: user, nice, system, idle, … in 10 ms; -1: unknown.
inline std::int64_t idle_us(int cpu) {
  std::ifstream file("/proc/stat");
  const std::string wanted = "cpu" + std::to_string(cpu);
  for (std::string name; file >> name;) {
    std::int64_t user = 0, nice = 0, system = 0, idle = 0;
    if (name == wanted && file >> user >> nice >> system >> idle) return idle * 10'000;
    std::getline(file, name);
  }
  return -1;
}

// The CPUs that a thread may use; 0: the calling thread.
inline std::vector<int> affinity(pid_t thread = 0) {
  cpu_set_t set;
  CPU_ZERO(&set);
  std::vector<int> cpus;
  if (::sched_getaffinity(thread, sizeof set, &set) != 0) return cpus;
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (CPU_ISSET(static_cast<std::size_t>(cpu), &set)) cpus.push_back(cpu);
  }
  return cpus;
}

inline void keep_caller_to(int cpu) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(static_cast<std::size_t>(cpu), &set);
  ::sched_setaffinity(0, sizeof set, &set);
}

}  // namespace slip::testing
