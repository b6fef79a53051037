// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <CLI/CLI.hpp>
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "cli/command.h"
#include "common/clock.h"
#include "common/error.h"
#include "ledger/ledger.h"
#include "tests/cli/command_output.h"

namespace slip::cli {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;
using ::testing::Not;

class ReportCommand : public ::testing::Test {
 protected:
  ReportCommand() {
    std::string name = (fs::temp_directory_path() / "slipstream-report-XXXXXX").string();
    folder_ = ::mkdtemp(name.data());
    LedgerOptions options;
    options.file = folder_ / "ledger.db";
    Ledger ledger(options);
    for (const auto& [topic, age_us] : {std::pair<std::string, std::int64_t>{"sql", 0}, {"math", 7'200'000'000}}) {
      RequestRow row;
      row.topic = row.draft = topic;
      row.finished_us = wall_us() - age_us;
      row.accepted = 6;
      row.first_rejections = 4;
      row.steps = 5;
      row.output_tokens = 11;
      ledger.record(row);
    }
  }
  ~ReportCommand() override { fs::remove_all(folder_); }

  // Standard output of `slipstream report …` on this ledger.
  std::string run(std::vector<std::string> arguments) const {
    arguments.insert(arguments.begin(), {"report", "--db", (folder_ / "ledger.db").string()});
    return command_output(std::move(arguments));
  }

  fs::path folder_;
};

TEST_F(ReportCommand, PrintsATableWithoutColorsToAPipe) {
  const std::string text = run({"topics"});
  EXPECT_THAT(text, HasSubstr("math"));
  EXPECT_THAT(text, HasSubstr(".60"));
  EXPECT_THAT(text, Not(HasSubstr("\033")));
}

TEST_F(ReportCommand, SinceAndTopicLimit) {
  EXPECT_THAT(run({"topics", "--since", "1h"}), Not(HasSubstr("math")));
  EXPECT_THAT(run({"topics", "--since", "3h"}), HasSubstr("math"));
  EXPECT_THAT(run({"requests", "--topic", "math"}), Not(HasSubstr("sql")));
  EXPECT_THAT(run({"requests", "--limit", "1", "--format", "csv"}), Not(HasSubstr("sql")));
}

TEST_F(ReportCommand, WritesAFileWhenAsked) {
  const fs::path out = folder_ / "drift.svg";
  EXPECT_EQ(run({"drift", "--format", "svg", "--out", out.string()}), "");
  std::ifstream in(out);
  std::string first;
  std::getline(in, first);
  EXPECT_THAT(first, HasSubstr("<svg"));
}

// The link was replaced by a file of mode 0600.
TEST_F(ReportCommand, WritesThroughALinkAndKeepsTheModeOfItsFile) {
  const fs::path file = folder_ / "shared.svg", link = folder_ / "link.svg";
  std::ofstream(file) << "old";
  fs::permissions(file, fs::perms(0644));
  fs::create_symlink(file, link);
  run({"drift", "--format", "svg", "--out", link.string()});
  EXPECT_TRUE(fs::is_symlink(fs::symlink_status(link)));
  run({"topics", "--out", file.string()});
  EXPECT_EQ(fs::status(file).permissions() & fs::perms::mask, fs::perms(0644));
}

// The ledger was replaced by the report's text, with status 0.
TEST_F(ReportCommand, RefusesToWriteOverTheLedger) {
  const fs::path file = folder_ / "ledger.db", link = folder_ / "link", hard = folder_ / "hard";
  fs::create_symlink(file, link);
  fs::create_hard_link(file, hard);
  fs::create_directory_symlink(folder_, folder_ / "same");
  const auto bytes = fs::file_size(file);
  const std::vector<fs::path> outs = {
      file, link, hard, folder_ / "same" / "ledger.db", folder_ / "ledger.db-wal", folder_ / "ledger.db-shm"};
  for (const auto& out : outs) {
    try {
      run({"requests", "--out", out.string()});
      ADD_FAILURE() << "written: " << out;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument) << out;  // status 2
      EXPECT_THAT(error.message(), HasSubstr("--out " + out.string()));
    }
  }
  EXPECT_EQ(fs::file_size(file), bytes);
  EXPECT_TRUE(fs::is_symlink(fs::symlink_status(link)));
  EXPECT_THAT(run({"topics"}), HasSubstr("math"));
  run({"topics", "--out", (folder_ / "ledger.db.txt").string()});
  EXPECT_TRUE(fs::exists(folder_ / "ledger.db.txt"));
}

// A report replaced LOCK, segments and weights, with status 0.
TEST_F(ReportCommand, RefusesToWriteOverWhatAServiceKeeps) {
  std::ofstream(folder_ / "LOCK") << "";
  fs::create_directories(folder_ / "drafts" / "sql");
  fs::create_directory_symlink(folder_, folder_ / "same");
  for (const fs::path out : {"LOCK", "router.state", "drafts/sql/CURRENT", "drafts", "replay/segment-0000000001.replay",
                             "optimizer/sql.opt", "step_times.json", "same/drafts/x", "drafts/../LOCK"}) {
    try {
      run({"topics", "--out", (folder_ / out).string()});
      ADD_FAILURE() << "written: " << out;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument) << out;
      EXPECT_THAT(error.message(), HasSubstr("lies among the files that a service keeps in")) << out;
    }
  }
  EXPECT_EQ(fs::file_size(folder_ / "LOCK"), 0U);
  run({"topics", "--out", (folder_ / "report.txt").string()});
  EXPECT_TRUE(fs::exists(folder_ / "report.txt")) << "beside them it may lie";
}

// The formats were listed as "{csv->\x02,json->…": with the numbers after the names.
TEST_F(ReportCommand, AnUnknownFormatOrKindIsToldTheNames) {
  const auto refusal = [&](const std::vector<std::string>& arguments) {
    try {
      run(arguments);
    } catch (const CLI::ParseError& error) {
      return std::string(error.what());
    }
    return std::string("accepted");
  };
  EXPECT_EQ(refusal({"topics", "--format", "xml"}), "--format: xml not in {csv,json,svg,table,text}");
  EXPECT_EQ(refusal({"all"}), "kind: all not in {drafts,drift,learning,requests,slo,topics}");
}

TEST_F(ReportCommand, LearningIsAReportInEveryFormat) {
  EXPECT_THAT(run({"learning"}), HasSubstr("Nothing was learned in this period"));
  EXPECT_EQ(run({"learning", "--format", "text"}), run({"learning", "--format", "table"}));
  EXPECT_THAT(run({"learning", "--since", "24h", "--topic", "sql", "--format", "json"}), HasSubstr("\"learning\""));
  EXPECT_THAT(run({"learning", "--format", "csv"}), HasSubstr("topic,draft,version,requests"));
  EXPECT_THAT(run({"learning", "--format", "svg"}), HasSubstr("<svg"));
}

TEST_F(ReportCommand, SloIsAReportInEveryFormatButADrawing) {
  EXPECT_THAT(run({"slo"}), HasSubstr("No request in this period asked for a speed"));
  EXPECT_THAT(run({"slo", "--topic", "sql", "--format", "json"}), HasSubstr("\"slo\""));
  EXPECT_THAT(run({"slo", "--format", "csv"}),
              HasSubstr("topic,slo_tier,slo_tpot_ms,slo_ttft_ms,slo_e2e_ms,requests,attainment"));
  EXPECT_THAT(run({"slo"}), HasSubstr("time to the first token and time of the whole answer")) << "e2e was left out";
  EXPECT_THROW(run({"slo", "--format", "svg"}), Error);
}

TEST_F(ReportCommand, RefusesWhatItDoesNotUnderstand) {
  for (const char* since : {"h", "24", "1y", "-1h", "0h", "99999999999999999999h", "9223372036854775807w", "1h2"}) {
    EXPECT_THROW(run({"topics", "--since", since}), Error) << since;
  }
  EXPECT_THROW(run({"weather"}), CLI::ParseError);
  EXPECT_THROW(run({"topics", "--format", "xml"}), CLI::ParseError);
  EXPECT_THROW(run({"topics", "--limit", "0"}), CLI::ParseError);
}

TEST_F(ReportCommand, HelpShowsExamples) {
  CLI::App app;
  add_report(app);
  const std::string help = app.get_subcommand("report")->help();
  for (const char* part : {"--since", "--topic", "slipstream report topics --db", "sqlite3", "drift", "read-only",
                           "slipstream report learning --db", "learning_topics", "optimizer steps"}) {
    EXPECT_THAT(help, HasSubstr(part));
  }
}

}  // namespace
}  // namespace slip::cli
