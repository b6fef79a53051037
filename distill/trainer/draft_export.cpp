// SPDX-License-Identifier: Apache-2.0
#include "distill/trainer/draft_export.h"

#include <cstdint>
#include <span>
#include <utility>

#include "checkpoints/finite_tensor.h"
#include "common/error.h"
#include "common/file.h"
#include "engine/models/pack_weights.h"
#include "kernels/elementwise.h"

namespace slip {
void DraftExport::add(const std::string& name, std::vector<std::int64_t> shape, const float* values,
                      std::size_t n_values) {
  SLIP_CHECK(config_.stored_dtype != Dtype::kFloat16, "drafts are exported in bfloat16 or float32");
  const auto given = std::as_bytes(std::span(values, n_values));
  if (!is_finite({Dtype::kFloat32, {}, given})) {
    throw Error(ErrorCode::kDataLoss, "weight \"" + name + "\" of the draft is not finite",
                "the training run diverged; lower the learning rate");
  }
  Stored& stored = stored_[name];
  stored.shape = std::move(shape);
  if (config_.stored_dtype == Dtype::kFloat32) {
    stored.bytes.assign(given.begin(), given.end());
  } else {
    stored.bytes.resize(2 * n_values);
    kernels::float_to_bf16(values, static_cast<std::int64_t>(n_values),
                           reinterpret_cast<std::uint16_t*>(stored.bytes.data()));
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
