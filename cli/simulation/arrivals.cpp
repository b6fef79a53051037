// SPDX-License-Identifier: Apache-2.0
#include "cli/simulation/arrivals.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <chrono>
#include <cmath>
#include <numeric>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "common/error.h"
#include "common/file.h"
#include "engine/sampling/random.h"

namespace slip {
namespace {

constexpr std::uint64_t kMostTraceBytes = std::uint64_t{1} << 30;
constexpr double kDaySeconds = 86'400;
constexpr std::uint32_t kTargets = 1;  // the random numbers of targets, beside those of times

// Takes the characters up to `end` off the front of `text`, or all of them.
std::string_view take_until(std::string_view& text, char end) {
  const std::size_t at = text.find(end);
  const std::string_view taken = text.substr(0, at);
  text.remove_prefix(at == std::string_view::npos ? text.size() : at + 1);
  return taken;
}

template <class Number>
std::optional<Number> number_in(std::string_view text, Number low, Number high) {
  Number value{};
  const auto [end, fault] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (fault != std::errc() || end != text.data() + text.size() || !(value >= low && value <= high)) return std::nullopt;
  return value;
}

// Seconds since 1970 of "2023-11-16 18:15:46.6805900"
constexpr std::string_view kHead = "TIMESTAMP,ContextTokens,GeneratedTokens", kByteOrderMark = "\xEF\xBB\xBF";

std::optional<double> seconds_of(std::string_view stamp) {
  std::array<std::optional<int>, 3> date = {number_in(take_until(stamp, '-'), 1970, 9999),
                                            number_in(take_until(stamp, '-'), 1, 12),
                                            number_in(take_until(stamp, ' '), 1, 31)};
  const auto hour = number_in(take_until(stamp, ':'), 0, 23), minute = number_in(take_until(stamp, ':'), 0, 59);
  const auto second = number_in(stamp, 0.0, 61.0);
  if (!date[0] || !date[1] || !date[2] || !hour || !minute || !second) return std::nullopt;
  const std::chrono::year_month_day day(std::chrono::year(*date[0]),
                                        std::chrono::month(static_cast<unsigned>(*date[1])),
                                        std::chrono::day(static_cast<unsigned>(*date[2])));
  if (!day.ok()) return std::nullopt;
  const auto days = std::chrono::sys_days(day).time_since_epoch().count();
  return static_cast<double>(days) * kDaySeconds + *hour * 3600.0 + *minute * 60.0 + *second;
}

std::optional<Arrival> arrival_of(std::string_view line) {
  const auto at = seconds_of(take_until(line, ','));
  constexpr std::int32_t kMost = 1 << 30;
  const auto context = number_in<std::int32_t>(take_until(line, ','), 0, kMost);
  const auto generated = number_in<std::int32_t>(line, 0, kMost);
  if (!at || !context || !generated) return std::nullopt;
  return Arrival{*at, std::max(*generated, 1), std::max(*context, 1)};
}

}  // namespace

std::vector<Arrival> poisson_arrivals(double rate, double duration_s, std::int32_t max_tokens, std::uint64_t seed) {
  std::vector<Arrival> arrivals;
  double at = 0;
  for (std::uint32_t i = 0;; ++i) {
    at += -std::log(1.0 - uniform({seed, 0, i}, RandomPurpose::kDraft)) / rate;
    if (at >= duration_s) return arrivals;
    arrivals.push_back({at, max_tokens});
  }
}

void draw_targets(std::span<const SloTargets> targets, std::span<const double> weights, std::uint64_t seed,
                  std::vector<Arrival>& arrivals) {
  const double all = std::accumulate(weights.begin(), weights.end(), 0.0);
  for (std::size_t i = 0; i < arrivals.size(); ++i) {
    double left = all * uniform({seed, kTargets, static_cast<std::uint32_t>(i)}, RandomPurpose::kDraft);
    std::size_t drawn = 0;
    while (drawn + 1 < targets.size() && left >= weights[drawn]) left -= weights[drawn++];
    arrivals[i].slo = targets[drawn];
  }
}

std::vector<Arrival> replay_arrivals(std::vector<Arrival> recorded, const TraceOptions& options) {
  std::stable_sort(recorded.begin(), recorded.end(),
                   [](const Arrival& a, const Arrival& b) { return a.at_s < b.at_s; });
  const double first_s = recorded.empty() ? 0 : recorded.front().at_s;
  for (Arrival& arrival : recorded) {
    arrival.at_s = (arrival.at_s - first_s) / options.scale;
    arrival.max_tokens = std::min(arrival.max_tokens, options.max_tokens);
    arrival.prompt_tokens = std::min(arrival.prompt_tokens, options.max_prompt_tokens);
  }
  if (options.duration_s > 0) {
    std::erase_if(recorded, [&](const Arrival& arrival) { return arrival.at_s >= options.duration_s; });
  }
  return recorded;
}

std::vector<Arrival> trace_arrivals(const std::filesystem::path& trace, const TraceOptions& options) {
  const std::string content = read_file(trace, kMostTraceBytes);
  std::string_view rest = content;
  std::string_view head = take_until(rest, '\n');
  if (head.ends_with('\r')) head.remove_suffix(1);
  if (head.starts_with(kByteOrderMark)) head.remove_prefix(kByteOrderMark.size());
  if (head != kHead) {
    throw Error(ErrorCode::kInvalidArgument, trace.string() + ", line 1 is not the head of a trace",
                std::string("it is ") + std::string(kHead) + "; one request on each later line", "--trace");
  }
  std::vector<Arrival> arrivals;
  for (std::size_t number = 2; !rest.empty(); ++number) {
    std::string_view line = take_until(rest, '\n');
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (line.empty()) continue;
    const auto arrival = arrival_of(line);
    if (!arrival) {
      throw Error(ErrorCode::kInvalidArgument, trace.string() + ", line " + std::to_string(number) + " is no arrival",
                  "a line is TIMESTAMP,ContextTokens,GeneratedTokens, such as 2023-11-16 18:15:46.6805900,374,44",
                  "--trace");
    }
    arrivals.push_back(*arrival);
  }
  if (arrivals.empty()) {
    throw Error(ErrorCode::kInvalidArgument, trace.string() + " holds no requests", "name another trace", "--trace");
  }
  return replay_arrivals(std::move(arrivals), options);
}

}  // namespace slip
