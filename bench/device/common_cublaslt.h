// SPDX-License-Identifier: Apache-2.0
// cuBLASLt, the reference for our matrix product. Only benchmarks link it. Threads: one.
#pragma once

#include <cuda_runtime_api.h>

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace slip::bench {

// The library's parameters of one algorithm for a product.
struct Algorithm {
  std::array<std::uint64_t, 8> data;
  bool operator==(const Algorithm&) const = default;
};

// y [n_rows, n_out] float32 = x [n_rows, n_in] · Wᵀ [n_in, n_out], both bfloat16, row-major.
struct PlainProduct {
  const std::uint16_t* weight = nullptr;
  const std::uint16_t* x = nullptr;
  float* y = nullptr;
};

// Products of one shape.
class PeerShape {
 public:
  virtual ~PeerShape() = default;
  virtual std::vector<Algorithm> candidates() const = 0;  // the library's proposals, its best estimate first
  virtual bool takes(const Algorithm& algorithm) const = 0;
  // Throws std::runtime_error if the library refuses.
  virtual void enqueue(const Algorithm& algorithm, const PlainProduct& product, cudaStream_t stream) const = 0;
};

class Peer {
 public:
  virtual ~Peer() = default;
  virtual std::string version() const = 0;
  virtual std::unique_ptr<PeerShape> shape(std::int64_t n_rows, std::int64_t n_out, std::int64_t n_in) const = 0;
};

// Null in a build without the library.
std::unique_ptr<Peer> open_cublaslt();

}  // namespace slip::bench
