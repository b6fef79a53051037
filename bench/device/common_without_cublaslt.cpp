// SPDX-License-Identifier: Apache-2.0
#include "bench/device/common_cublaslt.h"

namespace slip::bench {

std::unique_ptr<Peer> open_cublaslt() {
  return nullptr;
}

}  // namespace slip::bench
