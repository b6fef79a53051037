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

// One way to read memory at full speed.
struct ReadWay {
  int threads = 1;
  int streams = 1;                 // places that one thread reads from in turn
  std::size_t prefetch_bytes = 0;  // distance ahead in each stream; 0: hardware prefetching only
  bool huge_pages = false;         // requested; the kernel may have none
  // Contiguous bytes that one thread's streams share; 0: the thread's whole part
  std::size_t piece_bytes = 2U << 20;
};
std::string to_string(const ReadWay& way);

// The read bandwidth of this machine: the best of all ways. Reads 512 MiB, far more than the caches hold.
class ReadProbes {
 public:
  // All ways for 1 … max_threads threads.
  explicit ReadProbes(int max_threads);
  ~ReadProbes();

  // Times every way once. After a few rounds only the ways near the best continue.
  void round();

  double best_bytes_per_s() const;
  double median_bytes_per_s() const;  // of the best way
  nlohmann::json to_json() const;     // the best way, and each way's bandwidth

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

  std::vector<std::unique_ptr<kernels::ThreadPool>> pools_;  // [i]: with thread_counts[i] threads
  std::unique_ptr<Region> small_pages_, huge_pages_;
  std::vector<Entry> entries_;
  int n_rounds_ = 0;
};

}  // namespace slip::bench
