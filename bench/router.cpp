// SPDX-License-Identifier: Apache-2.0
// Measures how often the router finds the topic of an unlabelled prompt, on prompts it never learned from: with the
// topics file's examples alone, and after N labelled requests. Also prints the confusion matrix and the time per
// look-up.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <ctime>
#include <functional>
#include <nlohmann/json.hpp>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "bench/common/prompts.h"
#include "bench/common/result.h"
#include "cli/config/serve_config.h"
#include "common/clock.h"
#include "common/error.h"
#include "common/file.h"
#include "router/router.h"

namespace slip::bench {
namespace {

constexpr std::uint64_t kMaxTopicsBytes = 1U << 20;

struct Options {
  std::string topics = "configs/topics.toml";
  std::vector<std::string> dev, train;
  std::vector<std::size_t> labelled = {0};
  double min_confidence = RouterOptions{}.min_confidence;
  std::uint64_t seed = 1;
  bool shuffle_labels = false, json = false;
};

struct Case {
  TopicId expected;
  std::string label, text;
};

// Every row's label must be one of the topics, since it is the expected result.
std::vector<Case> read_cases(const std::vector<std::string>& files, const TopicTable& topics) {
  std::vector<Case> cases;
  for (const auto& file : files) {
    for (auto& prompt : read_prompts(file)) {
      const auto expected = topics.find(prompt.topic);
      if (!expected) {
        throw Error(
            ErrorCode::kInvalidArgument,
            file + ": the row " + prompt.id + " has the topic \"" + prompt.topic + "\", which is not configured",
            "each row needs a `topic` that --topics names");
      }
      cases.push_back({*expected, std::move(prompt.topic), std::move(prompt.text)});
    }
  }
  return cases;
}

// A part of the text after the instruction, cut at character borders.
std::string passage(const std::string& text, std::size_t bytes) {
  const std::size_t line = text.find('\n');
  std::string piece = text.substr(line == std::string::npos ? 0 : line + 1);
  if (piece.size() <= bytes) return piece;
  while (bytes > 0 && (static_cast<unsigned char>(piece[bytes]) & 0xC0U) == 0x80U) --bytes;
  return piece.substr(0, bytes);
}

// Prompts with two passages in different languages, which are still prose. The labels give the languages.
std::vector<Case> two_languages(const std::vector<Case>& cases, TopicId prose) {
  std::vector<const Case*> rows;
  for (const Case& one : cases) {
    if (one.expected == prose) rows.push_back(&one);
  }
  std::vector<Case> mixed;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const Case& other = *rows[(i + rows.size() / 2) % rows.size()];
    if (other.label == rows[i]->label) continue;
    mixed.push_back({prose, rows[i]->label, passage(rows[i]->text, 300) + "\n" + passage(other.text, 300)});
  }
  return mixed;
}

// Prompts of the other topics after a sentence in some language: the task decides, not the sentence before it.
std::vector<Case> after_a_sentence(const std::vector<Case>& cases, TopicId prose) {
  std::vector<const Case*> rows;
  for (const Case& one : cases) {
    if (one.expected == prose) rows.push_back(&one);
  }
  std::vector<Case> mixed;
  for (const Case& one : cases) {
    if (one.expected == prose || rows.empty()) continue;
    mixed.push_back({one.expected, one.label, passage(rows[mixed.size() % rows.size()]->text, 60) + "\n" + one.text});
  }
  return mixed;
}

nlohmann::json evaluate(const Router& router, const std::vector<Case>& cases) {
  if (cases.empty()) return nullptr;
  const std::size_t n = router.topics()->size();
  std::vector<std::vector<int>> confusion(n, std::vector<int>(n));  // [expected][found]
  int right = 0, unknown = 0, right_decided = 0;
  for (const Case& one : cases) {
    const Route route = router.route(std::nullopt, one.text);
    ++confusion[one.expected.value][route.topic.value];
    right += route.topic == one.expected ? 1 : 0;
    unknown += route.topic == TopicId{0} ? 1 : 0;
    right_decided += route.topic == one.expected && route.topic != TopicId{0} ? 1 : 0;
  }
  const double total = static_cast<double>(cases.size()), decided = total - unknown;
  return {{"prompts", cases.size()},
          {"accuracy", right / total},
          {"unknown", unknown / total},
          {"accuracy_decided", decided > 0 ? nlohmann::json(right_decided / decided) : nlohmann::json()},
          {"confusion", confusion}};
}

struct Sets {
  std::vector<Case> dev, two_languages, after_a_sentence;
};

Sets make_sets(const Options& options, const TopicTable& topics) {
  Sets sets;
  sets.dev = read_cases(options.dev, topics);
  if (sets.dev.empty()) {
    throw Error(ErrorCode::kInvalidArgument, "the --dev files hold no prompt, so there is nothing to measure",
                "pass JSONL rows with `prompt` and `topic`");
  }
  if (const auto prose = topics.find("lang")) {
    sets.two_languages = two_languages(sets.dev, *prose);
    sets.after_a_sentence = after_a_sentence(sets.dev, *prose);
  }
  return sets;
}

std::vector<Case> training_stream(const Options& options, const TopicTable& topics) {
  auto stream = read_cases(options.train, topics);
  std::mt19937_64 random(options.seed);
  std::shuffle(stream.begin(), stream.end(), random);
  if (options.shuffle_labels) {
    std::vector<TopicId> labels;
    for (const Case& one : stream) labels.push_back(one.expected);
    std::shuffle(labels.begin(), labels.end(), random);
    for (std::size_t i = 0; i < stream.size(); ++i) stream[i].expected = labels[i];
  }
  const std::size_t most = *std::max_element(options.labelled.begin(), options.labelled.end());
  if (stream.size() < most) {
    throw Error(
        ErrorCode::kInvalidArgument,
        "--labelled asks for " + std::to_string(most) + " requests, --train has " + std::to_string(stream.size()),
        "pass more --train files or a smaller number");
  }
  return stream;
}

// CPU time of this thread, to exclude other programs.
double thread_us() {
  timespec now{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) * 1e6 + static_cast<double>(now.tv_nsec) / 1e3;
}

double microseconds_each(std::size_t times, const std::function<void(std::size_t)>& act) {
  const double start = thread_us();
  for (std::size_t i = 0; i < times; ++i) act(i);
  return (thread_us() - start) / static_cast<double>(times);
}

// Distinct texts of one length, cut from consecutive dev prompts.
std::vector<std::string> texts_of(const std::vector<Case>& cases, std::size_t bytes, std::size_t n) {
  std::string all;
  for (const Case& one : cases) all += one.text + "\n";
  std::vector<std::string> texts;
  for (std::size_t i = 0; i < n; ++i) {
    std::string text;
    while (text.size() < bytes) text += all.substr((i * 7919 + text.size()) % all.size(), bytes - text.size());
    texts.push_back(std::move(text));
  }
  return texts;
}

nlohmann::json costs(Router& router, const std::vector<Case>& cases) {
  constexpr std::size_t kTexts = 256;
  constexpr int kRounds = 7;
  nlohmann::json rows = nlohmann::json::array();
  for (const std::size_t bytes : {64U, 256U, 1024U, 2048U, 4096U, 65536U}) {
    const auto texts = texts_of(cases, bytes, kTexts);
    std::vector<double> route_us, learn_us;
    for (int round = 0; round < kRounds; ++round) {
      route_us.push_back(microseconds_each(kTexts, [&](std::size_t i) { router.route(std::nullopt, texts[i]); }));
      learn_us.push_back(
          microseconds_each(kTexts, [&](std::size_t i) { router.learn(cases[i % cases.size()].expected, texts[i]); }));
    }
    std::sort(route_us.begin(), route_us.end());
    std::sort(learn_us.begin(), learn_us.end());
    rows.push_back({{"bytes", bytes}, {"route_us", route_us[kRounds / 2]}, {"learn_us", learn_us[kRounds / 2]}});
  }
  return rows;
}

nlohmann::json run(const Options& options) {
  const TopicTable topics(cli::parse_topics(read_file(options.topics, kMaxTopicsBytes), options.topics));
  const Sets sets = make_sets(options, topics);
  const auto stream = training_stream(options, topics);
  RouterOptions with;
  with.min_confidence = options.min_confidence;
  const auto seeding = monotonic_us();
  Router router(topics, with, seeded_classifier(topics));
  nlohmann::json result = {{"min_confidence", options.min_confidence},
                           {"seeding_ms", static_cast<double>(monotonic_us() - seeding) / 1e3},
                           {"shuffled_labels", options.shuffle_labels},
                           {"topics", nlohmann::json::array()},
                           {"stages", nlohmann::json::array()}};
  for (std::uint32_t i = 0; i < topics.size(); ++i) result["topics"].push_back(topics[{i}].name);
  auto stages = options.labelled;
  std::sort(stages.begin(), stages.end());
  std::size_t learned = 0;
  for (const std::size_t stage : stages) {
    for (; learned < stage; ++learned) router.learn(stream[learned].expected, stream[learned].text);
    result["stages"].push_back({{"labelled", stage},
                                {"dev", evaluate(router, sets.dev)},
                                {"two_languages", evaluate(router, sets.two_languages)},
                                {"after_a_sentence", evaluate(router, sets.after_a_sentence)}});
  }
  result["cost"] = costs(router, sets.dev);
  return result;
}

void print_set(const nlohmann::json& topics, const char* name, const nlohmann::json& set) {
  if (set.is_null()) {
    std::printf("%-17s not measured: no prompts of that kind\n", name);
    return;
  }
  const auto& sure = set["accuracy_decided"];
  std::printf("%-17s %5d prompts  accuracy %.3f  unknown %.3f  accuracy of the rest %s\n", name,
              set["prompts"].get<int>(), set["accuracy"].get<double>(), set["unknown"].get<double>(),
              sure.is_null() ? "-" : std::to_string(sure.get<double>()).substr(0, 5).c_str());
  std::printf("%18s", "is \\ found");
  for (const auto& topic : topics) std::printf("%9.9s", topic.get<std::string>().c_str());
  std::printf("\n");
  for (std::size_t i = 0; i < topics.size(); ++i) {
    const auto row = set["confusion"][i].get<std::vector<int>>();
    if (std::accumulate(row.begin(), row.end(), 0) == 0) continue;
    std::printf("%18.9s", topics[i].get<std::string>().c_str());
    for (const int count : row) std::printf("%9d", count);
    std::printf("\n");
  }
}

void print_table(const nlohmann::json& result) {
  for (const auto& stage : result["stages"]) {
    std::printf("after %d labelled requests%s\n", stage["labelled"].get<int>(),
                result["shuffled_labels"].get<bool>() ? " with shuffled labels" : "");
    for (const char* set : {"dev", "two_languages", "after_a_sentence"}) print_set(result["topics"], set, stage[set]);
    std::printf("\n");
  }
  std::printf("  bytes   route us   learn us\n");
  for (const auto& row : result["cost"]) {
    std::printf("%7d  %9.1f  %9.1f\n", row["bytes"].get<int>(), row["route_us"].get<double>(),
                row["learn_us"].get<double>());
  }
}

}  // namespace
}  // namespace slip::bench

int main(int argc, char** argv) {
  slip::bench::Options options;
  CLI::App app{"Measures how often the router finds the topic of a prompt without a label, and what that costs."};
  app.add_option("--topics", options.topics, "Topics file with the examples")->capture_default_str();
  app.add_option("--dev", options.dev, "JSONL files to evaluate on, rows with `prompt` and `topic`")
      ->delimiter(',')
      ->required();
  app.add_option("--train", options.train, "JSONL files of labelled requests to learn from, in shuffled order")
      ->delimiter(',');
  app.add_option("--labelled", options.labelled, "Evaluate after so many labelled requests, comma separated")
      ->delimiter(',')
      ->capture_default_str();
  app.add_option("--min-confidence", options.min_confidence, "Below it a prompt is \"unknown\"")
      ->check(CLI::Range(0.0, 1.0))
      ->capture_default_str();
  app.add_option("--seed", options.seed, "Of the order of the labelled requests");
  app.add_flag("--shuffle-labels", options.shuffle_labels, "Learn from labels dealt at random: a control");
  app.add_flag("--json", options.json, "Print JSON");
  CLI11_PARSE(app, argc, argv);
  return slip::bench::show_result(
      "router", options.json, [&] { return slip::bench::run(options); }, slip::bench::print_table);
}
