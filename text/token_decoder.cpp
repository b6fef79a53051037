// SPDX-License-Identifier: Apache-2.0
#include "text/token_decoder.h"

#include "text/byte_alphabet.h"
#include "text/byte_spelling.h"
#include "text/normalizer.h"
#include "text/tokenizer_fields.h"

namespace slip {

namespace {

std::string apply_step(const std::string& token, const TokenDecoder::Replace& replace, bool /*is_first*/) {
  return replace_all(token, replace.pattern, replace.by);
}

std::string apply_step(const std::string& token, const TokenDecoder::Strip& strip, bool /*is_first*/) {
  std::string_view left = token;
  for (std::size_t i = 0; i < strip.start && left.starts_with(strip.content); ++i) {
    left.remove_prefix(strip.content.size());
  }
  for (std::size_t i = 0; i < strip.stop && left.ends_with(strip.content); ++i) {
    left.remove_suffix(strip.content.size());
  }
  return std::string(left);
}

std::string apply_step(const std::string& token, const TokenDecoder::Metaspace& step, bool is_first) {
  const TextPattern mark = TextPattern::literal(step.replacement);
  if (!is_first || !step.drop_in_first) return replace_all(token, mark, " ");
  if (!step.drop_only_leading_one) return replace_all(token, mark, "");
  const std::size_t dropped = token.starts_with(step.replacement) ? step.replacement.size() : 0;
  return replace_all(std::string_view(token).substr(dropped), mark, " ");
}

std::string apply_step(const std::string& token, TokenDecoder::ByteAlphabet, bool /*is_first*/) {
  return bytes_of_spelling(token).value_or(token);
}

std::string apply_step(const std::string& token, TokenDecoder::ByteFallback, bool /*is_first*/) {
  const int byte = spelled_byte(token);
  return byte < 0 ? token : std::string(1, static_cast<char>(byte));
}

}  // namespace

void TokenDecoder::read_step(const TokenizerFields& fields, const std::string& type) {
  if (stage_ == Stage::kText && type != "Strip") fields.unsupported("type", "this decoder after the tokens are fused");
  if (stage_ == Stage::kBytes) fields.unsupported("type", "anything but Fuse after ByteFallback");
  if (type == "Replace") {
    token_steps_.push_back(Replace{TextPattern::read(fields, "pattern"), fields.text("content")});
  } else if (type == "Strip") {
    Strip strip{fields.character("content"), static_cast<std::size_t>(fields.count("start")),
                static_cast<std::size_t>(fields.count("stop"))};
    if (stage_ == Stage::kText) {
      ends_.push_back(std::move(strip));
    } else {
      token_steps_.push_back(std::move(strip));
    }
  } else if (type == "Metaspace") {
    const bool legacy = fields.flag("add_prefix_space", true);
    const std::string scheme = fields.text("prepend_scheme", legacy ? "always" : "never");
    token_steps_.push_back(Metaspace{fields.character("replacement"), scheme != "never"});
  } else if (type == "ByteLevel") {
    token_steps_.push_back(ByteAlphabet{});
    stage_ = Stage::kText;
  } else if (type == "ByteFallback") {
    token_steps_.push_back(ByteFallback{});
    repair_ = Utf8Repair::kPerByte;
    stage_ = Stage::kBytes;
  } else {
    fields.unsupported("type", "this decoder");
  }
}

void TokenDecoder::read_steps(const TokenizerFields& fields) {
  const std::string type = fields.type();
  if (token_steps_.size() + ends_.size() >= TokenizerFields::kMaxSteps) {
    fields.invalid("type", "comes after too many steps");
  }
  if (type == "Sequence") {
    for (const TokenizerFields& step : fields.objects("decoders")) read_steps(step);
  } else if (type == "Fuse") {
    stage_ = Stage::kText;
  } else {
    read_step(fields, type);
  }
}

TokenDecoder TokenDecoder::read(const TokenizerFields& fields) {
  TokenDecoder out;
  out.read_steps(fields);
  return out;
}

TokenDecoder TokenDecoder::sentence_piece(bool drop_leading_space, bool until_text) {
  TokenDecoder out;
  out.token_steps_.emplace_back(Metaspace{"\u2581", drop_leading_space, /*drop_only_leading_one=*/true});
  out.token_steps_.emplace_back(ByteFallback{});
  out.repair_ = Utf8Repair::kPerByte;
  out.first_until_text_ = until_text;
  return out;
}

std::string TokenDecoder::token_bytes(std::string_view content, bool is_first) const {
  std::string token(content);
  for (const TokenStep& step : token_steps_) {
    token = std::visit([&](const auto& kind) { return apply_step(token, kind, is_first); }, step);
  }
  return token;
}

}  // namespace slip
