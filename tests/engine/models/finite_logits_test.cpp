// SPDX-License-Identifier: Apache-2.0
#include "engine/models/finite_logits.h"

#include <gtest/gtest.h>

#include <cmath>

#include "common/error.h"
#include "tests/engine/toy_target.h"

namespace slip {
namespace {

TEST(FiniteLogits, OneTokenIsReadAndItsPageGivenBack) {
  testing::ToyWorker worker({});
  require_finite_logits(worker, "models/toy");
  EXPECT_EQ(worker.n_runs, 1);
  EXPECT_EQ(worker.most_rows, 1);
  EXPECT_EQ(worker.cache().n_free(), worker.cache().n_pages());
}

TEST(FiniteLogits, WhatIsNoNumberIsRefusedNamingTheModel) {
  for (const float value : {std::nanf(""), INFINITY, -INFINITY}) {
    testing::ToyWorker worker({});
    worker.spoil = [&](const StepInput&, std::span<float> logits) { logits[7] = value; };
    try {
      require_finite_logits(worker, "models/toy");
      ADD_FAILURE() << "accepted " << value;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kDataLoss);
      EXPECT_NE(error.message().find("models/toy"), std::string::npos) << error.message();
      EXPECT_FALSE(error.hint().empty());
    }
  }
}

}  // namespace
}  // namespace slip
