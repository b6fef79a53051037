// SPDX-License-Identifier: Apache-2.0
#include "cli/service/refill_past_answers.h"

namespace slip {

std::size_t refill_past_answers(const ReplayBuffer& replay, const TopicTable& topics, std::int32_t vocab_size,
                                std::int64_t now_us, PastAnswersTable& past_answers) {
  constexpr std::size_t kMostRecords = 512;
  std::size_t n = 0;
  for (std::uint32_t i = 0; i < topics.size(); ++i) {
    const TopicId topic{i};
    replay.visit_newest_of_clients(topics[topic].name, kMostRecords, [&](const ReplayRecord& record) {
      if (record.expires_us <= now_us || !fits_vocabulary(record, vocab_size)) return;
      past_answers.of(record.tenant, topic)->add(record.tokens, record.prompt_tokens);
      ++n;
    });
  }
  return n;
}

}  // namespace slip
