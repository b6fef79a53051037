// SPDX-License-Identifier: Apache-2.0
#include "router/router_state_file.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <span>
#include <utility>

#include "common/byte_codec.h"
#include "common/crc32c.h"
#include "common/error.h"
#include "common/file.h"
#include "common/log.h"
#include "common/topic_name.h"
#include "router/prompt_features.h"
#include "router/topic_seeds.h"

namespace slip {
namespace {

static_assert(std::endian::native == std::endian::little, "weights are copied as they lie in memory");

constexpr std::uint64_t kMagic = 0x01554F5250494C53;  // "SLIPROU\1"
constexpr std::size_t kHeaderBytes = 8 + 4 + 4 + 8 + 8 + 4;
constexpr std::size_t kCrcBytes = sizeof(std::uint32_t);
constexpr std::size_t kMaxFileBytes =
    kHeaderBytes + TopicTable::kMaxTopics * (256 + kFeatureBuckets * sizeof(float)) + kCrcBytes;

std::span<const std::byte> as_bytes(const std::string& text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

[[noreturn]] void refuse(const std::filesystem::path& file, const std::string& what) {
  throw Error(ErrorCode::kDataLoss, "router state " + file.string() + " " + what,
              "without the file the router starts from the topics' examples");
}

std::span<const std::byte> checked_body(const std::filesystem::path& file, std::span<const std::byte> bytes) {
  if (bytes.size() < kHeaderBytes + kCrcBytes) refuse(file, "is torn");
  const auto body = bytes.first(bytes.size() - kCrcBytes);
  std::uint32_t crc = 0;
  std::memcpy(&crc, bytes.data() + body.size(), kCrcBytes);
  if (crc32c(body) != crc) refuse(file, "fails its checksum");
  return body;
}

std::vector<std::string> read_names(const std::filesystem::path& file, ByteReader& reader) {
  const std::size_t n = reader.count(1);
  if (n == 0 || n > TopicTable::kMaxTopics) refuse(file, "has no or too many topics");
  std::vector<std::string> names;
  for (std::size_t i = 0; i < n; ++i) {
    names.push_back(reader.short_text());
    const bool repeated = std::find(names.begin(), names.end() - 1, names.back()) != names.end() - 1;
    if (!reader.ok() || !is_topic_name(names.back()) || repeated) refuse(file, "names its topics wrongly");
  }
  return names;
}

TopicClassifier set_aside(const std::filesystem::path& file, const TopicTable& topics, const Error& error) {
  auto aside = file;
  aside += ".bad";
  std::string where = "it is kept as " + aside.string();
  try {
    rename_path(file, aside, "router.aside");
  } catch (const Error& failed) {
    where = failed.message();
  }
  log_warn(error.message() + "; the router starts from the topics' examples; " + where);
  return seeded_classifier(topics);
}

}  // namespace

RouterState router_state(const TopicTable& topics, TopicClassifier classifier) {
  RouterState state;
  state.seeds_fingerprint = seeds_fingerprint(topics);
  for (std::uint32_t i = 0; i < topics.size(); ++i) state.topics.push_back(topics[{i}].name);
  state.classifier = std::move(classifier);
  return state;
}

void write_router_state(const std::filesystem::path& file, const RouterState& state) {
  SLIP_CHECK(state.topics.size() == state.classifier.n_topics, "a name for each column");
  ByteWriter writer;
  writer.number(kMagic);
  writer.number(kFeatureVersion);
  writer.number(static_cast<std::uint32_t>(kFeatureBuckets));
  writer.number(state.seeds_fingerprint);
  writer.number(state.classifier.lessons);
  writer.number(static_cast<std::uint32_t>(state.topics.size()));
  for (const std::string& name : state.topics) writer.short_text(name);
  const std::vector<std::byte>& header = writer.bytes();
  const std::vector<float>& weights = state.classifier.weights;
  const std::size_t body_bytes = header.size() + weights.size() * sizeof(float);
  std::string content(body_bytes + kCrcBytes, '\0');
  std::memcpy(content.data(), header.data(), header.size());
  std::memcpy(content.data() + header.size(), weights.data(), weights.size() * sizeof(float));
  const std::uint32_t crc = crc32c(as_bytes(content).first(body_bytes));
  std::memcpy(content.data() + body_bytes, &crc, kCrcBytes);
  replace_file(file, content, "router");
}

RouterState read_router_state(const std::filesystem::path& file) {
  const std::string content = read_file(file, kMaxFileBytes);
  const auto body = checked_body(file, as_bytes(content));
  ByteReader reader(body);
  if (reader.number<std::uint64_t>() != kMagic) refuse(file, "is of another format");
  const auto version = reader.number<std::uint32_t>();
  if (reader.number<std::uint32_t>() != kFeatureBuckets || version != kFeatureVersion) {
    refuse(file, "is of another build, which reads prompts differently");
  }
  RouterState state;
  state.seeds_fingerprint = reader.number<std::uint64_t>();
  const auto lessons = reader.number<std::uint64_t>();
  state.topics = read_names(file, reader);
  if (reader.left() != kFeatureBuckets * state.topics.size() * sizeof(float)) {
    refuse(file, "does not hold what its header says");
  }
  state.classifier = TopicClassifier(state.topics.size());
  state.classifier.lessons = lessons;
  std::memcpy(state.classifier.weights.data(), body.data() + body.size() - reader.left(), reader.left());
  const auto& weights = state.classifier.weights;
  if (!std::all_of(weights.begin(), weights.end(), [](float w) { return std::abs(w) <= kMaxWeight; })) {
    refuse(file, "has weights that no learning gives");
  }
  return state;
}

TopicClassifier load_or_seed(const std::filesystem::path& file, const TopicTable& topics) {
  try {
    RouterState state = read_router_state(file);
    if (state.seeds_fingerprint != seeds_fingerprint(topics)) {
      log_info("the topics or their examples have changed: the router is trained on the examples again");
      return reseeded_classifier(topics, state.classifier, state.topics);
    }
    if (state.topics != router_state(topics, {}).topics) refuse(file, "names other topics than its fingerprint");
    return std::move(state.classifier);
  } catch (const Error& error) {
    if (error.code() != ErrorCode::kNotFound) return set_aside(file, topics, error);
    log_info("the router starts from the topics' examples: " + file.string() + " is not there");
    return seeded_classifier(topics);
  }
}

}  // namespace slip
