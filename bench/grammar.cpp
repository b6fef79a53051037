// SPDX-License-Identifier: Apache-2.0
// Measures the cost of a grammar per row: the transform of its logits with and without the grammar's mask, for the
// first answer with a schema (masks are computed) and for the next (masks are cached). The rows follow a document of
// the schema. A vocabulary larger than the tokenizer's is filled with pairs of its tokens.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>
#include <random>
#include <vector>

#include "bench/common/result.h"
#include "cli/progress_line.h"
#include "common/clock.h"
#include "common/error.h"
#include "engine/grammar/answer_grammar.h"
#include "engine/grammar/schema_compiler.h"
#include "engine/sampling/distribution.h"
#include "text/tokenizer.h"

namespace slip::bench {
namespace {

struct Options {
  std::string target;
  std::vector<std::int32_t> vocabularies;
  int rounds = 20;
  bool json = false;
};

struct Case {
  std::string name, schema, document;
};

// An object with mostly optional properties, so that every property is a possible continuation.
Case wide_case() {
  std::string properties, document;
  for (int i = 0; i < 200; ++i) {
    const std::string name = "\"property_" + std::to_string(i) + "\"";
    properties += (i == 0 ? "" : ",") + name + R"(:{"type":"integer"})";
    if (i % 20 == 0) document += (i == 0 ? "" : ", ") + name + ": " + std::to_string(i);
  }
  return {"200 optional properties", R"({"type":"object","properties":{)" + properties + "}}", "{" + document + "}"};
}

std::vector<Case> cases() {
  return {
      {"records",
       R"({"type":"object","properties":{"title":{"type":"string"},"kind":{"enum":["novel","essay","poem"]},
           "year":{"type":"integer","minimum":1400,"maximum":2100},"authors":{"type":"array","minItems":1,"items":
           {"type":"object","properties":{"name":{"type":"string"},"born":{"anyOf":[{"type":"integer"},{"type":"null"}]}},
           "required":["name","born"],"additionalProperties":false}}},"required":["title","kind","year","authors"],
           "additionalProperties":false})",
       R"({"title": "The Old Harbour and Other Stories of the Sea", "kind": "novel", "year": 1926, "authors": [
           {"name": "Mira Lindholm", "born": 1889}, {"name": "An unknown editor from the north", "born": null}]})"},
      {"counted strings",
       R"({"type":"array","items":{"type":"object","properties":{"code":{"type":"string","pattern":"^[A-Z]{2}-[0-9]{4}$"},
           "day":{"type":"string","format":"date"},"note":{"type":"string","maxLength":200}},"required":["code","day","note"],
           "additionalProperties":false},"maxItems":20})",
       R"([{"code": "AB-1234", "day": "2024-11-30", "note": "The parcel came a day late, and its lower left corner was wet."},
           {"code": "XY-0007", "day": "2024-12-01", "note": "Nothing to say about this one, which was where it should be."}])"},
      {"recursive",
       R"({"$defs":{"node":{"type":"object","properties":{"value":{"type":"number"},"children":{"type":"array","items":
           {"$ref":"#/$defs/node"}}},"required":["value","children"],"additionalProperties":false}},"$ref":"#/$defs/node"})",
       R"({"value": 1.5, "children": [{"value": 2, "children": [{"value": 3.25, "children": []}, {"value": -4, "children":
           [{"value": 5, "children": []}]}]}, {"value": 6e3, "children": []}]})"},
      {"any object", "",
       R"({"user": {"name": "Mira", "mail": "mira@example.org", "roles": ["reader", "editor"], "quota": {"used": 12.5,
           "of": 100, "soft": true}}, "since": "2021-03-04T05:06:07Z", "history": [{"at": 1, "what": "created by hand"},
           {"at": 2, "what": "renamed"}], "parent": null})"},
      wide_case()};
}

// The tokenizer's texts, then pairs of them up to `size` (as further merges would give), then an end token.
class Vocabulary {
 public:
  Vocabulary(const Tokenizer& tokenizer, std::int32_t size) {
    std::vector<std::string_view> own = token_texts(tokenizer);
    owned_.assign(own.begin(), own.end());
    std::mt19937_64 random(1);
    const auto any = [&] { return own[random() % own.size()]; };
    while (std::ssize(owned_) + 1 < size) owned_.push_back(std::string(any()).append(any()));
    owned_.emplace_back();
    texts.assign(owned_.begin(), owned_.end());
  }
  std::vector<std::int32_t> end_ids() const { return {static_cast<std::int32_t>(texts.size()) - 1}; }
  std::vector<std::string_view> texts;

 private:
  std::vector<std::string> owned_;
};

std::vector<std::vector<float>> random_rows(std::size_t vocab_size) {
  std::mt19937_64 random(2);
  std::normal_distribution<float> normal(0, 3);
  std::vector<std::vector<float>> rows(8, std::vector<float>(vocab_size));
  for (auto& row : rows) std::generate(row.begin(), row.end(), [&] { return normal(random); });
  return rows;
}

struct Pass {
  std::int64_t sum_us = 0, worst_us = 0;
};

class RowCosts {
 public:
  explicit RowCosts(const Vocabulary& vocabulary)
      : vocabulary_(vocabulary), end_ids_(vocabulary.end_ids()), rows_(random_rows(vocabulary.texts.size())) {}

  Pass plain(const std::vector<std::int32_t>& answer) {
    Pass pass;
    for (std::size_t i = 0; i < answer.size(); ++i) time_row({.temperature = 1}, answer, i, nullptr, pass);
    return pass;
  }

  // One answer as the engine processes it: the row's mask, its transform, the accepted token.
  Pass masked(const std::vector<std::int32_t>& answer, const std::shared_ptr<const Grammar>& grammar,
              TokenMasks& masks) {
    Pass pass;
    AnswerGrammar way(grammar, masks);
    for (std::size_t i = 0; i < answer.size(); ++i) {
      time_row({.temperature = 1, .grammar = grammar}, answer, i, &way, pass);
      SLIP_CHECK(out_.probability(answer[i]) > 0, "the document is one of its schema");
      way.commit(answer[i]);
    }
    return pass;
  }

 private:
  void time_row(const SamplingParams& sampling, const std::vector<std::int32_t>& answer, std::size_t i,
                AnswerGrammar* way, Pass& pass) {
    const auto start = monotonic_us();
    transform_logits(rows_[i % rows_.size()], sampling, {std::span(answer).first(i), 0, end_ids_, way}, out_);
    const std::int64_t took = monotonic_us() - start;
    pass.sum_us += took;
    pass.worst_us = std::max(pass.worst_us, took);
  }

  const Vocabulary& vocabulary_;
  const std::vector<std::int32_t> end_ids_;
  const std::vector<std::vector<float>> rows_;
  Distribution out_;
};

std::shared_ptr<const Grammar> grammar_of(const Case& one) {
  return one.schema.empty() ? json_object_grammar() : compile_schema(SchemaJson::parse(one.schema), "schema");
}

nlohmann::json measure(const Case& one, const Tokenizer& tokenizer, const Vocabulary& vocabulary, int rounds) {
  const auto answer = tokenizer.encode(one.document, SpecialTokens::kAsText);
  RowCosts costs(vocabulary);
  const auto keep_best = [](Pass& best, const Pass& pass) {
    if (best.sum_us == 0 || pass.sum_us < best.sum_us) best = pass;
  };
  Pass plain, cold, warm;
  std::int64_t compile_us = 0;
  for (int round = 0; round < rounds; ++round) {
    const auto start = monotonic_us();
    const auto grammar = grammar_of(one);
    const std::int64_t took = monotonic_us() - start;
    compile_us = round == 0 ? took : std::min(compile_us, took);
    TokenMasks masks(vocabulary.texts);
    keep_best(plain, costs.plain(answer));
    keep_best(cold, costs.masked(answer, grammar, masks));
    keep_best(warm, costs.masked(answer, grammar, masks));
  }
  const double n = static_cast<double>(answer.size()), plain_us = static_cast<double>(plain.sum_us) / n;
  const auto ratio = [&](std::int64_t sum_us) { return static_cast<double>(sum_us) / n / plain_us; };
  return {{"schema", one.name},
          {"vocabulary", vocabulary.texts.size()},
          {"rows", answer.size()},
          {"compile_us", compile_us},
          {"plain_row_us", plain_us},
          {"first_answer", ratio(cold.sum_us)},
          {"first_answer_worst_row_us", cold.worst_us},
          {"next_answers", ratio(warm.sum_us)}};
}

nlohmann::json run(const Options& options) {
  const auto tokenizer = Tokenizer::load(options.target);
  nlohmann::json result = {{"runs", nlohmann::json::array()}};
  for (const std::int32_t size : options.vocabularies) {
    const Vocabulary vocabulary(*tokenizer, size);
    for (const Case& one : cases()) {
      cli::redraw_line("grammar: " + one.name + " with " + std::to_string(size) + " tokens");
      result["runs"].push_back(measure(one, *tokenizer, vocabulary, options.rounds));
    }
  }
  cli::redraw_line("");
  return result;
}

void print_table(const nlohmann::json& result) {
  std::printf(
      "vocabulary  schema                   compile µs  plain row µs  first answer  worst row µs  next answers\n");
  for (const auto& row : result["runs"]) {
    std::printf("%10d  %-24s %10d %13.1f %11.2f × %13d %11.2f ×\n", row["vocabulary"].get<int>(),
                row["schema"].get<std::string>().c_str(), row["compile_us"].get<int>(),
                row["plain_row_us"].get<double>(), row["first_answer"].get<double>(),
                row["first_answer_worst_row_us"].get<int>(), row["next_answers"].get<double>());
  }
}

}  // namespace
}  // namespace slip::bench

int main(int argc, char** argv) {
  slip::bench::Options options;
  CLI::App app{
      "Measures what a grammar's mask costs a row of logits, as a ratio to the plain transform of the same row."};
  app.add_option("--target", options.target, "Folder with a tokenizer")->required();
  app.add_option("--vocab", options.vocabularies, "Vocabulary sizes, comma separated; at least the tokenizer's")
      ->delimiter(',')
      ->required();
  app.add_option("--rounds", options.rounds, "Number of passes; the best one counts")->check(CLI::PositiveNumber);
  app.add_flag("--json", options.json, "Print JSON");
  CLI11_PARSE(app, argc, argv);
  return slip::bench::show_result(
      "grammar", options.json, [&] { return slip::bench::run(options); }, slip::bench::print_table);
}
