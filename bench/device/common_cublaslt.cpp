// SPDX-License-Identifier: Apache-2.0
#include "bench/device/common_cublaslt.h"

#include <cublasLt.h>

#include <cstring>
#include <stdexcept>

#include "kernels/cuda/device_array.h"

namespace slip::bench {
namespace {

constexpr std::size_t kWorkspaceBytes = std::size_t{32} << 20;  // what the library advises for Hopper
constexpr int kMostCandidates = 8;

void check_lt(cublasStatus_t status, const char* what) {
  if (status != CUBLAS_STATUS_SUCCESS) {
    throw std::runtime_error(std::string("cublasLt: ") + what + ": " + cublasLtGetStatusString(status));
  }
}

cublasLtMatmulAlgo_t native(const Algorithm& algorithm) {
  cublasLtMatmulAlgo_t out;
  static_assert(sizeof out == sizeof algorithm.data);
  std::memcpy(&out, algorithm.data.data(), sizeof out);
  return out;
}

class Matrix {
 public:
  Matrix(cudaDataType type, std::int64_t n_rows, std::int64_t n_columns) {  // column-major
    check_lt(cublasLtMatrixLayoutCreate(&layout_, type, static_cast<std::uint64_t>(n_rows),
                                        static_cast<std::uint64_t>(n_columns), n_rows),
             "a matrix");
  }
  Matrix(const Matrix&) = delete;
  Matrix& operator=(const Matrix&) = delete;
  ~Matrix() { cublasLtMatrixLayoutDestroy(layout_); }
  cublasLtMatrixLayout_t get() const { return layout_; }

 private:
  cublasLtMatrixLayout_t layout_ = nullptr;
};

// cuBLASLt is column-major, so our matrices appear transposed: yᵀ [n_out, n_rows] = W xᵀ.
class LtShape final : public PeerShape {
 public:
  LtShape(cublasLtHandle_t handle, void* workspace, std::int64_t n_rows, std::int64_t n_out, std::int64_t n_in)
      : handle_(handle),
        workspace_(workspace),
        weight_(CUDA_R_16BF, n_in, n_out),
        x_(CUDA_R_16BF, n_in, n_rows),
        y_(CUDA_R_32F, n_out, n_rows) {
    check_lt(cublasLtMatmulDescCreate(&product_, CUBLAS_COMPUTE_32F, CUDA_R_32F), "a product");
    const cublasOperation_t transposed = CUBLAS_OP_T;
    check_lt(cublasLtMatmulDescSetAttribute(product_, CUBLASLT_MATMUL_DESC_TRANSA, &transposed, sizeof transposed),
             "a transposed weight");
  }
  ~LtShape() override { cublasLtMatmulDescDestroy(product_); }

  std::vector<Algorithm> candidates() const override {
    cublasLtMatmulPreference_t preference = nullptr;
    check_lt(cublasLtMatmulPreferenceCreate(&preference), "a preference");
    cublasLtMatmulHeuristicResult_t results[kMostCandidates] = {};
    int n = 0;
    cublasStatus_t status = cublasLtMatmulPreferenceSetAttribute(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES,
                                                                 &kWorkspaceBytes, sizeof kWorkspaceBytes);
    if (status == CUBLAS_STATUS_SUCCESS) {
      status = cublasLtMatmulAlgoGetHeuristic(handle_, product_, weight_.get(), x_.get(), y_.get(), y_.get(),
                                              preference, kMostCandidates, results, &n);
    }
    cublasLtMatmulPreferenceDestroy(preference);
    check_lt(status, "its proposals");
    std::vector<Algorithm> out;
    for (int i = 0; i < n; ++i) {
      if (results[i].state != CUBLAS_STATUS_SUCCESS) continue;
      out.emplace_back();
      std::memcpy(out.back().data.data(), &results[i].algo, sizeof results[i].algo);
    }
    return out;
  }

  bool takes(const Algorithm& algorithm) const override {
    const cublasLtMatmulAlgo_t algo = native(algorithm);
    cublasLtMatmulHeuristicResult_t result = {};
    const cublasStatus_t status =
        cublasLtMatmulAlgoCheck(handle_, product_, weight_.get(), x_.get(), y_.get(), y_.get(), &algo, &result);
    return status == CUBLAS_STATUS_SUCCESS && result.workspaceSize <= kWorkspaceBytes;
  }

  void enqueue(const Algorithm& algorithm, const PlainProduct& product, cudaStream_t stream) const override {
    const float one = 1, zero = 0;
    const cublasLtMatmulAlgo_t algo = native(algorithm);
    check_lt(cublasLtMatmul(handle_, product_, &one, product.weight, weight_.get(), product.x, x_.get(), &zero,
                            product.y, y_.get(), product.y, y_.get(), &algo, workspace_, kWorkspaceBytes, stream),
             "matmul");
  }

 private:
  cublasLtHandle_t handle_;
  void* workspace_;
  Matrix weight_, x_, y_;
  cublasLtMatmulDesc_t product_ = nullptr;
};

class CublasLt final : public Peer {
 public:
  CublasLt() : workspace_(kWorkspaceBytes) { check_lt(cublasLtCreate(&handle_), "the library"); }
  ~CublasLt() override { cublasLtDestroy(handle_); }
  std::string version() const override { return std::to_string(cublasLtGetVersion()); }
  std::unique_ptr<PeerShape> shape(std::int64_t n_rows, std::int64_t n_out, std::int64_t n_in) const override {
    return std::make_unique<LtShape>(handle_, workspace_.get(), n_rows, n_out, n_in);
  }

 private:
  kernels::cuda::DeviceArray<char> workspace_;
  cublasLtHandle_t handle_ = nullptr;
};

}  // namespace

std::unique_ptr<Peer> open_cublaslt() {
  return std::make_unique<CublasLt>();
}

}  // namespace slip::bench
