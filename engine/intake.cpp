// SPDX-License-Identifier: Apache-2.0
#include "engine/intake.h"

#include <algorithm>
#include <utility>

#include "common/clock.h"

namespace slip {

namespace {

std::uint64_t seed_of_this_machine() {
  std::random_device device;
  return static_cast<std::uint64_t>(device()) << 32 | device();
}

}  // namespace

Intake::Intake(std::int32_t max_waiting, std::optional<std::uint64_t> seed)
    : max_waiting_(static_cast<std::size_t>(max_waiting)), seeds_(seed ? *seed : seed_of_this_machine()) {}

void Intake::push(Request request) {
  const std::int64_t now_us = monotonic_us();
  {
    const std::lock_guard lock(mutex_);
    if (closed_) throw Error(ErrorCode::kUnavailable, "the engine is shutting down", "send the request elsewhere");
    if (waiting_.size() >= max_waiting_) {
      throw Error(ErrorCode::kOverloaded, std::to_string(waiting_.size()) + " requests wait already",
                  "try again later");
    }
    if (!live_.insert(request.id).second) {
      throw Error(ErrorCode::kInvalidArgument, "request id " + std::to_string(request.id.value) + " is in use", {},
                  "id");
    }
    waiting_.push_back({std::move(request), seeds_(), now_us});
  }
  ready_.notify_one();
}

void Intake::cancel(RequestId id) {
  {
    const std::lock_guard lock(mutex_);
    if (live_.contains(id)) cancelled_.insert(id);
  }
  ready_.notify_one();
}

void Intake::close() {
  {
    const std::lock_guard lock(mutex_);
    closed_ = true;
  }
  ready_.notify_all();
}

std::int32_t Intake::n_waiting() const {
  const std::lock_guard lock(mutex_);
  return static_cast<std::int32_t>(waiting_.size());
}

std::unordered_set<RequestId> Intake::take_cancelled() {
  const std::lock_guard lock(mutex_);
  return std::exchange(cancelled_, {});
}

std::vector<WaitingRequest> Intake::take_waiting(const std::unordered_set<RequestId>& ids) {
  std::vector<WaitingRequest> taken;
  const std::lock_guard lock(mutex_);
  const auto is_kept = [&](const WaitingRequest& waiting) { return !ids.contains(waiting.request.id); };
  const auto border = std::stable_partition(waiting_.begin(), waiting_.end(), is_kept);
  std::move(border, waiting_.end(), std::back_inserter(taken));
  waiting_.erase(border, waiting_.end());
  return taken;
}

std::vector<WaitingRequest> Intake::take_all_waiting() {
  const std::lock_guard lock(mutex_);
  std::vector<WaitingRequest> taken(std::make_move_iterator(waiting_.begin()), std::make_move_iterator(waiting_.end()));
  waiting_.clear();
  return taken;
}

void Intake::peek_needs(std::size_t most, std::vector<std::int32_t>& needs) const {
  needs.clear();
  const std::lock_guard lock(mutex_);
  for (std::size_t i = 0; i < std::min(most, waiting_.size()); ++i) {
    const Request& request = waiting_[i].request;
    needs.push_back(static_cast<std::int32_t>(request.prompt.size()) + request.max_tokens);
  }
}

std::vector<WaitingRequest> Intake::pop(std::size_t n) {
  std::vector<WaitingRequest> taken;
  const std::lock_guard lock(mutex_);
  for (std::size_t i = 0; i < n && !waiting_.empty(); ++i) {
    taken.push_back(std::move(waiting_.front()));
    waiting_.pop_front();
  }
  return taken;
}

void Intake::forget(RequestId id) {
  const std::lock_guard lock(mutex_);
  live_.erase(id);
  cancelled_.erase(id);
}

bool Intake::wait(std::stop_token stop) {
  std::unique_lock lock(mutex_);
  return ready_.wait(lock, std::move(stop), [&] { return closed_ || !waiting_.empty() || !cancelled_.empty(); }) &&
         !(closed_ && waiting_.empty() && cancelled_.empty());
}

}  // namespace slip
