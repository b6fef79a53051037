// SPDX-License-Identifier: Apache-2.0
#include "engine/models/fingerprint.h"

#include <algorithm>
#include <cstdint>
#include <span>
#include <string_view>

#include "checkpoints/store_folder.h"
#include "checkpoints/weight_files.h"
#include "common/file.h"
#include "text/tokenizer_paths.h"

namespace slip {
namespace {

constexpr std::uint64_t kMaxJsonBytes = std::uint64_t{256} << 20;
constexpr std::size_t kPieceBytes = 4096;  // a page fault reads this much anyway
constexpr std::size_t kPieces = 8;

std::string_view text_of(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

// Adds pieces from the first to the last bytes, evenly spaced.
void add_pieces(std::span<const std::byte> bytes, std::string& text) {
  if (bytes.size() <= kPieces * kPieceBytes) {
    text += text_of(bytes);
    return;
  }
  const std::size_t last = bytes.size() - kPieceBytes;
  for (std::size_t i = 0; i < kPieces; ++i) {
    text += text_of(bytes.subspan(last / (kPieces - 1) * i, kPieceBytes));
  }
}

}  // namespace

std::string target_fingerprint(const std::filesystem::path& folder) {
  return sha256_of(read_file(folder / "config.json", kMaxJsonBytes) +
                   read_file(vocabulary_file(folder), kMaxJsonBytes));
}

std::string model_fingerprint(const std::filesystem::path& folder) {
  std::string text = target_fingerprint(folder);
  const WeightFiles weights(folder);
  for (const auto& [name, tensor] : weights.tensors()) {
    text += '\n' + name + ' ' + std::to_string(static_cast<int>(tensor.dtype));
    for (const std::int64_t size : tensor.shape) text += ' ' + std::to_string(size);
    text += '\n';
    add_pieces(tensor.bytes, text);
  }
  return sha256_of(text);
}

}  // namespace slip
