// SPDX-License-Identifier: Apache-2.0
#include "cli/config/draft_config.h"

#include <charconv>

#include "cli/config/toml_reader.h"
#include "common/error.h"

namespace slip::cli {
namespace {

constexpr std::int64_t kMostDimension = 1 << 20;
constexpr const char* kDraftKeys = "configs/demo-draft.toml has every key";

void read_shape(TomlSection& file, DraftShape& shape) {
  file.read("hidden", shape.hidden, 1, kMostDimension);
  file.read("layers", shape.layers, 1, 1024);
  file.read("ffn", shape.ffn, 1, kMostDimension);
  file.read("heads", shape.heads, 1, 4096);
  file.read("kv_heads", shape.kv_heads, 1, 4096);
  file.read("tied", shape.tied);
}

void read_training(TomlSection section, WarmupOptions& options) {
  TrainerOptions& trainer = options.trainer;
  std::string loss = loss_name(trainer.loss.kind);
  section.read_choice("loss", loss, {"kl", "rkl", "jsd", "tv"});
  trainer.loss.kind = parse_loss(loss);
  section.read("beta", trainer.loss.beta, 1e-6, 1 - 1e-6);
  section.read("loss_temperature", trainer.loss.temperature, 0.05, 20);
  std::string optimizer = optimizer_name(trainer.optimizer);
  section.read_choice("optimizer", optimizer, {"adamw", "muon"});
  trainer.optimizer = parse_optimizer(optimizer);
  section.read("learning_rate", trainer.learning_rate, 1e-9, 1);
  section.read("matrix_learning_rate", trainer.matrix_learning_rate, 1e-9, 1);
  section.read("weight_decay", trainer.weight_decay, 0, 1);
  section.read("warmup_steps", trainer.warmup_steps, 0, 1'000'000);
  section.read("steps", options.steps, 0, 1'000'000'000);
  section.read("batch", options.batch, 1, 4096);
  section.read("max_tokens", options.max_tokens, 1, 1 << 20);
  section.read("share", options.share, 1e-9, 1);
  std::string answers = options.answers_from == AnswersFrom::kData ? "data" : "target";
  section.read_choice("answers", answers, {"target", "data"});
  options.answers_from = parse_answers_from(answers);
  std::string temperature;
  section.read("temperature", temperature);
  if (!temperature.empty()) options.temperature = parse_answer_temperature(temperature);
  section.finish(kDraftKeys);
}

}  // namespace

AnswersFrom parse_answers_from(const std::string& name) {
  if (name == "target") return AnswersFrom::kTarget;
  if (name == "data") return AnswersFrom::kData;
  throw Error(ErrorCode::kInvalidArgument, "answers come from \"target\" or \"data\", not \"" + name + "\"", {},
              "answers");
}

std::optional<float> parse_answer_temperature(const std::string& text) {
  if (text == "mixed") return std::nullopt;
  float value = -1;
  const auto [end, fault] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (fault != std::errc() || end != text.data() + text.size() || !(value >= 0 && value <= 2)) {
    throw Error(ErrorCode::kInvalidArgument, "temperature \"" + text + "\" is neither \"mixed\" nor from 0 to 2", {},
                "temperature");
  }
  return value;
}

void apply_draft_config(const std::string& toml, const std::string& where, WarmupOptions& options) {
  const toml::table table = parse_toml(toml, where);
  TomlSection file(table, where, "");
  read_shape(file, options.shape);
  read_training(file.section("training"), options);
  file.finish(kDraftKeys);
}

}  // namespace slip::cli
