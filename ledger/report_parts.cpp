// SPDX-License-Identifier: Apache-2.0
#include "ledger/report_parts.h"

#include <array>
#include <cmath>
#include <cstdio>
#include <ctime>

namespace slip {
namespace {

constexpr std::array<std::pair<const char*, const char*>, 13> kDefinitions = {{
    {"α",
     "accepted / (accepted + first rejections): how often a drafted token is accepted when those before it were; "
     "never accepted / proposed"},
    {"same text",
     "live and base draft scored afterwards on the same verified answers, so easier traffic does not look like "
     "learning"},
    {"gain",
     "α of the live draft less α of the base draft on the same text; 95 % jackknife interval, requests as the unit; "
     "\"its gain\" counts only what the version named has served"},
    {"length", "output tokens / target steps, the target's own token included"},
    {"accepted from",
     "shares of the accepted tokens that the draft proposed, that prompt lookup did, and that were siblings (other "
     "choices for a place); tokens of an unknown proposer do not count"},
    {"realised gain",
     "a version's gain over the base draft on the text it served, less its parent's while that served"},
    {"held-out α", "α of the version before → α of this one, both on new requests when it was decided on"},
    {"predicted gain", "held-out α of this version less that of the version before"},
    {"p", "1 / the odds reached that the version is better than the one before, at most 1; small is sure"},
    {"odds",
     "those reached that the version is better (refused: below the margin; rolled back: worse), of those asked for; "
     "these are below 1 where its probabilities already show the gain"},
    {"lag", "age of the oldest answer that no optimizer step could draw from yet"},
    {"predicted",
     "the gain of α that the topic's learning curve promised when it last trained; realised: what its publications "
     "brought, each measured before it went live"},
    {"violation",
     "measured time / time asked for, the worst of time per token, time to the first token and time of the whole "
     "answer; met: at most 1"},
}};

std::string shorten(double share, bool with_sign) {
  if (std::abs(share) < 0.005) share = 0;  // no "-.00"
  std::array<char, 32> digits{};
  std::snprintf(digits.data(), digits.size(), with_sign ? "%+.2f" : "%.2f", share);
  std::string text = digits.data();
  const std::size_t first = text.find_first_of("0123456789");
  if (text[first] == '0' && std::abs(share) < 0.995) text.erase(first, 1);
  return text;
}

}  // namespace

std::span<const std::pair<const char*, const char*>> report_definitions() {
  return kDefinitions;
}

const char* event_mark(const std::string& kind) {
  if (kind == "publish") return "▲";
  if (kind == "rollback") return "▼";
  return kind == "drift" ? "◆" : "✕";
}

// Not "v" + …: GCC 12 warns falsely about an overlap.
std::string version_text(std::uint64_t version) {
  if (version == 0) return "base";
  return std::string("v").append(std::to_string(version));
}

std::string proposer_text(const std::string& topic, const std::string& draft, std::uint64_t version) {
  if (draft.empty()) return "–";
  return draft == topic ? version_text(version) : printable(draft);
}

std::string event_text(const LedgerEvent& event) {
  const std::string version = version_text(event.version), live = version_text(event.live_version);
  if (event.kind == "publish") return version + " published: " + event.reason;
  if (event.kind == "rollback") return live + " rolled back to " + version + ": " + event.reason;
  if (event.kind == "drift") return "drift: " + event.reason;
  return "candidate after " + live + " refused: " + event.reason;
}

std::string event_counts(const TopicFigures& topic) {
  std::string text;
  const auto append = [&](const char* kind, std::int64_t n) {
    if (n <= 0) return;
    if (!text.empty()) text += " ";
    text += event_mark(kind) + std::to_string(n);
  };
  append("publish", topic.published);
  append("refuse", topic.refused);
  append("rollback", topic.rolled_back);
  append("drift", topic.drift_events);
  return text.empty() ? "–" : text;
}

std::string short_topic(const std::string& name) {
  constexpr std::size_t kMost = 20;
  return name.size() <= kMost ? name : name.substr(0, kMost - 1) + "…";
}

std::string share_text(std::optional<double> share) {
  return share ? shorten(*share, /*with_sign=*/false) : "–";
}

std::string gain_text(std::optional<double> gain, std::optional<Interval> interval) {
  if (!gain) return "–";
  const std::string text = shorten(*gain, /*with_sign=*/true);
  if (!interval) return text;
  return text + " [" + shorten(interval->low, true) + ", " + shorten(interval->high, true) + "]";
}

std::string fixed_text(std::optional<double> value, int digits) {
  if (!value) return "–";
  std::array<char, 48> text{};
  std::snprintf(text.data(), text.size(), "%.*f", digits, *value);
  return text.data();
}

std::string utc_text(std::int64_t us, const char* format) {
  const std::time_t seconds = us / 1'000'000;
  std::tm parts{};
  ::gmtime_r(&seconds, &parts);
  std::array<char, 64> text{};
  return {text.data(), std::strftime(text.data(), text.size(), format, &parts)};
}

std::string or_ask_further_back(const ReportQuery& query) {
  return query.since_us ? ", or ask for a longer --since" : "";
}

std::string printable(const std::string& text) {
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const auto byte = static_cast<unsigned char>(text[i]);
    const bool c1 = byte == 0xC2 && i + 1 < text.size() && static_cast<unsigned char>(text[i + 1]) < 0xA0;
    if (byte >= 0x20 && byte != 0x7F && !c1) {
      out += text[i];
      continue;
    }
    out += "�";
    if (c1) ++i;
  }
  return out;
}

}  // namespace slip
