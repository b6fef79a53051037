// SPDX-License-Identifier: Apache-2.0
#include "distill/record_writer.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <deque>
#include <filesystem>
#include <memory>
#include <optional>
#include <thread>
#include <vector>

#include "common/clock.h"
#include "common/disk_space.h"
#include "tests/distill/learner_fixture.h"

namespace slip {
namespace {

using testing::answered;
using testing::kPatienceUs;
using testing::LearnerSetup;
using testing::make_record;
using testing::tell;

bool comes_true(const std::function<bool()>& condition) {
  for (const std::int64_t end = monotonic_us() + kPatienceUs; monotonic_us() < end;) {
    if (condition()) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  return false;
}

// Grants nothing, and keeps its caller until it is released, as a long microbatch would.
class Holding final : public Governor {
 public:
  bool allow_unit(LearningUnit) noexcept override {
    held = true;
    held.notify_all();
    released.wait(false);
    return false;
  }
  void unit_done() noexcept override {}
  StepDecision allow_step(const TopicProgress&) noexcept override { return {}; }
  void release() {
    released = true;
    released.notify_all();
  }

  std::atomic<bool> held{false}, released{false};
};

// The learner's thread wrote the records: one that computed for seconds lost those seconds when the service was killed.
TEST(RecordWriter, RecordsAreWrittenWhileTheLearnerIsBusy) {
  LearnerSetup setup;
  Holding governor;
  auto learner = setup.make_learner(governor);
  learner->start();
  for (std::uint64_t id = 1; id <= 10; ++id) tell(*learner, answered(id));
  governor.held.wait(false);
  for (std::uint64_t id = 11; id <= 30; ++id) tell(*learner, answered(id));
  EXPECT_TRUE(comes_true([&] { return learner->replay_records() == 30; })) << learner->replay_records();
  EXPECT_FALSE(governor.released);
  governor.release();
  learner->stop();
  EXPECT_EQ(setup.replay.records("sql"), 30U);
}

class RecordWriterTest : public ::testing::Test {
 protected:
  LearnerSetup setup;
  LearningSwitch learning{nullptr};
  RecordWriter writer{{.queue_observations = 1 << 15, .vocab_size = setup.base->weights->config.vocab_size},
                      setup.topics,
                      [](DraftId) { return std::string("sql"); },
                      setup.replay,
                      learning};

  std::deque<WaitingRecord> take_through(std::uint64_t n_events) {
    std::deque<WaitingRecord> records;
    EXPECT_TRUE(comes_true([&] { return writer.take_all(records) >= n_events; }));
    return records;
  }
};

TEST_F(RecordWriterTest, ALearnerGetsWhatReplayHas) {
  writer.start();
  for (std::uint64_t id = 1; id <= 5; ++id) tell(writer, answered(id), /*completed=*/id != 3);
  const auto records = take_through(writer.pushed());
  ASSERT_EQ(records.size(), 4U);
  EXPECT_EQ(writer.sample("sql", 10, 1, 0, 2).size() + writer.heldout("sql", 10, 2).size(), 2U);
  EXPECT_EQ(records[2].record.request, RequestId{4});
}

TEST_F(RecordWriterTest, ARepeatedRequestIsNoEvidence) {
  writer.start();
  tell(writer, answered(1));
  tell(writer, answered(1));
  const auto records = take_through(writer.pushed());
  ASSERT_EQ(records.size(), 2U);
  EXPECT_TRUE(records[0].is_evidence);
  EXPECT_FALSE(records[1].is_evidence);
}

// Regression: after a restart, a request on which drafts had been trained counted as evidence.
TEST_F(RecordWriterTest, ARequestOfAnEarlierRunIsNoEvidenceAgain) {
  setup.replay.append(answered(1));
  writer.start();
  tell(writer, answered(1));
  tell(writer, make_record(2, "sql"));
  const auto records = take_through(writer.pushed());
  ASSERT_EQ(records.size(), 2U);
  EXPECT_FALSE(records[0].is_evidence);
  EXPECT_TRUE(records[1].is_evidence) << "it is new";
}

TEST_F(RecordWriterTest, StoppingKeepsWhatHasFinished) {
  for (std::uint64_t id = 1; id <= 5; ++id) tell(writer, answered(id));
  writer.start();
  writer.stop();
  EXPECT_EQ(setup.replay.records("sql"), 5U);
  EXPECT_EQ(writer.purge({.calls = {RequestId{2}}}), 1U) << "after its end too";
}

// They were dropped without a trace: no metric said that evidence was lost.
TEST_F(RecordWriterTest, RecordsOfALearnerWithoutTimeAreCounted) {
  writer.start();
  constexpr std::uint64_t kRecords = 300;
  for (std::uint64_t id = 1; id <= kRecords; ++id) tell(writer, answered(id));
  EXPECT_TRUE(comes_true([&] { return writer.untaken() > 0; }));
  EXPECT_EQ(take_through(writer.pushed()).size() + writer.untaken(), kRecords);
  writer.stop();
  EXPECT_EQ(setup.replay.records("sql"), kRecords) << "replay has them all";
}

ReplayRecord long_answer(std::uint64_t id) {
  return answered(id, 4, /*answer=*/200);
}

// A record writer whose inbox for the learner holds eight long answers.
struct EightAnswersForTheLearner {
  explicit EightAnswersForTheLearner(LearnerSetup& setup)
      : writer(
            {.queue_observations = 1 << 15,
             .vocab_size = setup.base->weights->config.vocab_size,
             .learner_bytes = limit},
            setup.topics, [](DraftId) { return std::string("sql"); }, setup.replay, learning) {}
  const std::uint64_t limit = 8 * bytes_of(long_answer(1));
  const LearningSwitch learning{nullptr};
  RecordWriter writer;
};

// Regression: 256 records waited whatever their length, and long answers to a busy service took gigabytes.
TEST(RecordWriter, LongAnswersForALearnerWithoutTimeAreDroppedBeforeThereAreMany) {
  LearnerSetup setup;
  EightAnswersForTheLearner full(setup);
  RecordWriter& writer = full.writer;
  constexpr std::uint64_t kRecords = 20;
  for (std::uint64_t id = 1; id <= kRecords; ++id) tell(writer, long_answer(id));
  writer.start();
  writer.stop();
  std::deque<WaitingRecord> records;
  writer.take_all(records);
  std::uint64_t bytes = 0;
  for (const WaitingRecord& waiting : records) bytes += bytes_of(waiting.record);
  EXPECT_LE(bytes, full.limit);
  EXPECT_EQ(records.size() + writer.untaken(), kRecords);
  ASSERT_FALSE(records.empty());
  EXPECT_EQ(records.back().record.request, RequestId{kRecords});
  EXPECT_EQ(setup.replay.records("sql"), kRecords) << "replay has them all";
}

TEST(RecordWriter, ALearnerThatCannotBeginCollectsNoMoreThanTheInboxHolds) {
  LearnerSetup setup;
  EightAnswersForTheLearner full(setup);
  RecordWriter& writer = full.writer;
  writer.start();
  constexpr std::uint64_t kRecords = 20;
  std::deque<WaitingRecord> waiting;
  for (std::uint64_t id = 1; id <= kRecords; ++id) {
    tell(writer, long_answer(id));
    ASSERT_TRUE(comes_true([&] { return writer.take_all_within_capacity(waiting) >= writer.pushed(); }));
    std::uint64_t bytes = 0;
    for (const WaitingRecord& one : waiting) bytes += bytes_of(one.record);
    EXPECT_LE(bytes, full.limit);
    EXPECT_EQ(waiting.size() + writer.untaken(), id);
  }
  ASSERT_GT(waiting.size(), 1U);
  EXPECT_EQ(waiting.back().record.request, RequestId{kRecords}) << "the oldest are dropped";
}

// Regression: its tokens were counted, so drafts that got better seemed to lose more.
TEST(RecordWriter, ARecordThatCannotBeKeptCountsByItsObservations) {
  LearnerSetup setup;
  const LearningSwitch full(
      std::make_shared<DiskSpace>(setup.folder.path(), 1, [] { return std::optional<std::uint64_t>(0); }));
  RecordWriter writer(
      {.vocab_size = setup.base->weights->config.vocab_size}, setup.topics, [](DraftId) { return std::string("sql"); },
      setup.replay, full);
  const ReplayRecord text = answered(1);
  ASSERT_GT(text.target.size(), 1U);
  const auto answer = text.tokens.begin() + text.prompt_tokens;
  ObservedRequest request;
  request.request = text.request;
  request.route.topic = TopicId{1};
  request.prompt.assign(text.tokens.begin(), answer);
  Observation whole;  // one verification committed all tokens
  whole.request = text.request;
  whole.base_position = text.prompt_tokens;
  whole.committed.assign(answer, text.tokens.end());
  whole.targets = text.target;
  writer.begin(request);
  writer.record(whole);
  writer.finish(text.request, /*completed=*/true);
  writer.start();
  writer.stop();
  EXPECT_EQ(setup.replay.records("sql"), 0U);
  EXPECT_EQ(writer.dropped(), 1U);
}

// Regression: the learner waited for its next batch while it held a core.
TEST_F(RecordWriterTest, ABatchIsDrawnAheadAndIsTheSame) {
  writer.start();
  for (std::uint64_t id = 1; id <= 30; ++id) tell(writer, make_record(id, "sql"));
  take_through(writer.pushed());
  const auto ids = [](const std::vector<ReplayRecord>& records) {
    std::vector<RequestId> found;
    for (const ReplayRecord& record : records) found.push_back(record.request);
    return found;
  };
  const auto expected = ids(writer.sample("sql", 6, /*seed=*/1, /*draw=*/7, /*newest=*/20));
  ASSERT_EQ(expected.size(), 6U);
  const auto prepare = [&] {
    writer.prepare({"sql", 6, 1, 7, 20});
    for (int i = 0; i < 2; ++i) writer.heldout("sql", 1, 20);  // the second is served after the batch is drawn
  };
  prepare();
  EXPECT_NE(ids(writer.sample("sql", 6, 1, 8, 20)), expected) << "another one";
  prepare();
  ASSERT_EQ(writer.purge({.calls = {expected[0]}}), 1U);
  const auto purged = ids(writer.sample("sql", 6, 1, 7, 20));
  EXPECT_EQ(std::count(purged.begin(), purged.end(), expected[0]), 0);
  prepare();
  std::filesystem::remove_all(setup.folder.path() / "replay");
  std::filesystem::create_directory(setup.folder.path() / "replay");
  EXPECT_EQ(ids(writer.sample("sql", 6, 1, 7, 20)), purged) << "it is there without the disk";
  EXPECT_TRUE(writer.sample("sql", 6, 1, 7, 20).empty()) << "only once";
}

}  // namespace
}  // namespace slip
