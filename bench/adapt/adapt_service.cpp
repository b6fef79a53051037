// SPDX-License-Identifier: Apache-2.0
#include "bench/adapt/adapt_service.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <fstream>
#include <memory>
#include <sstream>
#include <thread>

#include "bench/common/client.h"
#include "bench/common/result.h"
#include "bench/common/service.h"
#include "checkpoints/draft_store.h"
#include "cli/progress_line.h"
#include "common/error.h"
#include "ledger/database.h"

namespace slip::bench {
namespace {

using nlohmann::json;
namespace fs = std::filesystem;

struct Sent {
  double seconds = 0;      // until the last answer ended
  std::size_t failed = 0;  // requests that got another status than 200
};

// Sends the prompts at a steady rate.
Sent send_all(const AdaptOptions& options, const Service& service, const std::vector<Prompt>& prompts,
              const std::string& what) {
  std::atomic<std::size_t> failed{0};
  std::vector<std::jthread> calls;
  const auto start = std::chrono::steady_clock::now();
  for (std::size_t i = 0; i < prompts.size(); ++i) {
    std::this_thread::sleep_until(start + std::chrono::duration<double>(static_cast<double>(i) / options.rate));
    calls.emplace_back([&, i] {
      const auto reply =
          stream_chat(service.endpoint(), {prompts[i].text, options.topic, options.temperature, options.max_tokens});
      if (reply.status == 200) return;
      ++failed;
      std::fprintf(stderr, "adapt: request %zu got status %d\n", i, reply.status);
    });
    cli::redraw_line("adapt: " + options.topic + " " + what + " " + std::to_string(i + 1) + "/" +
                     std::to_string(prompts.size()));
  }
  calls.clear();
  cli::redraw_line("");
  return {std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count(), failed};
}

// The arguments of `serve` with its data in `folder`, which is emptied first.
std::vector<std::string> serve_arguments(const AdaptOptions& options, const fs::path& folder) {
  fs::remove_all(folder);
  fs::create_directories(folder);
  return {"--target",   options.target,
          "--draft",    options.draft,
          "--k",        std::to_string(options.k),
          "--data-dir", (folder / "data").string()};
}

// Reads the results from the ledger, as a user would.
void read_ledger(const std::filesystem::path& file, ServiceArm& arm) {
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

double alpha(std::int64_t accepted, std::int64_t first_rejections) {
  return accepted + first_rejections > 0
             ? static_cast<double>(accepted) / static_cast<double>(accepted + first_rejections)
             : 0;
}

json windows(const AdaptOptions& options, const ServiceArm& arm, const std::set<std::size_t>& left_out) {
  json result = json::array();
  for (std::size_t begin = 0; begin < arm.served.size(); begin += options.window) {
    Served sum;
    const std::size_t end = std::min(begin + options.window, arm.served.size());
    for (std::size_t i = begin; i < end; ++i) {
      if (left_out.contains(i)) continue;
      sum.accepted += arm.served[i].accepted;
      sum.first_rejections += arm.served[i].first_rejections;
      sum.steps += arm.served[i].steps;
      sum.tokens += arm.served[i].tokens;
    }
    const double length = sum.steps > 0 ? static_cast<double>(sum.tokens) / static_cast<double>(sum.steps) : 0;
    result.push_back(
        {{"requests", end}, {"alpha", alpha(sum.accepted, sum.first_rejections)}, {"accepted_length", length}});
  }
  return result;
}

// The end of the first window that covers `share` of the way from the first to the last window; null: never.
json requests_to(const json& windows, double share) {
  if (windows.size() < 2) return nullptr;
  const double first = windows.front()["alpha"], last = windows.back()["alpha"];
  if (last <= first) return nullptr;
  for (const json& window : windows) {
    if (window["alpha"].get<double>() >= first + share * (last - first)) return window["requests"];
  }
  return nullptr;
}

// As one word of a shell.
std::string shell_word(const fs::path& path) {
  std::string word = "'";
  for (const char c : path.string()) word += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return word + "'";
}

json evaluate_dev(const AdaptOptions& options, const std::filesystem::path& draft, double temperature) {
  const auto prompts = std::filesystem::path(options.work) / "dev.jsonl";
  std::ofstream out(prompts);
  for (const auto& prompt : read_prompts(options.dev, 0, options.dev_prompts)) {
    out << json({{"id", prompt.id}, {"prompt", prompt.text}}).dump() << "\n";
  }
  out.close();
  std::string command = shell_word(slipstream_beside()) + " generate --chat --json --no-prompt-lookup --target " +
                        shell_word(options.target) + " --draft " + shell_word(draft) + " --prompts " +
                        shell_word(prompts) + " --k " + std::to_string(options.k) + " --concurrency 8 --max-tokens " +
                        std::to_string(options.max_tokens) + " --temperature " + std::to_string(temperature) +
                        (temperature > 0 ? " --seed 11" : "");
  std::unique_ptr<FILE, int (*)(FILE*)> pipe(::popen(command.c_str(), "r"), ::pclose);
  if (!pipe) throw Error(ErrorCode::kIo, "cannot run: " + command);
  std::string text;
  char buffer[65536];
  for (std::size_t n = 0; (n = ::fread(buffer, 1, sizeof buffer, pipe.get())) > 0;) text.append(buffer, n);
  Served sum;
  std::int64_t n_answers = 0;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    const auto row = json::parse(line);
    if (row.contains("error")) continue;  // a prompt that was not answered; the command names it
    ++n_answers;
    sum.accepted += row["accepted"].get<std::int64_t>();
    sum.first_rejections += row["first_rejections"].get<std::int64_t>();
    sum.steps += row["steps"].get<std::int64_t>();
    sum.tokens += static_cast<std::int64_t>(row["token_ids"].size());
  }
  // Else α would be 0.
  if (n_answers == 0) throw Error(ErrorCode::kUnavailable, "no dev prompt was answered by: " + command);
  return {{"answers", n_answers},
          {"alpha", alpha(sum.accepted, sum.first_rejections)},
          {"accepted_length", sum.steps > 0 ? static_cast<double>(sum.tokens) / static_cast<double>(sum.steps) : 0}};
}

}  // namespace

ServiceArm run_service_arm(const AdaptOptions& options, const std::string& name, const std::vector<Prompt>& prompts) {
  const auto folder = fs::path(options.work) / (options.topic + "-" + name);
  std::vector<std::string> arguments = serve_arguments(options, folder);
  if (!options.config.empty()) arguments.insert(arguments.begin(), {"-c", options.config});
  if (name == "frozen") arguments.push_back("--no-learning");
  Service service(slipstream_beside(), arguments, folder / "service.log");
  ServiceArm arm;
  const Sent sent = send_all(options, service, prompts, name);
  arm.seconds = sent.seconds;
  arm.failed = sent.failed;
  arm.exit_status = service.stop();
  read_ledger(folder / "data" / "ledger.db", arm);
  DraftStore store(folder / "data" / "drafts");
  const auto current = store.current(options.topic);
  arm.learned = current ? store.folder(options.topic, current->version) : fs::path(options.draft);
  return arm;
}

std::size_t record_stream(const AdaptOptions& options, const fs::path& folder, const std::vector<Prompt>& prompts) {
  std::vector<std::string> arguments = serve_arguments(options, folder);
  const fs::path config = folder / "record.toml";
  std::ofstream(config) << "[learning]\ngovernor = \"steps_per_request:0\"\nqueue_observations = 1048576\n";
  arguments.insert(arguments.begin(), {"-c", config.string()});
  Service service(slipstream_beside(), arguments, folder / "service.log");
  const Sent sent = send_all(options, service, prompts, "record");
  service.stop();
  fs::rename(folder / "data" / "replay", folder / "replay");
  return sent.failed;
}

// Repetitive answers inflate acceptance, so they are excluded from all arms.
std::set<std::size_t> repetitive(const AdaptOptions& options, const std::map<std::string, ServiceArm>& arms) {
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

json service_report(const AdaptOptions& options, const ServiceArm& arm, const std::set<std::size_t>& left_out) {
  json report = {{"windows", windows(options, arm, left_out)}};
  const json& alphas = report["windows"];
  std::int64_t tokens = 0;
  for (const Served& request : arm.served) tokens += request.tokens;
  const auto decided = [&](const char* kind) {
    const auto found = arm.outcomes.find(kind);
    return found == arm.outcomes.end() ? std::int64_t{0} : found->second;
  };
  report["requests"] = arm.served.size();
  report["failed_requests"] = arm.failed;
  report["requests_to_50"] = requests_to(alphas, 0.5);
  report["requests_to_90"] = requests_to(alphas, 0.9);
  report["final_alpha"] = alphas.empty() ? json(nullptr) : alphas.back()["alpha"];
  report["tokens_per_s"] = arm.seconds > 0 ? static_cast<double>(tokens) / arm.seconds : 0;
  report["optimizer_steps"] = nullptr;  // not in the ledger
  report["training_seconds"] = nullptr;
  report["publishes"] = decided("publish");
  report["rollbacks"] = decided("rollback");
  report["decisions"] = arm.outcomes;
  report["exit_status"] = arm.exit_status;
  if (options.dev.empty()) return report;
  report["dev"] = {{"greedy", evaluate_dev(options, arm.learned, 0)},
                   {"T0.8", evaluate_dev(options, arm.learned, 0.8)}};
  report["final_alpha"] = report["dev"]["greedy"]["alpha"];
  return report;
}

}  // namespace slip::bench
