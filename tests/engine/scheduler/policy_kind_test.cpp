// SPDX-License-Identifier: Apache-2.0
#include "engine/scheduler/policy_kind.h"

#include <gtest/gtest.h>

namespace slip {
namespace {

TEST(PolicyKind, EachNameIsReadBack) {
  for (const auto& [name, kind] : kPolicyNames) {
    EXPECT_EQ(policy_name(kind), name);
    EXPECT_EQ(parse_policy(name), kind);
  }
  EXPECT_EQ(parse_policy("deadline"), std::nullopt);
  EXPECT_EQ(parse_policy(""), std::nullopt);
}

}  // namespace
}  // namespace slip
