// SPDX-License-Identifier: Apache-2.0
#include "checkpoints/safetensors.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cstring>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <random>

#include "common/error.h"
#include "tests/checkpoints/temporary_folder.h"

namespace slip {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using testing::TemporaryFolder;

std::string with_length(std::uint64_t length, const std::string& rest) {
  std::string file(8, '\0');
  std::memcpy(file.data(), &length, 8);
  return file + rest;
}

std::string sound_file(const std::string& header, std::size_t n_data) {
  return with_length(header.size(), header + std::string(n_data, 'd'));
}

// One F32 tensor "a" of these raw header fields over `n_data` bytes.
std::string tensor_file(const std::string& shape, const std::string& offsets, std::size_t n_data = 16) {
  return sound_file(R"({"a":{"dtype":"F32","shape":)" + shape + R"(,"data_offsets":)" + offsets + "}}", n_data);
}

class Safetensors : public ::testing::Test {
 protected:
  // What the reader says of a file of these bytes; nullopt when it takes it.
  std::optional<Error> refusal(const std::string& bytes) {
    try {
      const SafetensorsFile file(folder_.write("f.safetensors", bytes));
      return std::nullopt;
    } catch (const Error& error) {
      return error;
    }
  }
  void expect_refused(const std::string& bytes, ErrorCode code, const std::string& words) {
    const auto error = refusal(bytes);
    ASSERT_TRUE(error.has_value()) << words;
    EXPECT_EQ(error->code(), code) << error->what();
    EXPECT_THAT(error->what(), HasSubstr(words));
    EXPECT_THAT(error->what(), HasSubstr("f.safetensors"));
    EXPECT_THAT(error->what(), Not(HasSubstr("dddd"))) << "the file's bytes are repeated";
  }
  TemporaryFolder folder_;
};

TEST_F(Safetensors, ReadsBackWhatItWrote) {
  const std::vector<float> floats{1.5F, -2.0F, 3.25F, 0.0F, 5.0F, 6.0F};
  const std::vector<std::uint16_t> halves{0x3f80, 0x4000, 0x4040};
  std::map<std::string, StoredTensor, std::less<>> tensors;
  tensors["b.weight"] = {Dtype::kFloat32, {2, 3}, std::as_bytes(std::span(floats))};
  tensors["a.weight"] = {Dtype::kBFloat16, {3}, std::as_bytes(std::span(halves))};
  tensors["empty"] = {Dtype::kFloat16, {0, 4}, {}};
  const auto path = folder_.path() / "w.safetensors";
  write_safetensors(path, tensors, {{"format", "pt"}, {"note", "quote \" and \\ and ü"}}, "test");

  const SafetensorsFile file(path);
  EXPECT_EQ(file.tensors().size(), 3U);
  EXPECT_EQ(file.metadata().at("note"), "quote \" and \\ and ü");
  const StoredTensor& b = file.tensors().at("b.weight");
  EXPECT_EQ(b.shape, (std::vector<std::int64_t>{2, 3}));
  ASSERT_EQ(b.bytes.size(), 24U);
  EXPECT_EQ(std::memcmp(b.bytes.data(), floats.data(), 24), 0);
  EXPECT_EQ(file.tensors().at("a.weight").dtype, Dtype::kBFloat16);
  EXPECT_EQ(file.tensors().at("empty").bytes.size(), 0U);
  struct stat status {};
  ASSERT_EQ(::stat(path.c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777, 0600U);
}

TEST_F(Safetensors, HeaderIsPaddedToEightBytes) {
  const std::vector<float> value{1.0F};
  for (const std::string name : {"a", "ab", "abc", "abcd", "abcdefgh"}) {
    const auto path = folder_.path() / "w.safetensors";
    write_safetensors(path, {{name, {Dtype::kFloat32, {1}, std::as_bytes(std::span(value))}}}, {}, "test");
    std::ifstream in(path, std::ios::binary);
    std::uint64_t length = 0;
    in.read(reinterpret_cast<char*>(&length), 8);
    EXPECT_EQ(length % 8, 0U);
    EXPECT_TRUE(SafetensorsFile(path).tensors().contains(name));
  }
}

TEST_F(Safetensors, TakesTrailingSpacesAndMetadata) {
  EXPECT_FALSE(refusal(sound_file("{}      ", 0)));
  EXPECT_FALSE(refusal(tensor_file("[2,2]", "[0,16]")));
  EXPECT_FALSE(refusal(tensor_file("[]", "[0,4]", 4)));
  EXPECT_FALSE(refusal(sound_file(R"({"__metadata__":{"k":"v"}})", 0)));
}

TEST_F(Safetensors, RefusesWhatCannotHoldAHeader) {
  expect_refused("", ErrorCode::kDataLoss, "shorter than 8");
  expect_refused("1234567", ErrorCode::kDataLoss, "shorter than 8");
  expect_refused(with_length(0, ""), ErrorCode::kInvalidArgument, "begin with {");
  expect_refused(with_length(3, "{}"), ErrorCode::kDataLoss, "longer than the file");
  expect_refused(sound_file(" {}", 0), ErrorCode::kInvalidArgument, "begin with {");
  expect_refused(sound_file("[]", 0), ErrorCode::kInvalidArgument, "begin with {");
  expect_refused(sound_file("{}{}", 0), ErrorCode::kInvalidArgument, "not valid JSON");
  expect_refused(sound_file(std::string("{}\0\0", 4), 0), ErrorCode::kInvalidArgument, "not valid JSON");
}

TEST_F(Safetensors, HeaderLengthIsBoundedAtEveryBorder) {
  for (const std::uint64_t length :
       {std::uint64_t{100'000'001}, std::uint64_t{1} << 31, std::uint64_t{1} << 32, (std::uint64_t{1} << 63) - 1,
        std::uint64_t{1} << 63, std::numeric_limits<std::uint64_t>::max() - 7,
        std::numeric_limits<std::uint64_t>::max()}) {
    expect_refused(with_length(length, "{}"), ErrorCode::kInvalidArgument, "100,000,000");
  }
  expect_refused(with_length(100'000'000, "{}"), ErrorCode::kDataLoss, "longer than the file");
}

// R2: no product or sum of the file's integers may wrap. 2^62 floats of 4 bytes are 2^64 bytes, which wraps to 0.
TEST_F(Safetensors, ShapesThatOverflowAreRefused) {
  for (const char* shape :
       {"[4611686018427387904]", "[4611686018427387904,4]", "[2147483648,2147483648,2]", "[4294967296,4294967296]",
        "[9223372036854775807]", "[9223372036854775807,9223372036854775807]", "[3037000500,3037000500]",
        "[1,2,9223372036854775807,2]"}) {
    expect_refused(tensor_file(shape, "[0,0]", 0), ErrorCode::kInvalidArgument, "shape");
    expect_refused(tensor_file(shape, "[0,16]"), ErrorCode::kInvalidArgument, "shape");
  }
}

TEST_F(Safetensors, IntegersBeyondInt64AndOtherTypesAreRefused) {
  for (const char* bad : {"9223372036854775808", "18446744073709551615", "18446744073709551616", "-1",
                          "-9223372036854775808", "4.0", "1e1", "true", "\"4\"", "null"}) {
    const std::string text = bad;
    EXPECT_TRUE(refusal(tensor_file("[" + text + "]", "[0,16]"))) << bad;
    EXPECT_TRUE(refusal(tensor_file("[4]", "[0," + text + "]"))) << bad;
    EXPECT_TRUE(refusal(tensor_file("[4]", "[" + text + ",16]"))) << bad;
    EXPECT_TRUE(refusal(tensor_file(text, "[0,16]"))) << bad;
    EXPECT_TRUE(refusal(tensor_file("[4]", text))) << bad;
  }
}

// Property: whatever (shape, offsets) of border values, the reader takes it only if 128-bit arithmetic says it fits.
TEST_F(Safetensors, BorderValuesAgreeWithWideArithmetic) {
  std::vector<std::uint64_t> values{0, 1, 2, 4, 16};
  for (const int bit : {31, 32, 62, 63}) {
    const std::uint64_t power = std::uint64_t{1} << bit;
    values.insert(values.end(), {power - 1, power, power + 1});
  }
  values.push_back(std::numeric_limits<std::uint64_t>::max());
  std::mt19937_64 draw(5);
  const auto pick = [&](bool small) { return values[draw() % (small ? 5 : values.size())]; };
  int taken = 0;
  for (int i = 0; i < 1500; ++i) {
    const bool small = i % 4 == 0;
    const std::uint64_t rows = pick(small), columns = pick(small);
    const std::uint64_t begin = i % 2 == 0 ? 0 : pick(false), end = small || i % 3 == 0 ? 16 : pick(false);
    const auto bytes = static_cast<unsigned __int128>(rows) * columns * 4;
    const bool in_range = rows < (1ULL << 63) && columns < (1ULL << 63);
    const bool fits = in_range && bytes == 16 && begin == 0 && end == 16;
    const std::string file = tensor_file("[" + std::to_string(rows) + "," + std::to_string(columns) + "]",
                                         "[" + std::to_string(begin) + "," + std::to_string(end) + "]");
    EXPECT_EQ(!refusal(file).has_value(), fits) << rows << " " << columns << " " << begin << " " << end;
    taken += fits ? 1 : 0;
  }
  EXPECT_GT(taken, 10);
}

TEST_F(Safetensors, OffsetsLieInTheFileAndAscend) {
  expect_refused(tensor_file("[4]", "[16,0]"), ErrorCode::kInvalidArgument, "end before they begin");
  expect_refused(tensor_file("[4]", "[0,16]", 15), ErrorCode::kDataLoss, "beyond the end of the file");
  expect_refused(tensor_file("[4]", "[8,24]"), ErrorCode::kDataLoss, "beyond the end of the file");
  expect_refused(tensor_file("[4]", "[0,16,32]"), ErrorCode::kInvalidArgument, "data_offsets");
  expect_refused(tensor_file("[4]", "[16]"), ErrorCode::kInvalidArgument, "data_offsets");
  expect_refused(tensor_file("[3]", "[0,16]"), ErrorCode::kInvalidArgument, "shape");
}

std::string two_tensors(const std::string& first, const std::string& second, std::size_t n_data) {
  const std::string common = R"("dtype":"F32","shape":[2],"data_offsets":)";
  return sound_file("{\"a\":{" + common + first + "},\"b\":{" + common + second + "}}", n_data);
}

TEST_F(Safetensors, TensorsTileTheBuffer) {
  EXPECT_FALSE(refusal(two_tensors("[0,8]", "[8,16]", 16)));
  EXPECT_FALSE(refusal(two_tensors("[8,16]", "[0,8]", 16)));
  expect_refused(two_tensors("[0,8]", "[12,20]", 20), ErrorCode::kInvalidArgument, "hole before tensor b");
  expect_refused(two_tensors("[4,12]", "[12,20]", 20), ErrorCode::kInvalidArgument, "hole before tensor a");
  expect_refused(two_tensors("[0,8]", "[4,12]", 12), ErrorCode::kInvalidArgument, "overlaps");
  expect_refused(two_tensors("[0,8]", "[0,8]", 8), ErrorCode::kInvalidArgument, "overlaps");
  expect_refused(two_tensors("[0,8]", "[8,16]", 17), ErrorCode::kInvalidArgument, "behind the last tensor");
  expect_refused(sound_file("{}", 1), ErrorCode::kInvalidArgument, "behind the last tensor");
}

TEST_F(Safetensors, HeadersOfAnotherFormAreRefused) {
  const std::string tensor = R"({"dtype":"F32","shape":[1],"data_offsets":[0,4]})";
  expect_refused(sound_file(R"({"a":)" + tensor + R"(,"a":)" + tensor + "}", 4), ErrorCode::kInvalidArgument,
                 "key twice");
  expect_refused(sound_file(R"({"a":{"dtype":"F32","dtype":"F32","shape":[1],"data_offsets":[0,4]}})", 4),
                 ErrorCode::kInvalidArgument, "key twice");
  expect_refused(sound_file(R"({"a":[1]})", 4), ErrorCode::kInvalidArgument, "JSON object");
  expect_refused(sound_file(R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4],"more":1}})", 4),
                 ErrorCode::kInvalidArgument, "nothing else");
  expect_refused(sound_file(R"({"a":{"dtype":"F32","shape":[1]}})", 4), ErrorCode::kInvalidArgument, "nothing else");
  expect_refused(sound_file(R"({"a":{"dtype":"I64","shape":[1],"data_offsets":[0,4]}})", 4), ErrorCode::kUnsupported,
                 "F32");
  expect_refused(sound_file(R"({"a":{"dtype":32,"shape":[1],"data_offsets":[0,4]}})", 4), ErrorCode::kInvalidArgument,
                 "dtype");
  expect_refused(sound_file(R"({"__metadata__":{"a":1}})", 0), ErrorCode::kInvalidArgument, "other than strings");
  expect_refused(sound_file(R"({"__metadata__":[]})", 0), ErrorCode::kInvalidArgument, "not an object");
  expect_refused(sound_file(R"({"a":{"dtype":"F32","shape":[[1]],"data_offsets":[0,4]}})", 4),
                 ErrorCode::kInvalidArgument, "nested too deeply");
  expect_refused(sound_file("{\"\xff\":" + tensor + "}", 4), ErrorCode::kInvalidArgument, "not valid JSON");
}

TEST_F(Safetensors, NamesWithControlCharactersAreRefused) {
  const std::string tensor = R"(:{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})";
  for (const char* name : {R"({"a\u0000b")", R"({"a\nb")", R"({"\u001b[31m")", R"({"")"}) {
    expect_refused(sound_file(name + tensor, 4), ErrorCode::kInvalidArgument, "tensor's name");
  }
  expect_refused(sound_file("{\"" + std::string(5000, 'n') + "\"" + tensor, 4), ErrorCode::kInvalidArgument,
                 "tensor's name");
}

TEST_F(Safetensors, EveryTruncationIsRefused) {
  const std::string whole = two_tensors("[0,8]", "[8,16]", 16);
  for (std::size_t n = 0; n < whole.size(); ++n) EXPECT_TRUE(refusal(whole.substr(0, n))) << n << " bytes";
}

// Any single corrupted byte either leaves a file that tiles, or is refused; it never crashes or reads outside.
TEST_F(Safetensors, FlippedBytesNeverLeadOutsideTheFile) {
  const std::string whole = two_tensors("[0,8]", "[8,16]", 16);
  std::mt19937 draw(11);
  for (std::size_t at = 0; at + 16 < whole.size(); ++at) {
    std::string broken = whole;
    broken[at] = static_cast<char>(broken[at] ^ (1U << (draw() % 8)));
    const auto path = folder_.write("f.safetensors", broken);
    try {
      const SafetensorsFile file(path);
      std::size_t total = 0;
      for (const auto& [name, tensor] : file.tensors()) total += tensor.bytes.size();
      EXPECT_EQ(total, 16U);
    } catch (const Error&) {
    }
  }
}

TEST_F(Safetensors, OnlyRegularFilesAreOpened) {
  EXPECT_THROW(SafetensorsFile(folder_.path()), Error);
  EXPECT_THROW(SafetensorsFile(folder_.path() / "absent"), Error);
  const auto fifo = folder_.path() / "fifo";
  ASSERT_EQ(::mkfifo(fifo.c_str(), 0600), 0);
  EXPECT_THROW(SafetensorsFile{fifo}, Error);
}

}  // namespace
}  // namespace slip
