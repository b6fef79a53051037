// SPDX-License-Identifier: Apache-2.0
#include "text/text_pattern.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <utility>

#include "common/error.h"
#include "text/regex_syntax.h"
#include "text/tokenizer_fields.h"
#include "text/utf8.h"

namespace slip {

namespace {

// Limit of one match (docs/security.md, S9). A run of n spaces takes n steps of backtracking, and request bodies have a
// few MB at most.
constexpr std::uint32_t kMatchLimit = 50'000'000;
constexpr std::uint32_t kHeapLimitKib = 64 * 1024;
constexpr std::size_t kMaxPatternBytes = 16 * 1024;

struct FreeMatchData {
  void operator()(pcre2_match_data* data) const { pcre2_match_data_free(data); }
};

struct FreeCompileContext {
  void operator()(pcre2_compile_context* context) const { pcre2_compile_context_free(context); }
};

std::string pcre2_message(int code) {
  unsigned char text[256];
  pcre2_get_error_message(code, text, sizeof text);
  return reinterpret_cast<const char*>(text);
}

}  // namespace

struct TextPattern::Compiled {
  pcre2_code* code = nullptr;
  pcre2_match_context* limits = nullptr;
  Compiled() = default;
  Compiled(const Compiled&) = delete;
  ~Compiled() {
    pcre2_code_free(code);
    pcre2_match_context_free(limits);
  }
};

TextPattern TextPattern::regex(const std::string& expression) {
  if (expression.size() > kMaxPatternBytes) throw Error(ErrorCode::kTooLarge, "the pattern is over 16 KiB");
  const std::string exact = pcre2_syntax(expression);
  const std::unique_ptr<pcre2_compile_context, FreeCompileContext> context(pcre2_compile_context_create(nullptr));
  pcre2_set_newline(context.get(), PCRE2_NEWLINE_LF);
  auto compiled = std::make_shared<Compiled>();
  int error = 0;
  PCRE2_SIZE offset = 0;
  // In Ruby's syntax ^ and $ always match at line ends.
  compiled->code =
      pcre2_compile(reinterpret_cast<PCRE2_SPTR>(exact.data()), exact.size(),
                    PCRE2_UTF | PCRE2_UCP | PCRE2_NEVER_BACKSLASH_C | PCRE2_MULTILINE, &error, &offset, context.get());
  if (compiled->code == nullptr) {
    throw Error(ErrorCode::kUnsupported, "the pattern does not compile: " + pcre2_message(error));
  }
  compiled->limits = pcre2_match_context_create(nullptr);
  pcre2_set_match_limit(compiled->limits, kMatchLimit);
  pcre2_set_heap_limit(compiled->limits, kHeapLimitKib);
  // Without JIT support the interpreter gives the same result, more slowly.
  pcre2_jit_compile(compiled->code, PCRE2_JIT_COMPLETE);
  return {std::move(compiled), {}};
}

TextPattern TextPattern::literal(std::string text) {
  return {nullptr, std::move(text)};
}

TextPattern TextPattern::read(const TokenizerFields& fields, const char* key) {
  const TokenizerFields pattern = fields.object(key);
  if (pattern.find("String") != nullptr) {
    std::string text = pattern.text("String");
    if (text.empty()) pattern.invalid("String", "is empty");
    return literal(std::move(text));
  }
  const std::string expression = pattern.text("Regex");
  try {
    return regex(expression);
  } catch (const Error& error) {
    throw Error(error.code(), fields.where() + ": " + pattern.path_of("Regex") + ": " + error.message(), {},
                pattern.path_of("Regex"));
  }
}

void TextPattern::cut(std::string_view text, const Visitor& visit) const {
  if (compiled_ == nullptr) return cut_at_literal(text, visit);
  std::size_t at = 0;
  while (at < text.size()) {
    const std::size_t valid = valid_utf8_prefix(text.substr(at));
    if (valid > 0) cut_valid(text.substr(at, valid), at, visit);
    at += valid;
    const std::size_t invalid = invalid_utf8_prefix(text.substr(at));
    if (invalid > 0) visit({at, at + invalid, false});
    at += invalid;
  }
}

void TextPattern::cut_at_literal(std::string_view text, const Visitor& visit) const {
  std::size_t done = 0;
  for (std::size_t at = text.find(literal_); at != std::string_view::npos; at = text.find(literal_, done)) {
    if (at > done) visit({done, at, false});
    done = at + literal_.size();
    visit({at, done, true});
  }
  if (done < text.size()) visit({done, text.size(), false});
}

void TextPattern::cut_valid(std::string_view text, std::size_t offset, const Visitor& visit) const {
  const std::unique_ptr<pcre2_match_data, FreeMatchData> data(pcre2_match_data_create(1, nullptr));
  const PCRE2_SIZE* bounds = pcre2_get_ovector_pointer(data.get());
  const auto* subject = reinterpret_cast<PCRE2_SPTR>(text.data());
  std::size_t done = 0;  // everything before it was visited
  std::size_t search = 0;
  bool matched = false;  // a match ended at `done`
  const auto match = [&](std::uint32_t options) {
    return pcre2_match(compiled_->code, subject, text.size(), search, options | PCRE2_NO_UTF_CHECK, data.get(),
                       compiled_->limits);
  };
  while (search <= text.size()) {
    int result = match(0);
    if (result == PCRE2_ERROR_JIT_STACKLIMIT) result = match(PCRE2_NO_JIT);
    if (result == PCRE2_ERROR_NOMATCH) break;
    if (result < 0 || bounds[0] < done || bounds[1] < bounds[0]) {
      throw Error(ErrorCode::kInvalidArgument, "this text takes too much work to split into tokens",
                  result < 0 ? "PCRE2 says: " + pcre2_message(result) : "the split pattern moves its match's start");
    }
    const bool empty = bounds[1] == bounds[0];
    if (empty && matched && bounds[0] == done) {  // an empty match at the end of the last match
      if (done == text.size()) break;
      search = done + next_utf8(text.substr(done)).bytes;
      matched = false;
      continue;
    }
    if (bounds[0] > done) visit({offset + done, offset + bounds[0], false});
    visit({offset + bounds[0], offset + bounds[1], true});
    done = search = bounds[1];
    matched = true;
  }
  if (done < text.size()) visit({offset + done, offset + text.size(), false});
}

}  // namespace slip
