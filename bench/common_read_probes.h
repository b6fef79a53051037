// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "bench/common_samples.h"
#include "kernels/thread_pool.h"

namespace slip::bench {

// One way to read memory as fast as it goes.
struct ReadWay {
  int threads = 1;
  int streams = 1;                     // places that one thread reads from in turn
  std::size_t prefetch_bytes = 0;      // how far ahead of each stream; 0: left to the processor
  bool huge_pages = false;             // asked for; the kernel may not have them
  std::size_t piece_bytes = 2U << 20;  // neighbouring bytes that one thread's streams share; 0: a thread's whole part
};
std::string to_string(const ReadWay& way);

// The read bandwidth of this machine: the best that any way reaches. 512 MiB are read, far beyond what the caches keep.
class ReadProbes {
 public:
  // All ways for 1 … max_threads threads.
  explicit ReadProbes(int max_threads);
  ~ReadProbes();

  // Times every way once. After a few rounds only those that came near the best go on.
  void round();

  double best_bytes_per_s() const;
  double median_bytes_per_s() const;  // of the way that won
  nlohmann::json to_json() const;     // what won, and what each way reached

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

  std::vector<std::unique_ptr<kernels::ThreadPool>> pools_;  // [i]: of thread_counts[i] threads
  std::unique_ptr<Region> small_pages_, huge_pages_;
  std::vector<Entry> entries_;
  int n_rounds_ = 0;
};

}  // namespace slip::bench
