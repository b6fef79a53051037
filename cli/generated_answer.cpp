// SPDX-License-Identifier: Apache-2.0
#include "cli/generated_answer.h"

#include <cmath>
#include <cstdio>
#include <iostream>
#include <utility>

namespace slip::cli {

namespace {

// The value of OpenAI's API for log 0, since JSON has no infinity.
constexpr double kLogZero = -9999.0;

std::string to_hex(std::uint64_t value) {
  char text[17];
  std::snprintf(text, sizeof text, "%016llx", static_cast<unsigned long long>(value));
  return text;
}

std::string dump(const nlohmann::json& object) {
  return object.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

nlohmann::json ratio(double part, double whole) {
  return whole > 0 ? nlohmann::json(part / whole) : nlohmann::json(nullptr);
}

nlohmann::json by_proposer(const RequestFigures& figures) {
  nlohmann::json counts;
  for (std::size_t by = 0; by < kProposers; ++by) {
    counts[proposer_name(static_cast<ProposedBy>(by))] = {{"proposed", figures.by_proposer[by].proposed},
                                                          {"accepted", figures.by_proposer[by].accepted}};
  }
  return counts;
}

}  // namespace

AnswerPrinter::AnswerPrinter(bool json, bool show_progress, std::size_t n_answers)
    : json_(json), show_progress_(show_progress), pending_(n_answers) {}

void AnswerPrinter::flush() {
  while (turn_ < pending_.size()) {
    Pending& current = pending_[turn_];
    std::cout << std::exchange(current.output, {}) << std::flush;
    if (!current.done) return;
    ++turn_;
  }
}

void AnswerPrinter::text(std::size_t index, const std::string& piece) {
  if (json_) return;
  pending_[index].output += piece;
  flush();
}

void AnswerPrinter::done(std::size_t index, const std::string& json_line) {
  pending_[index].output += json_ ? json_line + "\n" : std::string("\n");
  pending_[index].done = true;
  ++n_done_;
  flush();
  // Streamed text uses the same terminal and shows progress itself.
  if (show_progress_ && json_) std::fprintf(stderr, "\r%zu/%zu answers", n_done_, pending_.size());
}

void AnswerPrinter::failed(std::size_t index, const Error& cause) {
  if (n_failed_++ > 0) return;
  first_failure_ = cause;
  first_failed_ = index;
}

void AnswerPrinter::finish() {
  if (show_progress_ && json_) std::fputc('\n', stderr);
}

GeneratedAnswer::GeneratedAnswer(AnswerHead head, AnswerPrinter& printer, std::size_t index)
    : head_(std::move(head)), printer_(printer), index_(index) {}

void GeneratedAnswer::on_tokens(const TokenDelta& delta) {
  token_ids_.insert(token_ids_.end(), delta.tokens.begin(), delta.tokens.end());
  text_ += delta.text;
  printer_.text(index_, delta.text);
  for (const TokenLogprobs& token : delta.logprobs) {
    auto best = nlohmann::json::array();
    for (const TokenLogprob& entry : token.top) {
      best.push_back({entry.id, std::isfinite(entry.logprob) ? static_cast<double>(entry.logprob) : kLogZero});
    }
    top_logprobs_.push_back(std::move(best));
  }
}

nlohmann::json GeneratedAnswer::describe(const RequestSummary& summary) const {
  const RequestFigures& figures = summary.figures;
  const double seconds = static_cast<double>(figures.finished_us - figures.first_token_us) / 1e6;
  nlohmann::json answer = {{"id", head_.id},
                           {"text", text_},
                           {"prompt_ids", head_.prompt_ids},
                           {"token_ids", token_ids_},
                           {"stop_reason", stop_reason_name(summary.reason)},
                           {"steps", figures.steps},
                           {"proposed", figures.proposed},
                           {"accepted", figures.accepted},
                           {"first_rejections", figures.first_rejections},
                           {"accepted_siblings", figures.accepted_siblings},
                           {"by_proposer", by_proposer(figures)},
                           {"acceptance_rate", ratio(figures.accepted, figures.accepted + figures.first_rejections)},
                           {"accepted_length", ratio(figures.output_tokens, figures.steps)},
                           {"tokens_per_second", ratio(figures.output_tokens - 1, seconds)},
                           {"draft_version", figures.last_version},
                           {"swaps", figures.swaps}};
  if (head_.with_logprobs) answer["top_logprobs"] = top_logprobs_;
  if (head_.with_checksum) answer["checksum"] = to_hex(figures.checksum);
  return answer;
}

void GeneratedAnswer::on_finished(const RequestSummary& summary) {
  if (summary.reason == StopReason::kFailed) {
    refuse(summary.error.value_or(Error(ErrorCode::kInternal, "the request failed")));
    return;
  }
  printer_.done(index_, dump(describe(summary)));
}

void GeneratedAnswer::refuse(const Error& cause) {
  printer_.failed(index_, cause);
  printer_.done(index_, dump({{"id", head_.id}, {"error", cause.message()}}));
}

}  // namespace slip::cli
