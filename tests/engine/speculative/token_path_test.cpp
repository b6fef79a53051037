// SPDX-License-Identifier: Apache-2.0
#include "engine/speculative/token_path.h"

#include <gtest/gtest.h>

#include <vector>

#include "engine/sampling/distribution.h"

namespace slip {
namespace {

using Tokens = std::vector<std::int32_t>;

class TokenPath : public testing::Test {
 protected:
  //   0
  //  1 2
  //    3
  TokenPath() {
    tree_.add(10, -1, 0);
    tree_.add(11, 0, 0);
    tree_.add(12, 0, 0);
    tree_.add(13, 2, 0);
    ref_.tokens = committed_;
    ref_.prompt_tokens = 2;
    ref_.sampling = &sampling_;
  }

  const Tokens committed_{1, 2, 3};
  Proposal tree_;
  SamplingParams sampling_;
  SequenceRef ref_;
};

TEST_F(TokenPath, GoesFromTheRootToTheNode) {
  Tokens path{9, 9};
  write_token_path(committed_, tree_, 3, path);
  EXPECT_EQ(path, (Tokens{1, 2, 3, 10, 12, 13}));
  write_token_path(committed_, tree_, 1, path);
  EXPECT_EQ(path, (Tokens{1, 2, 3, 10, 11}));
  write_token_path(committed_, tree_, -1, path);
  EXPECT_EQ(path, committed_);
}

TEST_F(TokenPath, AContextHoldsItOnlyWhereAProcessorLooksBack) {
  Tokens path{9, 9};
  EXPECT_TRUE(context_after(ref_, tree_, 3, path).path.empty()) << "a long context is not copied for each row";
  sampling_.frequency_penalty = 1;
  const RowContext context = context_after(ref_, tree_, 3, path);
  EXPECT_EQ(Tokens(context.path.begin(), context.path.end()), (Tokens{1, 2, 3, 10, 12, 13}));
  EXPECT_EQ(context.prompt_tokens, 2);
}

}  // namespace
}  // namespace slip
