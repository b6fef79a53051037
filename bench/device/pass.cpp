// SPDX-License-Identifier: Apache-2.0
// Where the time of a target pass goes on a device: whole passes as one graph, and the same jobs kind by kind, for
// numbers of sequences, rows and cached tokens. Weights and cache are random: the tests check results.
#include <array>
#include <cstdio>
#include <memory>
#include <stdexcept>
#include <string>
#include <variant>
#include <vector>

#include "bench/device/common_device.h"
#include "engine/cuda/device_transformer.h"
#include "engine/cuda/device_worker.h"
#include "engine/speculative/step_rows.h"
#include "kernels/cuda/enqueue.h"
#include "kernels/cuda/stream_queue.h"

namespace slip::bench {
namespace {

using nlohmann::json;
using namespace kernels::cuda;  // NOLINT: the benchmark is of these

constexpr const char* kKinds[] = {"embed",      "norm",   "rotate", "product", "attention", "process",
                                  "distribute", "gumbel", "draw",   "accept",  "observe",   "loss"};
static_assert(std::variant_size_v<Job> == std::size(kKinds));

// The device, which also keeps the jobs instead of running them. Copies run.
class RecordingQueue final : public DeviceQueue {
 public:
  void* allocate(std::size_t bytes) override { return device_->allocate(bytes); }
  void release(void* memory) noexcept override { device_->release(memory); }
  void* allocate_host(std::size_t bytes) override { return device_->allocate_host(bytes); }
  void release_host(void* memory) noexcept override { device_->release_host(memory); }
  std::size_t free_bytes() override { return device_->free_bytes(); }
  void copy_in(void* to, const void* from, std::size_t bytes) override { device_->copy_in(to, from, bytes); }
  void copy_out(void* to, const void* from, std::size_t bytes) override { device_->copy_out(to, from, bytes); }
  void copy_blocks(void* to, const void* from, const StridedBlocks& blocks) override {
    device_->copy_blocks(to, from, blocks);
  }
  void wait() override { device_->wait(); }
  std::unique_ptr<DeviceGraph> capture(const std::function<void()>& put_jobs) override {
    return device_->capture(put_jobs);
  }
  void replay(const DeviceGraph& graph) override { device_->replay(graph); }

  std::vector<Job> jobs;

 private:
  void put(const Job& job) override { jobs.push_back(job); }
  std::unique_ptr<DeviceQueue> device_ = open_device();
};

// The embedded draft and target, TinyLlama, and Llama 3 with 8e9 weights.
ModelConfig shape_of_model(const std::string& name) {
  const auto config = [](int vocab, int hidden, int ffn, int layers, int heads, int kv_heads, int head_dim) {
    ModelConfig out;
    out.vocab_size = vocab;
    out.hidden_size = hidden;
    out.intermediate_size = ffn;
    out.n_layers = layers;
    out.n_heads = heads;
    out.n_kv_heads = kv_heads;
    out.head_dim = head_dim;
    out.max_positions = 8192;
    return out;
  };
  if (name == "draft") return config(8192, 128, 352, 2, 4, 2, 32);
  if (name == "12M") return config(8192, 384, 1024, 6, 6, 2, 64);
  return name == "1B" ? config(32000, 2048, 5632, 22, 32, 4, 64) : config(128256, 4096, 14336, 32, 32, 8, 128);
}

struct Load {
  int sequences, rows;  // rows of each
  int context;          // cached tokens of each
};

class Passes {
 public:
  Passes(const std::string& name, cudaStream_t stream)
      : name_(name),
        config_(shape_of_model(name)),
        stream_(stream),
        queue_(std::make_shared<RecordingQueue>()),
        weights_(device_model_bytes(config_, /*tied=*/false)),
        model_(place_model(config_, /*tied=*/false, weights_.get())),
        cache_memory_bytes_(PagePool::page_bytes(config_, Dtype::kBFloat16) * kPages),
        cache_(config_, Dtype::kBFloat16, kPages, std::make_unique<DevicePages>(queue_, cache_memory_bytes_)),
        transformer_(queue_, config_, {kMostRows, kMostRows}),
        step_(*queue_, config_, {kMostRows, kMostRows, kPages, kMostSequences}),
        logits_(static_cast<std::size_t>(kMostRows) * static_cast<std::size_t>(config_.vocab_size)) {
    fill_bytes(weights_.get(), weights_.bytes(), 1);
    fill_bytes(cache_.layer(0).base, cache_memory_bytes_, 2);
    check(cudaDeviceSynchronize(), "random weights and cache");
  }

  // {ms, kinds: {kind: ms}} of one pass.
  json time(const Load& load) {
    put(load);
    std::array<std::vector<Job>, std::size(kKinds)> of_kind;
    for (const Job& job : queue_->jobs) of_kind[job.index()].push_back(job);
    json out = {{"model", name_},          {"sequences", load.sequences}, {"rows", load.rows},
                {"context", load.context}, {"ms", ms(queue_->jobs)},      {"weights_gb", weights_gb()}};
    for (std::size_t kind = 0; kind < of_kind.size(); ++kind) {
      if (!of_kind[kind].empty()) out["kinds"][kKinds[kind]] = ms(of_kind[kind]);
    }
    return out;
  }
  double weights_gb() const { return static_cast<double>(weights_.bytes()) / 1e9; }

 private:
  static constexpr std::int32_t kPages = 2304, kMostRows = 512, kMostSequences = 16;

  void fill_bytes(void* to, std::size_t bytes, std::uint64_t seed) const {
    fill(static_cast<std::uint16_t*>(to), {1, static_cast<std::int64_t>(bytes / 2), seed}, Layout::kRows, stream_);
  }
  double ms(const std::vector<Job>& jobs) const {
    return captured_ms(stream_, 1, [&](int) {
      for (const Job& job : jobs) enqueue(job, stream_);
    });
  }
  // Leaves the jobs of a pass in the queue, and its tables on the device.
  void put(const Load& load) {
    const std::vector<std::int32_t> tokens(static_cast<std::size_t>(load.rows), 1);
    const WantedLogits wanted = load.rows <= 64 ? WantedLogits::kAll : WantedLogits::kNone;
    std::vector<PageTable> tables;
    tables.reserve(static_cast<std::size_t>(load.sequences));
    StepRows rows;
    for (int sequence = 0; sequence < load.sequences; ++sequence) {
      tables.emplace_back(cache_);
      if (!tables.back().reserve(load.context + load.rows)) throw std::runtime_error("too few pages");
      rows.add({{tokens, &tables.back(), load.context}, nullptr, wanted});
    }
    const StepInput input = rows.step();
    const DevicePassShape shape = shape_of(step_.needs(input));
    step_.put(input, shape);
    queue_->wait();
    queue_->jobs.clear();
    transformer_.put({model_, step_, cache_, logits_.get()}, shape);
  }

  std::string name_;
  ModelConfig config_;
  cudaStream_t stream_;
  std::shared_ptr<RecordingQueue> queue_;
  DeviceArray<std::byte> weights_;
  DeviceModel model_;
  std::size_t cache_memory_bytes_;
  PagePool cache_;
  DeviceTransformer transformer_;
  DeviceStep step_;
  DeviceArray<float> logits_;
};

json measure() {
  const Stream stream;
  json out = {{"device", describe_device(stream.get())}, {"passes", json::array()}};
  for (const char* model : {"draft", "12M", "1B", "8B"}) {
    Passes passes(model, stream.get());
    for (const int context : {200, 2000}) {
      for (const auto& [sequences, rows] : {std::pair{1, 1}, {1, 4}, {2, 1}, {2, 4}, {2, 8}, {16, 1}, {16, 4}}) {
        out["passes"].push_back(passes.time({sequences, rows, context}));
      }
    }
    out["passes"].push_back(passes.time({1, 256, 0}));
    out["passes"].push_back(passes.time({1, 256, 2000}));
  }
  return out;
}

void print_table(const json& result) {
  std::printf("%s: reads %.0f GB/s\n%-5s %9s %5s %8s %9s %9s", result["device"]["name"].get<std::string>().c_str(),
              result["device"]["read_gb_s"].get<double>(), "", "sequences", "rows", "context", "ms", "products");
  std::printf(" %10s %8s %8s %8s\n", "attention", "norms", "rotate", "weights");
  for (const json& pass : result["passes"]) {
    const auto kind = [&](const char* name) { return pass["kinds"].value(name, 0.0); };
    std::printf("%-5s %9d %5d %8d %9.3f %9.3f", pass["model"].get<std::string>().c_str(), pass["sequences"].get<int>(),
                pass["rows"].get<int>(), pass["context"].get<int>(), pass["ms"].get<double>(), kind("product"));
    std::printf(" %10.3f %8.3f %8.3f %8.3f\n", kind("attention"), kind("norm"), kind("rotate"),
                1e3 * pass["weights_gb"].get<double>() / result["device"]["read_gb_s"].get<double>());
  }
}

}  // namespace
}  // namespace slip::bench

int main(int argc, char** argv) {
  return slip::bench::run_benchmark(argc, argv, slip::bench::measure, slip::bench::print_table);
}
