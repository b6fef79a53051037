// SPDX-License-Identifier: Apache-2.0
#include "cli/service/purger.h"

#include <limits>
#include <string>
#include <utility>

#include "common/clock.h"
#include "common/error.h"
#include "common/file.h"
#include "common/log.h"
#include "common/thread_memory.h"
#include "common/thread_name.h"
#include "distill/replay/replay_buffer.h"
#include "engine/contain.h"
#include "server/openai/answer_id.h"

namespace slip::cli {
namespace {

constexpr std::size_t kMostWaiting = 64;
constexpr std::int64_t kLongestWaitUs = 5'000'000;

// Replay options that delete nothing else: no budget, no expiry.
ReplayOptions resting_replay(const std::filesystem::path& folder) {
  ReplayOptions options;
  options.folder = folder;
  options.max_bytes_per_topic = std::numeric_limits<std::uint64_t>::max();
  options.segment_bytes = ReplayOptions::kMaxSegmentBytes;
  options.ttl_us = std::numeric_limits<std::int64_t>::max() / 4;
  return options;
}

std::string without(std::string text, const std::string& part) {
  for (auto at = text.find(part); at != std::string::npos; at = text.find(part, at)) text.erase(at, part.size());
  return text;
}

void report(const std::function<void(PurgeResult)>& done, PurgeResult result) {
  const auto failure = contain([&] { done(std::move(result)); });
  if (failure) log_parts(LogLevel::kError, {"cannot report the result of a purge: ", failure->what()});
}

}  // namespace

PurgeResult carry_out(const PurgeOrder& order, Ledger& ledger, const PurgeReplay& purge_replay) {
  PurgeResult result;
  result.error = contain([&] {
    PurgeScope scope{{}, order.tenant, order.before_us};
    std::optional<Error> unnamed;
    if (!order.request.empty()) {
      unnamed = contain([&] { scope.calls = ledger.calls_named(order.request, order.tenant); });
      if (const auto answer = request_of_http_id(order.request)) scope.calls.push_back(*answer);
      scope.name = name_hash(order.request);  // after a crash the ledger may lack what replay has
    }
    result.records = purge_replay(scope);
    if (unnamed) throw Error(*unnamed);
    if (scope.any_call() || !scope.calls.empty()) result.rows = ledger.purge(scope);
  });
  return result;
}

PurgeResult for_client(PurgeResult result, const std::filesystem::path& data_dir) noexcept {
  if (!result.error) return result;
  const auto failure = contain([&] {
    const std::string folder = (data_dir / "").string();
    const Error& told = *result.error;
    result.error = Error(told.code(), without(told.message(), folder), without(told.hint(), folder), told.param());
  });
  if (failure) result.error = failure;
  return result;
}

std::size_t purge_resting_replay(const std::filesystem::path& folder, const PurgeScope& scope) {
  try {
    if (!std::filesystem::exists(folder)) return 0;
    return ReplayBuffer(resting_replay(folder)).purge(scope);
  } catch (const std::filesystem::filesystem_error& error) {
    throw io_error(error);
  }
}

Purger::Purger(Ledger& ledger, PurgeReplay purge_replay)
    : ledger_(ledger), purge_replay_(std::move(purge_replay)), thread_([this] { run(); }) {}

Purger::~Purger() {
  stop();
}

void Purger::submit(PurgeOrder order, std::function<void(PurgeResult)> done) {
  {
    const std::lock_guard lock(mutex_);
    if (closed_) throw Error(ErrorCode::kUnavailable, "the server is shutting down");
    if (jobs_.size() == kMostWaiting) {
      throw Error(ErrorCode::kOverloaded, std::to_string(kMostWaiting) + " purges wait already", "try again");
    }
    jobs_.push_back({std::move(order), std::move(done), monotonic_us()});
  }
  ready_.notify_one();
}

void Purger::close() {
  {
    const std::lock_guard lock(mutex_);
    closed_ = true;
  }
  ready_.notify_one();
  while (auto job = next()) {
    PurgeResult refused;
    refused.error = Error(ErrorCode::kUnavailable, "the server is shutting down");
    report(job->done, std::move(refused));
  }
}

void Purger::stop() {
  close();
  if (thread_.joinable()) thread_.join();
}

std::optional<Purger::Job> Purger::next() {
  std::unique_lock lock(mutex_);
  ready_.wait(lock, [&] { return closed_ || !jobs_.empty(); });
  if (jobs_.empty()) return std::nullopt;
  std::optional<Job> job(std::move(jobs_.front()));
  jobs_.pop_front();
  return job;
}

PurgeResult Purger::result_of(const Job& job) {
  if (monotonic_us() - job.submitted_us <= kLongestWaitUs) return carry_out(job.order, ledger_, purge_replay_);
  PurgeResult late;
  late.error = Error(ErrorCode::kUnavailable, "the purges before this one took too long",
                     "another program may hold the ledger; try again");
  return late;
}

void Purger::run() {
  name_thread("purger");
  prepare_thread_memory();
  while (auto job = next()) {
    PurgeResult result;
    if (const auto failure = contain([&] { result = result_of(*job); })) result.error = failure;
    report(job->done, std::move(result));
  }
}

}  // namespace slip::cli
