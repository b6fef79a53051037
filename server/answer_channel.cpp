// SPDX-License-Identifier: Apache-2.0
#include "server/answer_channel.h"

#include <utility>

namespace slip {
namespace {

// What a delta will take on the wire, roughly: a top_logprobs entry is some 60 bytes of JSON.
std::size_t wire_bytes(const TokenDelta& delta) {
  constexpr std::size_t kPerLogprob = 60;
  std::size_t bytes = delta.text.size();
  for (const auto& token : delta.logprobs) bytes += kPerLogprob * (1 + token.top.size());
  return bytes;
}

}  // namespace

void AnswerChannel::on_tokens(const TokenDelta& delta) {
  {
    const std::lock_guard lock(mutex_);
    pending_bytes_ += wire_bytes(delta);
    if (pending_bytes_ > max_bytes_) {
      pending_.overflowed = true;
    } else {
      pending_.part.text += delta.text;
      pending_.part.logprobs.insert(pending_.part.logprobs.end(), delta.logprobs.begin(), delta.logprobs.end());
      pending_.n_tokens += delta.tokens.size();
    }
  }
  wake_();
}

void AnswerChannel::on_finished(const RequestSummary& summary) {
  {
    const std::lock_guard lock(mutex_);
    pending_.finished = summary;
  }
  wake_();
}

AnswerChannel::Taken AnswerChannel::take() {
  const std::lock_guard lock(mutex_);
  pending_bytes_ = 0;
  return std::exchange(pending_, Taken{});
}

}  // namespace slip
