// SPDX-License-Identifier: Apache-2.0
// Milliseconds a forward pass takes by its number of rows, beside what the machine could do: decoding one token reads
// every weight once, so the bytes over the memory's speed are the floor, and rows verified together should cost little
// more than one until arithmetic takes longer than reading.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <cstring>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <numeric>
#include <vector>

#include "bench/common_prompts.h"
#include "bench/common_result.h"
#include "common/clock.h"
#include "common/error.h"
#include "engine/model/transformer.h"
#include "kernels/kernel_table.h"

namespace slip::bench {
namespace {

constexpr std::int32_t kPrefillChunk = 256;

struct Options {
  std::string model, dtype = "bfloat16";
  std::vector<std::int32_t> rows = {1, 4, 8};
  std::int32_t context = 256;
  int threads = 1, rounds = 20;
  bool json = false;
};

double seconds_of(const std::function<void()>& work) {
  const auto start = monotonic_us();
  work();
  return static_cast<double>(std::max<std::int64_t>(monotonic_us() - start, 1)) / 1e6;
}

// Best of several sums over 256 MiB, far beyond any cache, by all threads.
double read_bandwidth_gb_s(kernels::ThreadPool& pool) {
  constexpr std::size_t kBytes = std::size_t{256} << 20, kPiece = std::size_t{1} << 20;
  const std::vector<std::uint64_t> data(kBytes / sizeof(std::uint64_t), 1);
  std::vector<std::uint64_t> sums(kBytes / kPiece);
  const auto sum_piece = [&](std::size_t piece, int) {
    const auto* from = data.data() + piece * (kPiece / sizeof(std::uint64_t));
    std::uint64_t sum[8] = {};
    for (std::size_t i = 0; i < kPiece / sizeof(std::uint64_t); i += 8) {
      for (std::size_t lane = 0; lane < 8; ++lane) sum[lane] += from[i + lane];
    }
    sums[piece] = std::accumulate(sum, sum + 8, std::uint64_t{0});
  };
  double best = 1e30;
  for (int i = 0; i < 6; ++i) {
    best = std::min(best, seconds_of([&] { pool.parallel_for(sums.size(), std::cref(sum_piece)); }));
  }
  const std::uint64_t total = std::accumulate(sums.begin(), sums.end(), std::uint64_t{0});
  SLIP_CHECK(total == data.size(), "the memory was read wrongly");
  return static_cast<double>(kBytes) / best / 1e9;
}

// How fast this instruction class multiplies bfloat16 when everything it needs is in the first-level cache.
double bf16_peak_tflop_s(kernels::ThreadPool& pool) {
  constexpr std::int64_t kDepth = 32, kRepeats = 20000, kMostRows = 32;
  const auto& table = kernels::kernel_table();
  SLIP_CHECK(table.bf16_tile_rows <= kMostRows, "the operands have room for a tile");
  struct alignas(64) Operands {
    std::byte weight[kDepth * kernels::kPanelColumns * 4] = {};
    std::byte x[kMostRows * kDepth * 8] = {};
    float sums[kMostRows * kernels::kPanelColumns] = {};
  };
  const auto work = [&](std::size_t, int) {
    const auto operands = std::make_unique<Operands>();
    kernels::MatmulTile tile;
    tile.weight = operands->weight;
    tile.x = operands->x;
    tile.x_stride_bytes = (table.bf16_block_steps > 0 ? table.bf16_block_steps : kDepth) * table.bf16_pair_bytes;
    tile.sums = operands->sums;
    tile.depth = kDepth;
    tile.n_rows = table.bf16_tile_rows;
    for (int i = 0; i < kRepeats; ++i) table.matmul_bf16(tile);
  };
  const auto n = static_cast<std::size_t>(pool.n_threads());
  double best = 1e30;
  for (int i = 0; i < 4; ++i) best = std::min(best, seconds_of([&] { pool.parallel_for(n, std::cref(work)); }));
  const double operations = 4.0 * kDepth * kernels::kPanelColumns * table.bf16_tile_rows * kRepeats;
  return operations * static_cast<double>(n) / best / 1e12;
}

// A model with a sequence of `context` committed tokens in its cache, and rows that follow it.
class Decoding {
 public:
  Decoding(const Options& options, std::int32_t most_rows)
      : options_(options),
        pool_(options.threads),
        weights_(ModelWeights::load(options.model, options.dtype == "float32" ? Dtype::kFloat32 : Dtype::kBFloat16)) {
    const ModelConfig& config = weights_->config;
    if (options.context < 1 || options.context + most_rows > config.max_positions) {
      throw Error(ErrorCode::kInvalidArgument,
                  "--context " + std::to_string(options.context) + " and its rows do not fit the model's " +
                      std::to_string(config.max_positions) + " positions",
                  "give a smaller --context", "context");
    }
    n_slots_ = options.context + most_rows;
    const std::int32_t n_pages = n_slots_ / PagePool::kPageTokens + 1;
    worker_ = std::make_unique<LocalWorker>(weights_, kPrefillChunk, kPrefillChunk, n_pages, pool_);
    pages_ = PageTable(worker_->cache());
    SLIP_CHECK(pages_.reserve(n_slots_), "the pool was made for this many slots");
    logits_.resize(static_cast<std::size_t>(kPrefillChunk) * static_cast<std::size_t>(config.vocab_size));
    for (std::int32_t i = 0; i < n_slots_; ++i) tokens_.push_back((7919 * i + 11) % config.vocab_size);
    positions_.resize(tokens_.size());
    std::iota(positions_.begin(), positions_.end(), 0);
  }

  // Rows [begin, begin + n) of the sequence in one pass; all their logits, or only the last row's.
  void run(std::int32_t begin, std::int32_t n, bool all_logits) {
    const auto at = static_cast<std::size_t>(begin), count = static_cast<std::size_t>(n);
    const std::int32_t row_begin[2] = {0, n};
    std::vector<std::int32_t> logit_rows(all_logits ? count : 1, n - 1);
    if (all_logits) std::iota(logit_rows.begin(), logit_rows.end(), 0);
    KvView kv;
    kv.pages = &pages_;
    kv.n_cached = begin;
    StepInput input;
    input.tokens = std::span(tokens_).subspan(at, count);
    input.positions = std::span(positions_).subspan(at, count);
    input.row_begin = row_begin;
    input.kv = std::span(&kv, 1);
    input.logit_rows = logit_rows;
    StepOutput output;
    output.logits =
        TensorView::contiguous(logits_.data(), {std::ssize(logit_rows), std::int64_t{weights_->config.vocab_size}});
    worker_->run(input, output);
  }

  void prefill() {
    for (std::int32_t at = 0; at < options_.context; at += kPrefillChunk) {
      run(at, std::min(kPrefillChunk, options_.context - at), /*all_logits=*/false);
    }
  }

  // Nothing is timed that does not compute what it should: the rows together give the bits of the rows one by one.
  void check_rows(std::int32_t n) {
    const auto vocab = static_cast<std::size_t>(weights_->config.vocab_size);
    std::vector<float> singly;
    for (std::int32_t i = 0; i < n; ++i) {
      run(options_.context + i, 1, /*all_logits=*/true);
      singly.insert(singly.end(), logits_.begin(), logits_.begin() + static_cast<std::ptrdiff_t>(vocab));
    }
    run(options_.context, n, /*all_logits=*/true);
    SLIP_CHECK(std::memcmp(singly.data(), logits_.data(), singly.size() * sizeof(float)) == 0,
               "a pass over several rows gives other logits than one row at a time");
  }

  std::size_t bytes_read_per_step() const {
    std::size_t bytes = weights_->lm_head.bytes();
    for (const auto& layer : weights_->layers) {
      bytes += layer.qkv.bytes() + layer.attention_out.bytes() + layer.gate_up.bytes() + layer.down.bytes();
    }
    const std::size_t page = PagePool::page_bytes(weights_->config, weights_->dtype);
    return bytes + page * static_cast<std::size_t>(options_.context) / PagePool::kPageTokens;
  }

  kernels::ThreadPool& pool() { return pool_; }

 private:
  const Options& options_;
  kernels::ThreadPool pool_;
  std::shared_ptr<const ModelWeights> weights_;
  std::unique_ptr<LocalWorker> worker_;
  PageTable pages_;
  std::int32_t n_slots_ = 0;
  std::vector<std::int32_t> tokens_, positions_;
  std::vector<float> logits_;
};

// Per row count, the milliseconds of each round, ascending. The row counts take turns, so that a drifting machine
// touches all of them alike.
std::vector<std::vector<double>> time_rows(Decoding& decoding, const Options& options,
                                           const std::vector<std::int32_t>& rows) {
  std::vector<std::vector<double>> ms(rows.size());
  for (int round = 0; round < options.rounds; ++round) {
    for (std::size_t i = 0; i < rows.size(); ++i) {
      ms[i].push_back(1e3 * seconds_of([&] { decoding.run(options.context, rows[i], /*all_logits=*/true); }));
    }
  }
  for (auto& times : ms) std::sort(times.begin(), times.end());
  return ms;
}

nlohmann::json run(const Options& options) {
  const auto& rows = options.rows;
  Decoding decoding(options, *std::max_element(rows.begin(), rows.end()));
  decoding.prefill();
  for (const std::int32_t n : rows) decoding.check_rows(n);
  double prefill_seconds = 1e30;
  for (int i = 0; i < 3; ++i) prefill_seconds = std::min(prefill_seconds, seconds_of([&] { decoding.prefill(); }));
  const auto ms = time_rows(decoding, options, rows);
  nlohmann::json result = {
      {"isa", kernels::isa_class_name(kernels::isa_class())},
      {"threads", options.threads},
      {"read_bandwidth_gb_s", read_bandwidth_gb_s(decoding.pool())},
      {"bf16_peak_tflop_s", bf16_peak_tflop_s(decoding.pool())},
      {"bytes_read_per_step", decoding.bytes_read_per_step()},
      {"steps", nlohmann::json::array()},
      {"prefill", {{"tokens", options.context}, {"tokens_per_s", options.context / prefill_seconds}}}};
  for (std::size_t i = 0; i < rows.size(); ++i) {
    result["steps"].push_back(
        {{"rows", rows[i]}, {"context", options.context}, {"ms", ms[i][ms[i].size() / 2]}, {"best_ms", ms[i].front()}});
  }
  return result;
}

void print_table(const nlohmann::json& result) {
  const double bytes = result["bytes_read_per_step"].get<double>();
  std::printf("%s, %d threads: memory reads %.1f GB/s, bfloat16 multiplies at %.3f TFLOP/s in cache\n",
              result["isa"].get<std::string>().c_str(), result["threads"].get<int>(),
              result["read_bandwidth_gb_s"].get<double>(), result["bf16_peak_tflop_s"].get<double>());
  std::printf("a step reads %.1f MB: at least %.2f ms at that speed\n", bytes / 1e6,
              bytes / 1e6 / result["read_bandwidth_gb_s"].get<double>());
  std::printf("rows  context   median ms   best ms   median / first   best / first\n");
  const auto& first = result["steps"][0];
  for (const auto& step : result["steps"]) {
    std::printf("%4d  %7d  %10.3f  %8.3f  %15.2f  %13.2f\n", step["rows"].get<int>(), step["context"].get<int>(),
                step["ms"].get<double>(), step["best_ms"].get<double>(),
                step["ms"].get<double>() / first["ms"].get<double>(),
                step["best_ms"].get<double>() / first["best_ms"].get<double>());
  }
  std::printf("prefill of %d tokens: %.0f tokens/s\n", result["prefill"]["tokens"].get<int>(),
              result["prefill"]["tokens_per_s"].get<double>());
}

}  // namespace
}  // namespace slip::bench

int main(int argc, char** argv) {
  slip::bench::Options options;
  CLI::App app{"Measures the forward pass by its number of rows, all of one sequence, against memory and arithmetic."};
  app.add_option("--model", options.model, "Model folder")->required();
  app.add_option("--rows", options.rows, "Row counts, comma separated")
      ->delimiter(',')
      ->check(CLI::Range(1, slip::bench::kPrefillChunk));
  app.add_option("--context", options.context, "Tokens in the cache before the rows");
  app.add_option("--dtype", options.dtype, "Number format of the weights")
      ->check(CLI::IsMember({"bfloat16", "float32"}));
  app.add_option("--threads", options.threads, "Threads of the forward pass")->check(CLI::PositiveNumber);
  app.add_option("--rounds", options.rounds, "Times each row count is measured")->check(CLI::PositiveNumber);
  app.add_flag("--json", options.json, "Print JSON");
  CLI11_PARSE(app, argc, argv);
  return slip::bench::show_result(
      "decode", options.json, [&] { return slip::bench::run(options); }, slip::bench::print_table);
}
