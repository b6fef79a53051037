// SPDX-License-Identifier: Apache-2.0
// How fast a draft learns from a stream: the same prompts go over HTTP, at a steady rate, to a service that learns and
// to one that does not; then the drafts meet prompts that were never streamed.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <fstream>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <set>
#include <thread>
#include <vector>

#include "bench/common_client.h"
#include "bench/common_prompts.h"
#include "bench/common_result.h"
#include "bench/common_service.h"
#include "checkpoints/draft_store.h"
#include "common/error.h"
#include "ledger/database.h"

namespace slip::bench {
namespace {

using nlohmann::json;

struct Options {
  std::string target, draft, dev, topic, config, work = "build/adapt";
  std::vector<std::string> stream, arms = {"learning", "frozen"};
  std::size_t requests = 400, window = 50, dev_prompts = 150;
  double rate = 4, skip_share = 0.1, temperature = 0, max_repeated = 0.2;
  int k = 3, max_tokens = 128;
  bool json = false;
};

struct Served {
  std::int64_t accepted = 0, first_rejections = 0, steps = 0, tokens = 0, repeated = 0, version = 0;
};

struct Arm {
  std::vector<Served> served;                    // in the order they were streamed
  std::filesystem::path learned;                 // the draft's folder at the end
  std::map<std::string, std::int64_t> outcomes;  // canary decisions by kind
  int exit_status = 0;
};

// The ledger is what a user would read, so the benchmark reads it too.
void read_ledger(const std::filesystem::path& file, Arm& arm) {
  const Database ledger(file, Database::Mode::kReadOnly);
  Statement requests(ledger,
                     "SELECT accepted, first_rejections, steps, output_tokens, repeated_tokens, last_version FROM "
                     "requests ORDER BY request_id");
  while (requests.step()) {
    arm.served.push_back({requests.integer(0), requests.integer(1), requests.integer(2), requests.integer(3),
                          requests.integer(4), requests.integer(5)});
  }
  Statement decisions(ledger, "SELECT kind, COUNT(*) FROM canary_decisions GROUP BY kind");
  while (decisions.step()) arm.outcomes[decisions.text(0)] = decisions.integer(1);
}

Arm run_arm(const Options& options, const std::string& name, const std::vector<Prompt>& prompts) {
  const auto folder = std::filesystem::path(options.work) / (options.topic + "-" + name);
  std::filesystem::remove_all(folder);
  std::filesystem::create_directories(folder);
  std::vector<std::string> arguments = {"--target",   options.target,
                                        "--draft",    options.draft,
                                        "--k",        std::to_string(options.k),
                                        "--data-dir", (folder / "data").string()};
  if (!options.config.empty()) arguments.insert(arguments.begin(), {"-c", options.config});
  if (name == "frozen") arguments.push_back("--no-learning");
  Service service(slipstream_beside(), arguments, folder / "service.log");
  std::vector<std::jthread> calls;
  const auto start = std::chrono::steady_clock::now();
  for (std::size_t i = 0; i < prompts.size(); ++i) {
    std::this_thread::sleep_until(start + std::chrono::duration<double>(static_cast<double>(i) / options.rate));
    calls.emplace_back([&, i] {
      const auto reply =
          stream_chat(service.endpoint(), {prompts[i].text, options.topic, options.temperature, options.max_tokens});
      if (reply.status != 200) std::fprintf(stderr, "adapt: request %zu got status %d\n", i, reply.status);
    });
    show_progress("adapt: " + options.topic + " " + name + " " + std::to_string(i + 1) + "/" +
                  std::to_string(prompts.size()));
  }
  calls.clear();
  show_progress("");
  Arm arm;
  arm.exit_status = service.stop();
  read_ledger(folder / "data" / "ledger.db", arm);
  DraftStore store(folder / "data" / "drafts");
  const auto current = store.current(options.topic);
  arm.learned = current ? store.folder(options.topic, current->version) : std::filesystem::path(options.draft);
  return arm;
}

double alpha(std::int64_t accepted, std::int64_t first_rejections) {
  return accepted + first_rejections > 0
             ? static_cast<double>(accepted) / static_cast<double>(accepted + first_rejections)
             : 0;
}

// Loops inflate acceptance, so answers that mostly repeat themselves count in no arm.
std::set<std::size_t> repetitive(const Options& options, const std::map<std::string, Arm>& arms) {
  std::set<std::size_t> left_out;
  for (const auto& [name, arm] : arms) {
    for (std::size_t i = 0; i < arm.served.size(); ++i) {
      const auto& row = arm.served[i];
      if (static_cast<double>(row.repeated) > options.max_repeated * static_cast<double>(row.tokens))
        left_out.insert(i);
    }
  }
  return left_out;
}

json windows(const Options& options, const Arm& arm, const std::set<std::size_t>& left_out) {
  json alphas = json::array(), lengths = json::array();
  for (std::size_t begin = 0; begin < arm.served.size(); begin += options.window) {
    Served sum;
    for (std::size_t i = begin; i < std::min(begin + options.window, arm.served.size()); ++i) {
      if (left_out.contains(i)) continue;
      sum.accepted += arm.served[i].accepted;
      sum.first_rejections += arm.served[i].first_rejections;
      sum.steps += arm.served[i].steps;
      sum.tokens += arm.served[i].tokens;
    }
    alphas.push_back(alpha(sum.accepted, sum.first_rejections));
    lengths.push_back(sum.steps > 0 ? static_cast<double>(sum.tokens) / static_cast<double>(sum.steps) : 0);
  }
  return {{"alpha", alphas}, {"accepted_length", lengths}};
}

// The end of the first window that has made `share` of the way from the first window to the last; null: never.
json requests_to(const Options& options, const json& alphas, double share) {
  if (alphas.size() < 2) return nullptr;
  const double first = alphas.front(), last = alphas.back();
  if (last <= first) return nullptr;
  for (std::size_t i = 0; i < alphas.size(); ++i) {
    if (alphas[i].get<double>() >= first + share * (last - first)) return (i + 1) * options.window;
  }
  return nullptr;
}

json evaluate_dev(const Options& options, const std::filesystem::path& draft, double temperature) {
  const auto prompts = std::filesystem::path(options.work) / "dev.jsonl";
  std::ofstream out(prompts);
  for (const auto& prompt : read_prompts(options.dev, 0, options.dev_prompts)) {
    out << json({{"id", prompt.id}, {"prompt", prompt.text}}).dump() << "\n";
  }
  out.close();
  std::string command = slipstream_beside().string() + " generate --chat --json --target " + options.target +
                        " --draft " + draft.string() + " --prompts " + prompts.string() + " --k " +
                        std::to_string(options.k) + " --concurrency 8 --max-tokens " +
                        std::to_string(options.max_tokens) + " --temperature " + std::to_string(temperature) +
                        (temperature > 0 ? " --seed 11" : "");
  std::unique_ptr<FILE, int (*)(FILE*)> pipe(::popen(command.c_str(), "r"), ::pclose);
  std::string text;
  char buffer[65536];
  for (std::size_t n = 0; (n = ::fread(buffer, 1, sizeof buffer, pipe.get())) > 0;) text.append(buffer, n);
  Served sum;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    const auto row = json::parse(line);
    sum.accepted += row["accepted"].get<std::int64_t>();
    sum.first_rejections += row["first_rejections"].get<std::int64_t>();
    sum.steps += row["steps"].get<std::int64_t>();
    sum.tokens += static_cast<std::int64_t>(row["token_ids"].size());
  }
  return {{"alpha", alpha(sum.accepted, sum.first_rejections)},
          {"accepted_length", sum.steps > 0 ? static_cast<double>(sum.tokens) / static_cast<double>(sum.steps) : 0}};
}

json arm_report(const Options& options, const Arm& arm, const std::set<std::size_t>& left_out) {
  json report = windows(options, arm, left_out);
  report["requests"] = arm.served.size();
  report["requests_to_50"] = requests_to(options, report["alpha"], 0.5);
  report["requests_to_90"] = requests_to(options, report["alpha"], 0.9);
  report["final_alpha"] = report["alpha"].empty() ? json(nullptr) : report["alpha"].back();
  report["decisions"] = arm.outcomes;
  report["exit_status"] = arm.exit_status;
  if (!options.dev.empty()) {
    report["dev"] = {{"greedy", evaluate_dev(options, arm.learned, 0)},
                     {"T0.8", evaluate_dev(options, arm.learned, 0.8)}};
  }
  return report;
}

json run(const Options& options) {
  std::vector<Prompt> prompts;
  for (const auto& file : options.stream) {
    auto more = read_prompts(file, options.skip_share, options.requests);
    prompts.insert(prompts.end(), more.begin(), more.end());
  }
  prompts.resize(std::min(prompts.size(), options.requests));
  std::map<std::string, Arm> arms;
  for (const auto& name : options.arms) arms[name] = run_arm(options, name, prompts);
  const auto left_out = repetitive(options, arms);
  std::int64_t repeated = 0, tokens = 0;
  for (const auto& row : arms.begin()->second.served) {
    repeated += row.repeated;
    tokens += row.tokens;
  }
  json result = {{"topic", options.topic},
                 {"window", options.window},
                 {"left_out", left_out.size()},
                 {"repeated_share", tokens > 0 ? static_cast<double>(repeated) / static_cast<double>(tokens) : 0}};
  for (const auto& [name, arm] : arms) result["arms"][name] = arm_report(options, arm, left_out);
  return result;
}

void print_table(const json& result) {
  std::printf(
      "%s · windows of %zu requests · %zu answers left out as repetitive · %.1f %% of tokens in repeated 8-grams\n",
      result["topic"].get<std::string>().c_str(), result["window"].get<std::size_t>(),
      result["left_out"].get<std::size_t>(), 100 * result["repeated_share"].get<double>());
  for (const auto& [name, arm] : result["arms"].items()) {
    std::printf("%-9s α     ", name.c_str());
    for (const auto& value : arm["alpha"]) std::printf(" %.3f", value.get<double>());
    std::printf("\n%-9s length", "");
    for (const auto& value : arm["accepted_length"]) std::printf(" %.3f", value.get<double>());
    if (arm.contains("dev")) {
      std::printf("\n%-9s dev    greedy α %.3f, length %.3f · T=0.8 α %.3f, length %.3f", "",
                  arm["dev"]["greedy"]["alpha"].get<double>(), arm["dev"]["greedy"]["accepted_length"].get<double>(),
                  arm["dev"]["T0.8"]["alpha"].get<double>(), arm["dev"]["T0.8"]["accepted_length"].get<double>());
    }
    std::printf("\n");
  }
}

}  // namespace
}  // namespace slip::bench

int main(int argc, char** argv) {
  slip::bench::Options options;
  CLI::App app{"Streams prompts to a service that learns and to one that does not, and shows what learning brought."};
  app.add_option("--target", options.target, "Target folder")->required();
  app.add_option("--draft", options.draft, "Base draft folder")->required();
  app.add_option("--stream", options.stream, "JSONL file(s) with `prompt`, comma separated")
      ->required()
      ->delimiter(',');
  app.add_option("--topic", options.topic, "The topic the requests carry")->required();
  app.add_option("--dev", options.dev, "JSONL never streamed, for before and after");
  app.add_option("--dev-prompts", options.dev_prompts, "How many of them");
  app.add_option("--requests", options.requests, "How many requests are streamed");
  app.add_option("--arms", options.arms, "learning, frozen, or both, comma separated")
      ->delimiter(',')
      ->check(CLI::IsMember({"learning", "frozen"}));
  app.add_option("--rate", options.rate, "Requests a second")->check(CLI::PositiveNumber);
  app.add_option("--window", options.window, "Requests a window")->check(CLI::PositiveNumber);
  app.add_option("--skip-share", options.skip_share,
                 "First share of each file that is not streamed (the base draft saw it)");
  app.add_option("--temperature", options.temperature, "Of the stream; 0 is greedy");
  app.add_option("--k", options.k, "Draft length");
  app.add_option("--max-tokens", options.max_tokens, "At most so many tokens an answer");
  app.add_option("-c,--config", options.config, "Service configuration");
  app.add_option("--work", options.work, "Folder for the services' data and logs");
  app.add_flag("--json", options.json, "Print JSON");
  CLI11_PARSE(app, argc, argv);
  return slip::bench::show_result(
      "adapt", options.json, [&] { return slip::bench::run(options); }, slip::bench::print_table);
}
