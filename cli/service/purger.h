// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <filesystem>
#include <functional>
#include <mutex>
#include <optional>
#include <thread>

#include "common/purge_scope.h"
#include "ledger/ledger.h"
#include "server/openai/purge.h"

namespace slip::cli {

// Removes a scope's records from replay; returns their number. Throws as ReplayBuffer::purge().
using PurgeReplay = std::function<std::size_t(const PurgeScope&)>;

// Executes one purge: first replay, which has the text, then the ledger, which identifies its requests.
PurgeResult carry_out(const PurgeOrder& order, Ledger& ledger, const PurgeReplay& purge_replay);

// The result for a client: its error names files relative to `data_dir`.
PurgeResult for_client(PurgeResult result, const std::filesystem::path& data_dir) noexcept;

// Purges replay files that no learner has open; 0 if there is no such folder. Error{kIo}: it cannot be used now.
std::size_t purge_resting_replay(const std::filesystem::path& folder, const PurgeScope& scope);

// Executes purges in turn on its own thread, since each waits for the learner and the disk. One that has waited for
// seconds when its turn comes fails with Error{kUnavailable}, so that a locked ledger costs no client minutes. Threads:
// submit() any.
class Purger {
 public:
  Purger(Ledger& ledger, PurgeReplay purge_replay);
  ~Purger();                                                             // stop()
  void submit(PurgeOrder order, std::function<void(PurgeResult)> done);  // as PurgeFunction
  // Takes no more purges. Those that wait fail at once with Error{kUnavailable}, on this thread.
  void close();
  void stop();  // close(), then waits for the current purge

 private:
  struct Job {
    PurgeOrder order;
    std::function<void(PurgeResult)> done;
    std::int64_t submitted_us = 0;
  };
  void run();
  std::optional<Job> next();  // waits for one; empty: closed, and none is left
  PurgeResult result_of(const Job& job);

  Ledger& ledger_;
  const PurgeReplay purge_replay_;
  std::mutex mutex_;
  std::condition_variable ready_;
  std::deque<Job> jobs_;
  bool closed_ = false;
  std::jthread thread_;
};

}  // namespace slip::cli
