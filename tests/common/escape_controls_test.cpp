// SPDX-License-Identifier: Apache-2.0
#include "common/escape_controls.h"

#include <gtest/gtest.h>

namespace slip {
namespace {

TEST(EscapeControls, WhatATerminalObeysIsWrittenOut) {
  EXPECT_EQ(escape_controls("a\x1b]0;t\x07\n\x7f"), "a\\x1b]0;t\\x07\\x0a\\x7f");
  EXPECT_EQ(escape_controls("\xc2\x9b"), "\\x9b") << "C1 as UTF-8";
  EXPECT_EQ(escape_controls("é – α"), "é – α");
}

}  // namespace
}  // namespace slip
