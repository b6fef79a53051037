// SPDX-License-Identifier: Apache-2.0
#include "bench/common/read_probes.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <string>

#include "common/error.h"
#include "kernels/matmul.h"

namespace slip::bench {
namespace {

constexpr std::size_t kRegionBytes = std::size_t{512} << 20, kHugePageBytes = std::size_t{2} << 20, kLineBytes = 64;
constexpr int kRoundsOfAll = 3;       // before slow ways are dropped
constexpr std::size_t kWaysKept = 8;  // enough to include the best one on a drifting machine

using Line = std::uint64_t __attribute__((vector_size(kLineBytes)));

struct Stretch {
  const std::byte* from;
  std::size_t n_lines;
  std::size_t prefetch_bytes;
};

// Sums a stretch with kStreams interleaved streams. Inlined into one function per instruction class, to use its
// registers.
template <int kStreams, bool kPrefetch>
[[gnu::always_inline]] inline std::uint64_t sum_lines(const Stretch& stretch) {
  const std::size_t each = stretch.n_lines / kStreams;
  Line sums[kStreams] = {};
  for (std::size_t i = 0; i < each; ++i) {
#pragma GCC unroll 8
    for (std::size_t s = 0; s < kStreams; ++s) {
      const std::byte* at = stretch.from + (s * each + i) * kLineBytes;
      if (kPrefetch) __builtin_prefetch(at + stretch.prefetch_bytes, 0, 3);
      sums[s] += *reinterpret_cast<const Line*>(at);
    }
  }
  std::uint64_t total = 0;
  for (int s = 0; s < kStreams; ++s) {
    for (std::size_t lane = 0; lane < kLineBytes / sizeof total; ++lane) total += sums[s][lane];
  }
  return total;
}

template <int kStreams>
[[gnu::always_inline]] inline std::uint64_t sum_streams(const Stretch& stretch) {
  return stretch.prefetch_bytes > 0 ? sum_lines<kStreams, true>(stretch) : sum_lines<kStreams, false>(stretch);
}

[[gnu::always_inline]] inline std::uint64_t sum_of(const Stretch& stretch, int streams) {
  switch (streams) {
    case 1:
      return sum_streams<1>(stretch);
    case 2:
      return sum_streams<2>(stretch);
    case 4:
      return sum_streams<4>(stretch);
    default:
      return sum_streams<8>(stretch);
  }
}

#if defined(__x86_64__)
[[gnu::target("avx512f")]] std::uint64_t sum_avx512(const Stretch& stretch, int streams) {
  return sum_of(stretch, streams);
}
[[gnu::target("avx2")]] std::uint64_t sum_avx2(const Stretch& stretch, int streams) {
  return sum_of(stretch, streams);
}
#endif

std::uint64_t sum(const Stretch& stretch, int streams) {
#if defined(__x86_64__)
  if (kernels::isa_class() >= kernels::IsaClass::kAvx512) return sum_avx512(stretch, streams);
  if (kernels::isa_class() == kernels::IsaClass::kAvx2) return sum_avx2(stretch, streams);
#endif
  return sum_of(stretch, streams);
}

// 1, 2, 4, … and `most` itself.
std::vector<int> thread_counts(int most) {
  std::vector<int> counts;
  for (int n = 1; n < most; n *= 2) counts.push_back(n);
  counts.push_back(most);
  return counts;
}

}  // namespace

// Memory whose 64-bit words are all 1, in small pages, or in huge ones if the kernel has them.
struct ReadProbes::Region {
  explicit Region(bool huge) {
    // One huge page extra, for alignment.
    mapping =
        ::mmap(nullptr, kRegionBytes + kHugePageBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (mapping == MAP_FAILED) {
      throw Error(ErrorCode::kTooLarge, "no memory to measure the read bandwidth with", "512 MiB are needed, twice");
    }
    ::madvise(mapping, kRegionBytes + kHugePageBytes, huge ? MADV_HUGEPAGE : MADV_NOHUGEPAGE);
    const auto address = reinterpret_cast<std::uintptr_t>(mapping);
    bytes = reinterpret_cast<std::byte*>((address + kHugePageBytes - 1) / kHugePageBytes * kHugePageBytes);
    std::fill_n(reinterpret_cast<std::uint64_t*>(bytes), kRegionBytes / sizeof(std::uint64_t), 1);
  }
  ~Region() { ::munmap(mapping, kRegionBytes + kHugePageBytes); }
  Region(const Region&) = delete;
  Region& operator=(const Region&) = delete;

  void* mapping;
  std::byte* bytes;
};

std::string to_string(const ReadWay& way) {
  return std::to_string(way.threads) + (way.threads == 1 ? " thread, " : " threads, ") + std::to_string(way.streams) +
         (way.streams == 1 ? " stream" : " streams") + (way.piece_bytes == 0 ? " far apart" : " near each other") +
         (way.prefetch_bytes > 0 ? ", prefetching " + std::to_string(way.prefetch_bytes) + " bytes ahead" : "") +
         (way.huge_pages ? ", huge pages" : ", small pages");
}

ReadProbes::ReadProbes(int max_threads)
    : small_pages_(std::make_unique<Region>(/*huge=*/false)), huge_pages_(std::make_unique<Region>(/*huge=*/true)) {
  for (const int threads : thread_counts(max_threads)) {
    pools_.push_back(std::make_unique<kernels::ThreadPool>(threads));
    for (const int streams : {1, 2, 4, 8}) {
      for (const std::size_t prefetch_bytes : {0, 1024, 4096}) {
        for (const std::size_t piece_bytes : {std::size_t{0}, std::size_t{2} << 20}) {
          if (streams == 1 && piece_bytes == 0) continue;  // with one stream pieces make no difference
          for (const bool huge : {false, true}) {
            entries_.push_back({{threads, streams, prefetch_bytes, huge, piece_bytes}, {}, false});
          }
        }
      }
    }
  }
}

ReadProbes::~ReadProbes() = default;

void ReadProbes::round() {
  for (Entry& entry : entries_) {
    if (!entry.dropped) time(entry);
  }
  if (++n_rounds_ == kRoundsOfAll) drop_the_slow();
}

void ReadProbes::time(Entry& entry) {
  const ReadWay& way = entry.way;
  const auto pool =
      std::find_if(pools_.begin(), pools_.end(), [&](const auto& p) { return p->n_threads() == way.threads; });
  const std::byte* bytes = (way.huge_pages ? huge_pages_ : small_pages_)->bytes;
  const std::size_t n_pieces =
      way.piece_bytes > 0 ? kRegionBytes / way.piece_bytes : static_cast<std::size_t>(way.threads);
  std::vector<std::uint64_t> sums(n_pieces);
  const auto read_piece = [&](std::size_t piece, int) {
    // Equal numbers of whole cache lines per stream, without a remainder.
    const std::size_t unit = kLineBytes * 8, n_units = kRegionBytes / unit;
    const std::size_t begin = n_units * piece / n_pieces * unit, end = n_units * (piece + 1) / n_pieces * unit;
    sums[piece] = sum({bytes + begin, (end - begin) / kLineBytes, way.prefetch_bytes}, way.streams);
  };
  entry.samples.add(seconds_of([&] { (*pool)->parallel_for(n_pieces, std::cref(read_piece)); }));
  std::uint64_t total = 0;
  for (const std::uint64_t part : sums) total += part;
  SLIP_CHECK(total == kRegionBytes / sizeof(std::uint64_t), "a probe that does not read everything measures nothing");
}

void ReadProbes::drop_the_slow() {
  std::vector<double> best;
  for (const Entry& entry : entries_) best.push_back(entry.samples.best());
  std::sort(best.begin(), best.end());
  const double limit = best[std::min(kWaysKept, best.size()) - 1];
  for (Entry& entry : entries_) entry.dropped = entry.samples.best() > limit;
}

const ReadProbes::Entry& ReadProbes::winner() const {
  return *std::min_element(entries_.begin(), entries_.end(),
                           [](const Entry& a, const Entry& b) { return a.samples.best() < b.samples.best(); });
}

double ReadProbes::best_bytes_per_s() const {
  return static_cast<double>(kRegionBytes) / winner().samples.best();
}

double ReadProbes::median_bytes_per_s() const {
  return static_cast<double>(kRegionBytes) / winner().samples.median();
}

nlohmann::json ReadProbes::to_json() const {
  nlohmann::json probes = nlohmann::json::array();
  for (const Entry& entry : entries_) {
    probes.push_back({{"threads", entry.way.threads},
                      {"streams", entry.way.streams},
                      {"prefetch_bytes", entry.way.prefetch_bytes},
                      {"far_apart", entry.way.piece_bytes == 0},
                      {"huge_pages", entry.way.huge_pages},
                      {"best_gb_s", static_cast<double>(kRegionBytes) / entry.samples.best() / 1e9}});
  }
  return {{"best_gb_s", best_bytes_per_s() / 1e9},
          {"median_gb_s", median_bytes_per_s() / 1e9},
          {"won", to_string(winner().way)},
          {"probes", probes}};
}

}  // namespace slip::bench
