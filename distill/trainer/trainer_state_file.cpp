// SPDX-License-Identifier: Apache-2.0
#include "distill/trainer/trainer_state_file.h"

#include <array>
#include <bit>
#include <cstring>
#include <string>
#include <string_view>

#include "common/byte_codec.h"
#include "common/crc32c.h"
#include "common/error.h"
#include "common/file.h"

namespace slip {
namespace {

static_assert(std::endian::native == std::endian::little, "floats are copied as they lie in memory");

constexpr std::uint64_t kMagic = 0x0354504F50494C53;  // "SLIPOPT\3"
constexpr std::size_t kMaxRecentLosses = 4096;
constexpr std::size_t kHeaderBytes = 8 + 9 * 4 + 8 + 4;

std::array<std::uint32_t, 8> shape_words(const ModelConfig& shape) {
  auto word = [](std::int32_t value) { return static_cast<std::uint32_t>(value); };
  return {
      word(shape.vocab_size), word(shape.hidden_size), word(shape.intermediate_size), word(shape.n_layers),
      word(shape.n_heads),    word(shape.n_kv_heads),  word(shape.head_dim),          shape.tied_embeddings ? 1U : 0U};
}

std::span<const std::byte> as_bytes(const std::string& text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

[[noreturn]] void refuse(const std::filesystem::path& file, const std::string& what) {
  throw Error(ErrorCode::kDataLoss, "optimizer state " + file.string() + " " + what,
              "delete the file: a service then begins the optimizer afresh, and a warmup its whole training");
}

// Never renumber these values: they are on disk.
std::uint32_t optimizer_word(OptimizerKind optimizer) {
  return optimizer == OptimizerKind::kMuon ? 1 : 0;
}

// Of one layer: its seven matrices.
std::uint64_t matrix_parameters(const ModelConfig& shape) {
  const auto hidden = static_cast<std::uint64_t>(shape.hidden_size);
  const auto head = static_cast<std::uint64_t>(shape.head_dim);
  const auto heads = static_cast<std::uint64_t>(shape.n_heads + shape.n_kv_heads);
  return 2 * hidden * head * heads + 3 * hidden * static_cast<std::uint64_t>(shape.intermediate_size);
}

}  // namespace

// Muon keeps one moment per matrix value, AdamW two.
std::uint64_t TrainerState::n_floats(const ModelConfig& shape, OptimizerKind optimizer) {
  const std::uint64_t all = kParts * static_cast<std::uint64_t>(shape.parameters());
  if (optimizer == OptimizerKind::kAdamW) return all;
  return all - static_cast<std::uint64_t>(shape.n_layers) * matrix_parameters(shape);
}

void write_trainer_state(const std::filesystem::path& file, const ModelConfig& shape, const TrainerState& state,
                         OptimizerKind optimizer) {
  ByteWriter writer;
  writer.number(kMagic);
  for (std::uint32_t word : shape_words(shape)) writer.number(word);
  writer.number(optimizer_word(optimizer));
  writer.number(state.steps);
  writer.number(static_cast<std::uint32_t>(state.recent_losses.size()));
  for (double loss : state.recent_losses) writer.number(std::bit_cast<std::uint64_t>(loss));
  writer.number(static_cast<std::uint64_t>(state.floats.size()));
  const std::vector<std::byte>& header = writer.bytes();
  const std::size_t float_bytes = state.floats.size() * sizeof(float);
  std::string content(header.size() + float_bytes + sizeof(std::uint32_t), '\0');
  std::memcpy(content.data(), header.data(), header.size());
  std::memcpy(content.data() + header.size(), state.floats.data(), float_bytes);
  const std::uint32_t crc = crc32c(as_bytes(content).first(header.size() + float_bytes));
  std::memcpy(content.data() + header.size() + float_bytes, &crc, sizeof crc);
  try {
    replace_file(file, content, "optimizer");
  } catch (const Error& error) {
    throw Error(error.code(),
                error.message() + "; " + file.string() + " takes " + std::to_string(content.size()) + " bytes",
                error.hint());
  }
}

TrainerState read_trainer_state(const std::filesystem::path& file, const ModelConfig& shape, OptimizerKind optimizer) {
  const std::uint64_t n_floats = TrainerState::n_floats(shape, optimizer);
  // The limit is AdamW's, the larger one, so that a file of the other optimizer is read far enough to report it.
  const std::uint64_t most_floats = TrainerState::n_floats(shape, OptimizerKind::kAdamW);
  const std::uint64_t max_bytes = kHeaderBytes + kMaxRecentLosses * 8 + 8 + most_floats * sizeof(float) + 4;
  const std::string content = read_file(file, max_bytes);
  const std::span<const std::byte> bytes = as_bytes(content);
  if (bytes.size() < kHeaderBytes + 8 + 4) refuse(file, "is torn");
  std::uint32_t crc = 0;
  std::memcpy(&crc, bytes.data() + bytes.size() - sizeof crc, sizeof crc);
  const std::span<const std::byte> body = bytes.first(bytes.size() - sizeof crc);
  if (crc32c(body) != crc) refuse(file, "fails its checksum");
  ByteReader reader(body);
  if (reader.number<std::uint64_t>() != kMagic) refuse(file, "is of another format");
  for (std::uint32_t word : shape_words(shape)) {
    if (reader.number<std::uint32_t>() != word) refuse(file, "belongs to a draft of another shape");
  }
  if (reader.number<std::uint32_t>() != optimizer_word(optimizer)) refuse(file, "belongs to another optimizer");
  TrainerState state;
  state.steps = reader.number<std::uint64_t>();
  const std::size_t n_losses = reader.count(sizeof(double));
  for (std::size_t i = 0; i < n_losses; ++i) {
    state.recent_losses.push_back(std::bit_cast<double>(reader.number<std::uint64_t>()));
  }
  if (reader.number<std::uint64_t>() != n_floats || !reader.ok() || reader.left() != n_floats * sizeof(float)) {
    refuse(file, "does not hold what its header says");
  }
  state.floats.resize(n_floats);
  std::memcpy(state.floats.data(), body.data() + body.size() - reader.left(), reader.left());
  return state;
}

}  // namespace slip
