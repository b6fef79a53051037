// SPDX-License-Identifier: Apache-2.0
#include "ledger/drift_detector.h"

#include <gtest/gtest.h>
#include <algorithm>
#include <random>

#include "tests/ledger/sample_ledger.h"

namespace slip {
namespace {

class Stream {
 public:
  explicit Stream(unsigned seed) : random_(seed) {}
  double next(double mean, double deviation = 0.12) {
    return std::clamp(std::normal_distribution<double>(mean, deviation)(random_), 0.0, 1.0);
  }

 private:
  std::mt19937 random_;
};

int alarms_in(DriftDetector& detector, Stream& stream, double mean, int n) {
  int alarms = 0;
  for (int i = 0; i < n; ++i) alarms += detector.add(stream.next(mean)).has_value() ? 1 : 0;
  return alarms;
}

TEST(DriftDetector, IsSilentOnAStationaryStream) {
  DriftDetector detector;
  Stream stream(1);
  EXPECT_LE(alarms_in(detector, stream, 0.6, 20'000), 2);
}

TEST(DriftDetector, SeesAFallSoonAndSaysFromWhatToWhat) {
  for (unsigned seed = 1; seed <= 20; ++seed) {
    DriftDetector detector;
    Stream stream(seed);
    ASSERT_EQ(alarms_in(detector, stream, 0.6, 300), 0) << seed;
    std::optional<DriftAlarm> alarm;
    int n = 0;
    for (; n < 80 && !alarm; ++n) alarm = detector.add(stream.next(0.42));
    ASSERT_TRUE(alarm) << seed;
    EXPECT_NEAR(alarm->alpha_before, 0.58, 0.06) << seed;
    EXPECT_NEAR(alarm->alpha_after, 0.42, 0.08) << seed;
    EXPECT_LE(n, 60) << seed;
  }
}

TEST(DriftDetector, StartsAfreshAfterAnAlarm) {
  DriftDetector detector;
  Stream stream(5);
  alarms_in(detector, stream, 0.6, 300);
  EXPECT_EQ(alarms_in(detector, stream, 0.4, 100), 1);
  EXPECT_EQ(alarms_in(detector, stream, 0.4, 400), 0);  // the new normal
  EXPECT_EQ(alarms_in(detector, stream, 0.2, 100), 1);
}

TEST(DriftDetector, LearningIsNoDrift) {
  DriftDetector detector;
  Stream stream(7);
  int alarms = 0;
  for (int i = 0; i < 600; ++i) alarms += detector.add(stream.next(0.4 + 0.3 * i / 600)).has_value() ? 1 : 0;
  EXPECT_EQ(alarms, 0);
}

TEST(DriftDetector, ALowAnswerNowAndThenIsNoDrift) {
  DriftDetector detector;
  Stream stream(9);
  int alarms = 0;
  for (int i = 0; i < 1000; ++i)
    alarms += detector.add(i % 25 == 24 ? 0.0 : stream.next(0.7, 0.08)).has_value() ? 1 : 0;
  EXPECT_EQ(alarms, 0);
}

TEST(DriftDetector, ATinyFallOfAConstantStreamIsNotWorthAnEvent) {
  DriftDetector detector;
  for (int i = 0; i < 100; ++i) detector.add(0.70);
  int alarms = 0;
  for (int i = 0; i < 300; ++i) alarms += detector.add(0.69).has_value() ? 1 : 0;
  EXPECT_EQ(alarms, 0);
}

// The planted bug: a threshold ten times too small, which the stationary stream must reveal.
TEST(DriftDetectorNegative, ATooSmallThresholdCriesWolf) {
  DriftOptions options;
  options.threshold_sd = 2;
  DriftDetector detector(options);
  Stream stream(1);
  EXPECT_GT(alarms_in(detector, stream, 0.6, 20'000), 20);
}

TEST(DriftMonitor, KeepsRulesAndTemperaturesApart) {
  DriftMonitor monitor;
  int events = 0;
  // Two kinds of traffic of very different acceptance, the second beginning late: mixed together that is a fall.
  for (int i = 0; i < 400; ++i) {
    RequestRow row = sample_request("sql", i, i < 200 ? 30 : 12, i < 200 ? 10 : 28);
    row.rule = i < 200 ? "greedy" : "rejection";
    row.temperature = i < 200 ? 0 : 0.8;
    events += monitor.observe(row).has_value() ? 1 : 0;
  }
  EXPECT_EQ(events, 0);
}

TEST(DriftMonitor, NamesTheStreamInItsEvent) {
  DriftMonitor monitor;
  std::optional<DriftEventRow> event;
  for (int i = 0; i < 200 && !event; ++i) {
    RequestRow row = sample_request("sql", i, (i < 100 ? 30 : 15) + i % 3, 10);
    row.first_rejections = 40 - row.accepted;
    row.last_version = 4;
    event = monitor.observe(row);
  }
  ASSERT_TRUE(event);
  EXPECT_EQ(event->topic, "sql");
  EXPECT_EQ(event->version, 4U);
  EXPECT_NE(event->detail.find("greedy, temperature 0"), std::string::npos) << event->detail;
}

TEST(DriftMonitor, RequestsWithoutAVerdictSayNothing) {
  DriftMonitor monitor;
  for (int i = 0; i < 300; ++i) EXPECT_FALSE(monitor.observe(sample_request("sql", i, 0, 0)));
}

TEST(TemperatureRange, UpperBoundsBelong) {
  EXPECT_STREQ(temperature_range(0), "0");
  EXPECT_STREQ(temperature_range(0.5), "0-0.5");
  EXPECT_STREQ(temperature_range(0.51), "0.5-1");
  EXPECT_STREQ(temperature_range(1), "0.5-1");
  EXPECT_STREQ(temperature_range(1.5), "1+");
}

}  // namespace
}  // namespace slip
