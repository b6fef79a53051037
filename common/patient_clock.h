// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace slip {

// The newest of the times that were stored before a start. A time later than the wall clock's does not count: the date
// was wrong when it was stored, or is behind now. Otherwise one such time would hide the right ones at each start until
// its date has come.
class NewestStored {
 public:
  explicit NewestStored(std::int64_t wall_us) : wall_us_(wall_us) {}
  void see(std::int64_t stored_us) {
    if (stored_us > us_ && stored_us <= wall_us_) us_ = stored_us;
  }
  std::int64_t us() const { return us_; }  // 0: none

 private:
  std::int64_t wall_us_;
  std::int64_t us_ = 0;
};

// A wall clock for deciding what is old enough to delete. A step of the wall clock against the monotonic clock may be a
// wrong date that will be corrected. It is accepted only after `patience_us`; until then time continues from before the
// step. One owner.
class PatientClock {
 public:
  static constexpr std::int64_t kToleranceUs = std::int64_t{600} * 1'000'000;  // above NTP slewing and drift
  explicit PatientClock(std::int64_t patience_us) : patience_us_(patience_us) {}

  // Before the first believe(): time goes on from `stored_us`, the newest time that was stored before the start, as
  // NewestStored finds it. A wall clock that is far ahead of it, such as one that is not set yet, then counts as a
  // step. 0: nothing was stored, and the first reading is believed.
  void continue_from(std::int64_t stored_us, std::int64_t monotonic_us) {
    if (stored_us <= 0) return;
    wall_us_ = stored_us;
    monotonic_us_ = stepped_after_us_ = monotonic_us;
    started_ = true;
  }

  // The time to use, given both clocks' readings.
  std::int64_t believe(std::int64_t wall_us, std::int64_t monotonic_us) {
    const std::int64_t expected = wall_us_ + (monotonic_us - monotonic_us_);
    const bool stepped = started_ && (wall_us > expected + kToleranceUs || wall_us < expected - kToleranceUs);
    if (!stepped) {
      stepped_after_us_ = monotonic_us;
    } else if (monotonic_us - stepped_after_us_ < patience_us_) {
      return expected;
    }
    started_ = true;
    wall_us_ = wall_us;
    monotonic_us_ = monotonic_us;
    return wall_us;
  }

 private:
  std::int64_t patience_us_;
  bool started_ = false;
  std::int64_t wall_us_ = 0, monotonic_us_ = 0;  // both clocks at the last accepted reading
  std::int64_t stepped_after_us_ = 0;            // monotonic time of the last reading without a step
};

}  // namespace slip
