// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "engine/request.h"

namespace slip::bench {

// Keeps an answer's tokens.
struct Answer final : TokenSink {
  std::vector<std::int32_t> tokens;
  void on_tokens(const TokenDelta& delta) override {
    tokens.insert(tokens.end(), delta.tokens.begin(), delta.tokens.end());
  }
  void on_finished(const RequestSummary&) override {}
};

}  // namespace slip::bench
