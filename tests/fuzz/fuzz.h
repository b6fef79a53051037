// SPDX-License-Identifier: Apache-2.0
// Shared by the fuzz targets. A target defines LLVMFuzzerTestOneInput. libFuzzer drives it in the `fuzz` preset, and
// replay_corpus.cpp runs the stored inputs through it in every other build, including the sanitizer builds.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string_view>
#include <utility>

#include "common/error.h"

// Takes arbitrary bytes. An exception other than slip::Error, or a violated property, ends the process. libFuzzer gives
// the name.
// NOLINTNEXTLINE(readability-identifier-naming)
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

namespace slip {

inline std::string_view as_text(const std::uint8_t* data, std::size_t size) {
  return {reinterpret_cast<const char*>(data), size};  // NOLINT(cppcoreguidelines-pro-type-reinterpret-cast)
}

// False when the input was refused; a refusal must give a reason.
template <class Read>
bool accepts(Read&& read) {
  try {
    std::forward<Read>(read)();
    return true;
  } catch (const Error& error) {
    SLIP_CHECK(!error.message().empty(), "a refusal says why");
    return false;
  }
}

// An in-memory folder of this process, removed when it exits.
const std::filesystem::path& scratch_folder();
std::filesystem::path write_scratch(std::string_view name, std::string_view bytes);

}  // namespace slip
