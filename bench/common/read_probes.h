// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "cli/simulation/samples.h"
#include "kernels/thread_pool.h"

namespace slip::bench {

// One access pattern for reading memory.
struct ReadWay {
  int threads = 1;
  int streams = 1;                 // addresses that one thread reads from, a cache line of each in turn
  std::size_t prefetch_bytes = 0;  // software prefetching: distance ahead in each stream; 0: by hardware only
  bool huge_pages = false;         // requested of the kernel, which may have none
  // Size of the contiguous piece that one thread's streams divide among them before the next piece; 0: the thread's
  // whole part of the memory, so that the streams are far apart.
  std::size_t piece_bytes = 2U << 20;
};
std::string to_string(const ReadWay& way);

// Measures the read bandwidth of this machine: the best of all access patterns. One timing reads 512 MiB, far more than
// the caches hold. Uses twice that memory, once with small and once with huge pages. Threads: one owner.
class ReadProbes {
 public:
  // Tries all patterns with 1, 2, 4, … and max_threads threads. Error{kTooLarge} without memory.
  explicit ReadProbes(int max_threads);
  ~ReadProbes();

  // Times every remaining pattern once. After the third round only the eight fastest remain.
  void round();

  // REQUIRES for all three: round() was called.
  double best_bytes_per_s() const;    // the fastest timing of all
  double median_bytes_per_s() const;  // of the pattern with that timing
  nlohmann::json to_json() const;     // both, that pattern, and each pattern's fastest timing, in 10^9 bytes/s

 private:
  struct Region;
  struct Entry {
    ReadWay way;
    Samples samples;
    bool dropped = false;
  };
  const Entry& winner() const;
  void time(Entry& entry);
  void drop_the_slow();

  std::vector<std::unique_ptr<kernels::ThreadPool>> pools_;  // one for each number of threads
  std::unique_ptr<Region> small_pages_, huge_pages_;
  std::vector<Entry> entries_;
  int n_rounds_ = 0;
};

}  // namespace slip::bench
