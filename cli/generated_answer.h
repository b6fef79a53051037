// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "engine/request.h"

namespace slip::cli {

// Writes answers to stdout in input order, independent of the order in which they finish: later ones wait. The current
// answer's text is streamed. Threads: one.
class AnswerPrinter {
 public:
  AnswerPrinter(bool json, bool show_progress, std::size_t n_answers);

  void text(std::size_t index, const std::string& piece);
  void done(std::size_t index, const std::string& json_line);
  void failed(std::size_t index, const Error& cause);
  void finish();

  std::size_t n_failed() const { return n_failed_; }
  const std::optional<Error>& first_failure() const { return first_failure_; }
  std::size_t first_failed() const { return first_failed_; }  // its index

 private:
  struct Pending {
    std::string output;
    bool done = false;
  };
  void flush();

  bool json_, show_progress_;
  std::vector<Pending> pending_;
  std::size_t turn_ = 0, n_done_ = 0, n_failed_ = 0, first_failed_ = 0;
  std::optional<Error> first_failure_;
};

// The data of an answer that is known before it begins.
struct AnswerHead {
  nlohmann::json id;
  std::vector<std::int32_t> prompt_ids;
  bool with_logprobs = false, with_checksum = false;
};

// Collects one answer and passes it to the printer.
class GeneratedAnswer final : public TokenSink {
 public:
  GeneratedAnswer(AnswerHead head, AnswerPrinter& printer, std::size_t index);
  void on_tokens(const TokenDelta& delta) override;
  void on_finished(const RequestSummary& summary) override;
  void refuse(const Error& cause);

 private:
  nlohmann::json describe(const RequestSummary& summary) const;

  AnswerHead head_;
  AnswerPrinter& printer_;
  std::size_t index_;
  std::vector<std::int32_t> token_ids_;
  std::string text_;
  nlohmann::json top_logprobs_ = nlohmann::json::array();
};

}  // namespace slip::cli
