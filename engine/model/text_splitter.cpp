// SPDX-License-Identifier: Apache-2.0
#include "engine/model/text_splitter.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include "common/error.h"
#include "engine/model/utf8.h"

namespace slip {

namespace {

// S9: what one match may cost. A run of n spaces takes n steps of backtracking, and requests are at most a few MB.
constexpr std::uint32_t kMatchLimit = 50'000'000;
constexpr std::uint32_t kHeapLimitKib = 64 * 1024;
constexpr std::size_t kMaxPatternBytes = 16 * 1024;

// The members of \s by Unicode's White_Space, as Hugging Face's regex engine has it; PCRE2 also counts U+180E.
constexpr std::string_view kWhiteSpace =
    R"(\t-\r\x{20}\x{85}\x{a0}\x{1680}\x{2000}-\x{200a}\x{2028}\x{2029}\x{202f}\x{205f}\x{3000})";

std::string with_exact_white_space(std::string_view pattern) {
  std::string out;
  bool in_class = false;
  for (std::size_t i = 0; i < pattern.size(); ++i) {
    const char c = pattern[i];
    if (c != '\\' || i + 1 == pattern.size()) {
      in_class = c == '[' ? true : c == ']' ? false : in_class;
      out += c;
      continue;
    }
    const char escaped = pattern[++i];
    if (escaped == 's') {
      out += in_class ? std::string(kWhiteSpace) : "[" + std::string(kWhiteSpace) + "]";
    } else if (escaped == 'S' && !in_class) {
      out += "[^" + std::string(kWhiteSpace) + "]";
    } else {
      out += c;
      out += escaped;
    }
  }
  return out;
}

struct FreeMatchData {
  void operator()(pcre2_match_data* data) const { pcre2_match_data_free(data); }
};

std::string pcre2_message(int code) {
  unsigned char text[256];
  pcre2_get_error_message(code, text, sizeof text);
  return reinterpret_cast<const char*>(text);
}

}  // namespace

struct TextSplitter::Compiled {
  pcre2_code* code = nullptr;
  pcre2_match_context* limits = nullptr;
  ~Compiled() {
    pcre2_code_free(code);
    pcre2_match_context_free(limits);
  }
};

TextSplitter::TextSplitter(const std::string& pattern) : compiled_(std::make_unique<Compiled>()) {
  if (pattern.size() > kMaxPatternBytes) throw Error(ErrorCode::kTooLarge, "the split pattern is over 16 KiB");
  const std::string exact = with_exact_white_space(pattern);
  int error = 0;
  PCRE2_SIZE offset = 0;
  compiled_->code = pcre2_compile(reinterpret_cast<PCRE2_SPTR>(exact.data()), exact.size(),
                                  PCRE2_UTF | PCRE2_UCP | PCRE2_NEVER_BACKSLASH_C, &error, &offset, nullptr);
  if (compiled_->code == nullptr) {
    throw Error(ErrorCode::kUnsupported, "the split pattern does not compile: " + pcre2_message(error));
  }
  compiled_->limits = pcre2_match_context_create(nullptr);
  pcre2_set_match_limit(compiled_->limits, kMatchLimit);
  pcre2_set_heap_limit(compiled_->limits, kHeapLimitKib);
  // Where there is no JIT the interpreter does the same, more slowly.
  pcre2_jit_compile(compiled_->code, PCRE2_JIT_COMPLETE);
}

TextSplitter::~TextSplitter() = default;
TextSplitter::TextSplitter(TextSplitter&&) noexcept = default;

void TextSplitter::split(std::string_view text, std::vector<std::string_view>& pieces) const {
  while (!text.empty()) {
    const std::size_t valid = valid_utf8_prefix(text);
    if (valid > 0) split_valid(text.substr(0, valid), pieces);
    text.remove_prefix(valid);
    std::size_t invalid = 0;
    while (invalid < text.size()) {
      const Utf8Step step = next_utf8(text.substr(invalid));
      if (step.kind == Utf8Step::Kind::kValid) break;
      invalid += step.bytes;
    }
    if (invalid > 0) pieces.push_back(text.substr(0, invalid));
    text.remove_prefix(invalid);
  }
}

void TextSplitter::split_valid(std::string_view text, std::vector<std::string_view>& pieces) const {
  const std::unique_ptr<pcre2_match_data, FreeMatchData> data(pcre2_match_data_create(1, nullptr));
  const PCRE2_SIZE* bounds = pcre2_get_ovector_pointer(data.get());
  const auto* subject = reinterpret_cast<PCRE2_SPTR>(text.data());
  std::size_t done = 0;  // everything before it is in `pieces`
  std::size_t search = 0;
  const auto match = [&](std::uint32_t options) {
    return pcre2_match(compiled_->code, subject, text.size(), search, options | PCRE2_NO_UTF_CHECK, data.get(),
                       compiled_->limits);
  };
  while (search < text.size()) {
    int result = match(0);
    if (result == PCRE2_ERROR_JIT_STACKLIMIT) result = match(PCRE2_NO_JIT);
    if (result == PCRE2_ERROR_NOMATCH) break;
    if (result < 0 || bounds[0] < done || bounds[1] < bounds[0]) {
      throw Error(ErrorCode::kInvalidArgument, "this text takes too much work to split into tokens",
                  result < 0 ? "PCRE2 says: " + pcre2_message(result) : "the split pattern moves its match's start");
    }
    if (bounds[1] == bounds[0]) {  // an empty match cuts nothing
      if (bounds[0] >= text.size()) break;
      search = bounds[0] + next_utf8(text.substr(bounds[0])).bytes;
      continue;
    }
    if (bounds[0] > done) pieces.push_back(text.substr(done, bounds[0] - done));
    pieces.push_back(text.substr(bounds[0], bounds[1] - bounds[0]));
    done = search = bounds[1];
  }
  if (done < text.size()) pieces.push_back(text.substr(done));
}

}  // namespace slip
