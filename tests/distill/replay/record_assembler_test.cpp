// SPDX-License-Identifier: Apache-2.0
#include "distill/replay/record_assembler.h"

#include <gtest/gtest.h>
#include <new>
#include <string>

#include "tests/distill/sample_records.h"

namespace slip {
namespace {

class RecordAssemblerTest : public ::testing::Test {
 protected:
  static ObservedRequest request_of(std::uint64_t id, std::vector<std::int32_t> prompt = {1, 2, 3}) {
    ObservedRequest request;
    request.request = RequestId{id};
    request.route.topic = TopicId{1};
    request.prompt = std::move(prompt);
    request.sampling.seed = 77;
    request.rule = AcceptanceRule::kCoupled;
    request.choice = 5;
    return request;
  }

  // A chain of `proposed` tokens, of which the first `accepted` are accepted, followed by the target's own token.
  static Observation chain(std::uint64_t id, std::int32_t base, std::vector<std::int32_t> proposed, int accepted,
                           std::int32_t added) {
    Observation observation;
    observation.request = RequestId{id};
    observation.base_position = base;
    observation.draft = DraftId{4};
    observation.draft_version = proposed.empty() ? 0 : 9;
    for (int row = 0; row <= accepted; ++row) {
      const bool drafted = row < accepted;
      observation.committed.push_back(drafted ? proposed[static_cast<std::size_t>(row)] : added);
      observation.targets.push_back(testing::falling_top_k(100 + row, 1000, 3));
    }
    observation.n_accepted = accepted;
    observation.rejected = static_cast<std::size_t>(accepted) < proposed.size();
    return observation;
  }

  TopicTable topics_{{{"sql", {}}}};
  RecordAssembler assembler_{topics_, [](DraftId id) { return "draft " + std::to_string(id.value); }};
};

// Regression: without memory for its targets an observation left its tokens behind. The record was written as if whole,
// and each later start said that its segment had been changed.
TEST_F(RecordAssemblerTest, AnObservationThatIsAddedByHalfEndsItsRecord) {
  bool fails = false;
  RecordAssembler assembler(topics_, [&](DraftId) -> std::string {
    if (fails) throw std::bad_alloc();
    return "draft";
  });
  assembler.begin(request_of(1));
  assembler.record(chain(1, 3, {11, 12}, 2, 99));
  fails = true;
  EXPECT_THROW(assembler.record(chain(1, 6, {20, 21}, 2, 22)), std::bad_alloc);
  fails = false;
  assembler.record(chain(1, 9, {30}, 1, 31));
  EXPECT_FALSE(assembler.finish(RequestId{1}, true).has_value());
  EXPECT_EQ(assembler.take_lost(), 3U);
}

TEST_F(RecordAssemblerTest, PutsAnAnswerTogether) {
  assembler_.begin(request_of(1));
  assembler_.record(chain(1, 3, {}, 0, 10));            // the prompt's own pass
  assembler_.record(chain(1, 4, {11, 12, 13}, 2, 99));  // 13 refused
  assembler_.record(chain(1, 7, {20, 21}, 2, 22));      // all held, bonus 22
  const auto record = assembler_.finish(RequestId{1}, true);
  ASSERT_TRUE(record.has_value());
  EXPECT_EQ(record->topic, "sql");
  EXPECT_EQ(record->tokens, (std::vector<std::int32_t>{1, 2, 3, 10, 11, 12, 99, 20, 21, 22}));
  EXPECT_EQ(record->prompt_tokens, 3);
  EXPECT_EQ(record->seed, 77U);
  EXPECT_EQ(record->choice, 5U);
  EXPECT_EQ(record->rule, AcceptanceRule::kCoupled);
  EXPECT_EQ(record->draft, "draft 4");
  EXPECT_EQ(record->draft_version, 9U);
  EXPECT_EQ(record->accepted, 4);
  EXPECT_EQ(record->first_rejections, 1);
  EXPECT_EQ(record->steps, 3);
  // Each answer token has the row that chose it: row 0, then the rows of the accepted nodes.
  std::vector<std::int32_t> rows;
  for (const TopK& top : record->target) rows.push_back(top.ids[0] - 100);
  EXPECT_EQ(rows, (std::vector<std::int32_t>{0, 0, 1, 2, 0, 1, 2}));
  EXPECT_EQ(assembler_.take_lost(), 0U);
}

TEST_F(RecordAssemblerTest, AnAnswerThatEndsInsideThePathHasNoRefusal) {
  assembler_.begin(request_of(1));
  Observation observation = chain(1, 3, {11, 12, 13}, 2, 0);
  observation.committed.pop_back();  // 12 was the end token: nothing was added
  observation.targets.pop_back();
  observation.rejected = false;
  assembler_.record(observation);
  const auto record = assembler_.finish(RequestId{1}, true);
  ASSERT_TRUE(record.has_value());
  EXPECT_EQ(record->accepted, 2);
  EXPECT_EQ(record->first_rejections, 0);
  EXPECT_EQ(record->target.size(), 2U);
}

TEST_F(RecordAssemblerTest, CancelledAndFailedRequestsGiveNothing) {
  assembler_.begin(request_of(1));
  assembler_.record(chain(1, 3, {}, 0, 10));
  EXPECT_FALSE(assembler_.finish(RequestId{1}, false).has_value());
  EXPECT_EQ(assembler_.take_lost(), 0U);
  EXPECT_FALSE(assembler_.finish(RequestId{1}, true).has_value());
}

TEST_F(RecordAssemblerTest, AGapSpoilsTheRequestAndIsCounted) {
  assembler_.begin(request_of(1));
  assembler_.record(chain(1, 3, {}, 0, 10));
  assembler_.record(chain(1, 5, {}, 0, 12));  // position 4 is missing
  assembler_.record(chain(1, 6, {}, 0, 13));
  EXPECT_FALSE(assembler_.finish(RequestId{1}, true).has_value());
  EXPECT_EQ(assembler_.take_lost(), 3U);
  assembler_.record(chain(2, 3, {}, 0, 10));  // its begin was lost
  EXPECT_EQ(assembler_.take_lost(), 1U);
}

TEST_F(RecordAssemblerTest, NegativeInconsistentObservationsAreRefused) {
  const auto survives = [&](const Observation& observation) {
    assembler_.begin(request_of(1));
    assembler_.record(observation);
    return assembler_.finish(RequestId{1}, true).has_value();
  };
  EXPECT_TRUE(survives(chain(1, 3, {5, 6}, 1, 9)));
  Observation few_rows = chain(1, 3, {5, 6}, 1, 9);
  few_rows.targets.pop_back();
  EXPECT_FALSE(survives(few_rows));
  Observation too_many_accepted = chain(1, 3, {5, 6}, 1, 9);
  too_many_accepted.n_accepted = 3;
  EXPECT_FALSE(survives(too_many_accepted));
  Observation empty = chain(1, 3, {5, 6}, 1, 9);
  empty.committed.clear();
  empty.targets.clear();
  EXPECT_FALSE(survives(empty));
}

TEST_F(RecordAssemblerTest, LostEndsDoNotPileUp) {
  for (std::uint64_t id = 0; id < 5000; ++id) {
    assembler_.begin(request_of(id));
    assembler_.record(chain(id, 3, {}, 0, 10));
  }
  EXPECT_EQ(assembler_.open_requests(), RecordAssembler::kMaxOpen);
  EXPECT_EQ(assembler_.take_lost(), 5000 - RecordAssembler::kMaxOpen);
  EXPECT_TRUE(assembler_.finish(RequestId{4999}, true).has_value());
}

// Regression: the ids of all requests that finished after one whose end was lost stayed in memory.
TEST_F(RecordAssemblerTest, ALostEndDoesNotKeepLaterRequestsInMemory) {
  assembler_.begin(request_of(1));
  for (std::uint64_t id = 2; id <= 5000; ++id) {
    assembler_.begin(request_of(id));
    assembler_.record(chain(id, 3, {}, 0, 10));
    ASSERT_TRUE(assembler_.finish(RequestId{id}, true).has_value());
    ASSERT_LE(assembler_.ordered_requests(), 1 + RecordAssembler::kMaxOpen);
  }
  EXPECT_EQ(assembler_.open_requests(), 1U);
}

// Regression: such requests gave no records, so a service whose clients always send a penalty never learned.
TEST_F(RecordAssemblerTest, RequestsWithLogitsProcessorsGiveMarkedRecords) {
  const auto processed = [&](SamplingParams sampling) {
    ObservedRequest request = request_of(1);
    request.sampling = std::move(sampling);
    assembler_.begin(request);
    assembler_.record(chain(1, 3, {}, 0, 10));
    return assembler_.finish(RequestId{1}, true)->processed_logits;
  };
  EXPECT_FALSE(processed({.temperature = 0.8F, .top_p = 0.9F}));
  EXPECT_TRUE(processed({.repetition_penalty = 1.1F}));
  EXPECT_TRUE(processed({.min_tokens = 4}));
}

// A record of a further answer goes with the client's record: its purge, its side of the held-out split, its age.
TEST_F(RecordAssemblerTest, ABackgroundRequestGivesARecordOfTheClientsCall) {
  ObservedRequest request = request_of(1);
  request.source = PromptSource{.call = RequestId{70}, .name = NameHash{80}, .group = 90, .created_us = 100};
  assembler_.begin(request);
  assembler_.record(chain(1, 3, {}, 0, 99));
  const auto record = assembler_.finish(RequestId{1}, true);
  ASSERT_TRUE(record);
  EXPECT_TRUE(record->sampled);
  EXPECT_EQ(record->request, RequestId{70});
  EXPECT_EQ(record->name, NameHash{80});
  EXPECT_EQ(record->group, 90U);
  EXPECT_EQ(record->created_us, 100);
}

TEST_F(RecordAssemblerTest, APurgeByTimeDropsBackgroundRequestsOfEarlierAnswers) {
  for (const std::uint64_t id : {1, 2, 3}) {
    ObservedRequest request = request_of(id);
    if (id > 1) request.source = PromptSource{.call = RequestId{70}, .created_us = static_cast<std::int64_t>(100 * id)};
    assembler_.begin(request);
  }
  EXPECT_EQ(assembler_.forget({.before_us = 250}), 1U);
  EXPECT_EQ(assembler_.open_requests(), 2U);
}

}  // namespace
}  // namespace slip
