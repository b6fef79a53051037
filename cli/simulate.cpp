// SPDX-License-Identifier: Apache-2.0
// What a load would see: the engine's scheduler and planner on an event clock, with a profile's costs.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <iostream>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <numeric>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "cli/command.h"
#include "cli/config/serve_config.h"
#include "cli/option_faults.h"
#include "cli/output_path.h"
#include "cli/progress_line.h"
#include "cli/recorded_traffic.h"
#include "cli/simulation/drafted_shares.h"
#include "cli/simulation/load_svg.h"
#include "cli/simulation/simulation.h"
#include "common/counted.h"
#include "common/error.h"
#include "common/file.h"
#include "common/log.h"
#include "router/topic.h"

namespace slip::cli {
namespace {

using nlohmann::json;

constexpr const char* kFooter =
    "Examples:\n"
    "  slipstream simulate --profile profile.json --topics sql=0.55,code=0.5,math=0.75 --rate 5,10,20,40\n"
    "  slipstream simulate --profile profile.json --ledger slipstream-data/ledger.db --scale 1,2,4 --tpot-ms 20\n"
    "  slipstream simulate --profile profile.json --topics all=0.6 --trace AzureLLMInferenceTrace_conv.csv --scale "
    "1,2\n"
    "  slipstream simulate --profile profile.json --topics all=0.6 --rate 5,10,20,40 --svg load.svg\n"
    "  slipstream simulate --profile profile.json --topics all=0.6 --rate 5,10 --deadlines --tpot-ms 12,30,100 "
    "--mix 60,20,20 --arms auto,adaserve,none\n"
    "slipstream profile makes the profile. Arms: auto is what serve does; lengths the same without early stops; none\n"
    "plain decoding; k3 always three drafted tokens; adaserve, equal_greedy, global_greedy, static_tree, fcfs and\n"
    "stta other policies of speculation.policy, the last two without speculation. All arms see the same arrivals.\n"
    "With --deadlines policies plan for targets; fcfs and stta cap a batch only then. Prompts share what the prefix\n"
    "cache of a ledger's service had of them; all others differ. Answers are as long as asked for, or as recorded.\n"
    "α stays as it is: nothing is learned.\n"
    "A ledger's requests ask for the targets that it recorded, unless --tpot-ms or --ttft-ms gives others for all.\n"
    "Each has its own α, if its topic's draft learned nothing during them. How often the planner lets a draft propose\n"
    "is fitted to the ledger's load, which the first planning arm is taken to have served. A planner's ledger has the\n"
    "α of the steps in which it proposed. k1, k2, … propose in every step: they take the α by which learning scored\n"
    "the drafts, or that of the planner's steps, which is too high, if there are no scores.";

struct SimulateOptions {
  std::string profile, ledger, trace, svg;
  std::vector<std::string> topics, arms;
  std::vector<double> rates, scales, tpot_ms, mix;
  double duration_s = 0, request_ms = -1, ttft_ms = 0;
  int max_tokens = 0, prompt_tokens = 0, k = kMaxProposalNodes / 2, max_running = EngineOptions{}.max_running;
  int max_waiting = EngineOptions{}.max_waiting, prefill_chunk = EngineOptions{}.prefill_chunk,
      prefill_ms = EngineOptions{}.prefill_ms;
  std::int32_t cache_tokens = 65536, context = 4096;
  std::uint64_t seed = 1;
  bool deadlines = false, as_json = false;
};

constexpr std::size_t kMostTopics = TopicTable::kMaxTopics - 1;  // as of a service, which has "unknown" besides
constexpr double kPoissonSeconds = 60;  // of a load without --duration; a trace is replayed whole
constexpr int kPoissonTokens = 128;     // of an answer without --max-tokens; a trace says its own
constexpr double kMostRequests = 1e7;   // of a load; their arrivals are in memory

// "sql=0.56"
SimulatedTopic topic_of(const std::string& text) {
  const auto equals = text.find('=');
  double alpha = -1;
  if (equals != std::string::npos && !CLI::detail::lexical_cast(text.substr(equals + 1), alpha)) alpha = -1;
  if (equals == 0 || !(alpha >= 0 && alpha <= 1)) {
    throw Error(ErrorCode::kInvalidArgument, "--topics: '" + text + "' is no name=α with α from 0 to 1");
  }
  return {text.substr(0, equals), alpha};
}

EngineOptions options_of(const std::string& arm, const SimulateOptions& options) {
  EngineOptions engine;
  engine.max_running = options.max_running;
  engine.prefill_chunk = options.prefill_chunk;
  engine.prefill_ms = options.prefill_ms;
  engine.max_waiting = options.max_waiting;
  engine.deadlines = options.deadlines;
  engine.seed = options.seed;
  engine.k = arm == "none" ? 0 : options.k;
  const auto policy = parse_policy(arm);
  engine.policy = policy.value_or(PolicyKind::kGoodput);
  engine.stop_early = arm == "auto" || policy;
  engine.adaptive_k = engine.stop_early || arm == "lengths";
  if (engine.adaptive_k) engine.tree_width = ServeConfig().engine.tree_width;  // fixed lengths are chains
  if (arm.starts_with("k") && !CLI::detail::lexical_cast(arm.substr(1), engine.k)) engine.k = -1;
  if ((!engine.adaptive_k && arm != "none" && !arm.starts_with("k")) || engine.k < 0 || engine.k > kMaxProposalNodes) {
    std::string policies;
    for (const auto& [name, kind] : kPolicyNames) {
      if (kind != PolicyKind::kGoodput) policies += std::string(name) + ", ";  // that of auto
    }
    throw Error(ErrorCode::kInvalidArgument, "--arms: '" + arm + "' is none of auto, lengths, " + policies +
                                                 "none, k1 … k" + std::to_string(kMaxProposalNodes));
  }
  return engine;
}

double seconds_of(const SimulateOptions& options) {
  return options.duration_s > 0 ? options.duration_s : kPoissonSeconds;
}

std::vector<Arrival> poisson_of(const SimulateOptions& options, double rate) {
  return poisson_arrivals(rate, seconds_of(options), options.max_tokens > 0 ? options.max_tokens : kPoissonTokens,
                          options.seed);
}

TraceOptions replay_of(const SimulateOptions& options, double scale) {
  TraceOptions replay{scale, options.duration_s};
  if (options.max_tokens > 0) replay.max_tokens = options.max_tokens;
  if (options.trace.empty()) return replay;
  replay.max_tokens = std::min(replay.max_tokens, options.context / 2);  // others' requests, made to fit
  replay.max_prompt_tokens = options.context - replay.max_tokens;
  return replay;
}

// Gives each arrival a recorded request's topic and lengths, in their order.
void make_like(const std::vector<Arrival>& recorded, const SimulateOptions& options, std::vector<Arrival>& arrivals) {
  for (std::size_t i = 0; i < arrivals.size(); ++i) {
    const double at_s = arrivals[i].at_s;
    arrivals[i] = recorded[i % recorded.size()];
    arrivals[i].at_s = at_s;
    if (options.max_tokens > 0) arrivals[i].max_tokens = std::min(arrivals[i].max_tokens, options.max_tokens);
  }
}

// Without --tpot-ms and --ttft-ms, requests of a ledger ask for what they asked for then, and others for nothing.
void give_targets(const SimulateOptions& options, std::vector<Arrival>& arrivals) {
  if (options.tpot_ms.empty() && options.ttft_ms == 0) return;
  std::vector<SloTargets> targets;
  for (const double ms : options.tpot_ms) targets.push_back(slo_targets_of_ms(ms, options.ttft_ms));
  if (targets.empty()) targets.push_back(slo_targets_of_ms(0, options.ttft_ms));
  const std::vector<double> alike(targets.size(), 1.0);
  draw_targets(targets, options.mix.empty() ? alike : options.mix, options.seed, arrivals);
}

// `load`: a rate, or how many times as fast recorded requests come.
std::vector<Arrival> arrivals_of(const SimulateOptions& options, double load, const RecordedTraffic& traffic) {
  std::vector<Arrival> arrivals;
  if (!options.trace.empty()) {
    arrivals = trace_arrivals(options.trace, replay_of(options, load));
  } else if (options.rates.empty()) {
    arrivals = replay_arrivals(traffic.requests, replay_of(options, load));
  } else {
    arrivals = poisson_of(options, load);
    if (!traffic.requests.empty()) make_like(traffic.requests, options, arrivals);
  }
  if (options.prompt_tokens > 0) {
    for (Arrival& arrival : arrivals) arrival.prompt_tokens = options.prompt_tokens;
  }
  give_targets(options, arrivals);
  return arrivals;
}

Simulation simulation_of(const SimulateOptions& options, const Profile& profile, const RecordedTraffic& traffic) {
  Simulation simulation{profile.target.costs, std::nullopt, profile.other, {}, {}};
  if (profile.draft) simulation.draft = profile.draft->costs;
  if (options.request_ms >= 0) simulation.other.request_us = 1e3 * options.request_ms;
  simulation.topics = traffic.topics;
  for (const std::string& text : options.topics) {
    const SimulatedTopic topic = topic_of(text);
    const bool known = std::any_of(simulation.topics.begin(), simulation.topics.end(),
                                   [&](const SimulatedTopic& other) { return other.name == topic.name; });
    if (known) {
      throw Error(ErrorCode::kInvalidArgument, "--topics names '" + topic.name + "' twice", "leave one of them out");
    }
    simulation.topics.push_back(topic);
  }
  if (simulation.topics.empty()) simulation.topics.push_back({"all", 0});
  simulation.cache_tokens = options.cache_tokens;
  simulation.max_positions = options.context;
  simulation.seed = options.seed;
  return simulation;
}

std::vector<double> scales_of(const SimulateOptions& options) {
  return options.scales.empty() ? std::vector<double>{1} : options.scales;
}

// Requests a second, of arrivals that need not be Poisson's.
double mean_rate(const std::vector<Arrival>& arrivals) {
  const auto n = static_cast<double>(arrivals.size());
  const double seconds = arrivals.empty() ? 0 : arrivals.back().at_s;
  return seconds > 0 ? n / seconds : n;  // as if requests that all come at once took a second
}

// Where a planner proposes nothing, a draft is less often right than where it proposes.
void warn_of_planned_alpha(const std::string& arm, const std::vector<SimulatedTopic>& topics) {
  std::string names;
  for (const SimulatedTopic& topic : topics) {
    if (topic.alpha == 0 || topic.drafted_share >= kFixedDraftedShare || topic.alpha_of_all_steps) continue;
    names += (names.empty() ? "" : ", ") + topic.name;
  }
  if (names.empty()) return;
  log_warn("--arms " + arm + " takes too high an α for " + names +
           ": it is that of the steps in which the ledger's service proposed, and there are no scores of the others");
}

void check_targets(const SimulateOptions& options, const std::vector<Arrival>& arrivals) {
  const auto asks = [](const Arrival& arrival) { return arrival.slo.any(); };
  if (!options.deadlines || arrivals.empty() || std::any_of(arrivals.begin(), arrivals.end(), asks)) return;
  throw Error(ErrorCode::kInvalidArgument, "--deadlines, but no request has a target", "add --tpot-ms or --ttft-ms");
}

// Fits the recorded shares of drafted steps to the ledger's own load, as the first arm that plans would have served it.
void fit_to_ledger(const SimulateOptions& options, const std::vector<std::string>& arms, const RecordedTraffic& traffic,
                   Simulation& simulation) {
  const auto plans = [&](const std::string& arm) { return options_of(arm, options).adaptive_k; };
  const auto arm = std::find_if(arms.begin(), arms.end(), plans);
  const auto is_planned = [](const SimulatedTopic& topic) { return topic.drafted_share < 1; };
  if (arm == arms.end() || std::none_of(traffic.topics.begin(), traffic.topics.end(), is_planned)) return;
  redraw_line("simulate: the ledger's own load, " + *arm);
  simulation.options = options_of(*arm, options);
  simulation.topics = fit_drafted_shares(simulation, replay_arrivals(traffic.requests, {}));
}

json run(const SimulateOptions& options, const Profile& profile) {
  const RecordedTraffic traffic = options.ledger.empty() ? RecordedTraffic() : recorded_traffic(options.ledger);
  Simulation simulation = simulation_of(options, profile, traffic);
  std::vector<std::string> arms = options.arms;
  if (arms.empty()) arms = profile.draft ? std::vector<std::string>{"auto", "none"} : std::vector<std::string>{"none"};
  for (const std::string& arm : arms) {
    const EngineOptions engine = options_of(arm, options);
    if (engine.k > 0 && !engine.adaptive_k) warn_of_planned_alpha(arm, simulation.topics);
  }
  fit_to_ledger(options, arms, traffic, simulation);
  json result = {{"machine", profile.machine}, {"target", profile.target.model}, {"loads", json::array()}};
  for (const double one : options.rates.empty() ? scales_of(options) : options.rates) {
    const std::vector<Arrival> arrivals = arrivals_of(options, one, traffic);
    check_targets(options, arrivals);
    json load = {{"requests", arrivals.size()}, {"rate_per_s", one}};
    if (options.rates.empty()) {
      load["scale"] = one;
      load["rate_per_s"] = mean_rate(arrivals);
    }
    for (const std::string& arm : arms) {
      redraw_line("simulate: " + counted(arrivals.size(), "request") + ", " + arm);
      simulation.options = options_of(arm, options);
      load["arms"][arm] = summarize({simulate(simulation, arrivals)});
    }
    result["loads"].push_back(load);
  }
  redraw_line("");
  return result;
}

double number_at(const json& arm, const char* what, const char* which) {
  return arm[what][which].is_number() ? arm[what][which].get<double>() : 0;
}

// "TPOT 12 ms", "TPOT 12 ms, TTFT 500 ms"
std::string name_of_targets(const json& targets) {
  constexpr std::pair<const char*, const char*> kTargets[] = {
      {"TPOT", "tpot_ms"}, {"TTFT", "ttft_ms"}, {"e2e", "e2e_ms"}};
  std::string name;
  for (const auto& [title, key] : kTargets) {
    const double ms = targets[key].get<double>();
    if (ms == 0) continue;
    char part[64];
    std::snprintf(part, sizeof part, "%s%s %g ms", name.empty() ? "" : ", ", title, ms);
    name += part;
  }
  return name;
}

// The shares of the requests that got their targets: of all, and of each target if there are several, but not many.
void print_attainment(const json& arm) {
  constexpr std::size_t kMostShown = 8;
  if (!arm.contains("attainment")) return;
  std::printf("%7.0f %%", 100 * arm["attainment"].get<double>());
  if (arm["attainments"].size() < 2 || arm["attainments"].size() > kMostShown) return;
  for (const json& one : arm["attainments"]) {
    std::printf("  %s: %.0f %%", name_of_targets(one).c_str(), 100 * one["attainment"].get<double>());
  }
}

void print_table(const json& result) {
  std::printf("%s on %s\n", result["target"].get<std::string>().c_str(), result["machine"].get<std::string>().c_str());
  for (const json& load : result["loads"]) {
    std::printf("\n%s, %.3g a second\n", counted(load["requests"].get<std::uint64_t>(), "request").c_str(),
                load["rate_per_s"].get<double>());
    std::printf("%-14s%10s%10s%12s%12s%12s%12s%8s%9s%9s\n", "", "TTFT ms", "p99", "ITL ms", "ITL p99", "e2e ms",
                "tokens/s", "α", "refused", "SLO met");
    for (const auto& [name, arm] : load["arms"].items()) {
      std::printf("%-14s%10.1f%10.1f%12.2f%12.2f%12.1f%12.1f%8.2f%9ld", name.c_str(), number_at(arm, "ttft_ms", "mean"),
                  number_at(arm, "ttft_ms", "p99"), number_at(arm, "itl_ms", "mean"), number_at(arm, "itl_ms", "p99"),
                  number_at(arm, "e2e_ms", "mean"), arm["tokens_per_s"].get<double>(), arm["alpha"].get<double>(),
                  arm["rejected"].get<long>() + arm["failed"].get<long>());
      print_attainment(arm);
      std::printf("\n");
    }
  }
}

void check(const SimulateOptions& options) {
  const auto refuse = [](const std::string& what, const std::string& hint) {
    throw Error(ErrorCode::kInvalidArgument, what, hint);
  };
  if (options.rates.empty() && options.trace.empty() && options.ledger.empty()) {
    refuse("no load is given", "give --rate, --trace, or a --ledger whose requests come again");
  }
  if (options.topics.size() > kMostTopics) {
    refuse("--topics names more than " + std::to_string(kMostTopics), "leave some out");
  }
  if (!options.topics.empty() && !options.ledger.empty()) refuse("--topics and --ledger both give α", "leave one out");
  for (const double rate : options.rates) {
    if (rate * seconds_of(options) <= kMostRequests) continue;
    refuse("--rate and --duration make more than ten million requests", "lower one of them");
  }
  const double weight = std::accumulate(options.mix.begin(), options.mix.end(), 0.0);
  if (!options.mix.empty() && (options.mix.size() != options.tpot_ms.size() || weight <= 0)) {
    refuse("--mix needs a weight for each of --tpot-ms, one of them above 0", "such as --tpot-ms 12,30 --mix 60,40");
  }
  if (!options.scales.empty() && !options.rates.empty()) {
    refuse("--scale is for recorded times, and --rate makes its own", "leave one of them out");
  }
  if (!options.svg.empty() && std::max(options.rates.size(), options.scales.size()) < 2) {
    refuse("--svg draws latency over several loads", "give --rate or --scale two or more, such as --rate 5,10,20");
  }
  if (std::max(options.max_tokens, 1) + options.prompt_tokens > options.context) {
    refuse("--prompt-tokens and --max-tokens are more than --context", "raise --context");
  }
}

// The drawing replaces the file that it is written to.
void check_drawing(const SimulateOptions& options) {
  if (options.svg.empty()) return;
  if (!options.ledger.empty()) refuse_kept_file_as_output(options.svg, options.ledger, "--svg");
  for (const std::string& input : {options.profile, options.trace}) {
    refuse_input_as_output(options.svg, input, "--svg");
  }
}

LoadDrawing drawing_of(const Profile& profile) {
  return {"Simulated load",
          "Latency of a whole answer over the load, in ms",
          "simulated: " + profile.machine + ". Lines: mean; dashes: p99",
          "Mean and p99 latency of each arm over the load.",
          {{.line = "/e2e_ms/mean", .dashes = "/e2e_ms/p99"}}};
}

void run_simulate(const SimulateOptions& options) {
  check(options);
  check_drawing(options);
  const Profile profile = read_profile(options.profile);
  const bool drafts =
      std::any_of(options.arms.begin(), options.arms.end(), [](const auto& arm) { return arm != "none"; });
  if (drafts && !profile.draft) {
    throw Error(ErrorCode::kInvalidArgument, options.profile + " has no draft, so every arm is plain decoding",
                "make the profile with --draft, or use --arms none");
  }
  const json result = run(options, profile);
  if (options.as_json) {
    std::cout << result.dump(2) << std::endl;
  } else {
    print_table(result);
  }
  // Last, since a simulation may take minutes and the file may not be writable.
  if (!options.svg.empty()) write_output_file(options.svg, load_svg(result["loads"], drawing_of(profile)));
}

void add_load_options(CLI::App& command, SimulateOptions& options) {
  auto* rate = command.add_option("--rate", options.rates, "Requests a second, Poisson arrivals; several: a load each")
                   ->delimiter(',')
                   ->check(CLI::Range(1e-6, 1e6))
                   ->check(nan_fault);
  command.add_option("--trace", options.trace, "CSV of TIMESTAMP,ContextTokens,GeneratedTokens to take requests from")
      ->excludes(rate);
  command
      .add_option("--scale", options.scales,
                  "Replays trace or ledger this many times as fast; several: a load each [1]")
      ->delimiter(',')
      ->check(CLI::Range(1e-6, 1e6))
      ->check(nan_fault);
  command
      .add_option("--duration", options.duration_s,
                  "Seconds in which requests start [60; a trace or ledger: all of it]")
      ->check(CLI::Range(0.001, 1e7))
      ->check(nan_fault);
  command
      .add_option("--max-tokens", options.max_tokens,
                  "Tokens of an answer, a recorded one's longest [128; recorded: its own]")
      ->check(CLI::Range(1, 1 << 20));
  command.add_option("--prompt-tokens", options.prompt_tokens, "Tokens of a prompt [100; recorded: its own]")
      ->check(CLI::Range(1, 1 << 20));
  command
      .add_option("--tpot-ms", options.tpot_ms,
                  "Target of each request: ms per output token; several: each request draws one [recorded]")
      ->delimiter(',')
      ->check(CLI::Range(0.001, 3.6e6))
      ->check(nan_fault);
  command.add_option("--mix", options.mix, "Weights of the --tpot-ms [all alike]")
      ->delimiter(',')
      ->check(CLI::Range(0.0, 1e6))
      ->check(nan_fault);
  command.add_option("--ttft-ms", options.ttft_ms, "Target of each request: ms to the first token [recorded]")
      ->check(CLI::Range(0.001, 3.6e6))
      ->check(nan_fault);
}

void add_engine_options(CLI::App& command, SimulateOptions& options) {
  command.add_option("--k", options.k, "Most drafted tokens of auto and lengths")
      ->check(CLI::Range(0, kMaxProposalNodes))
      ->capture_default_str();
  command.add_option("--max-running", options.max_running, "Answers in one step")
      ->check(CLI::Range(1, 4096))
      ->capture_default_str();
  command.add_option("--max-waiting", options.max_waiting, "Requests that wait; more are refused")
      ->check(CLI::Range(1, 1 << 24))
      ->capture_default_str();
  command.add_option("--prefill-chunk", options.prefill_chunk, "Prompt rows of one step")
      ->check(CLI::Range(1, 65536))
      ->capture_default_str();
  command
      .add_option("--prefill-ms", options.prefill_ms,
                  "By which prompts may lengthen a step of running answers; 0: no limit")
      ->check(CLI::Range(0, 60'000))
      ->capture_default_str();
  command.add_option("--cache-tokens", options.cache_tokens, "Tokens in the target's cache")
      ->check(CLI::Range(64, 1 << 24))
      ->capture_default_str();
  command.add_option("--context", options.context, "Most tokens of a prompt with its answer")
      ->check(CLI::Range(64, 1 << 20))
      ->capture_default_str();
  command.add_option("--request-ms", options.request_ms, "Time of a request outside the engine [the profile's]")
      ->check(CLI::Range(0.0, 1e6))
      ->check(nan_fault);
  command.add_flag("--deadlines", options.deadlines, "Plan for the targets (engine.deadlines), not only measure");
}

}  // namespace

void add_simulate(CLI::App& app) {
  auto options = std::make_shared<SimulateOptions>();
  auto* command = app.add_subcommand("simulate", "Predict latency and throughput of a load from a profile");
  command->footer(kFooter);
  command->add_option("--profile", options->profile, "File that slipstream profile wrote")->required();
  command->add_option("--topics", options->topics, "name=α, comma separated; requests take them in turns")
      ->delimiter(',');
  command->add_option("--ledger", options->ledger,
                      "Takes requests, their targets and their α from this ledger, and their times too if no load is "
                      "given");
  command->add_option("--arms", options->arms, "Ways to decode, comma separated [auto,none]")->delimiter(',');
  add_load_options(*command, *options);
  add_engine_options(*command, *options);
  command->add_option("--seed", options->seed, "Seed of arrivals and of acceptance")->check(seed_fault);
  command->add_option("--svg", options->svg, "Also draw latency over the load into this file");
  command->add_flag("--json", options->as_json, "Print JSON");
  command->callback([options] { run_simulate(*options); });
}

}  // namespace slip::cli
