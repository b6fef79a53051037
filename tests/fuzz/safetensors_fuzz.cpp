// SPDX-License-Identifier: Apache-2.0
#include "checkpoints/safetensors.h"

#include <functional>
#include <numeric>

#include "tests/fuzz/fuzz.h"

namespace slip {
namespace {

void check(const SafetensorsFile& file, std::size_t file_bytes) {
  std::size_t tensor_bytes = 0;
  unsigned sum = 0;
  for (const auto& [name, tensor] : file.tensors()) {
    const auto elements =
        std::accumulate(tensor.shape.begin(), tensor.shape.end(), std::int64_t{1}, std::multiplies<>());
    SLIP_CHECK(elements >= 0 && static_cast<std::size_t>(elements) * dtype_bytes(tensor.dtype) == tensor.bytes.size(),
               "a tensor's bytes are its shape's");
    tensor_bytes += tensor.bytes.size();
    for (const std::byte byte : tensor.bytes) sum += std::to_integer<unsigned>(byte);  // all of them can be read
  }
  volatile unsigned seen = sum;
  (void)seen;
  SLIP_CHECK(tensor_bytes <= file_bytes, "tensors do not overlap");
}

}  // namespace
}  // namespace slip

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto path = slip::write_scratch("model.safetensors", slip::as_text(data, size));
  slip::accepts([&] { slip::check(slip::SafetensorsFile(path), size); });
  return 0;
}
