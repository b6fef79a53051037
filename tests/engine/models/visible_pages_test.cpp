// SPDX-License-Identifier: Apache-2.0
// KvView::visible through a whole forward pass: a row that sees part of its sequence's cache.
#include <gtest/gtest.h>

#include "tests/engine/models/batch_step.h"
#include "tests/engine/models/embedded_target.h"
#include "tests/engine/models/formula_model.h"

namespace slip {
namespace {

using testing::embedded_target;
using testing::PlainSequence;
using testing::random_tokens;
using testing::same_bits;

using Ranges = std::vector<PageRange>;

// Rows after what `cache` holds: the tokens of one sequence, a chain, whose first has the given position.
struct Rows {
  std::vector<std::int32_t> tokens;
  std::int32_t position = 0;
};

std::vector<float> logits_of(Worker& worker, const KvView& view, const Rows& rows) {
  const auto n = static_cast<std::int32_t>(rows.tokens.size());
  std::vector<std::int32_t> positions(rows.tokens.size()), logit_rows(rows.tokens.size());
  std::iota(positions.begin(), positions.end(), rows.position);
  std::iota(logit_rows.begin(), logit_rows.end(), 0);
  const std::vector<std::int32_t> row_begin{0, n};
  if (!view.pages->reserve(view.n_cached + n)) std::abort();
  StepInput input;
  input.tokens = rows.tokens;
  input.positions = positions;
  input.row_begin = row_begin;
  input.kv = {&view, 1};
  input.logit_rows = logit_rows;
  std::vector<float> logits(static_cast<std::size_t>(n) * static_cast<std::size_t>(worker.config().vocab_size));
  StepOutput output;
  output.logits = TensorView::contiguous(logits.data(), {n, worker.config().vocab_size});
  worker.run(input, output);
  return logits;
}

KvView view_of(PageTable& pages, std::int32_t n_cached, const Ranges& visible) {
  KvView view;
  view.pages = &pages;
  view.n_cached = n_cached;
  view.visible = visible;
  return view;
}

bool same(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && same_bits(a.data(), b.data(), a.size());
}

void copy_slot(Worker& worker, const PageTable& from, std::int32_t from_slot, const PageTable& to,
               std::int32_t to_slot) {
  constexpr std::int32_t kPage = PagePool::kPageTokens;
  worker.cache().copy_slot(from.pages()[from_slot / kPage], from_slot % kPage, to.pages()[to_slot / kPage],
                           to_slot % kPage);
}

class VisiblePages : public ::testing::TestWithParam<std::tuple<Dtype, int>> {
 protected:
  kernels::ThreadPool pool_{std::get<1>(GetParam())};
  LocalWorker worker_{embedded_target(std::get<0>(GetParam())), 128, 64, 64, pool_};
  PlainSequence past_{worker_};
};

INSTANTIATE_TEST_SUITE_P(Machines, VisiblePages,
                         ::testing::Combine(::testing::Values(Dtype::kBFloat16, Dtype::kFloat32),
                                            ::testing::Values(1, 2)));

TEST_P(VisiblePages, AllOfThemGiveTheBitsOfNoChoice) {
  past_.feed(random_tokens(70, 1), 64);
  const Rows rows{random_tokens(5, 2), 70};
  const auto expected = logits_of(worker_, view_of(past_.pages(), 70, {}), rows);
  EXPECT_TRUE(same(logits_of(worker_, view_of(past_.pages(), 70, {{0, 70}}), rows), expected));
  EXPECT_TRUE(same(logits_of(worker_, view_of(past_.pages(), 70, {{0, 16}, {16, 48}, {48, 70}}), rows), expected));
  EXPECT_FALSE(same(logits_of(worker_, view_of(past_.pages(), 70, {{0, 16}, {32, 70}}), rows), expected));
}

// Keys keep the position they were stored with, so a second cache that holds the visible slots only, without gaps,
// must give the same bits.
TEST_P(VisiblePages, SinksAndAWindowGiveTheBitsOfACacheThatHoldsNothingElse) {
  past_.feed(random_tokens(70, 3), 64);
  const Ranges visible{{0, 4}, {48, 70}};
  const Rows rows{random_tokens(6, 4), 70};
  PageTable compact(worker_.cache());
  ASSERT_TRUE(compact.reserve(40));
  std::int32_t n = 0;
  for (const PageRange& range : visible) {
    for (std::int32_t slot = range.begin; slot < range.end; ++slot) {
      copy_slot(worker_, past_.pages(), slot, compact, n++);
    }
  }
  const auto expected = logits_of(worker_, view_of(compact, n, {}), rows);
  EXPECT_TRUE(same(logits_of(worker_, view_of(past_.pages(), 70, visible), rows), expected));
}

// As a target drafts for itself: each token a step of its own, the window's end moving along.
TEST_P(VisiblePages, RowsTogetherHaveTheBitsOfRowsOneByOne) {
  past_.feed(random_tokens(70, 5), 64);
  const Rows rows{random_tokens(6, 6), 70};
  const auto together = logits_of(worker_, view_of(past_.pages(), 70, {{0, 4}, {48, 70}}), rows);
  const auto vocabulary = static_cast<std::size_t>(worker_.config().vocab_size);
  for (std::int32_t i = 0; i < 6; ++i) {
    const auto at = static_cast<std::size_t>(i);
    const Ranges visible{{0, 4}, {48, 70 + i}};
    const auto alone = logits_of(worker_, view_of(past_.pages(), 70 + i, visible), {{rows.tokens[at]}, 70 + i});
    EXPECT_TRUE(same_bits(alone.data(), &together[at * vocabulary], vocabulary)) << "row " << i;
  }
}

// With sliding layers in the model too.
TEST(VisiblePagesArchitectures, WindowsOfTheLayersCutWhatIsVisible) {
  kernels::ThreadPool pool(1);
  int n_windowed = 0;
  for (const std::string& name : testing::architecture_names()) {
    const auto weights = testing::formula_weights(testing::architecture_golden(name)["config"], Dtype::kFloat32);
    bool windowed = false;
    for (int layer = 0; layer < weights->config.n_layers; ++layer) windowed |= weights->config.window(layer) > 0;
    if (!windowed) continue;
    ++n_windowed;
    LocalWorker worker(weights, 128, 64, 64, pool);
    PlainSequence past(worker);
    past.feed(random_tokens(60, 7, 96), 64);
    const Rows rows{random_tokens(3, 8, 96), 60};
    const auto expected = logits_of(worker, view_of(past.pages(), 60, {}), rows);
    EXPECT_TRUE(same(logits_of(worker, view_of(past.pages(), 60, {{0, 33}, {33, 60}}), rows), expected)) << name;
  }
  EXPECT_GT(n_windowed, 0);
}

TEST(VisiblePagesDeathTest, RangesThatAreNoPartOfTheCacheAreBugs) {
  kernels::ThreadPool pool(1);
  LocalWorker worker(embedded_target(Dtype::kBFloat16), 8, 8, 4, pool);
  PlainSequence past(worker);
  past.feed(random_tokens(8, 9), 8);
  const Rows rows{{7}, 8};
  for (const Ranges& visible : {Ranges{{0, 9}}, Ranges{{-1, 3}}, Ranges{{4, 2}}, Ranges{{0, 4}, {3, 8}}}) {
    EXPECT_DEATH(logits_of(worker, view_of(past.pages(), 8, visible), rows), "visible ranges ascend");
  }
}

}  // namespace
}  // namespace slip
