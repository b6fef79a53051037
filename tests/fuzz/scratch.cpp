// SPDX-License-Identifier: Apache-2.0
#include <unistd.h>

#include <fstream>
#include <string>

#include "tests/fuzz/fuzz.h"

namespace slip {

namespace {

class Scratch {
 public:
  Scratch() {
    const auto root = std::filesystem::exists("/dev/shm") ? "/dev/shm" : std::filesystem::temp_directory_path();
    folder_ = root / ("slipstream-fuzz-" + std::to_string(::getpid()));
    std::filesystem::create_directories(folder_);
  }
  ~Scratch() {
    std::error_code ignored;
    std::filesystem::remove_all(folder_, ignored);
  }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
  const std::filesystem::path& folder() const { return folder_; }

 private:
  std::filesystem::path folder_;
};

}  // namespace

const std::filesystem::path& scratch_folder() {
  static const Scratch scratch;
  return scratch.folder();
}

std::filesystem::path write_scratch(std::string_view name, std::string_view bytes) {
  auto path = scratch_folder() / name;
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  file.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  file.close();
  SLIP_CHECK(file.good(), "the scratch folder is full");
  return path;
}

}  // namespace slip
