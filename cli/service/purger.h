// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <filesystem>
#include <functional>
#include <thread>

#include "common/bounded_queue.h"
#include "common/purge_scope.h"
#include "ledger/ledger.h"
#include "server/openai/purge.h"

namespace slip::cli {

// Removes a scope's records from replay; how many. Throws as ReplayBuffer::purge().
using PurgeReplay = std::function<std::size_t(const PurgeScope&)>;

// Carries out one order: replay, which has the text, then the ledger, which knows its requests by name.
PurgeResult carry_out(const PurgeOrder& order, Ledger& ledger, const PurgeReplay& purge_replay);

// The same for a client: its error names files from `data_dir` on, not where that is.
PurgeResult for_client(PurgeResult result, const std::filesystem::path& data_dir) noexcept;

// Of replay files that no learner has open; 0 where there is no such folder. Error{kIo}: it cannot be used now.
std::size_t purge_resting_replay(const std::filesystem::path& folder, const PurgeScope& scope);

// One order after the other, on a thread of its own, since each waits for the learner and for the disk. Threads:
// submit() any.
class Purger {
 public:
  Purger(Ledger& ledger, PurgeReplay purge_replay);
  ~Purger();                                                             // stop()
  void submit(PurgeOrder order, std::function<void(PurgeResult)> done);  // as PurgeDoor
  // Ends the order at hand; those that wait fail with Error{kUnavailable}.
  void stop();

 private:
  struct Job {
    PurgeOrder order;
    std::function<void(PurgeResult)> done;
  };
  void run(const std::stop_token& stop);

  Ledger& ledger_;
  const PurgeReplay purge_replay_;
  BoundedQueue<Job> jobs_;
  std::jthread thread_;
};

}  // namespace slip::cli
