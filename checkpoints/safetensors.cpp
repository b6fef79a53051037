// SPDX-License-Identifier: Apache-2.0
#include "checkpoints/safetensors.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>
#include <limits>
#include <nlohmann/json.hpp>
#include <utility>

#include "checkpoints/checked_size.h"
#include "checkpoints/strict_json.h"
#include "common/error.h"
#include "common/file.h"

static_assert(std::endian::native == std::endian::little, "tensors are mapped as they lie in the file");

namespace slip {
namespace {

using nlohmann::json;

constexpr std::uint64_t kMaxHeaderBytes = 100'000'000;  // the format's own limit
constexpr std::size_t kMaxNameBytes = 4096;
constexpr std::size_t kMaxDims = 16;
constexpr std::int64_t kMaxInteger = std::numeric_limits<std::int64_t>::max();

[[noreturn]] void refuse(const std::string& where, const std::string& why) {
  throw Error(ErrorCode::kInvalidArgument, where + ": " + why,
              "the file is not a sound safetensors file; fetch it again");
}

[[noreturn]] void report_loss(const std::string& where, const std::string& why) {
  throw Error(ErrorCode::kDataLoss, where + ": " + why, "the file is torn or was cut short; fetch it again");
}

bool has_control_character(std::string_view text) {
  return std::any_of(text.begin(), text.end(), [](unsigned char c) { return c < 0x20 || c == 0x7f; });
}

struct DtypeName {
  const char* name;
  Dtype dtype;
};
constexpr DtypeName kDtypes[] = {{"F32", Dtype::kFloat32}, {"BF16", Dtype::kBFloat16}, {"F16", Dtype::kFloat16}};

Dtype parse_dtype(const JsonFields& fields) {
  const auto name = fields.optional_string("dtype");
  if (!name) fields.refuse("dtype", "is missing");
  for (const auto& known : kDtypes) {
    if (*name == known.name) return known.dtype;
  }
  throw Error(ErrorCode::kUnsupported, fields.where() + ": its dtype is none of F32, BF16, F16",
              "save the model in bfloat16 or float32", "dtype");
}

const json& array_field(const JsonFields& fields, const char* key, std::size_t max_elements) {
  const json* value = fields.find(key);
  if (value == nullptr) fields.refuse(key, "is missing");
  if (!value->is_array() || value->size() > max_elements) {
    fields.refuse(key, "must be a list of at most " + std::to_string(max_elements) + " integers");
  }
  return *value;
}

std::vector<std::int64_t> parse_integers(const JsonFields& fields, const char* key, std::size_t max_elements) {
  std::vector<std::int64_t> integers;
  for (const json& element : array_field(fields, key, max_elements)) {
    const auto integer = exact_integer(element, {0, kMaxInteger});
    if (!integer) fields.refuse(key, "must hold integers from 0 to 2^63 - 1");
    integers.push_back(*integer);
  }
  return integers;
}

CheckedSize shape_bytes(const std::vector<std::int64_t>& shape, Dtype dtype) {
  CheckedSize bytes(dtype_bytes(dtype));
  for (const std::int64_t extent : shape) bytes = bytes * CheckedSize::from_signed(extent);
  return bytes;
}

struct Extent {
  std::uint64_t begin = 0, end = 0;
  const std::string* name = nullptr;
};

// Parses one file's JSON header and checks it against the bytes that follow.
class HeaderReader {
 public:
  HeaderReader(std::string where, std::span<const std::byte> data) : where_(std::move(where)), data_(data) {}

  void read(std::string_view text) {
    if (text.empty() || text.front() != '{') refuse(where_, "its header does not begin with {");
    // Depth: header, tensor, list. A tensor has about ten values.
    const json header = parse_strict_json(text, where_, {.max_depth = 3, .max_values = std::size_t{4} << 20});
    if (!header.is_object()) refuse(where_, "its header is not an object");
    for (const auto& [name, value] : header.items()) {
      if (name == "__metadata__") {
        read_metadata(value);
      } else {
        read_tensor(name, value);
      }
    }
    check_tiling();
  }

  TensorMap tensors;
  std::map<std::string, std::string> metadata;

 private:
  void read_metadata(const json& value) {
    if (!value.is_object()) refuse(where_, "__metadata__ is not an object");
    for (const auto& [key, text] : value.items()) {
      if (!text.is_string()) refuse(where_, "__metadata__ holds something other than strings");
      metadata.emplace(key, text.get<std::string>());
    }
  }

  void read_tensor(const std::string& name, const json& value) {
    if (name.empty() || name.size() > kMaxNameBytes || has_control_character(name)) {
      refuse(where_, "a tensor's name is empty, too long or has control characters");
    }
    const JsonFields fields(value, where_ + ": tensor " + name);
    if (value.size() != 3) refuse(fields.where(), "must have dtype, shape and data_offsets, and nothing else");
    StoredTensor tensor;
    tensor.dtype = parse_dtype(fields);
    tensor.shape = parse_integers(fields, "shape", kMaxDims);
    const auto offsets = parse_integers(fields, "data_offsets", 2);
    if (offsets.size() != 2) fields.refuse("data_offsets", "must be two integers");
    const auto begin = static_cast<std::uint64_t>(offsets[0]), end = static_cast<std::uint64_t>(offsets[1]);
    const CheckedSize length = CheckedSize(end) - CheckedSize(begin);
    if (!length.valid()) fields.refuse("data_offsets", "end before they begin");
    if (end > data_.size()) report_loss(fields.where(), "its data lies beyond the end of the file");
    if (!shape_bytes(tensor.shape, tensor.dtype).equals(length.value_or_max())) {
      fields.refuse("shape", "does not fit the number of its bytes");
    }
    tensor.bytes = data_.subspan(begin, end - begin);
    const auto inserted = tensors.emplace(name, std::move(tensor));
    extents_.push_back({begin, end, &inserted.first->first});
  }

  // Tensors are contiguous and cover the buffer, so no bytes are hidden and none is used twice (docs/security.md, R12).
  void check_tiling() {
    std::sort(extents_.begin(), extents_.end(),
              [](const Extent& a, const Extent& b) { return std::pair(a.begin, a.end) < std::pair(b.begin, b.end); });
    std::uint64_t covered = 0;
    for (const Extent& extent : extents_) {
      if (extent.begin < covered) refuse(where_, "tensor " + *extent.name + " overlaps another");
      if (extent.begin > covered) refuse(where_, "there is a hole before tensor " + *extent.name);
      covered = extent.end;
    }
    if (covered != data_.size()) refuse(where_, "there are bytes behind the last tensor");
  }

  std::string where_;
  std::span<const std::byte> data_;
  std::vector<Extent> extents_;
};

struct Mapping {
  void* address = nullptr;
  std::size_t bytes = 0;
};

// O_NONBLOCK: opening a planted FIFO would wait forever.
Mapping map_file(const std::filesystem::path& path) {
  const FileHandle file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!file) {
    throw Error(errno == ENOENT ? ErrorCode::kNotFound : ErrorCode::kIo,
                "cannot open " + path.string() + ": " + std::strerror(errno));
  }
  struct stat status {};
  if (::fstat(file.get(), &status) != 0) {
    throw Error(ErrorCode::kIo, "cannot stat " + path.string() + ": " + std::strerror(errno));
  }
  if (!S_ISREG(status.st_mode)) refuse(path.string(), "is not a regular file");
  if (status.st_size < 8) report_loss(path.string(), "is shorter than 8 bytes");
  Mapping mapping{nullptr, static_cast<std::size_t>(status.st_size)};
  mapping.address = ::mmap(nullptr, mapping.bytes, PROT_READ, MAP_PRIVATE, file.get(), 0);
  if (mapping.address == MAP_FAILED) {
    throw Error(ErrorCode::kIo, "cannot map " + path.string() + ": " + std::strerror(errno));
  }
  return mapping;
}

const char* dtype_name(Dtype dtype) {
  for (const auto& known : kDtypes) {
    if (known.dtype == dtype) return known.name;
  }
  SLIP_CHECK(false, "a dtype without a safetensors name");
  return "";
}

std::string header_text(const TensorMap& tensors, const std::map<std::string, std::string>& metadata) {
  json header = json::object();
  if (!metadata.empty()) header["__metadata__"] = metadata;
  std::uint64_t offset = 0;
  for (const auto& [name, tensor] : tensors) {
    SLIP_CHECK(shape_bytes(tensor.shape, tensor.dtype).equals(tensor.bytes.size()), "shape and bytes disagree");
    const std::uint64_t end = offset + tensor.bytes.size();
    header[name] = {{"dtype", dtype_name(tensor.dtype)}, {"shape", tensor.shape}, {"data_offsets", {offset, end}}};
    offset = end;
  }
  std::string text = header.dump();
  text.resize((text.size() + 7) / 8 * 8, ' ');
  return text;
}

}  // namespace

bool StoredTensor::operator==(const StoredTensor& other) const {
  return dtype == other.dtype && shape == other.shape && std::ranges::equal(bytes, other.bytes);
}

SafetensorsFile::SafetensorsFile(const std::filesystem::path& path) {
  const std::string name = path.string();
  const Mapping mapping = map_file(path);
  mapping_ = mapping.address;
  mapped_bytes_ = mapping.bytes;
  try {
    const std::span<const std::byte> file(static_cast<const std::byte*>(mapping_), mapped_bytes_);
    std::uint64_t header_bytes = 0;
    std::memcpy(&header_bytes, file.data(), sizeof header_bytes);
    if (header_bytes > kMaxHeaderBytes) refuse(name, "its header claims more than 100,000,000 bytes");
    if (header_bytes > file.size() - 8) report_loss(name, "its header is longer than the file");
    HeaderReader reader(name, file.subspan(8 + header_bytes));
    reader.read({reinterpret_cast<const char*>(file.data()) + 8, header_bytes});
    tensors_ = std::move(reader.tensors);
    metadata_ = std::move(reader.metadata);
  } catch (...) {
    ::munmap(mapping_, mapped_bytes_);
    throw;
  }
}

SafetensorsFile::~SafetensorsFile() {
  ::munmap(mapping_, mapped_bytes_);
}

void write_safetensors(const std::filesystem::path& path, const TensorMap& tensors,
                       const std::map<std::string, std::string>& metadata, std::string_view point) {
  const std::string header = header_text(tensors, metadata);
  const std::uint64_t header_bytes = header.size();
  SLIP_CHECK(header_bytes <= kMaxHeaderBytes, "more tensors than the format can name");
  const FileHandle file(::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!file) throw Error(ErrorCode::kIo, "cannot create " + path.string() + ": " + std::strerror(errno));
  write_all(file.get(), std::as_bytes(std::span(&header_bytes, 1)), point);
  write_all(file.get(), std::as_bytes(std::span(header)), point);
  for (const auto& [name, tensor] : tensors) write_all(file.get(), tensor.bytes, point);
  sync_file(file.get(), point);
}

}  // namespace slip
