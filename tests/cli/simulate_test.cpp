// SPDX-License-Identifier: Apache-2.0
// `slipstream profile` and `slipstream simulate` as a user calls them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <CLI/CLI.hpp>
#include <filesystem>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "common/clock.h"
#include "common/error.h"
#include "common/file.h"
#include "ledger/ledger.h"
#include "tests/checkpoints/temporary_folder.h"
#include "tests/cli/command_output.h"

namespace slip::cli {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;

const std::string kTarget = SLIPSTREAM_SOURCE_DIR "/checkpoints/demo/target";
const std::string kDraft = SLIPSTREAM_SOURCE_DIR "/checkpoints/demo/draft";

class SimulateCommand : public ::testing::Test {
 protected:
  std::string refusal(const std::vector<std::string>& arguments) const {
    try {
      command_output(arguments);
      return "none";
    } catch (const Error& error) {
      return error.message();
    } catch (const CLI::Error& error) {
      return error.what();
    }
  }
  std::string path(const std::string& name) const { return (folder_.path() / name).string(); }
  // A profile that needs no measuring: 50 GB/s, 1 TFLOP/s.
  std::string calculated(bool with_draft = true) const {
    std::vector<std::string> arguments = {"profile",  "--target", kTarget, "--bandwidth", "50",
                                          "--tflops", "1",        "--out", path("p.json")};
    if (with_draft) arguments.insert(arguments.end(), {"--draft", kDraft});
    command_output(arguments);
    return path("p.json");
  }
  // A ledger of `n` requests, a third of them math, that came one after the other. `change` gets each row's number.
  void record_requests(
      int n, std::int64_t between_us,
      const std::function<void(int, RequestRow&)>& change = [](int, RequestRow&) {}) const {
    LedgerOptions options;
    options.file = folder_.path() / "ledger.db";
    Ledger ledger(options);
    const std::int64_t first_us = wall_us() - n * between_us;
    for (int i = 0; i < n; ++i) {
      RequestRow row;
      row.topic = row.draft = i % 3 == 0 ? "math" : "sql";
      row.total_ms = 100.0 * (i % 2);
      row.finished_us = first_us + i * between_us + 100'000 * (i % 2);
      row.accepted = i % 3 == 0 ? 2 : 6;
      row.first_rejections = 10 - row.accepted;
      row.steps = 5;
      row.prompt_tokens = 200;
      row.output_tokens = 64;
      change(i, row);
      ledger.record(row);
    }
  }
  slip::testing::TemporaryFolder folder_;
};

TEST_F(SimulateCommand, PredictsThatAGoodDraftIsFasterThanNone) {
  const std::string svg = path("load.svg");
  const json result =
      json::parse(command_output({"simulate", "--profile", calculated(), "--topics", "sql=0.8", "--rate", "2,20",
                                  "--duration", "10", "--svg", svg, "--tpot-ms", "1", "--json"}));
  ASSERT_EQ(result["loads"].size(), 2U);
  const json& arms = result["loads"][0]["arms"];
  EXPECT_NEAR(arms["auto"]["alpha"].get<double>(), 0.8, 0.05);
  EXPECT_LT(arms["auto"]["e2e_ms"]["mean"].get<double>(), 0.7 * arms["none"]["e2e_ms"]["mean"].get<double>());
  EXPECT_TRUE(arms["auto"].contains("attainment"));
  EXPECT_THAT(read_file(svg, 1 << 20), HasSubstr("calculated for 50 GB/s, 1 TFLOP/s and 0 µs a pass"));
}

TEST_F(SimulateCommand, ComparesPoliciesForRequestsWithTargets) {
  const std::vector<std::string> load{
      "simulate",   "--profile", calculated(), "--topics", "all=0.6",
      "--rate",     "4",         "--duration", "10",       "--tpot-ms",
      "1,1000",     "--mix",     "1,3",        "--arms",   "auto,adaserve,global_greedy",
      "--deadlines"};
  std::vector<std::string> as_json = load;
  as_json.emplace_back("--json");
  const json arms = json::parse(command_output(as_json))["loads"][0]["arms"];
  for (const char* name : {"auto", "adaserve", "global_greedy"}) {
    const json& targets = arms[name]["attainments"];
    ASSERT_EQ(targets.size(), 2U) << name;
    EXPECT_EQ(targets[0]["tpot_ms"], 1);
    EXPECT_EQ(targets[1]["attainment"], 1) << name;
    EXPECT_GT(arms[name]["accepted_length"], 1.2) << name;
  }
  EXPECT_THAT(command_output(load), HasSubstr("1000 ms: 100 %"));
}

TEST_F(SimulateCommand, PoliciesWithoutSpeculationAreArms) {
  const json arms = json::parse(
      command_output({"simulate", "--profile", calculated(), "--topics", "all=0.6", "--rate", "4", "--duration", "10",
                      "--deadlines", "--tpot-ms", "1000", "--arms", "fcfs,stta,none", "--json"}))["loads"][0]["arms"];
  for (const char* name : {"fcfs", "stta"}) EXPECT_EQ(arms[name], arms["none"]) << name << ": nothing is capped";
}

// Bug: all arms proposed chains, although `serve` proposes siblings too.
TEST_F(SimulateCommand, ProposesSiblingsAsServeDoes) {
  const json arms =
      json::parse(command_output({"simulate", "--profile", calculated(), "--topics", "all=0.6", "--rate", "4",
                                  "--duration", "10", "--arms", "auto,k3", "--json"}))["loads"][0]["arms"];
  EXPECT_GT(arms["auto"]["accepted_siblings"], 0);
  EXPECT_EQ(arms["k3"]["accepted_siblings"], 0);
}

TEST_F(SimulateCommand, ReplaysATraceAndShowsATable) {
  const auto trace = folder_.write("t.csv",
                                   "TIMESTAMP,ContextTokens,GeneratedTokens\n"
                                   "2023-11-16 18:15:46,374,44\n"
                                   "2023-11-16 18:15:50,9999999,109\n");
  const std::string table = command_output({"simulate", "--profile", calculated(), "--topics", "all=0.5", "--trace",
                                            trace.string(), "--arms", "auto,k3,none", "--scale", "1,4"});
  EXPECT_THAT(table, HasSubstr("2 requests, 0.5 a second"));
  EXPECT_THAT(table, HasSubstr("2 requests, 2 a second"));
  for (const char* arm : {"auto", "k3", "none"}) EXPECT_THAT(table, HasSubstr(arm));
}

TEST_F(SimulateCommand, TakesTopicsAndTheirAcceptanceFromALedger) {
  record_requests(30, /*between_us=*/0);
  const json result = json::parse(command_output({"simulate", "--profile", calculated(), "--ledger", path("ledger.db"),
                                                  "--rate", "10", "--duration", "20", "--arms", "k1", "--json"}));
  const json& load = result["loads"][0];
  const double expected = (2 * 0.6 + 0.2) / 3;
  EXPECT_NEAR(load["arms"]["k1"]["alpha"].get<double>(), expected, 0.06);
  EXPECT_NEAR(load["arms"]["k1"]["tokens_per_s"].get<double>(), 64 * load["requests"].get<double>() / 20, 30)
      << "answers are as long as the recorded ones";
}

// Bug: fixed lengths took the α of the steps in which a planner had proposed.
TEST_F(SimulateCommand, FixedLengthsTakeFromAPlannersLedgerWhatDraftsWereScoredWith) {
  const std::string profile = calculated();
  const auto alpha_of_k1 = [&] {
    const json result = json::parse(command_output({"simulate", "--profile", profile, "--ledger", path("ledger.db"),
                                                    "--rate", "10", "--duration", "20", "--arms", "k1", "--json"}));
    return result["loads"][0]["arms"]["k1"]["alpha"].get<double>();
  };
  const auto warns = [&](double alpha) {
    ::testing::internal::CaptureStderr();
    EXPECT_NEAR(alpha_of_k1(), alpha, 0.06);
    return ::testing::internal::GetCapturedStderr().find("too high an α for math, sql") != std::string::npos;
  };
  const auto record_with_drafted_steps = [&](int n_drafted) {
    std::filesystem::remove(path("ledger.db"));
    record_requests(30, /*between_us=*/0, [&](int, RequestRow& row) { row.tested = {{.reached = n_drafted}}; });
  };
  const double served = (2 * 0.6 + 0.2) / 3;
  record_with_drafted_steps(4);
  EXPECT_FALSE(warns(served)) << "of four steps after the first";
  record_with_drafted_steps(1);
  EXPECT_TRUE(warns(served));
  {
    LedgerOptions options;
    options.file = path("ledger.db");
    Ledger ledger(options);
    for (const char* topic : {"math", "sql"}) {
      SameTextRow row{.at_us = wall_us(), .topic = topic, .draft = topic};
      row.live_accepted = 1;
      row.live_first_rejections = 9;
      ledger.record(row);
    }
  }
  EXPECT_FALSE(warns(0.1));
}

// Bug: the load that had kept the service from proposing kept the simulated planner from it once more.
TEST_F(SimulateCommand, ThePlannerProposesAsOftenAsTheLedgerRecorded) {
  record_requests(200, /*between_us=*/2'000, [](int, RequestRow& row) { row.tested = {{.reached = 2}}; });
  const json arm = json::parse(command_output({"simulate", "--profile", calculated(), "--ledger", path("ledger.db"),
                                               "--arms", "auto", "--json"}))["loads"][0]["arms"]["auto"];
  const double steps = arm["output_tokens"].get<double>() / arm["accepted_length"].get<double>() - 200;
  EXPECT_GT(arm["draft_tokens"], 0.45 * steps) << "before, 0.35; two of four steps after the first had a proposal";
}

TEST_F(SimulateCommand, ReplaysALedgerAtTheTimesThatItRecorded) {
  record_requests(31, /*between_us=*/2'000'000);
  const json result = json::parse(command_output({"simulate", "--profile", calculated(), "--ledger", path("ledger.db"),
                                                  "--scale", "1,10", "--arms", "none", "--json"}));
  const json &slow = result["loads"][0], &fast = result["loads"][1];
  EXPECT_EQ(slow["requests"], 31);
  EXPECT_NEAR(slow["rate_per_s"].get<double>(), 31.0 / 60, 0.001);
  EXPECT_NEAR(fast["rate_per_s"].get<double>(), 31.0 / 6, 0.01);
  EXPECT_NEAR(slow["arms"]["none"]["tokens_per_s"].get<double>(), 64 * 31.0 / 60, 1);
  EXPECT_NEAR(fast["arms"]["none"]["tokens_per_s"].get<double>(), 64 * 31.0 / 6, 20);
}

TEST_F(SimulateCommand, FindsInThePrefixCacheWhatALedgerRecorded) {
  const std::string profile = calculated();
  const auto ttft_ms = [&](int cached_tokens) {
    std::filesystem::remove(path("ledger.db"));
    record_requests(30, /*between_us=*/2'000'000, [&](int, RequestRow& row) { row.cached_tokens = cached_tokens; });
    const json result = json::parse(
        command_output({"simulate", "--profile", profile, "--ledger", path("ledger.db"), "--arms", "none", "--json"}));
    return result["loads"][0]["arms"]["none"]["ttft_ms"]["p50"].get<double>();
  };
  EXPECT_LT(ttft_ms(192), 0.5 * ttft_ms(0));
}

// Bug: replayed requests asked for nothing, so attainment could not be predicted.
TEST_F(SimulateCommand, ReplayedRequestsAskForTheTargetsThatTheLedgerRecorded) {
  record_requests(30, /*between_us=*/2'000'000, [](int i, RequestRow& row) {
    if (i % 3 == 0) row.slo_tpot_ms = 0.012;
    if (i % 3 == 1) row.slo_e2e_ms = 60'000;
  });
  const std::vector<std::string> replay{"simulate",        "--profile", calculated(), "--ledger",
                                        path("ledger.db"), "--arms",    "none"};
  const auto figures = [&](std::vector<std::string> more) {
    more.insert(more.begin(), replay.begin(), replay.end());
    more.emplace_back("--json");
    return json::parse(command_output(more))["loads"][0]["arms"]["none"];
  };
  for (const json& recorded : {figures({}), figures({"--deadlines"}), figures({"--rate", "1", "--duration", "30"})}) {
    ASSERT_EQ(recorded["attainments"].size(), 2U);
    EXPECT_EQ(recorded["attainments"][0]["e2e_ms"], 60'000);
    EXPECT_EQ(recorded["attainments"][0]["attainment"], 1);
    EXPECT_EQ(recorded["attainments"][1]["tpot_ms"], 0.012);
    EXPECT_EQ(recorded["attainments"][1]["attainment"], 0);
  }
  EXPECT_EQ(figures({})["attainments"][1]["requests"], 10);
  EXPECT_EQ(figures({})["attainment"], 0.5) << "of those that asked";
  const json given = figures({"--ttft-ms", "60000"});
  ASSERT_EQ(given["attainments"].size(), 1U);
  EXPECT_EQ(given["attainments"][0]["requests"], 30) << "options hold for all";
  EXPECT_EQ(given["attainments"][0]["tpot_ms"], 0);
  EXPECT_THAT(command_output(replay), HasSubstr("e2e 60000 ms: 100 %  TPOT 0.012 ms: 0 %"));
}

TEST_F(SimulateCommand, WhatDoesNotFitTogetherIsRefusedWithTheOption) {
  const std::string profile = calculated();
  const auto refused = [&](std::vector<std::string> more) {
    more.insert(more.begin(), {"simulate", "--profile", profile});
    return refusal(more);
  };
  EXPECT_THAT(refused({}), HasSubstr("no load"));
  EXPECT_THAT(refused({"--rate", "1", "--topics", "sql"}), HasSubstr("'sql' is no name=α"));
  EXPECT_THAT(refused({"--rate", "1", "--topics", "sql=nan"}), HasSubstr("--topics"));
  EXPECT_THAT(refused({"--rate", "1", "--topics", "=0.5"}), HasSubstr("--topics"));
  EXPECT_THAT(refused({"--rate", "1", "--arms", "k17"}), HasSubstr("'k17'"));
  EXPECT_THAT(refused({"--rate", "nan"}), HasSubstr("--rate"));
  EXPECT_THAT(refused({"--rate", "1", "--seed", "18446744073709551616"}), HasSubstr("--seed"));
  std::string many = "t0=0.5";
  for (int i = 1; i < 64; ++i) many += ",t" + std::to_string(i) + "=0.5";
  EXPECT_THAT(refused({"--rate", "1", "--topics", many}), HasSubstr("more than 63"));
  EXPECT_THAT(refused({"--rate", "1", "--topics", "sql=0.5,math=0.4,sql=0.6"}), HasSubstr("names 'sql' twice"));
  EXPECT_THAT(refused({"--rate", "1", "--svg", path("x.svg")}), HasSubstr("--svg"));
  EXPECT_THAT(refused({"--rate", "1", "--scale", "2"}), HasSubstr("--scale"));
  EXPECT_THAT(refused({"--topics", "sql=0.5", "--scale", "2"}), HasSubstr("no load"));
  EXPECT_THAT(refused({"--rate", "1000000", "--duration", "10000000"}), HasSubstr("ten million"));
  EXPECT_THAT(refused({"--rate", "1", "--deadlines"}), HasSubstr("no request has a target"));
  record_requests(3, /*between_us=*/1'000'000);
  EXPECT_THAT(refused({"--ledger", path("ledger.db"), "--deadlines"}), HasSubstr("no request has a target"));
  EXPECT_THAT(refused({"--rate", "1", "--tpot-ms", "10,20", "--mix", "1"}), HasSubstr("--mix"));
  EXPECT_THAT(refused({"--rate", "1", "--tpot-ms", "10,20", "--mix", "0,0"}), HasSubstr("--mix"));
  EXPECT_THAT(refused({"--rate", "1", "--mix", "1"}), HasSubstr("--mix"));
  EXPECT_THAT(refused({"--rate", "1", "--max-tokens", "5000"}), HasSubstr("--context"));
  EXPECT_THAT(refused({"--rate", "1", "--ledger", path("absent.db")}), HasSubstr("absent.db"));
  EXPECT_THAT(refusal({"simulate", "--profile", path("absent.json"), "--rate", "1"}), HasSubstr("absent.json"));
  EXPECT_THAT(refusal({"profile", "--target", kTarget, "--bandwidth", "3"}), HasSubstr("go together"));
  EXPECT_THAT(refusal({"profile", "--target", kTarget, "--threads", "100000"}), HasSubstr("--threads"));
  const std::string other = folder_.write("config.json", "{\"model\": 1}").string();
  EXPECT_THAT(refusal({"profile", "--target", kTarget, "--bandwidth", "3", "--tflops", "1", "--out", other}),
              HasSubstr("config.json is there already and is no profile"));
  EXPECT_EQ(read_file(other, 100), "{\"model\": 1}");
  calculated(/*with_draft=*/false);
  EXPECT_THAT(refused({"--rate", "1", "--arms", "auto"}), HasSubstr("has no draft"));
  EXPECT_EQ(refused({"--rate", "1", "--duration", "1"}), "none") << "plain decoding is the arm then";
}

// Bug: a load was taken to last a second at least.
TEST_F(SimulateCommand, AShortLoadsRateIsItsOwn) {
  const auto trace = folder_.write("t.csv",
                                   "TIMESTAMP,ContextTokens,GeneratedTokens\n"
                                   "2023-11-16 18:15:46,374,44\n"
                                   "2023-11-16 18:15:50,300,20\n");
  const json result = json::parse(command_output({"simulate", "--profile", calculated(), "--trace", trace.string(),
                                                  "--arms", "none", "--scale", "10,40", "--json"}));
  EXPECT_NEAR(result["loads"][0]["rate_per_s"].get<double>(), 2 / 0.4, 1e-6);
  EXPECT_NEAR(result["loads"][1]["rate_per_s"].get<double>(), 2 / 0.1, 1e-6);
}

// Bug: the drawing replaced the ledger, or the profile, with status 0.
TEST_F(SimulateCommand, RefusesToDrawOverTheLedgerOrTheProfile) {
  record_requests(3, /*between_us=*/1'000'000);
  const std::string profile = calculated(), ledger = path("ledger.db");
  const std::string trace =
      folder_.write("t.csv", "TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:15:46,374,44\n").string();
  std::filesystem::create_symlink(profile, path("link.svg"));
  folder_.write("LOCK", "");
  const auto refused = [&](std::vector<std::string> load, const std::string& svg) {
    load.insert(load.begin(), {"simulate", "--profile", profile, "--arms", "none", "--scale", "1,2", "--svg", svg});
    EXPECT_THAT(refusal(load), HasSubstr("--svg " + svg + " "));
  };
  const auto bytes = std::filesystem::file_size(ledger);
  for (const std::string& svg : {ledger, ledger + "-wal", path("LOCK"), profile, path("link.svg")}) {
    refused({"--ledger", ledger}, svg);
  }
  for (const std::string& svg : {trace, profile}) refused({"--trace", trace}, svg);
  EXPECT_EQ(std::filesystem::file_size(ledger), bytes);
  EXPECT_THAT(read_file(profile, 1 << 20), HasSubstr("calculated for"));
}

// Bug: what a simulation of minutes had found was lost.
TEST_F(SimulateCommand, AnUnwritableDrawingStillPrintsTheTable) {
  std::vector<std::string> arguments = {
      "simulate",   "--profile", calculated(), "--topics",           "all=0.6", "--rate", "2,20",
      "--duration", "2",         "--svg",      path("none/load.svg")};
  CLI::App app;
  add_commands(app);
  std::reverse(arguments.begin(), arguments.end());  // as CLI11 takes them
  ::testing::internal::CaptureStdout();
  EXPECT_THROW(app.parse(arguments), Error);
  EXPECT_THAT(::testing::internal::GetCapturedStdout(), HasSubstr("TTFT ms"));
}

}  // namespace
}  // namespace slip::cli
