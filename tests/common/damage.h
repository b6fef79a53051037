// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <fstream>
#include <ios>
#include <string_view>

namespace slip::testing {

// Replaces bytes of a file in place. `at` counts from the start; below 0, from the end.
inline void overwrite(const std::filesystem::path& file, std::streamoff at, std::string_view bytes) {
  std::fstream stream(file, std::ios::in | std::ios::out | std::ios::binary);
  stream.seekp(at, at < 0 ? std::ios::end : std::ios::beg);
  stream.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
}

// Another value for one byte of a file, whatever it had.
inline void invert_byte(const std::filesystem::path& file, std::streamoff at) {
  std::ifstream stream(file, std::ios::binary);
  stream.seekg(at);
  const auto inverted = static_cast<char>(stream.get() ^ 0xff);
  overwrite(file, at, {&inverted, 1});
}

}  // namespace slip::testing
