// SPDX-License-Identifier: Apache-2.0
// What the drawing holds, whatever it looks like: no golden picture to renew.
#include <gmock/gmock.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <set>

#include "ledger/database.h"
#include "ledger/report.h"
#include "ledger/svg_canvas.h"
#include "tests/ledger/sample_ledger.h"
#include "tests/ledger/svg_elements.h"

namespace slip {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;
using testing::parse_xml;
using testing::XmlElement;

class DriftSvg : public ::testing::Test {
 protected:
  DriftSvg() {
    Ledger ledger(options_for(folder_ / "ledger.db"));
    record_sample_story(ledger);
  }
  std::vector<XmlElement> draw(const std::string& topic = "", ReportKind kind = ReportKind::kDrift) const {
    ReportQuery query;
    query.kind = kind;
    query.format = ReportFormat::kSvg;
    query.database = folder_ / "ledger.db";
    query.topic = topic;
    return parse_xml(render_report(query));
  }
  // Of the elements inside `topic`'s group, and inside a group of class `part` when one is named.
  static int count(const std::vector<XmlElement>& all, const std::string& topic, const std::string& part,
                   const std::function<bool(const XmlElement&)>& wanted) {
    return static_cast<int>(std::count_if(all.begin(), all.end(), [&](const XmlElement& one) {
      bool in_topic = false, in_part = part.empty();
      for (const auto around : one.inside) {
        in_topic |= all[around]["data-topic"] == topic;
        in_part |= all[around]["class"] == part;
      }
      return in_topic && in_part && wanted(one);
    }));
  }
  std::int64_t events(const std::string& sql) const {
    return Database(folder_ / "ledger.db", Database::Mode::kReadOnly)
        .integer("SELECT COUNT(*) FROM events WHERE " + sql);
  }

  TemporaryFolder folder_;
};

bool is_curve(const XmlElement& one, const char* color) {
  return one.name == "polyline" && one["stroke"] == color && one["points"].find(' ') + 1 < one["points"].size();
}

TEST_F(DriftSvg, EachTopicHasItsCurvesAndBandsForAlphaAndLength) {
  const auto all = draw();
  for (const char* topic : {"code", "lang", "math", "sql"}) {
    for (const char* part : {"alpha", "length"}) {
      SCOPED_TRACE(std::string(topic) + " " + part);
      EXPECT_GE(count(all, topic, part, [](const XmlElement& one) { return is_curve(one, kLive); }), 1);
      EXPECT_GE(count(all, topic, part, [](const XmlElement& one) { return is_curve(one, kBase); }), 1);
      EXPECT_GE(count(all, topic, part, [](const XmlElement& one) { return one.name == "polygon"; }), 1);
      EXPECT_EQ(count(all, topic, part, [](const XmlElement& one) { return one.name == "text"; }), 2) << "last values";
    }
    EXPECT_EQ(count(all, topic, "", [&](const XmlElement& one) { return one.text == topic; }), 1) << "its name";
  }
  EXPECT_EQ(count(all, "unknown", "alpha", [](const XmlElement&) { return true; }), 0) << "one request is no curve";
}

TEST_F(DriftSvg, EverySwapAndEveryAlarmHasItsMarkWithATooltip) {
  const auto all = draw();
  for (const char* topic : {"code", "lang", "math", "sql"}) {
    for (const char* kind : {"publish", "refuse", "rollback", "drift"}) {
      const auto wanted = [&](const XmlElement& one) { return one["class"] == std::string("mark ") + kind; };
      const auto there = events(std::string("topic = '") + topic + "' AND kind = '" + kind + "'");
      EXPECT_EQ(count(all, topic, "", wanted), there) << topic << " " << kind;
    }
  }
  EXPECT_EQ(events("kind = 'publish'"), 12);
  EXPECT_EQ(count(all, "sql", "mark publish", [](const XmlElement& one) { return one.name == "title"; }), 3);
}

// Five decisions within a second: they may not hide each other's marks.
TEST_F(DriftSvg, MarksAtOnePlaceAreAllDrawn) {
  {
    Ledger ledger(options_for(folder_ / "ledger.db"));
    for (int i = 0; i < 5; ++i) {
      CanaryRow row{.at_us = kSampleStartUs + 240 * kSecondUs + i, .topic = "code", .draft = "code", .kind = "publish"};
      row.candidate_version = 90 + static_cast<std::uint64_t>(i);
      ledger.record(row);
    }
  }
  const auto is_publish = [](const XmlElement& one) { return one["class"] == "mark publish"; };
  EXPECT_EQ(count(draw(), "code", "", is_publish), events("topic = 'code' AND kind = 'publish'"));
}

TEST_F(DriftSvg, OneTopicFillsThePageAndNamesAreOnlyText) {
  {
    Ledger ledger(options_for(folder_ / "ledger.db"));
    for (int i = 0; i < 10; ++i) {
      ledger.record(sample_request("\"><script>&'\x02", kSampleStartUs + i * kSecondUs, 6, 4));
    }
  }
  const auto all = draw();
  for (const auto& one : all) EXPECT_NE(one.name, "script");
  EXPECT_EQ(count(draw("sql"), "math", "", [](const XmlElement&) { return true; }), 0);
}

TEST_F(DriftSvg, TheTopicsReportHasADotAStrokeAndABarForEachScoredTopic) {
  const auto all = draw("", ReportKind::kTopics);
  for (const char* topic : {"code", "lang", "math", "sql"}) {
    EXPECT_EQ(count(all, topic, "", [](const XmlElement& one) { return one.name == "circle"; }), 1) << topic;
    EXPECT_EQ(count(all, topic, "", [](const XmlElement& one) { return one["stroke"] == kBase; }), 1) << topic;
    EXPECT_EQ(count(all, topic, "", [](const XmlElement& one) { return one.name == "rect"; }), 1) << topic;
  }
  EXPECT_EQ(count(all, "unknown", "", [](const XmlElement& one) { return one["stroke"] == kBase; }), 0);
}

// WCAG 2: (lighter + 0.05) / (darker + 0.05) of the relative luminances.
double contrast(const std::string& a, const std::string& b) {
  const auto luminance = [](const std::string& color) {
    const std::array<double, 3> weights = {0.2126, 0.7152, 0.0722};
    double sum = 0;
    for (std::size_t i = 0; i < 3; ++i) {
      const double c = std::stoi(color.substr(1 + 2 * i, 2), nullptr, 16) / 255.0;
      sum += weights[i] * (c <= 0.03928 ? c / 12.92 : std::pow((c + 0.055) / 1.055, 2.4));
    }
    return sum;
  };
  const double x = luminance(a) + 0.05, y = luminance(b) + 0.05;
  return std::max(x / y, y / x);
}

std::string dark_of(const std::string& light) {
  for (const auto& shade : svg_shades()) {
    if (shade.light == light) return shade.dark;
  }
  ADD_FAILURE() << light << " has no dark counterpart";
  return light;
}

TEST_F(DriftSvg, EveryColorHasADarkCounterpartAndTextCanBeReadOnBoth) {
  const auto all = draw();
  std::set<std::string> texts, colors;
  for (const auto& one : all) {
    for (const char* attribute : {"fill", "stroke"}) {
      if (one[attribute].starts_with("#")) colors.insert(one[attribute]);
    }
    if (one.name == "text") texts.insert(one["fill"]);
    if (one.name == "style") {
      EXPECT_THAT(one.text, HasSubstr("prefers-color-scheme:dark"));
    }
  }
  EXPECT_THAT(colors, Contains(std::string(kPaper)));
  for (const auto& color : colors) dark_of(color);
  for (const auto& color : texts) {
    EXPECT_GE(contrast(color, kPaper), 4.5) << color;
    EXPECT_GE(contrast(dark_of(color), dark_of(kPaper)), 4.5) << color << " in the dark";
  }
}

TEST(Xml, NegativeWhatIsNotWellFormedIsSeen) {
  for (const char* bad : {"<a><b></a>", "<a>", "<a x=1></a>", "<a x=\"1\" x=\"2\"/>", "<a>&nbsp;</a>", "<a/><a/>",
                          "<a>\x01</a>", "text"}) {
    EXPECT_THROW(parse_xml(bad), std::runtime_error) << bad;
  }
  EXPECT_EQ(parse_xml("<a><b c=\"d\">e&amp;</b></a>").size(), 2U);
}

}  // namespace
}  // namespace slip
