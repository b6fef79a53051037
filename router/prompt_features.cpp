// SPDX-License-Identifier: Apache-2.0
#include "router/prompt_features.h"

#include <algorithm>
#include <bit>
#include <bitset>
#include <utility>

namespace slip {
namespace {

using Symbol = std::uint32_t;  // a character's folded UTF-8 bytes as one number

constexpr Symbol kSpace = ' ';
constexpr Symbol kLineFeed = '\n';
constexpr std::size_t kLongestGram = 3;
constexpr std::size_t kMaxLabelBytes = 64;

// All kinds of n-grams share one hash space; the kind is hashed first.
enum class Kind : std::uint64_t { kCharacters = 1, kWord = 2, kWordPair = 3, kScript = 4 };

// Multiplication by an odd number spreads low bits upwards; the shift brings high bits down (constants of MurmurHash3's
// finalizer).
constexpr std::uint64_t mix(std::uint64_t hash, std::uint64_t value) {
  hash = (hash ^ value) * 0xFF51AFD7ED558CCDULL;
  return hash ^ (hash >> 32);
}

constexpr std::uint64_t begin_hash(Kind kind) {
  return mix(0xC4CEB9FE1A85EC53ULL, static_cast<std::uint64_t>(kind));
}

std::uint32_t bucket_of(std::uint64_t hash) {
  constexpr int kBits = std::countr_zero(kFeatureBuckets);
  return static_cast<std::uint32_t>((hash * 0xC4CEB9FE1A85EC53ULL) >> (64 - kBits));
}

class BucketSet {
 public:
  void add(std::uint64_t hash) {
    const std::uint32_t bucket = bucket_of(hash);
    if (seen_.test(bucket)) return;
    seen_.set(bucket);
    buckets_.push_back(bucket);
  }
  std::vector<std::uint32_t> take() { return std::move(buckets_); }

 private:
  std::bitset<kFeatureBuckets> seen_;  // 2 KiB
  std::vector<std::uint32_t> buckets_;
};

bool continues(char byte) {
  return (static_cast<unsigned char>(byte) & 0xC0U) == 0x80U;
}

// The parts of a text that are read, cut at character borders.
struct Ends {
  std::string_view head, tail;
};
Ends ends_of(std::string_view text) {
  if (text.size() <= 2 * kReadBytesEachEnd) return {text, {}};
  constexpr std::size_t kMostContinuations = 3;
  std::size_t end = kReadBytesEachEnd, begin = text.size() - kReadBytesEachEnd;
  while (end > kReadBytesEachEnd - kMostContinuations && continues(text[end])) --end;
  while (begin < text.size() - kReadBytesEachEnd + kMostContinuations && continues(text[begin])) ++begin;
  return {text.substr(0, end), text.substr(begin)};
}

Symbol fold(unsigned char byte) {
  if (byte >= 'A' && byte <= 'Z') return byte - 'A' + 'a';
  if (byte >= '0' && byte <= '9') return '0';
  return byte == '\n' || byte > ' ' ? byte : kSpace;
}

// Appends the text's characters. A lead byte takes the continuation bytes that it announces, if they are present.
void append_symbols(std::string_view text, std::vector<Symbol>& symbols) {
  for (std::size_t i = 0; i < text.size(); ++i) {
    const auto byte = static_cast<unsigned char>(text[i]);
    Symbol symbol = byte < 0x80 ? fold(byte) : byte;
    const int announced = byte < 0xC0 ? 0 : byte < 0xE0 ? 1 : byte < 0xF0 ? 2 : 3;
    for (int n = 0; n < announced && i + 1 < text.size() && continues(text[i + 1]); ++n) {
      symbol = symbol << 8 | static_cast<unsigned char>(text[++i]);
    }
    const bool blank = symbol == kSpace || symbol == kLineFeed;
    if (!blank || (symbols.back() != kSpace && symbols.back() != kLineFeed)) {
      symbols.push_back(symbol);
    } else if (symbol == kLineFeed) {
      symbols.back() = kLineFeed;  // white space with a line break in it counts as a line break
    }
  }
}

bool is_word_part(Symbol symbol) {
  return symbol >= 0x80 || symbol == '_' || symbol == '0' || (symbol >= 'a' && symbol <= 'z');
}

void add_characters(const std::vector<Symbol>& symbols, BucketSet& set) {
  for (std::size_t begin = 0; begin < symbols.size(); ++begin) {
    std::uint64_t hash = begin_hash(Kind::kCharacters);
    const std::size_t end = std::min(symbols.size(), begin + kLongestGram);
    for (std::size_t at = begin; at < end; ++at) {
      hash = mix(hash, symbols[at]);
      if (at > begin) set.add(hash);
    }
  }
}

void add_words(const std::vector<Symbol>& symbols, BucketSet& set) {
  std::uint64_t before = 0;  // the previous word's hash
  for (std::size_t at = 0; at < symbols.size(); ++at) {
    if (!is_word_part(symbols[at])) continue;
    std::uint64_t word = begin_hash(Kind::kWord);
    for (; at < symbols.size() && is_word_part(symbols[at]); ++at) word = mix(word, symbols[at]);
    set.add(word);
    if (before != 0) set.add(mix(mix(begin_hash(Kind::kWordPair), before), word));
    before = word;
  }
}

unsigned char lead_byte(Symbol symbol) {
  while (symbol > 0xFF) symbol >>= 8;
  return static_cast<unsigned char>(symbol);
}

void add_scripts(const std::vector<Symbol>& symbols, BucketSet& set) {
  for (const Symbol symbol : symbols) {
    if (symbol >= 0x80) set.add(mix(begin_hash(Kind::kScript), lead_byte(symbol)));
  }
}

}  // namespace

std::vector<std::uint32_t> prompt_features(std::string_view text) {
  return prompt_features({}, text);
}

std::vector<std::uint32_t> prompt_features(std::string_view label, std::string_view text) {
  const Ends ends = ends_of(text);
  // Marks the text's borders, so that n-grams there differ from inner ones
  std::vector<Symbol> symbols = {kLineFeed};
  append_symbols(label.substr(0, kMaxLabelBytes), symbols);
  append_symbols("\n", symbols);
  for (const std::string_view part : {ends.head, ends.tail}) {
    append_symbols(part, symbols);
    append_symbols("\n", symbols);
  }
  if (symbols.size() == 1) return {};
  BucketSet set;
  add_characters(symbols, set);
  add_words(symbols, set);
  add_scripts(symbols, set);
  return set.take();
}

}  // namespace slip
