// SPDX-License-Identifier: Apache-2.0
// Measures how fast a draft learns from a stream of requests. The arms "learning" and "frozen" are services that answer
// the prompts over HTTP. All others run in this process on records of the same answers, without the target.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <iterator>
#include <map>
#include <nlohmann/json.hpp>

#include "bench/adapt/adapt_arms.h"
#include "bench/adapt/adapt_curves.h"
#include "bench/adapt/adapt_options.h"
#include "bench/adapt/adapt_report.h"
#include "bench/adapt/adapt_service.h"
#include "bench/common/result.h"
#include "cli/progress_line.h"
#include "common/error.h"

namespace slip::bench {
namespace {

using nlohmann::json;

bool is_service_arm(const std::string& name) {
  return name == "learning" || name == "frozen";
}

json run_service_arms(const AdaptOptions& options, const std::vector<Prompt>& prompts) {
  std::map<std::string, ServiceArm> arms;
  for (const auto& name : options.arms) {
    if (is_service_arm(name)) arms[name] = run_service_arm(options, name, prompts);
  }
  json result;
  if (arms.empty()) return result;
  const auto left_out = repetitive(options, arms);
  std::int64_t repeated = 0, tokens = 0;
  for (const auto& row : arms.begin()->second.served) {
    repeated += row.repeated;
    tokens += row.tokens;
  }
  result["left_out"] = left_out.size();
  result["repeated_share"] = tokens > 0 ? static_cast<double>(repeated) / static_cast<double>(tokens) : 0;
  for (const auto& [name, arm] : arms) result["arms"][name] = service_report(options, arm, left_out);
  return result;
}

// The records for the arms: those of --replay, else the target's answers to the stream, recorded now. `result` gets how
// many requests failed meanwhile.
ArmSetting recorded(const AdaptOptions& options, const std::vector<Prompt>& prompts, json& result) {
  namespace fs = std::filesystem;
  ArmSetting setting;
  setting.draft = options.draft;
  setting.k = options.k;
  setting.look_every = options.look_every;
  setting.ours = options.ours;
  const fs::path record =
      options.record.empty() ? fs::path(options.work) / (options.topic + "-record") : fs::path(options.record);
  fs::path stream = options.replay, dev = options.dev_replay;
  if (stream.empty()) {
    std::size_t failed = record_stream(options, record / "stream", prompts);
    stream = record / "stream" / "replay";
    if (!options.dev.empty()) {
      failed += record_stream(options, record / "dev", read_prompts(options.dev, 0, options.dev_prompts));
      dev = record / "dev" / "replay";
    }
    result["failed_while_recording"] = failed;
  }
  setting.stream = read_recorded(stream);
  setting.stream.resize(std::min(setting.stream.size(), options.requests));
  if (!dev.empty()) setting.dev = read_recorded(dev);
  std::vector<ReplayRecord> sampled;
  for (const auto& folder : options.sampled) {
    auto records = read_recorded(folder);
    std::move(records.begin(), records.end(), std::back_inserter(sampled));
  }
  setting.sampled = SampledAnswers(std::move(sampled));
  return setting;
}

void run_recorded_arms(const AdaptOptions& options, const ArmSetting& setting, json& result) {
  std::map<std::string, ArmRun> first_seed;
  for (std::uint64_t seed = 1; seed <= options.seeds; ++seed) {
    std::map<std::string, ArmRun> runs;
    for (const auto& name : options.arms) {
      if (is_service_arm(name)) continue;
      cli::redraw_line("adapt: " + options.topic + " " + name + ", seed " + std::to_string(seed));
      runs[name] = run_recorded_arm(name, setting, seed);
    }
    cli::redraw_line("");
    result["seeds"].push_back(recorded_report(options, runs));
    if (seed == 1) first_seed = std::move(runs);
  }
  if (first_seed.empty()) return;
  const json medians = median_report(result["seeds"]);
  for (const auto& [name, report] : medians.items()) result["arms"][name] = report;
  if (!options.csv.empty()) write_curves_csv(options.csv, first_seed);
  if (!options.svg.empty()) write_curves_svg(options.svg, "What a draft learns from " + options.topic, first_seed);
}

json run(const AdaptOptions& options) {
  const bool with_target = options.replay.empty();
  if (with_target && (options.target.empty() || options.stream.empty())) {
    throw Error(ErrorCode::kInvalidArgument, "there is nothing to answer", "pass --target and --stream, or --replay");
  }
  const auto prompts = with_target ? read_stream(options) : std::vector<Prompt>{};
  json result = run_service_arms(options, prompts);
  result["topic"] = options.topic;
  result["window"] = options.window;
  const bool in_process = !std::all_of(options.arms.begin(), options.arms.end(), is_service_arm);
  if (in_process) run_recorded_arms(options, recorded(options, prompts, result), result);
  return result;
}

std::vector<std::string> arm_names() {
  std::vector<std::string> names = recorded_arms();
  names.insert(names.end(), {"learning", "frozen"});
  return names;
}

void add_files(CLI::App& app, AdaptOptions& options) {
  app.add_option("--target", options.target, "Target folder; not needed with --replay");
  app.add_option("--draft", options.draft, "Base draft folder")->required();
  app.add_option(
         "--stream", options.stream,
         "JSONL file(s) with `prompt`; mix:a,b,c,d takes one of each in turn, shift:a,b,c,d one after the other")
      ->delimiter(',');
  app.add_option("--topic", options.topic, "Topic of the requests")->required();
  app.add_option("--dev", options.dev, "JSONL never streamed, for final_alpha; else the stream's last 100 requests");
  app.add_option("--dev-prompts", options.dev_prompts, "Number of dev prompts");
  app.add_option("--record", options.record, "Keep the recorded answers in this folder (stream/replay, dev/replay)");
  app.add_option("--replay", options.replay, "A recorded replay folder: the arms run without the target");
  app.add_option("--dev-replay", options.dev_replay, "A recorded replay folder of the dev prompts");
  app.add_option("--sampled", options.sampled,
                 "Recorded replay folders of further answers to the streamed prompts (--temperature 1 --record): the "
                 "arms ungated and gated learn from them, as from what an idle target samples")
      ->delimiter(',');
  app.add_option("-c,--config", options.config, "Configuration of the service arms");
  app.add_option("--work", options.work, "Folder for the services' data and logs");
  app.add_option("--csv", options.csv, "Write the arms' curves as CSV");
  app.add_option("--svg", options.svg, "Write the arms' curves as SVG");
}

}  // namespace
}  // namespace slip::bench

int main(int argc, char** argv) {
  using namespace slip::bench;
  AdaptOptions options;
  std::string setting;
  CLI::App app{"Shows how fast a draft learns from a stream, with several ways of learning."};
  add_files(app, options);
  app.add_option("--requests", options.requests, "Number of streamed requests");
  app.add_option("--arms", options.arms, "Arms, comma separated")->delimiter(',')->check(CLI::IsMember(arm_names()));
  app.add_option("--setting", setting, kOnlineSettingHelp);
  app.add_option("--seeds", options.seeds, "Runs of each recorded arm; figures are medians")
      ->check(CLI::PositiveNumber);
  app.add_option("--rate", options.rate, "Requests per second")->check(CLI::PositiveNumber);
  app.add_option("--window", options.window, "Requests per window")->check(CLI::PositiveNumber);
  app.add_option("--look-every", options.look_every, "Requests between scores on the dev prompts")
      ->check(CLI::PositiveNumber);
  app.add_option("--skip-share", options.skip_share,
                 "First share of each file that is not streamed (the base draft saw it)");
  app.add_option("--temperature", options.temperature, "Sampling temperature of the stream; 0 is greedy");
  app.add_option("--k", options.k, "Draft length");
  app.add_option("--max-tokens", options.max_tokens, "Longest answer, in tokens");
  app.add_flag("--json", options.json, "Print JSON");
  CLI11_PARSE(app, argc, argv);
  return show_result(
      "adapt", options.json,
      [&] {
        options.ours = parse_online_setting(setting);
        return run(options);
      },
      print_adapt_table);
}
