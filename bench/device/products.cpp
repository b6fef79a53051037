// SPDX-License-Identifier: Apache-2.0
// Times the matrix products of an 8B-shaped and a 1B-shaped target at 1 … 64 and 512 rows, against cuBLASLt. The
// library is timed with its best algorithm per number of rows, and with the best single algorithm for all of them, as
// exact speculation requires. What is compared takes turns. A wrong result, or bits that change with the number of rows
// where they must not, is not timed.
#include <algorithm>
#include <cstdio>
#include <functional>
#include <limits>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "bench/device/common_cublaslt.h"
#include "bench/device/common_products.h"

namespace slip::bench {
namespace {

using nlohmann::json;
using namespace kernels::cuda;  // NOLINT: the benchmark is of these

constexpr int kMostRows = 512;
constexpr std::int64_t kDecodeRows[] = {1, 2, 4, 8, 16, 32, 64};
constexpr double kBeyondCache = 512e6;  // bytes; such devices have caches of at most 60 MB
constexpr std::size_t kTurns = 5;

std::vector<std::int64_t> all_rows() {
  std::vector<std::int64_t> out(std::begin(kDecodeRows), std::end(kDecodeRows));
  out.push_back(kMostRows);
  return out;
}

// Operands of one shape in one layout, with enough copies of the weight to exceed any cache.
class Operands {
 public:
  Operands(const ProductShape& shape, Layout weights, Layout rows, cudaStream_t stream)
      : weight_matrix{shape.n_out, shape.n_in, 1},
        x_matrix{kMostRows, shape.n_in, 2},
        n_copies(std::max(2, static_cast<int>(kBeyondCache / shape.weight_bytes()))),
        copy_elements_(size_of(weight_matrix, weights)),
        weight_(copy_elements_ * static_cast<std::size_t>(n_copies)),
        x_(size_of(x_matrix, rows)),
        y_(static_cast<std::size_t>(kMostRows * shape.n_out)) {
    for (int copy = 0; copy < n_copies; ++copy) fill(copy_of_weight(copy), weight_matrix, weights, stream);
    fill(x_.get(), x_matrix, rows, stream);
  }
  std::uint16_t* copy_of_weight(int i) const { return weight_.get() + copy_elements_ * static_cast<std::size_t>(i); }
  const std::uint16_t* x() const { return x_.get(); }
  float* y() const { return y_.get(); }
  // The first row, for comparing bits.
  std::vector<float> first_row() const { return y_.values(static_cast<std::size_t>(weight_matrix.n_rows)); }
  bool is_right(std::int64_t n_rows) const {
    return bench::is_right(y(), weight_matrix, {n_rows, x_matrix.n_columns, x_matrix.seed});
  }

  const RandomMatrix weight_matrix, x_matrix;
  const int n_copies;

 private:
  std::size_t copy_elements_;
  DeviceArray<std::uint16_t> weight_, x_;
  DeviceArray<float> y_;
};

// The median microseconds of each measurement. They take turns, in reverse order every second time, so that a device
// that changes its clock favours none.
std::vector<double> medians_in_turns(const std::vector<std::function<double()>>& measurements) {
  std::vector<std::vector<double>> times(measurements.size());
  for (std::size_t turn = 0; turn < kTurns; ++turn) {
    for (std::size_t i = 0; i < measurements.size(); ++i) {
      const std::size_t which = turn % 2 == 0 ? i : measurements.size() - 1 - i;
      times[which].push_back(measurements[which]());
    }
  }
  std::vector<double> medians;
  for (auto& of_one : times) {
    std::nth_element(of_one.begin(), of_one.begin() + kTurns / 2, of_one.end());
    medians.push_back(of_one[kTurns / 2]);
  }
  return medians;
}

// Our kernel. The constructor checks its results.
class OurBench {
 public:
  OurBench(const ProductShape& shape, cudaStream_t stream)
      : shape_(shape), operands_(shape, Layout::kWeights, Layout::kActivations, stream), stream_(stream) {
    std::vector<float> first;
    for (const std::int64_t n_rows : all_rows()) {
      run(n_rows, 0);
      if (!operands_.is_right(n_rows)) throw std::runtime_error(std::string(shape.name) + " is wrong: not timed");
      const auto row = operands_.first_row();
      if (!first.empty() && row != first) throw std::runtime_error(std::string(shape.name) + " depends on the rows");
      first = row;
    }
  }
  double time_us(std::int64_t n_rows) const {
    return 1e3 * captured_ms(stream_, operands_.n_copies, [&](int copy) { run(n_rows, copy); });
  }

 private:
  void run(std::int64_t n_rows, int copy) const {
    Matmul job;
    job.weight.data = operands_.copy_of_weight(copy);
    job.activations = operands_.x();
    job.n_rows = n_rows;
    job.n_out = shape_.n_out;
    job.n_in = shape_.n_in;
    job.y = operands_.y();
    job.y_stride = shape_.n_out;
    enqueue(job, stream_);
  }

  ProductShape shape_;
  Operands operands_;
  cudaStream_t stream_;
};

// The library's algorithms: best[i] for all_rows()[i], empty if each is refused or wrong, and the best one of those
// that accept every number of decode rows.
struct PeerChoice {
  std::vector<std::optional<Algorithm>> best;
  std::optional<Algorithm> pinned;
  bool pinned_same_bits = false;  // of a row, for every number of rows
};

class PeerBench {
 public:
  PeerBench(const Peer& peer, const ProductShape& shape, cudaStream_t stream)
      : operands_(shape, Layout::kRows, Layout::kRows, stream), stream_(stream) {
    for (const std::int64_t n_rows : all_rows()) {
      shapes_.push_back(peer.shape(n_rows, shape.n_out, shape.n_in));
    }
  }

  PeerChoice choose() const {
    PeerChoice out;
    std::vector<Algorithm> candidates;
    for (std::size_t i = 0; i < shapes_.size(); ++i) {
      double least = std::numeric_limits<double>::infinity();
      out.best.emplace_back();
      for (const Algorithm& algorithm : shapes_[i]->candidates()) {
        const double us = time_if_right_us(i, algorithm);
        if (us < least) out.best.back() = algorithm;
        least = std::min(least, us);
        if (std::find(candidates.begin(), candidates.end(), algorithm) == candidates.end()) {
          candidates.push_back(algorithm);
        }
      }
    }
    out.pinned = best_for_all(candidates);
    if (out.pinned) out.pinned_same_bits = has_same_bits(*out.pinned);
    return out;
  }

  // At all_rows()[i].
  double time_us(std::size_t i, const Algorithm& algorithm) const {
    return 1e3 * captured_ms(stream_, operands_.n_copies, [&](int copy) { run(i, algorithm, copy); });
  }

 private:
  void run(std::size_t i, const Algorithm& algorithm, int copy) const {
    shapes_[i]->enqueue(algorithm, {operands_.copy_of_weight(copy), operands_.x(), operands_.y()}, stream_);
  }
  // Infinite for a refused or wrong product.
  double time_if_right_us(std::size_t i, const Algorithm& algorithm) const {
    if (!shapes_[i]->takes(algorithm)) return std::numeric_limits<double>::infinity();
    run(i, algorithm, 0);
    if (!operands_.is_right(all_rows()[i])) return std::numeric_limits<double>::infinity();
    return time_us(i, algorithm);
  }
  std::optional<Algorithm> best_for_all(const std::vector<Algorithm>& candidates) const {
    std::optional<Algorithm> best;
    double least = std::numeric_limits<double>::infinity();
    for (const Algorithm& algorithm : candidates) {
      double sum = 0;
      for (std::size_t i = 0; i < std::size(kDecodeRows) && sum < least; ++i) sum += time_if_right_us(i, algorithm);
      if (sum >= least) continue;
      least = sum;
      best = algorithm;
    }
    return best;
  }
  bool has_same_bits(const Algorithm& algorithm) const {
    std::vector<float> first;
    for (std::size_t i = 0; i < std::size(kDecodeRows); ++i) {
      run(i, algorithm, 0);
      const auto row = operands_.first_row();
      if (!first.empty() && row != first) return false;
      first = row;
    }
    return true;
  }

  Operands operands_;
  cudaStream_t stream_;
  std::vector<std::unique_ptr<PeerShape>> shapes_;
};

// {rows, us} at all_rows()[i], and the library's times where it has algorithms.
json time_rows(std::size_t i, const OurBench& ours, const PeerBench* theirs, const PeerChoice& choice) {
  std::vector<const char*> names = {"us"};
  std::vector<std::function<double()>> measurements = {[&] { return ours.time_us(all_rows()[i]); }};
  const auto add = [&](const char* name, const std::optional<Algorithm>& algorithm) {
    if (!algorithm) return;
    names.push_back(name);
    measurements.emplace_back([=] { return theirs->time_us(i, *algorithm); });
  };
  if (i < choice.best.size()) add("cublaslt_us", choice.best[i]);
  if (i < std::size(kDecodeRows)) add("cublaslt_pinned_us", choice.pinned);
  const std::vector<double> times = medians_in_turns(measurements);
  json row = {{"rows", all_rows()[i]}};
  for (std::size_t j = 0; j < times.size(); ++j) row[names[j]] = times[j];
  return row;
}

json measure_shape(const ProductShape& shape, const Peer* peer, double read_gb_s, cudaStream_t stream) {
  const OurBench ours(shape, stream);
  std::optional<PeerBench> theirs;
  if (peer != nullptr) theirs.emplace(*peer, shape, stream);
  const PeerChoice choice = theirs ? theirs->choose() : PeerChoice{};
  json rows = json::array();
  for (std::size_t i = 0; i < all_rows().size(); ++i) {
    json row = time_rows(i, ours, theirs ? &*theirs : nullptr, choice);
    const double us = row["us"];
    row["over_one_row"] = i == 0 ? 1.0 : us / rows[0]["us"].get<double>();
    row["share_of_read"] = shape.weight_bytes() / us / 1e3 / read_gb_s;
    rows.push_back(row);
  }
  json out = {{"model", shape.model}, {"product", shape.name}, {"n_out", shape.n_out}, {"n_in", shape.n_in}};
  out["rows"] = rows;
  if (choice.pinned) out["cublaslt_pinned_same_bits"] = choice.pinned_same_bits;
  return out;
}

json measure() {
  const Stream stream;
  const auto peer = open_cublaslt();
  json out = {{"device", describe_device(stream.get())}, {"products", json::array()}};
  out["cublaslt"] = peer == nullptr ? json() : json(peer->version());
  for (const char* model : {"8B", "1B"}) {
    for (const ProductShape& shape : product_shapes(model)) {
      out["products"].push_back(measure_shape(shape, peer.get(), out["device"]["read_gb_s"], stream.get()));
    }
  }
  return out;
}

double or_zero(const json& row, const char* key) {
  return row.contains(key) && row[key].is_number() ? row[key].get<double>() : 0.0;
}

void print_table(const json& result) {
  std::printf("%s: reads %.0f GB/s; cuBLASLt %s\n", result["device"]["name"].get<std::string>().c_str(),
              result["device"]["read_gb_s"].get<double>(), result["cublaslt"].dump().c_str());
  std::printf("%-3s %-14s %5s %10s %8s %8s %12s %12s\n", "", "product", "rows", "us", "of read", "of one",
              "cuBLASLt us", "pinned us");
  for (const json& product : result["products"]) {
    for (const json& row : product["rows"]) {
      std::printf("%-3s %-14s %5d %10.1f %7.0f%% %8.2f %12.1f %12.1f\n", product["model"].get<std::string>().c_str(),
                  product["product"].get<std::string>().c_str(), row["rows"].get<int>(), row["us"].get<double>(),
                  100 * row["share_of_read"].get<double>(), row["over_one_row"].get<double>(),
                  or_zero(row, "cublaslt_us"), or_zero(row, "cublaslt_pinned_us"));
    }
  }
}

}  // namespace
}  // namespace slip::bench

int main(int argc, char** argv) {
  return slip::bench::run_benchmark(argc, argv, slip::bench::measure, slip::bench::print_table);
}
