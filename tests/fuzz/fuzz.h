// SPDX-License-Identifier: Apache-2.0
// What the fuzz targets share. A target defines LLVMFuzzerTestOneInput; libFuzzer drives it in the `fuzz` preset, and
// replay_corpus.cpp runs the kept inputs through it in every other build, under the sanitizers too.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string_view>
#include <utility>

#include "common/error.h"

// Any bytes at all. An exception other than slip::Error and a property that does not hold end the process.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

namespace slip {

inline std::string_view as_text(const std::uint8_t* data, std::size_t size) {
  return {reinterpret_cast<const char*>(data), size};  // NOLINT(cppcoreguidelines-pro-type-reinterpret-cast)
}

// False when the input was refused, which must come with a reason.
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

// A folder of this process in memory, removed when it exits.
const std::filesystem::path& scratch_folder();
std::filesystem::path write_scratch(std::string_view name, std::string_view bytes);

}  // namespace slip
