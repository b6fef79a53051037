// SPDX-License-Identifier: Apache-2.0
#include "common/fail_point.h"

#include <unistd.h>
#include <atomic>
#include <charconv>
#include <csignal>
#include <cstdlib>
#include <optional>
#include <string>

#include "common/error.h"

namespace slip {
namespace {

enum class Action { kKill, kNoSpace };

struct Trigger {
  std::string name;
  bool prefix = false;
  int hit = 1;
  Action action = Action::kKill;
};

std::optional<Trigger> parse_trigger(std::string_view text) {
  const auto last = text.rfind(':');
  const auto middle = last == std::string_view::npos ? last : text.rfind(':', last - 1);
  if (middle == std::string_view::npos || middle == 0) return std::nullopt;
  Trigger trigger;
  trigger.name = text.substr(0, middle);
  const auto number = text.substr(middle + 1, last - middle - 1);
  if (std::from_chars(number.data(), number.data() + number.size(), trigger.hit).ec != std::errc{}) return std::nullopt;
  trigger.action = text.substr(last + 1) == "enospc" ? Action::kNoSpace : Action::kKill;
  if (trigger.name.ends_with('*')) {
    trigger.prefix = true;
    trigger.name.pop_back();
  }
  return trigger;
}

std::optional<Trigger> trigger_from_environment() {
  const char* text = std::getenv("SLIPSTREAM_FAIL_POINT");
  return text == nullptr ? std::nullopt : parse_trigger(text);
}

struct Armed {
  std::optional<Trigger> trigger = trigger_from_environment();
  std::atomic<bool> active{trigger.has_value()};
  std::atomic<int> hits{0};
};

Armed& armed() {
  static Armed state;
  return state;
}

}  // namespace

void fail_point(std::string_view name) {
  Armed& state = armed();
  if (!state.active.load(std::memory_order_relaxed)) return;
  const Trigger& trigger = *state.trigger;
  if (trigger.prefix ? !name.starts_with(trigger.name) : name != trigger.name) return;
  if (state.hits.fetch_add(1) + 1 != trigger.hit) return;
  if (trigger.action == Action::kNoSpace) throw Error(ErrorCode::kIo, "no space left on device (fail point)");
  kill(getpid(), SIGKILL);
}

void arm_fail_point(std::string_view trigger) {
  Armed& state = armed();
  state.trigger = parse_trigger(trigger);
  state.hits = 0;
  state.active = state.trigger.has_value();
}

}  // namespace slip
