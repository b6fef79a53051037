// SPDX-License-Identifier: Apache-2.0
#include "engine/scheduler/policy_kind.h"

#include <gtest/gtest.h>

namespace slip {
namespace {

TEST(PolicyKind, EachNameIsReadBack) {
  for (const PolicyKind kind : {PolicyKind::kGoodput, PolicyKind::kAdaServe, PolicyKind::kEqualGreedy,
                                PolicyKind::kGlobalGreedy, PolicyKind::kStaticTree}) {
    EXPECT_EQ(parse_policy(policy_name(kind)), kind);
  }
  EXPECT_EQ(parse_policy("deadline"), std::nullopt);
  EXPECT_EQ(parse_policy(""), std::nullopt);
}

}  // namespace
}  // namespace slip
