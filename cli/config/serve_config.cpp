// SPDX-License-Identifier: Apache-2.0
#include "cli/config/serve_config.h"

#include <optional>

#include "cli/config/serve_fields.h"
#include "cli/config/toml_reader.h"
#include "cli/process/usable_cores.h"
#include "common/error.h"
#include "common/file.h"
#include "common/topic_name.h"

namespace slip::cli {
namespace {

constexpr std::uint64_t kMaxConfigBytes = 1U << 20;

// A file that cannot be read is a fault of the configuration (exit status 2): a supervisor would repeat the start in
// vain.
std::string read_config_file(const std::filesystem::path& file) {
  try {
    return read_file(file, kMaxConfigBytes);
  } catch (const Error& error) {
    if (error.code() != ErrorCode::kIo && error.code() != ErrorCode::kPermission) throw;
    throw Error(ErrorCode::kInvalidArgument, error.message(), "the user that runs this must be able to read it");
  }
}

// Reads each key from a file; an absent one keeps its value.
class FieldReader final : public FieldVisitor {
 public:
  FieldReader(const toml::table& table, std::string where) : root_(table, std::move(where), "") {}

  void section(const char* name) override {
    if (section_) section_->finish();
    section_ = root_.section(name);
  }
  void topics_file(const char* key, std::filesystem::path& file, std::vector<Topic>& topics,
                   const char* help) override {
    field(key, file, help);
    section_->finish();
    if (!file.empty()) topics = parse_topics(read_config_file(file), file.string());
  }
  void require(bool is_legal, const char* key, const std::string& why) override {
    if (!is_legal) section_->refuse(key, why);
  }
  void finish() const {
    if (section_) section_->finish();
    root_.finish();
  }

 private:
  void flag(const char* key, bool& value, const char*) override { section_->read(key, value); }
  void text(const char* key, std::string& value, const char*) override { section_->read(key, value); }
  void texts(const char* key, std::vector<std::string>& value, const char*) override { section_->read(key, value); }
  void integer(const char* key, std::int64_t& value, Range<std::int64_t> range, const char*) override {
    section_->read(key, value, range.low, range.high);
  }
  void number(const char* key, double& value, Range<double> range, const char*) override {
    section_->read(key, value, range.low, range.high);
  }
  void choice(const char* key, std::string& value, const Choices& allowed, const char*) override {
    section_->read_choice(key, value, allowed);
  }

  TomlSection root_;
  std::optional<TomlSection> section_;
};

// The file's draft and template belong to its target.
void take_target(const ServeOverrides& given, ServeConfig& config) {
  const auto leave_out = [&](std::filesystem::path& value, const std::string& name, const std::string& instead) {
    if (!value.empty() && instead.empty()) {
      config.warnings.push_back("model." + name + " = \"" + value.string() + "\" of " + given.config +
                                " is not used, since --target names another model than the file; if it fits that one, "
                                "give --" +
                                (name == "draft" ? name : "chat-template") + " too");
    }
    value.clear();
  };
  if (std::filesystem::path(given.target).lexically_normal() == config.target.lexically_normal()) return;
  config.target = given.target;
  leave_out(config.draft, "draft", given.draft);
  leave_out(config.chat_template, "chat_template", given.chat_template);
}

void apply(const ServeOverrides& given, ServeConfig& config) {
  if (!given.target.empty()) take_target(given, config);
  if (!given.draft.empty()) config.draft = given.draft;
  if (!given.chat_template.empty()) config.chat_template = given.chat_template;
  if (!given.host.empty()) config.server.host = given.host;
  if (!given.data_dir.empty()) config.data_dir = given.data_dir;
  if (given.k) config.engine.k = *given.k;
  if (given.tree_width) config.engine.tree_width = *given.tree_width;
  if (given.port) config.server.port = static_cast<std::uint16_t>(*given.port);
  if (given.threads) config.threads = *given.threads;
  if (given.no_learning) config.learning = false;
  if (given.no_speculation) config.speculation = false;
}

}  // namespace

std::vector<Topic> parse_topics(const std::string& toml, const std::string& where) {
  constexpr const char* kTopicKeys = "it holds [[topic]] sections of name, aliases and examples";
  const toml::table table = parse_toml(toml, where);
  TomlSection root(table, where, "");
  std::vector<Topic> topics;
  if (const toml::array* list = root.tables("topic")) {
    for (const auto& one : *list) {
      TomlSection section(*one.as_table(), where, "topic");
      Topic topic;
      section.read("name", topic.name);
      if (is_reserved_topic_name(topic.name)) {
        section.refuse("name", "must not be \"" + topic.name + "\": " + kReservedTopicNames);
      }
      if (!is_topic_name(topic.name)) {
        section.refuse("name", "must be 1 to 48 letters, digits, _ and -, and begin with a letter or digit");
      }
      section.read("aliases", topic.aliases);
      section.read("examples", topic.examples);
      section.finish(kTopicKeys);
      topics.push_back(std::move(topic));
    }
  }
  root.finish(kTopicKeys);
  try {
    TopicTable checked(topics);  // checks names, repetitions and bounds
  } catch (const Error& error) {
    throw Error(error.code(), where + ": " + error.message(), error.hint(), error.param());
  }
  return topics;
}

ServeConfig parse_serve_config(const std::string& toml, const std::string& where, ServeConfig config) {
  const toml::table table = parse_toml(toml, where);
  FieldReader reader(table, where);
  visit_fields(reader, config);
  reader.finish();
  return config;
}

CacheOptions cache_options(const ServeConfig& config) {
  return {config.cache_tokens, config.engine.max_running, config.dtype};
}

ServerOptions server_options(const ServeConfig& config, std::size_t n_keys) {
  ServerOptions options = config.server;
  if (config.expose_auto) options.expose_acceptance = n_keys > 1 ? ExposeAcceptance::kNone : ExposeAcceptance::kAll;
  return options;
}

ServeConfig read_serve_config(const std::string& file) {
  ServeConfig config;
  config.topics = built_in_topics();
  if (file.empty()) return config;
  return parse_serve_config(read_config_file(file), file, std::move(config));
}

ServeConfig load_serve_config(const ServeOverrides& overrides) {
  ServeConfig config = read_serve_config(overrides.config);
  apply(overrides, config);
  if (config.target.empty()) {
    throw Error(ErrorCode::kInvalidArgument, "no target model is named",
                "pass --target DIR, or -c configs/default.toml for the embedded one", "target");
  }
  if (config.data_dir.empty()) {
    throw Error(ErrorCode::kInvalidArgument, "data.directory must not be empty", {}, "data.directory");
  }
  check_threads(config.threads, overrides.threads ? "--threads" : "model.threads");
  check_threads(config.learner.cores, "learning.cores");
  return config;
}

}  // namespace slip::cli
