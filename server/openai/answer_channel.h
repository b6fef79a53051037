// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <functional>
#include <mutex>
#include <optional>
#include <vector>

#include "engine/request.h"
#include "server/http/memory_budget.h"
#include "server/openai/answer.h"

namespace slip {

// Passes one answer from the engine thread to its connection. It buffers unread output, limited by max_tokens,
// `max_bytes` and the budget of `room`. Beyond the latter two, or without memory, the answer is cut off as overflowed.
// `wake` is called on the engine thread after each change; it must not block or throw.
class AnswerChannel final : public TokenSink {
 public:
  AnswerChannel(std::size_t max_bytes, std::function<void()> wake, MemoryBudget::Reservation room = {})
      : max_bytes_(max_bytes), wake_(std::move(wake)), room_(std::move(room)) {}

  void on_tokens(const TokenDelta& delta) noexcept override;
  void on_finished(const RequestSummary& summary) noexcept override;

  struct Taken {
    AnswerPart part;  // all output since the last take, in order
    std::size_t n_tokens = 0;
    std::optional<RequestSummary> finished;
    MemoryBudget::Reservation room;  // for the output taken
    bool overflowed = false;
    bool no_memory = false;  // with overflowed: the server's memory ran out, not the answer's limit
    bool empty() const {
      return n_tokens == 0 && part.text.empty() && part.prompt_logprobs.empty() && !finished && !overflowed;
    }
  };
  Taken take();  // called by the connection

 private:
  void add(const TokenDelta& delta);  // REQUIRES: the lock is held

  const std::size_t max_bytes_;
  const std::function<void()> wake_;
  std::mutex mutex_;
  Taken pending_;
  std::size_t pending_bytes_ = 0;
  MemoryBudget::Reservation room_;  // for pending_bytes_
};

}  // namespace slip
