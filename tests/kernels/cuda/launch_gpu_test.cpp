// SPDX-License-Identifier: Apache-2.0
// Launched kernels against the same bodies run on the host: to the bit, but for the matrix instruction, whose order
// inside a tile is the machine's own. tests/kernels/cuda/*_test.cpp hold those bodies to the references.
#include <cmath>
#include <memory>

#include "tests/kernels/attention_cases.h"
#include "tests/kernels/cuda/device_kv.h"
#include "tests/kernels/cuda/gpu_test.h"
#include "tests/kernels/cuda/host_grid.h"

namespace slip::kernels::cuda {
namespace {

constexpr cudaStream_t kStream = nullptr;

using GpuRows = GpuTest;
using GpuMatmul = GpuTest;
using GpuAttention = GpuTest;

TEST_F(GpuRows, RmsNormHasTheHostsBits) {
  for (const std::int64_t n : {31, 384, 4096}) {
    const auto x = random_floats(static_cast<std::size_t>(5 * n), 1),
               weight = random_floats(static_cast<std::size_t>(n), 2);
    std::vector<float> expected(x.size());
    RmsNormShared shared;
    RmsNorm job{x.data(), n, {weight.data()}, n, 1e-5F, nullptr, expected.data(), n};
    run_on_host<kRowThreads>({5}, [&](const RowBlock& block) { rms_norm(block, job, shared); });
    const DeviceArray<float> device_x(x), device_weight(weight), y(std::vector<float>(x.size(), -1.0F));
    job.x = device_x.get();
    job.weight.data = device_weight.get();
    job.y = y.get();
    enqueue(job, 5, kStream);
    EXPECT_TRUE(same_bits(y.values(), expected)) << n;
  }
}

struct DeviceProduct {
  DeviceProduct(const std::vector<std::uint16_t>& packed, const std::vector<float>& x, const Matmul& shape)
      : weight(packed),
        activations(packed_activations(x, shape.n_rows, shape.n_in)),
        y(std::vector<float>(static_cast<std::size_t>(shape.n_rows * shape.n_out), -1.0F)),
        job(shape) {
    job.weight.data = weight.get();
    job.activations = activations.get();
    job.y = y.get();
    job.y_stride = shape.n_out;
  }
  std::vector<float> run() {
    enqueue(job, kStream);
    return y.values();
  }
  DeviceArray<std::uint16_t> weight, activations;
  DeviceArray<float> y;
  Matmul job;
};

// Row counts around every shape of tile, at an odd depth and with two output tiles a block too.
TEST_F(GpuMatmul, EqualsTheReferenceAndNoRowKnowsOfTheOthers) {
  for (const std::int64_t n_out : {48, 8200, 24000}) {
    const std::int64_t n_in = 1000;
    const auto w = random_floats(static_cast<std::size_t>(n_out * n_in), 1), x = random_floats(200 * 1000, 2);
    const auto packed = packed_weights(w, n_out, n_in);
    Matmul shape;
    shape.n_out = n_out;
    shape.n_in = n_in;
    std::vector<float> first;
    for (const std::int64_t n_rows : {1, 2, 8, 9, 16, 17, 33, 64, 65, 100, 200}) {
      shape.n_rows = n_rows;
      const auto y = DeviceProduct(packed, x, shape).run();
      if (first.empty()) first = y;
      ASSERT_TRUE(same_bits(first, std::span(y).first(first.size()))) << n_rows << " rows";
      for (std::int64_t output = 0; output < n_out; output += n_out / 7) {
        double sum = 0, size = 0;
        for (std::int64_t k = 0; k < n_in; ++k) {
          const double term = double{widen(round_to_bf16(w[static_cast<std::size_t>(output * n_in + k)]))} *
                              widen(round_to_bf16(x[static_cast<std::size_t>((n_rows - 1) * n_in + k)]));
          sum += term;
          size += std::abs(term);
        }
        ASSERT_NEAR(y[static_cast<std::size_t>((n_rows - 1) * n_out + output)], sum, Tolerance::kMatmul * size);
      }
    }
  }
}

// A captured product follows the table of weight slots without being captured again, whether all its rows have one or
// each tile has its own.
TEST_F(GpuMatmul, AGraphSurvivesASwap) {
  Matmul shape;
  shape.n_rows = 3;
  shape.n_out = 64;
  shape.n_in = 256;
  const auto x = random_floats(3 * 256, 3);
  const auto old_draft = packed_weights(random_floats(64 * 256, 4), 64, 256);
  const auto new_draft = packed_weights(random_floats(64 * 256, 5), 64, 256);
  const auto before = DeviceProduct(old_draft, x, shape).run(), after = DeviceProduct(new_draft, x, shape).run();
  const DeviceArray<std::uint16_t> old_weights(old_draft), new_weights(new_draft);
  const auto begin = [](const DeviceArray<std::uint16_t>& slot) {
    return reinterpret_cast<const std::byte*>(slot.get());
  };
  DeviceProduct both(old_draft, x, shape);
  DeviceArray<const std::byte*> slot_begins({begin(old_weights), begin(new_weights), nullptr});
  both.job.row_weights.of_tile = slot_begins.get();
  cudaStream_t stream = nullptr;
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t ready = nullptr;
  check(cudaStreamCreate(&stream), "stream");
  check(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal), "begin capture");
  enqueue(both.job, stream);
  check(cudaStreamEndCapture(stream, &graph), "end capture");
  check(cudaGraphInstantiate(&ready, graph, 0), "instantiate");
  check(cudaGraphLaunch(ready, stream), "launch");
  EXPECT_TRUE(same_bits(both.y.values(), before));
  slot_begins.put({begin(new_weights), begin(old_weights), nullptr});
  check(cudaGraphLaunch(ready, stream), "launch");
  EXPECT_TRUE(same_bits(both.y.values(), after));
  cudaGraphExecDestroy(ready);
  cudaGraphDestroy(graph);
  cudaStreamDestroy(stream);
  shape.n_rows = 20;
  const auto more_x = random_floats(20 * 256, 6);
  const auto all_old = DeviceProduct(old_draft, more_x, shape).run(),
             all_new = DeviceProduct(new_draft, more_x, shape).run();
  DeviceProduct grouped(old_draft, more_x, shape);
  grouped.job.row_weights = {slot_begins.get(), /*alike=*/false};
  const auto y = grouped.run();
  for (std::size_t i = 0; i < y.size(); ++i) {
    ASSERT_EQ(y[i], i < 8 * 64 ? all_new[i] : i < 16 * 64 ? all_old[i] : -1.0F) << i;
  }
}

struct Tiling {
  bool whole;
  std::int32_t rows_a_tile, heads_a_tile;
};

// A chain of `n_rows` after n_committed slots, on the host and launched.
struct AttentionCase {
  AttentionCase(int committed, int rows, const Tiling& tiling, int window)
      : n_committed(committed), n_rows(rows), way(tiling), sequence(shape, committed + rows, 1) {
    for (std::int32_t row = 0; row < n_rows; row += way.rows_a_tile)
      tiles.push_back({row, std::min(way.rows_a_tile, n_rows - row)});
    for (int i = 0; i < n_rows; ++i) views.push_back({sequence.pages(), nullptr, 0, n_committed, i, window});
    const PagedKv kv = sequence.kv();
    job.q = queries(static_cast<std::size_t>(n_rows * width)).data();
    job.q_stride = job.out_stride = width;
    job.kv = {static_cast<std::uint16_t*>(kv.base), kv.page_stride_bytes / 2, 2, 64, 16};
    job.rows = views.data();
    job.tiles = tiles.data();
    job.n_heads = 6;
    job.heads_a_tile = way.heads_a_tile;
    job.scale = shape.scale();
    job.whole = true;
    job.n_splits = (n_committed + n_rows + kSplitRanks - 1) / kSplitRanks;
  }
  std::vector<float> on_host() {
    std::vector<float> out(static_cast<std::size_t>(n_rows * width), -1.0F);
    Attention host = job;
    host.out = out.data();
    const AlignedBytes memory(static_cast<std::size_t>(attention_shared_bytes(64, true)));
    const Grid grid{static_cast<int>(tiles.size()), 2 * job.stretches()};
    run_on_host<kAttentionThreads>(
        grid, [&](const AttentionBlock& block) { attend(block, host, reinterpret_cast<float*>(memory.data())); });
    return out;
  }
  std::vector<float> launched() {
    const int n_pages = (n_committed + n_rows + 15) / 16;
    const auto* pool = static_cast<const std::uint16_t*>(job.kv.base);
    const DeviceArray<std::uint16_t> pages(std::vector(pool, pool + 2 * n_pages * job.kv.page_stride));
    const DeviceArray<std::int32_t> table(std::vector(sequence.pages(), sequence.pages() + n_pages));
    auto device_views = views;
    for (DeviceRow& view : device_views) view.pages = table.get();
    const DeviceArray<DeviceRow> rows(device_views);
    const DeviceArray<AttentionTileRows> device_tiles(tiles);
    const DeviceArray<float> q(std::vector(job.q, job.q + n_rows * width));
    const DeviceArray<float> out(std::vector<float>(static_cast<std::size_t>(n_rows * width), -1.0F));
    const DeviceArray<float> partial(
        std::vector<float>(static_cast<std::size_t>(n_rows * 6 * job.n_splits * 66), std::nanf("")));
    Attention device = job;
    device.q = q.get();
    device.kv.base = pages.get();
    device.rows = rows.get();
    device.tiles = device_tiles.get();
    device.whole = way.whole;
    device.partial = partial.get();
    device.out = out.get();
    enqueue(device, {n_rows, static_cast<int>(tiles.size()), way.rows_a_tile}, kStream);
    return out.values();
  }
  static constexpr std::int64_t width = 384;
  AttentionShape shape{6, 2, 64, 16, Dtype::kBFloat16, Rounds::kWeights, store_device_kv};
  std::int32_t n_committed, n_rows;
  Tiling way;
  PagedSequence sequence;
  std::vector<AttentionTileRows> tiles;
  std::vector<DeviceRow> views;
  Attention job;
};

// How a pass is laid out is not in the bits.
TEST_F(GpuAttention, IsNearTheHostsAndNoTilingIsInTheBits) {
  for (const int n_committed : {0, 200, 1500}) {
    for (const int window : {0, 300}) {
      std::vector<float> first;
      for (const Tiling& way : {Tiling{true, 4, 3}, Tiling{false, 4, 3}, Tiling{false, 1, 2}, Tiling{true, 16, 1}}) {
        AttentionCase with(n_committed, 9, way, window);
        const auto expected = with.on_host(), got = with.launched();
        if (first.empty()) first = got;
        EXPECT_TRUE(same_bits(got, first)) << n_committed << ", window " << window;
        for (std::size_t i = 0; i < got.size(); ++i) {
          ASSERT_NEAR(got[i], expected[i], 0x1p-7) << n_committed << ", window " << window << ", " << i;
        }
      }
    }
  }
}

}  // namespace
}  // namespace slip::kernels::cuda
