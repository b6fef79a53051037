// SPDX-License-Identifier: Apache-2.0
#include "server/openai/answer_channel.h"

#include <new>
#include <utility>

namespace slip {
namespace {

// Approximate bytes of a delta on the wire; a top_logprobs entry has some 60 bytes of JSON.
std::size_t wire_bytes(const TokenDelta& delta) {
  constexpr std::size_t kPerLogprob = 60;
  std::size_t bytes = delta.text.size();
  for (const auto* tokens : {&delta.logprobs, &delta.prompt_logprobs}) {
    for (const auto& token : *tokens) bytes += kPerLogprob * (1 + token.top.size());
  }
  return bytes;
}

}  // namespace

void AnswerChannel::add(const TokenDelta& delta) {
  pending_bytes_ += wire_bytes(delta);
  if (pending_bytes_ > max_bytes_) {
    pending_.overflowed = true;
    return;
  }
  if (!room_.resize(pending_bytes_)) {
    pending_.overflowed = pending_.no_memory = true;
    return;
  }
  pending_.part.text += delta.text;
  const auto append = [](const auto& more, auto& to) { to.insert(to.end(), more.begin(), more.end()); };
  append(delta.logprobs, pending_.part.logprobs);
  append(delta.prompt_logprobs, pending_.part.prompt_logprobs);
  pending_.n_tokens += delta.tokens.size();
}

void AnswerChannel::on_tokens(const TokenDelta& delta) noexcept {
  {
    const std::lock_guard lock(mutex_);
    try {
      add(delta);
    } catch (const std::bad_alloc&) {
      pending_.overflowed = pending_.no_memory = true;
    }
  }
  wake_();
}

void AnswerChannel::on_finished(const RequestSummary& summary) noexcept {
  {
    const std::lock_guard lock(mutex_);
    try {
      pending_.finished = summary;
    } catch (const std::bad_alloc&) {
      pending_.overflowed = pending_.no_memory = true;  // also ends the answer
    }
  }
  wake_();
}

AnswerChannel::Taken AnswerChannel::take() {
  const std::lock_guard lock(mutex_);
  pending_bytes_ = 0;
  pending_.room = std::move(room_);
  return std::exchange(pending_, Taken{});
}

}  // namespace slip
