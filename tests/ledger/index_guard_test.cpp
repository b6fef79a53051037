// SPDX-License-Identifier: Apache-2.0
#include "ledger/index_guard.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>

#include "common/file.h"
#include "tests/ledger/sample_ledger.h"

namespace slip {
namespace {

constexpr std::size_t kBytes = 65'536;

// A file that is mapped as SQLite maps an index, full of ones.
class MappedFile {
 public:
  explicit MappedFile(const std::filesystem::path& path)
      : path_(path), file_(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600)) {
    EXPECT_EQ(::ftruncate(file_.get(), kBytes), 0);
    bytes_ = static_cast<char*>(::mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_SHARED, file_.get(), 0));
    std::fill(bytes_, bytes_ + kBytes, '\1');
  }
  ~MappedFile() { ::munmap(bytes_, kBytes); }
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  void cut(off_t left) const { ASSERT_EQ(::ftruncate(file_.get(), left), 0); }
  volatile char& at(std::size_t i) const { return bytes_[i]; }
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
  FileHandle file_;
  char* bytes_ = nullptr;
};

class IndexGuard : public ::testing::Test {
 protected:
  IndexGuard() { survive_cut_indexes(); }
  TemporaryFolder folder_;
};

TEST_F(IndexGuard, ACutIndexIsAllZerosAtItsLength) {
  const MappedFile index(folder_ / "ledger.db-shm");
  const std::uint64_t before = index_cuts();
  index.cut(10'000);  // the rest of a part would be trusted
  EXPECT_EQ(index.at(kBytes - 1), 0);
  EXPECT_EQ(index_cuts(), before + 1);
  EXPECT_EQ(index.at(0), 0);
  EXPECT_EQ(std::filesystem::file_size(index.path()), kBytes);
  index.at(5) = 7;
  index.cut(0);
  index.at(5) = 8;
  EXPECT_EQ(index.at(5), 8) << "a write survives as a read does";
  EXPECT_EQ(index_cuts(), before + 2);
}

TEST_F(IndexGuard, AnIndexWithoutANameIsMendedToo) {
  const MappedFile index(folder_ / "a name with blanks-shm");
  std::filesystem::remove(index.path());
  index.cut(0);
  EXPECT_EQ(index.at(1), 0);
}

TEST_F(IndexGuard, NegativeAnyOtherFileEndsTheProcess) {
  const MappedFile other(folder_ / "weights.bin");
  const std::uint64_t before = index_cuts();
  const auto touch = [&] {
    const rlimit no_core{};
    ::setrlimit(RLIMIT_CORE, &no_core);
    other.cut(0);
    other.at(0) = 1;
  };
  EXPECT_DEATH(touch(), "");
  EXPECT_EQ(index_cuts(), before);
}

// Without room for its pages the access would fault for ever.
TEST_F(IndexGuard, NegativeAnIndexThatCannotBeMendedEndsTheProcess) {
  const MappedFile index(folder_ / "full-shm");
  const auto touch = [&] {
    const rlimit none{};
    ::setrlimit(RLIMIT_CORE, &none);
    ::setrlimit(RLIMIT_FSIZE, &none);
    std::signal(SIGXFSZ, SIG_IGN);
    index.cut(0);
    index.at(0) = 1;
  };
  EXPECT_DEATH(touch(), "");
}

}  // namespace
}  // namespace slip
