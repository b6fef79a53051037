// SPDX-License-Identifier: Apache-2.0
#include "ledger/report.h"

#include <gmock/gmock.h>
#include <sys/wait.h>
#include <unistd.h>
#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "common/error.h"
#include "ledger/figures.h"
#include "ledger/report_parts.h"
#include "ledger/sheet.h"
#include "ledger/text_table.h"
#include "tests/ledger/sample_ledger.h"

namespace slip {
namespace {

namespace fs = std::filesystem;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

class ReportTest : public ::testing::Test {
 protected:
  void record_story() {
    Ledger ledger(options_for(file_));
    record_sample_story(ledger);
  }
  std::string report(ReportKind kind, ReportFormat format, const std::string& topic = "") const {
    ReportQuery query;
    query.kind = kind;
    query.format = format;
    query.database = file_;
    query.topic = topic;
    return render_report(query);
  }
  ErrorCode error_code(ReportKind kind, ReportFormat format) const {
    try {
      report(kind, format);
    } catch (const Error& error) {
      return error.code();
    }
    return ErrorCode::kInternal;
  }

  TemporaryFolder folder_;
  const fs::path file_ = folder_ / "ledger.db";
};

TEST_F(ReportTest, WithoutALedgerSaysWhatMakesOne) {
  try {
    report(ReportKind::kTopics, ReportFormat::kTable);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kNotFound);
    EXPECT_THAT(error.hint(), HasSubstr("slipstream serve"));
  }
  EXPECT_FALSE(fs::exists(file_));  // and made none
}

TEST_F(ReportTest, RefusesWhatIsNoLedger) {
  { Database(file_, Database::Mode::kReadWrite).execute("CREATE TABLE theirs (x)"); }
  EXPECT_EQ(error_code(ReportKind::kTopics, ReportFormat::kTable), ErrorCode::kInvalidArgument);
}

TEST_F(ReportTest, AnEmptyLedgerSaysSoInEveryFormat) {
  { const Ledger ledger(options_for(file_)); }
  EXPECT_THAT(report(ReportKind::kTopics, ReportFormat::kTable), HasSubstr("No requests"));
  EXPECT_THAT(report(ReportKind::kDrift, ReportFormat::kSvg), HasSubstr("waiting for"));
  EXPECT_THAT(report(ReportKind::kTopics, ReportFormat::kSvg), HasSubstr("waiting for"));
  EXPECT_TRUE(nlohmann::json::parse(report(ReportKind::kTopics, ReportFormat::kJson)).at("rows").empty());
}

// Bug: the table was empty, since the base draft is recorded at each start.
TEST_F(ReportTest, AServiceThatHasOnlyItsBaseDraftSaysThatNobodyAsked) {
  {
    Ledger ledger(options_for(file_));
    DraftVersionRow base{.draft = "base", .reason = "base", .weights_sha256 = "aa", .version = 1};
    base.created_us = kSampleStartUs;
    ledger.record(base);
  }
  for (const auto kind : {ReportKind::kTopics, ReportKind::kRequests, ReportKind::kDrift}) {
    EXPECT_THAT(report(kind, ReportFormat::kTable), StartsWith("No requests in this period yet: send some"));
  }
  EXPECT_THAT(report(ReportKind::kDrafts, ReportFormat::kTable), HasSubstr("base"));
  EXPECT_THAT(report(ReportKind::kLearning, ReportFormat::kTable), StartsWith("Nothing was learned"));
  EXPECT_THAT(report(ReportKind::kSlo, ReportFormat::kTable),
              StartsWith("No request in this period asked for a speed"));
}

// It was said where no --since was given, too.
TEST_F(ReportTest, AnEmptyReportAsksForALongerSinceOnlyWhereOneWasGiven) {
  { const Ledger ledger(options_for(file_)); }
  for (const auto kind : {ReportKind::kTopics, ReportKind::kRequests, ReportKind::kDrift, ReportKind::kDrafts,
                          ReportKind::kLearning, ReportKind::kSlo}) {
    EXPECT_THAT(report(kind, ReportFormat::kTable), Not(HasSubstr("--since")));
  }
  for (const auto kind : {ReportKind::kTopics, ReportKind::kLearning}) {
    ReportQuery query;
    query.kind = kind;
    query.database = file_;
    query.since_us = kSampleStartUs;
    EXPECT_THAT(render_report(query), HasSubstr(", or ask for a longer --since.\n"));
  }
}

TEST_F(ReportTest, TableShowsTheGainOverTheBaseDraftAndTheDefinitions) {
  record_story();
  const std::string text = report(ReportKind::kTopics, ReportFormat::kTable);
  EXPECT_THAT(text, HasSubstr("sql"));
  EXPECT_THAT(text, HasSubstr("+.22 [+.19, +.24]"));
  EXPECT_THAT(text, HasSubstr("never accepted / proposed"));
  EXPECT_THAT(text, HasSubstr("▲3 ✕1"));
  EXPECT_THAT(text, Not(HasSubstr("\033")));
}

// Without a draft, tables named the base draft where JSON named prompt_lookup.
TEST_F(ReportTest, TablesNameWhatProposesAsJsonDoes) {
  {
    Ledger ledger(options_for(file_));
    RequestRow row = sample_request("sql", kSampleStartUs, 6, 4);
    row.draft = "prompt_lookup";
    ledger.record(row);
  }
  for (const auto kind : {ReportKind::kTopics, ReportKind::kDrift, ReportKind::kRequests}) {
    EXPECT_THAT(report(kind, ReportFormat::kTable), HasSubstr("  prompt_lookup  "));
    const auto json = nlohmann::json::parse(report(kind, ReportFormat::kJson));
    EXPECT_EQ(json.at("rows").at(0).at("draft"), "prompt_lookup");
  }
  EXPECT_THAT(report(ReportKind::kTopics, ReportFormat::kSvg), HasSubstr(" · prompt_lookup · "));
  EXPECT_EQ(proposer_text("sql", "sql", 0), "base");
  EXPECT_EQ(proposer_text("sql", "sql", 3), "v3");
  EXPECT_EQ(proposer_text("sql", "", 0), "–") << "speculation is off";
}

TEST_F(ReportTest, TopicsSayWhatProposedTheAcceptedTokens) {
  {
    Ledger ledger(options_for(file_));
    RequestRow row = sample_request("sql", kSampleStartUs, 16, 8);
    row.tested = {{.proposer = "draft", .reached = 14, .accepted = 10},
                  {.proposer = "prompt_lookup", .reached = 10, .accepted = 6},
                  {.proposer = "prompt_lookup", .rank = 1, .reached = 4, .accepted = 4}};
    ledger.record(row);
    row = sample_request("old", kSampleStartUs, 6, 4);
    row.tested[0].proposer = "unknown";
    ledger.record(row);
  }
  const std::string text = report(ReportKind::kTopics, ReportFormat::kTable);
  EXPECT_THAT(text, HasSubstr(".50 .30 .20"));
  EXPECT_THAT(text, Not(HasSubstr(".00 .00"))) << "nothing is known of the other topic's";
  EXPECT_THAT(text, HasSubstr("\naccepted from: shares of the accepted tokens"));
  EXPECT_THAT(report(ReportKind::kDrift, ReportFormat::kTable), Not(HasSubstr("accepted from")));
  const auto rows = nlohmann::json::parse(report(ReportKind::kTopics, ReportFormat::kJson)).at("rows");
  EXPECT_TRUE(rows.at(0).at("lookup_share").is_null());
  EXPECT_NEAR(rows.at(1).at("lookup_share").get<double>(), 0.3, 1e-12);
}

TEST_F(ReportTest, AMistypedTopicIsReportedWithTheTopicsThereAre) {
  record_story();
  EXPECT_THAT(report(ReportKind::kTopics, ReportFormat::kTable, "sqll"),
              StartsWith("No requests of topic sqll in this period: the ledger has requests of code, "));
}

TEST_F(ReportTest, EveryTableHasItsStory) {
  record_story();
  const std::string drift = report(ReportKind::kDrift, ReportFormat::kTable);
  EXPECT_THAT(drift, HasSubstr("lang v3 rolled back to v2"));
  EXPECT_THAT(drift, HasSubstr("◆ math drift: acceptance fell"));
  const std::string drafts = report(ReportKind::kDrafts, ReportFormat::kTable);
  EXPECT_THAT(drafts, HasSubstr("✕ refused"));
  EXPECT_THAT(drafts, HasSubstr("▼ v3"));
  EXPECT_THAT(drafts, HasSubstr("below margin"));
  const std::string requests = report(ReportKind::kRequests, ReportFormat::kTable, "sql");
  EXPECT_EQ(std::count(requests.begin(), requests.end(), '\n'), 2 + 50 + 1 + 2);
}

// The columns p and held-out α and the marks stood there unexplained.
TEST_F(ReportTest, TheReportOfDraftsExplainsItsColumnsAndMarks) {
  record_story();
  const std::string drafts = report(ReportKind::kDrafts, ReportFormat::kTable);
  for (const char* part :
       {"  predicted gain  realised gain  ", "\np: 1 / the odds", "\nheld-out α: α of",
        "\npredicted gain: held-out α of this version less", "\nrealised gain: ", "\n▲ published, or"}) {
    EXPECT_THAT(drafts, HasSubstr(part));
  }
  EXPECT_THAT(drafts, Not(HasSubstr("learning curve"))) << "that is the predicted gain of the report of learning";
  EXPECT_THAT(report(ReportKind::kTopics, ReportFormat::kTable), Not(HasSubstr("\np: ")));
}

// "odds 1.53 of 0.99" stood in the reasons, and only docs/drafts.md said what it means.
TEST_F(ReportTest, ReportsWithReasonsExplainTheOdds) {
  {
    Ledger ledger(options_for(file_));
    record_sample_story(ledger);
    ledger.record(sample_learning("sql", 0, 120));
  }
  for (const auto kind : {ReportKind::kDrift, ReportKind::kDrafts, ReportKind::kLearning}) {
    EXPECT_THAT(report(kind, ReportFormat::kTable),
                HasSubstr("\nodds: those reached that the version is better (refused: below"));
  }
  EXPECT_THAT(report(ReportKind::kTopics, ReportFormat::kTable), Not(HasSubstr("\nodds: ")));
}

// Two footers, "* scored on the same text" and "α", did not say how the columns α and α live* differ.
TEST_F(ReportTest, AlphaWithAndWithoutAStarAreToldApart) {
  record_story();
  for (const auto kind : {ReportKind::kTopics, ReportKind::kDrift}) {
    const std::string text = report(kind, ReportFormat::kTable);
    EXPECT_THAT(text, HasSubstr("\n* same text: live and base draft scored afterwards on the same verified answers"));
    EXPECT_THAT(text, HasSubstr("; α without * is of what was proposed while serving, past answers included\n"));
    EXPECT_THAT(text, Not(HasSubstr("* scored on the same text")));
  }
  EXPECT_THAT(report(ReportKind::kDrafts, ReportFormat::kTable), Not(HasSubstr("without *")));
}

// Bug: a request that was cancelled while it waited seemed to have an empty prompt; later, only in JSON and CSV.
TEST_F(ReportTest, ARequestThatNeverStartedShowsNoPromptTokens) {
  {
    Ledger ledger(options_for(file_));
    RequestRow row = sample_request("sql", kSampleStartUs, 0, 0);
    row.stop_reason = "cancelled";
    row.prompt_tokens = row.output_tokens = row.steps = 0;
    ledger.record(row);
  }
  EXPECT_THAT(report(ReportKind::kRequests, ReportFormat::kTable), ContainsRegex("0\\.0 +– +0 +0 .*cancelled"));
  const auto json = nlohmann::json::parse(report(ReportKind::kRequests, ReportFormat::kJson));
  EXPECT_TRUE(json.at("rows").at(0).at("prompt_tokens").is_null());
  EXPECT_EQ(json.at("rows").at(0).at("output_tokens"), 0);
}

TEST_F(ReportTest, LearningSaysWhatItDidWhatItCostAndWhyItDoesNot) {
  {
    Ledger ledger(options_for(file_));
    record_sample_story(ledger);
    for (int minute = 0; minute < 4; ++minute) ledger.record(sample_learning("sql", minute, minute < 3 ? 120 : 0));
  }
  const std::string table = report(ReportKind::kLearning, ReportFormat::kTable);
  for (const char* part : {"360", "36.0", "8.0 %", "6.5 tokens/s", "sql: training 3 · over max_share 1",
                           "candidate after v2 refused: gain +.00", "learning curve promised", "+.15"}) {
    EXPECT_THAT(table, HasSubstr(part));
  }
  const auto json = nlohmann::json::parse(report(ReportKind::kLearning, ReportFormat::kJson, "sql"));
  EXPECT_EQ(json.at("report"), "learning");
  EXPECT_EQ(json.at("rows").at(0).at("optimizer_steps"), 360);
  EXPECT_EQ(json.at("rows").at(0).at("state"), "over max_share");
  EXPECT_EQ(json.at("states").size(), 2U);
  EXPECT_FALSE(json.at("trend").empty());
  EXPECT_FALSE(json.at("events").empty());
  EXPECT_TRUE(nlohmann::json::parse(report(ReportKind::kLearning, ReportFormat::kJson, "math")).at("rows").empty());
  EXPECT_THAT(report(ReportKind::kLearning, ReportFormat::kCsv), HasSubstr("\r\nsql,sql,3,60,7,0,360,"));
}

// The rows looked as new as the decisions below them, and were up to a minute older.
TEST_F(ReportTest, LearningSaysHowOldItsRowsAre) {
  {
    Ledger ledger(options_for(file_));
    for (int minute = 0; minute < 4; ++minute) ledger.record(sample_learning("sql", minute, 120));
    ledger.record(sample_learning("math", 1, 120));
  }
  EXPECT_THAT(report(ReportKind::kLearning, ReportFormat::kTable), HasSubstr("\nRows as of 11-21 10:04:00 UTC: "));
  EXPECT_THAT(report(ReportKind::kLearning, ReportFormat::kTable, "math"),
              HasSubstr("\nRows as of 11-21 10:02:00 UTC"));
}

TEST_F(ReportTest, LearningWithoutRowsSaysWhatMakesSome) {
  record_story();
  EXPECT_THAT(report(ReportKind::kLearning, ReportFormat::kTable), HasSubstr("Nothing was learned"));
  EXPECT_THAT(report(ReportKind::kLearning, ReportFormat::kSvg), HasSubstr("nothing was learned"));
}

TEST_F(ReportTest, JsonHasDefinitionsRowsAndNumbers) {
  record_story();
  const auto json = nlohmann::json::parse(report(ReportKind::kTopics, ReportFormat::kJson));
  EXPECT_EQ(json.at("rows").size(), 5U);
  EXPECT_TRUE(json.at("definitions").contains("α"));
  const auto& sql = json.at("rows").at(3);
  EXPECT_EQ(sql.at("topic"), "sql");
  EXPECT_NEAR(sql.at("gain").get<double>(),
              sql.at("alpha_same_text").get<double>() - sql.at("base_alpha").get<double>(), 1e-12);
  EXPECT_TRUE(json.at("rows").at(4).at("gain").is_null());  // never scored
  const auto drift = nlohmann::json::parse(report(ReportKind::kDrift, ReportFormat::kJson));
  EXPECT_GT(drift.at("bucket_us").get<std::int64_t>(), 0);
  EXPECT_FALSE(drift.at("positions").empty());
  EXPECT_FALSE(drift.at("ranks").empty());
  EXPECT_FALSE(drift.at("events").empty());
}

TEST_F(ReportTest, CsvHasALineARowAndQuotesFormulas) {
  {
    Ledger ledger(options_for(file_));
    RequestRow row = sample_request("=cmd|'/C calc'!A0", kSampleStartUs, 6, 4);
    row.http_id = "say \"hi\", twice";
    row.stop_reason = "@SUM(A1)";
    ledger.record(row);
  }
  const std::string csv = report(ReportKind::kRequests, ReportFormat::kCsv);
  EXPECT_THAT(csv, HasSubstr("\"'=cmd|'/C calc'!A0\""));
  EXPECT_THAT(csv, HasSubstr("\"'@SUM(A1)\""));
  EXPECT_THAT(csv, HasSubstr("\"say \"\"hi\"\", twice\""));
  EXPECT_EQ(std::count(csv.begin(), csv.end(), '\n'), 2);
  EXPECT_THAT(csv, HasSubstr(",0.6,"));  // a negative number would stay a number, too: only text is quoted
}

TEST_F(ReportTest, SvgDrawsCurvesMarksAndEscapesText) {
  record_story();
  {
    Ledger ledger(options_for(file_));
    for (int i = 0; i < 10; ++i) ledger.record(sample_request("<script>&\x01", kSampleStartUs + i * kSecondUs, 6, 4));
  }
  const std::string svg = report(ReportKind::kDrift, ReportFormat::kSvg);
  EXPECT_THAT(svg, HasSubstr("<svg xmlns"));
  EXPECT_THAT(svg, HasSubstr("stroke-dasharray=\"6 5\""));           // the base draft
  EXPECT_THAT(svg, HasSubstr("<title>v1 published"));                // a mark with its tooltip
  EXPECT_THAT(svg, HasSubstr("waiting for 8 requests (1 so far)"));  // topic `unknown`
  EXPECT_THAT(svg, HasSubstr("&lt;script&gt;&amp;"));
  EXPECT_THAT(svg, Not(HasSubstr("<script")));
  EXPECT_EQ(svg.find('\x01'), std::string::npos);
  EXPECT_THAT(svg, Not(HasSubstr("nan")));
  EXPECT_EQ(error_code(ReportKind::kDrafts, ReportFormat::kSvg), ErrorCode::kUnsupported);
}

TEST_F(ReportTest, ReadsWhileTheServiceWrites) {
  Ledger ledger(options_for(file_));
  ledger.record(sample_request("sql", kSampleStartUs, 6, 4));
  ledger.flush();
  EXPECT_THAT(report(ReportKind::kRequests, ReportFormat::kTable), HasSubstr("sql"));
  ledger.record(sample_request("math", kSampleStartUs, 6, 4));
  ledger.flush();
  EXPECT_THAT(report(ReportKind::kRequests, ReportFormat::kTable), HasSubstr("math"));
}

// In a child without root's powers, whom permissions would not stop: true when `action` threw nothing.
template <class Action>
bool works_unprivileged(Action action) {
  constexpr uid_t kNobody = 65534;
  const pid_t child = ::fork();
  if (child == 0) {
    if (::geteuid() == 0 && ::seteuid(kNobody) != 0) ::_exit(2);
    try {
      action();
    } catch (const Error&) {
      ::_exit(1);
    }
    ::_exit(0);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  EXPECT_NE(WEXITSTATUS(status), 2);
  return WEXITSTATUS(status) == 0;
}

TEST_F(ReportTest, ReadsACopyWhereNothingCanBeWritten) {
  record_story();
  fs::permissions(file_, fs::perms(0444));
  fs::permissions(folder_.path(), fs::perms(0555));
  EXPECT_TRUE(works_unprivileged([&] { report(ReportKind::kTopics, ReportFormat::kTable); }));
  fs::permissions(folder_.path(), fs::perms(0700));
  std::ofstream(file_.string() + "-wal") << "rows that only a writer could bring in";
  fs::permissions(folder_.path(), fs::perms(0555));
  EXPECT_FALSE(works_unprivileged([&] { report(ReportKind::kTopics, ReportFormat::kTable); }));
  fs::permissions(folder_.path(), fs::perms(0700));
}

TEST_F(ReportTest, OddFileNamesAreOnlyNames) {
  const fs::path odd = folder_ / "a?mode=rwc#%41.db";
  { Ledger ledger(options_for(odd)); }
  EXPECT_NO_THROW(LedgerReader(odd, {}));
  const Database immutable(odd, Database::Mode::kImmutable);
  EXPECT_FALSE(fs::exists(folder_ / "a"));
}

TEST_F(ReportTest, ControlCharactersDoNotReachTheTerminal) {
  {
    Ledger ledger(options_for(file_));
    ledger.record(sample_request("a\x1b[2Jb", kSampleStartUs, 6, 4));
  }
  for (const auto kind : {ReportKind::kTopics, ReportKind::kDrift, ReportKind::kRequests}) {
    EXPECT_THAT(report(kind, ReportFormat::kTable), Not(HasSubstr("\x1b")));
  }
}

TEST(ReportText, SharesAndGains) {
  EXPECT_EQ(share_text(0.712), ".71");
  EXPECT_EQ(share_text(1.0), "1.00");
  EXPECT_EQ(share_text(0.0), ".00");
  EXPECT_EQ(share_text(std::nullopt), "–");
  EXPECT_EQ(gain_text(0.19, Interval{0.15, 0.23}), "+.19 [+.15, +.23]");
  EXPECT_EQ(gain_text(-0.001, std::nullopt), "+.00");
  EXPECT_EQ(gain_text(-0.25, std::nullopt), "-.25");
}

TEST(TextTable, AlignsByWhatIsShownAndCutsTheLastColumn) {
  TextTable table({{"α", TextTable::Align::kRight}, {"why", TextTable::Align::kLeft}});
  table.add({"–", "short"});
  table.add({"1.25", "a reason that is rather too long for the terminal"});
  const std::string text = table.text(/*width=*/30, /*color=*/false);
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) EXPECT_LE(shown_width(line), 30U) << line;
  EXPECT_THAT(text, HasSubstr("   –  short\n"));
  EXPECT_THAT(text, HasSubstr("…\n"));
  EXPECT_THAT(table.text(0, false), HasSubstr("for the terminal\n"));
}

TEST(Sparkline, SpansItsOwnRangeButNotNoise) {
  EXPECT_EQ(sparkline(std::vector<double>{0.1, 0.5, 0.9}, 8), "▁▅█");
  EXPECT_EQ(sparkline(std::vector<double>{0.50, 0.51}, 8), "▁▂");
  EXPECT_EQ(sparkline(std::vector<double>{0.1, 0.1, 0.9, 0.9}, 2), "▁█");
  EXPECT_EQ(sparkline(std::vector<double>{}, 8), "");
}

}  // namespace
}  // namespace slip
