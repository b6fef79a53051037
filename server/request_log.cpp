// SPDX-License-Identifier: Apache-2.0
#include "server/request_log.h"

#include <algorithm>
#include <array>
#include <cstdio>

#include "server/openai/routes.h"

namespace slip {
namespace {

double ms(std::int64_t us) {
  return static_cast<double>(us) / 1000.0;
}

void add_text(std::string& line, const char* name, const std::string& value) {
  if (!value.empty()) line += std::string(" ") + name + "=" + value;
}

void add_ms(std::string& line, const char* name, double value) {
  std::array<char, 48> text{};
  std::snprintf(text.data(), text.size(), " %s=%.1f", name, value);
  line += text.data();
}

}  // namespace

void RequestLog::add(const RequestSummary& summary) {
  const RequestFigures& figures = summary.figures;
  ++n_finished;
  prompt_tokens = std::max<std::int64_t>(prompt_tokens, figures.prompt_tokens);  // every part has the same prompt
  output_tokens += figures.output_tokens;
  if (figures.first_token_us > 0) {
    const double first = measured_ttft_ms(figures);
    ttft_ms = n_finished == 1 ? first : std::min(ttft_ms, first);
  }
  tpot_ms = std::max(tpot_ms, measured_tpot_ms(figures));
}

std::string request_line(const RequestLog& log, std::int64_t now_us) {
  std::string line = "request " + log.id + " " + log.method + " " + log.route + " " + std::to_string(log.status);
  add_ms(line, "total_ms", ms(now_us - log.begun_us));
  add_text(line, "key", log.key);
  add_text(line, "answer", log.answer);
  add_text(line, "topic", log.topic);
  add_text(line, "draft", log.draft);
  if (log.n_finished > 0) {
    line += " prompt_tokens=" + std::to_string(log.prompt_tokens);
    line += " output_tokens=" + std::to_string(log.output_tokens);
    add_ms(line, "ttft_ms", log.ttft_ms);
    add_ms(line, "tpot_ms", log.tpot_ms);
  }
  if (log.client_gone) line += " client_gone";
  return line;
}

bool is_routine(const RequestLog& log) {
  return log.status == 200 && is_for_monitoring(log.route);
}

}  // namespace slip
