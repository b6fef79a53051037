// SPDX-License-Identifier: Apache-2.0
#include "distill/trainer/draft_export.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <utility>

#include "common/error.h"
#include "common/file.h"
#include "engine/models/pack_weights.h"
#include "kernels/elementwise.h"

namespace slip {

void DraftExport::add(const std::string& name, std::vector<std::int64_t> shape, const float* values,
                      std::size_t n_values) {
  SLIP_CHECK(config_.stored_dtype != Dtype::kFloat16, "drafts are exported in bfloat16 or float32");
  if (!std::all_of(values, values + n_values, [](float x) { return std::isfinite(x); })) {
    throw Error(ErrorCode::kDataLoss, "weight \"" + name + "\" of the draft is not finite",
                "the training run diverged; lower the learning rate");
  }
  Stored& stored = stored_[name];
  stored.shape = std::move(shape);
  stored.bytes.resize(n_values * dtype_bytes(config_.stored_dtype));
  if (config_.stored_dtype == Dtype::kFloat32) {
    std::memcpy(stored.bytes.data(), values, stored.bytes.size());
    return;
  }
  for (std::size_t i = 0; i < n_values; ++i) {
    const std::uint16_t bits = kernels::float_to_bf16(values[i]);
    std::memcpy(stored.bytes.data() + 2 * i, &bits, 2);
  }
}

TensorMap DraftExport::tensors() const {
  TensorMap tensors;
  for (const auto& [name, stored] : stored_) tensors[name] = {config_.stored_dtype, stored.shape, stored.bytes};
  return tensors;
}

std::shared_ptr<const ModelWeights> DraftExport::weights(Dtype dtype) const {
  return pack_weights(config_, tensors(), dtype);
}

void DraftExport::write(const std::filesystem::path& folder) const {
  write_safetensors(folder / "model.safetensors", tensors(), {{"format", "pt"}}, "export");
  replace_file(folder / "config.json", to_config_json(config_), "export");
}

std::size_t DraftExport::bytes() const {
  std::size_t total = 0;
  for (const auto& [name, stored] : stored_) total += stored.bytes.size();
  return total;
}

}  // namespace slip
