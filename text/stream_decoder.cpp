// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "text/token_decoder.h"
#include "text/tokenizer.h"
#include "text/tokenizer_tables.h"
#include "text/utf8.h"

namespace slip {

StreamDecoder::Start StreamDecoder::behind(const Tokenizer& tokenizer, const std::vector<std::int32_t>& prompt) {
  const auto has_text = [&](std::int32_t id) { return !tokenizer.token_bytes(id).empty(); };
  return std::any_of(prompt.begin(), prompt.end(), has_text) ? Start::kMiddle : Start::kText;
}

StreamDecoder::StreamDecoder(std::shared_ptr<const Tokenizer> tokenizer, Start start, Stop stop)
    : tokenizer_(std::move(tokenizer)), is_first_(start == Start::kText) {
  if (tokenizer_ == nullptr) return;  // a decoder that receives no tokens
  for (const TokenDecoder::Strip& strip : tokenizer_->tables_->decoder.ends()) {
    ends_.push_back({is_first_ ? strip.start : 0, stop == Stop::kText ? strip.stop : 0, {}});
  }
}

std::string StreamDecoder::push(std::int32_t token) {
  const Tokenizer::Tables& tables = *tokenizer_->tables_;
  const VocabularyEntry* entry = tables.entry(token);
  if (entry == nullptr || entry->kind == VocabularyEntry::Kind::kSpecial) return {};
  const std::string bytes = is_first_ ? tables.first_bytes(*entry) : entry->bytes;
  is_first_ = is_first_ && bytes.empty() && tables.decoder.first_until_text();
  std::string text;
  pending_ += bytes;
  take_whole_characters(pending_, text, tables.decoder.repair());
  return cut_ends(std::move(text));
}

std::string StreamDecoder::cut_ends(std::string text) {
  for (std::size_t i = 0; i < ends_.size() && !text.empty(); ++i) {
    const TokenDecoder::Strip& strip = tokenizer_->tables_->decoder.ends()[i];
    End& end = ends_[i];
    std::size_t begin = 0;
    for (; end.to_drop > 0 && text.compare(begin, strip.content.size(), strip.content) == 0; --end.to_drop) {
      begin += strip.content.size();
    }
    if (begin < text.size()) end.to_drop = 0;
    text = end.held + text.substr(begin);
    std::size_t keep = text.size();
    for (std::size_t n = 0; n < end.to_trim && std::string_view(text).substr(0, keep).ends_with(strip.content); ++n) {
      keep -= strip.content.size();
    }
    end.held = text.substr(keep);
    text.resize(keep);
  }
  return text;
}

std::string StreamDecoder::finish() {
  if (tokenizer_ == nullptr) return {};
  std::string text;
  take_all_characters(pending_, text, tokenizer_->tables_->decoder.repair());
  return cut_ends(std::move(text));
}

}  // namespace slip
