// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>
#include <algorithm>
#include <functional>
#include <string>
#include <vector>

#include "ledger/report.h"
#include "ledger/svg_canvas.h"
#include "tests/ledger/sample_ledger.h"
#include "tests/ledger/svg_elements.h"

namespace slip {
namespace {

using testing::parse_xml;
using testing::XmlElement;

class LearningSvg : public ::testing::Test {
 protected:
  LearningSvg() {
    Ledger ledger(options_for(folder_ / "ledger.db"));
    for (int minute = 0; minute < 5; ++minute) {
      ledger.record(sample_learning("sql", minute, minute < 3 ? 120 : 0));
      ledger.record(sample_learning("math", minute, 0));
    }
    CanaryRow decision;
    decision.at_us = kSampleStartUs + 120 * kSecondUs;
    decision.topic = decision.draft = "sql";
    decision.kind = "publish";
    ledger.record(decision);
  }
  int count(const std::string& topic, const std::function<bool(const XmlElement&)>& wanted) const {
    ReportQuery query;
    query.kind = ReportKind::kLearning;
    query.format = ReportFormat::kSvg;
    query.database = folder_ / "ledger.db";
    const auto all = parse_xml(render_report(query));
    return static_cast<int>(std::count_if(all.begin(), all.end(), [&](const XmlElement& one) {
      const bool inside = std::any_of(one.inside.begin(), one.inside.end(),
                                      [&](const auto around) { return all[around]["data-topic"] == topic; });
      return inside && wanted(one);
    }));
  }

  TemporaryFolder folder_;
};

TEST_F(LearningSvg, HasBothCurvesAndABarForEachTimeStepThatTrained) {
  for (const char* topic : {"sql", "math"}) {
    for (const char* color : {kLive, kBase}) {
      EXPECT_EQ(count(topic, [&](const XmlElement& one) { return one.name == "polyline" && one["stroke"] == color; }),
                1)
          << topic << color;
    }
  }
  const auto is_bar = [](const XmlElement& one) { return one.name == "rect"; };
  EXPECT_EQ(count("sql", is_bar), 3);
  EXPECT_EQ(count("math", is_bar), 0) << "it took no step";
}

TEST_F(LearningSvg, MarksWhatWasDecidedOnTheTopic) {
  const auto is_mark = [](const XmlElement& one) { return one["class"] == "mark publish"; };
  EXPECT_EQ(count("sql", is_mark), 1);
  EXPECT_EQ(count("math", is_mark), 0);
}

}  // namespace
}  // namespace slip
