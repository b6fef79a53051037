// SPDX-License-Identifier: Apache-2.0
#include "text/sentence_piece_file.h"

#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <optional>
#include <unordered_set>
#include <vector>

#include "common/error.h"

namespace slip {

namespace {

constexpr std::size_t kMaxPieces = std::size_t{1} << 20;
constexpr std::size_t kMaxPieceBytes = 4096;

// Reads the fields of one protocol buffer message in order.
class WireReader {
 public:
  enum class Type : std::uint8_t { kVarint = 0, kFixed64 = 1, kBytes = 2, kFixed32 = 5 };
  struct Field {
    std::uint64_t number = 0;
    Type type = Type::kVarint;
    std::uint64_t value = 0;  // of a number field
    std::string_view bytes;   // of any other field
  };

  WireReader(std::string_view message, const std::string& where) : rest_(message), where_(where) {}

  std::optional<Field> next() {
    if (rest_.empty()) return std::nullopt;
    const std::uint64_t key = varint();
    Field field{key >> 3, static_cast<Type>(key & 7), 0, {}};
    switch (field.type) {
      case Type::kVarint:
        field.value = varint();
        break;
      case Type::kFixed64:
        field.bytes = take(8);
        break;
      case Type::kBytes:
        field.bytes = take(varint());
        break;
      case Type::kFixed32:
        field.bytes = take(4);
        break;
      default:
        refuse("is no protocol buffer");
    }
    return field;
  }

  [[noreturn]] void refuse(const std::string& why) const {
    throw Error(ErrorCode::kInvalidArgument, where_ + ": " + why, "is it a SentencePiece model?");
  }

 private:
  std::uint64_t varint() {
    std::uint64_t value = 0;
    for (unsigned shift = 0; shift < 64 && !rest_.empty(); shift += 7) {
      const auto byte = static_cast<unsigned char>(rest_.front());
      rest_.remove_prefix(1);
      value |= static_cast<std::uint64_t>(byte & 0x7F) << shift;
      if (byte < 0x80) return value;
    }
    refuse("ends inside a number");
  }

  std::string_view take(std::uint64_t n) {
    if (n > rest_.size()) refuse("ends inside a field");
    const std::string_view taken = rest_.substr(0, n);
    rest_.remove_prefix(n);
    return taken;
  }

  std::string_view rest_;
  const std::string& where_;
};

std::uint32_t little_endian(std::string_view bytes) {
  std::uint32_t value = 0;
  for (std::size_t i = 4; i-- > 0;) value = value << 8 | static_cast<unsigned char>(bytes[i]);
  return value;
}

struct PieceCheck {
  std::unordered_set<std::string_view> seen;

  void check(std::string_view message, const std::string& where) {
    WireReader fields(message, where);
    std::string_view piece;
    const std::string name = "piece " + std::to_string(seen.size());
    while (const auto field = fields.next()) {
      if (field->number == 1 && field->type == WireReader::Type::kBytes) piece = field->bytes;
      if (field->number == 2 && field->type == WireReader::Type::kFixed32 &&
          !std::isfinite(std::bit_cast<float>(little_endian(field->bytes)))) {
        fields.refuse(name + " has a score that is no number");
      }
    }
    if (piece.empty()) fields.refuse(name + " is empty");
    if (piece.size() > kMaxPieceBytes) fields.refuse(name + " is over " + std::to_string(kMaxPieceBytes) + " bytes");
    if (!seen.insert(piece).second) fields.refuse(name + " is repeated");
    if (seen.size() > kMaxPieces) {
      throw Error(ErrorCode::kTooLarge, where + ": has more than " + std::to_string(kMaxPieces) + " pieces");
    }
  }
};

// The character map: the length of a double array (Aoe 1989, in the layout of darts-clone), the array, and the texts it
// points to. In each unit, bits 0 … 7 hold the label, bit 8 says that a value follows, and bits 10 … 30 hold the offset
// of the children (in steps of 256 if bit 9 is set). A unit with bit 31 is a value.
class CharacterMap {
 public:
  CharacterMap(std::string_view blob, const std::string& where) : where_(where) {
    if (blob.size() <= 4 || little_endian(blob) >= blob.size() - 4 || little_endian(blob) % 4 != 0) refuse();
    const std::size_t array_bytes = little_endian(blob);
    for (std::size_t at = 0; at < array_bytes; at += 4) units_.push_back(little_endian(blob.substr(4 + at)));
    texts_ = blob.substr(4 + array_bytes);
    if (units_.empty() || texts_.back() != '\0') refuse();  // every text ends with a zero byte
  }

  // Checks every reachable unit once.
  void check() {
    std::vector<std::size_t> waiting{0};
    std::vector<bool> seen(units_.size());
    seen[0] = true;
    while (!waiting.empty()) {
      const std::size_t children = waiting.back() ^ offset(units_[waiting.back()]);
      if (has_value(units_[waiting.back()])) check_value(children);
      waiting.pop_back();
      for (std::size_t byte = 0; byte < 256; ++byte) {
        const std::size_t child = children ^ byte;
        if (child >= units_.size()) refuse();
        if ((units_[child] & (kValueBit | 0xFF)) != byte || seen[child]) continue;
        seen[child] = true;
        waiting.push_back(child);
      }
    }
  }

 private:
  static constexpr std::uint32_t kValueBit = 1U << 31;
  static bool has_value(std::uint32_t unit) { return (unit >> 8 & 1) != 0; }
  static std::size_t offset(std::uint32_t unit) {
    return static_cast<std::size_t>(unit >> 10) << ((unit & 0x200) >> 6);
  }

  void check_value(std::size_t at) const {
    if (at >= units_.size() || (units_[at] & ~kValueBit) >= texts_.size()) refuse();
  }
  [[noreturn]] void refuse() const {
    throw Error(ErrorCode::kInvalidArgument, where_ + ": its map of characters leads outside of itself");
  }

  const std::string& where_;
  std::vector<std::uint32_t> units_;
  std::string_view texts_;
};

void check_normalizer(std::string_view message, const std::string& where) {
  WireReader fields(message, where);
  while (const auto field = fields.next()) {
    if (field->number != 2 || field->type != WireReader::Type::kBytes || field->bytes.empty()) continue;
    CharacterMap(field->bytes, where).check();
  }
}

}  // namespace

void check_sentence_piece_file(std::string_view bytes, const std::string& where) {
  constexpr std::uint64_t kPiece = 1, kNormalizer = 3, kDenormalizer = 5;
  WireReader fields(bytes, where);
  PieceCheck pieces;
  while (const auto field = fields.next()) {
    if (field->type != WireReader::Type::kBytes) continue;
    if (field->number == kPiece) pieces.check(field->bytes, where);
    if (field->number == kNormalizer || field->number == kDenormalizer) check_normalizer(field->bytes, where);
  }
  if (pieces.seen.empty()) fields.refuse("has no pieces");
}

}  // namespace slip
