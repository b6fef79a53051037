// SPDX-License-Identifier: Apache-2.0
#include "common/topic_name.h"

#include <gtest/gtest.h>

#include <string>
#include <string_view>

namespace slip {
namespace {

TEST(TopicName, HasOneTo48LettersDigitsAndDashes) {
  for (const std::string& name : {std::string("a"), std::string("0"), std::string("a-b_c9"), std::string(48, 'a')}) {
    EXPECT_TRUE(is_topic_name(name)) << name;
  }
  for (const std::string& name :
       {std::string(), std::string("-a"), std::string("_a"), std::string("A"), std::string("a/b"), std::string(".."),
        std::string("a\0b", 3), std::string(49, 'a')}) {
    EXPECT_FALSE(is_topic_name(name)) << name;
  }
}

}  // namespace
}  // namespace slip
