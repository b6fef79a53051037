// SPDX-License-Identifier: Apache-2.0
#include "router/topic.h"

#include <gtest/gtest.h>

#include "common/error.h"

namespace slip {
namespace {

using namespace std::string_view_literals;

TopicTable table_of(std::vector<Topic> topics) {
  return TopicTable(std::move(topics));
}

TopicTable four_kinds() {
  return table_of(
      {{"sql", {}}, {"math", {}}, {"code", {"python"}}, {"lang", {"lang-*", "translate"}}, {"german", {"lang-de*"}}});
}

std::string routed(const TopicTable& table, std::optional<std::string_view> label) {
  const auto topic = table.find(label);
  return topic ? table[*topic].name : "(none)";
}

TEST(TopicTableTest, RoutesNamesAndAliases) {
  const TopicTable table = four_kinds();
  EXPECT_EQ(table.size(), 6U);
  EXPECT_EQ(routed(table, "sql"), "sql");
  EXPECT_EQ(routed(table, "python"), "code");
  EXPECT_EQ(routed(table, "translate"), "lang");
}

TEST(TopicTableTest, TheLongestPatternWins) {
  const TopicTable table = four_kinds();
  EXPECT_EQ(routed(table, "lang-fr"), "lang");
  EXPECT_EQ(routed(table, "lang-"), "lang");
  EXPECT_EQ(routed(table, "lang-de-AT"), "german");
}

TEST(TopicTableTest, LabelsThatNameNothingFindNothing) {
  const TopicTable table = four_kinds();
  for (const auto& label : {std::optional<std::string_view>{}, {""}, {"poems"}, {"SQL"}, {"sqlx"}, {"lang-*x"sv}}) {
    const bool is_lang = label && label->starts_with("lang-");
    EXPECT_EQ(routed(table, label), is_lang ? "lang" : "(none)");
  }
  EXPECT_EQ(routed(table, "unknown"), "unknown") << "a client may say that it is none of them";
  EXPECT_EQ(table_of({}).size(), 1U);
}

TEST(TopicTableTest, UnknownMayBeDescribedAndStaysTopicZero) {
  const TopicTable table = table_of({{"sql", {}, {"a"}}, {"unknown", {"other"}, {"b", "c"}}});
  EXPECT_EQ(table.size(), 2U);
  EXPECT_EQ(table.find("other"), TopicId{0});
  EXPECT_EQ(table.find("sql"), TopicId{1});
  EXPECT_EQ(table[TopicId{0}].examples.size(), 2U);
}

TEST(TopicTableTest, TopicsAndExamplesAreBounded) {
  std::vector<Topic> topics;
  for (std::size_t i = 1; i < TopicTable::kMaxTopics; ++i) topics.push_back({"t" + std::to_string(i), {}, {}});
  EXPECT_NO_THROW(table_of(topics));
  topics.push_back({"one-more", {}, {}});
  EXPECT_THROW(table_of(topics), Error);
  const std::string longest(TopicTable::kMaxExampleBytes, 'x');
  EXPECT_NO_THROW(table_of({{"a", {}, std::vector<std::string>(TopicTable::kMaxExamples, longest)}}));
  EXPECT_THROW(table_of({{"a", {}, std::vector<std::string>(TopicTable::kMaxExamples + 1, "x")}}), Error);
  EXPECT_THROW(table_of({{"a", {}, {longest + "x"}}}), Error);
  EXPECT_THROW(table_of({{"a", {}, {"x", ""}}}), Error);
}

TEST(TopicTableTest, RefusesNamesThatCouldLeaveTheirFolder) {
  for (const std::string_view name : {""sv, "../x"sv, "a/b"sv, "a\0b"sv, "%2e%2e"sv, "-a"sv, "_a"sv, "Sql"sv, "a b"sv,
                                      "é"sv, ".."sv, "1234567890123456789012345678901234567890123456789"sv}) {
    EXPECT_THROW(table_of({{std::string(name), {}}}), Error) << name;
  }
  EXPECT_NO_THROW(table_of({{"123456789012345678901234567890123456789012345678", {}}}));
}

TEST(TopicTableTest, RefusesWhatReportsCallServingWithoutADraft) {
  EXPECT_THROW(table_of({{"prompt_lookup", {}}}), Error);
}

// A topic named like the base draft published its versions into the base draft's folder, and the next start failed.
TEST(TopicTableTest, RefusesTheBaseDraftsName) {
  try {
    table_of({{"sql", {}}, {"base", {}}});
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.param(), "topics");
    EXPECT_NE(error.message().find("\"base\""), std::string::npos) << error.message();
  }
  EXPECT_EQ(routed(table_of({{"basics", {"base"}}}), "base"), "basics") << "a label is no folder";
  EXPECT_NO_THROW(table_of({{"base2", {}}, {"database", {}}}));
}

TEST(TopicTableTest, RefusesBadAndRepeatedAliases) {
  EXPECT_THROW(table_of({{"sql", {}}, {"sql", {}}}), Error);
  EXPECT_THROW(table_of({{"unknown", {}}, {"unknown", {}}}), Error);
  EXPECT_THROW(table_of({{"sql", {"unknown"}}}), Error);
  EXPECT_THROW(table_of({{"sql", {"db"}}, {"math", {"db"}}}), Error);
  EXPECT_THROW(table_of({{"sql", {"math"}}, {"math", {}}}), Error);
  for (const std::string_view alias : {"*"sv, ""sv, "a*b"sv, "a**"sv, "../*"sv, "a\0*"sv}) {
    EXPECT_THROW(table_of({{"sql", {std::string(alias)}}}), Error) << alias;
  }
}

TEST(TopicTableTest, AnErrorShowsNoControlCharacters) {
  try {
    table_of({{"a\x1b[31m\n", {}}});
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.message().find('\x1b'), std::string::npos);
    EXPECT_EQ(error.param(), "topics");
  }
}

}  // namespace
}  // namespace slip
