// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <bit>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace slip {

// Appends numbers in little-endian order on any machine.
class ByteWriter {
 public:
  template <std::unsigned_integral T>
  void number(T value) {
    for (std::size_t i = 0; i < sizeof(T); ++i) bytes_.push_back(static_cast<std::byte>(value >> (8 * i) & 0xFFU));
  }
  void real(float value) { number(std::bit_cast<std::uint32_t>(value)); }
  // REQUIRES: at most 255 bytes.
  void short_text(std::string_view text) {
    number(static_cast<std::uint8_t>(text.size()));
    for (const char c : text) bytes_.push_back(static_cast<std::byte>(c));
  }
  template <std::unsigned_integral T>
  void overwrite(std::size_t offset, T value) {
    for (std::size_t i = 0; i < sizeof(T); ++i) bytes_[offset + i] = static_cast<std::byte>(value >> (8 * i) & 0xFFU);
  }
  std::vector<std::byte>& bytes() { return bytes_; }

 private:
  std::vector<std::byte> bytes_;
};

// Reads what ByteWriter wrote, from untrusted bytes. Reading past the end sets ok() to false for good and returns
// zeros.
class ByteReader {
 public:
  explicit ByteReader(std::span<const std::byte> bytes) : bytes_(bytes) {}

  template <std::unsigned_integral T>
  T number() {
    if (!take(sizeof(T))) return 0;
    std::uint64_t value = 0;
    for (std::size_t i = 0; i < sizeof(T); ++i) {
      value |= std::to_integer<std::uint64_t>(bytes_[at_ - sizeof(T) + i]) << (8 * i);
    }
    return static_cast<T>(value);
  }
  float real() { return std::bit_cast<float>(number<std::uint32_t>()); }
  std::string short_text() {
    const std::size_t n = number<std::uint8_t>();
    if (!take(n)) return {};
    return {reinterpret_cast<const char*>(bytes_.data()) + at_ - n, n};
  }
  // A count of items of at least `bytes_each` bytes each. A count that cannot fit fails before anything is allocated.
  std::size_t count(std::size_t bytes_each) {
    const std::size_t n = number<std::uint32_t>();
    if (n > left() / bytes_each) ok_ = false;
    return ok_ ? n : 0;
  }
  std::size_t left() const { return bytes_.size() - at_; }
  bool ok() const { return ok_; }
  void fail() { ok_ = false; }

 private:
  bool take(std::size_t n) {
    if (!ok_ || n > left()) {
      ok_ = false;
      return false;
    }
    at_ += n;
    return true;
  }

  std::span<const std::byte> bytes_;
  std::size_t at_ = 0;
  bool ok_ = true;
};

}  // namespace slip
