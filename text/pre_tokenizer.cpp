// SPDX-License-Identifier: Apache-2.0
#include "text/pre_tokenizer.h"

#include <algorithm>
#include <map>

#include "common/error.h"
#include "text/byte_alphabet.h"
#include "text/code_points.h"
#include "text/normalizer.h"
#include "text/tokenizer_fields.h"

namespace slip {

namespace {

using Behavior = PreTokenizer::Behavior;
using Metaspace = PreTokenizer::Metaspace;
using Spans = std::vector<TextSpan>;

constexpr std::size_t kMaxTextBytes = 512U << 20;  // the byte alphabet takes up to two bytes per byte

// GPT-2's split pattern (Radford et al., 2019).
constexpr const char* kGpt2Pattern = R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";
// Runs of word characters, and runs of symbols. Rust's \w includes the two join controls (U+200C, U+200D).
constexpr const char* kWordsAndSymbols = R"([\w\x{200c}\x{200d}]+|[^\w\s\x{200c}\x{200d}]+)";

std::string_view part(std::string_view text, const TextSpan& span) {
  return text.substr(span.begin, span.end - span.begin);
}

// A match joins the span before it, unless that span is itself such a joined match.
Spans merged_with_previous(const Spans& spans) {
  Spans out;
  bool after_match = false;
  for (const TextSpan& span : spans) {
    if (span.is_match && !after_match && !out.empty()) {
      out.back().end = span.end;
    } else {
      out.push_back(span);
    }
    after_match = span.is_match;
  }
  return out;
}

// As above, to the other side.
Spans merged_with_next(const Spans& spans) {
  Spans out;
  bool before_match = false;
  for (std::size_t i = spans.size(); i-- > 0;) {
    if (spans[i].is_match && !before_match && !out.empty()) {
      out.back().begin = spans[i].begin;
    } else {
      out.push_back(spans[i]);
    }
    before_match = spans[i].is_match;
  }
  std::reverse(out.begin(), out.end());
  return out;
}

Spans contiguous(const Spans& spans) {
  Spans out;
  for (const TextSpan& span : spans) {
    if (!out.empty() && out.back().is_match == span.is_match) {
      out.back().end = span.end;
    } else {
      out.push_back(span);
    }
  }
  return out;
}

// Adds the pieces that `spans` of `text` make. The first piece may be dropped.
void add_pieces(std::string_view text, const Spans& spans, Behavior behavior, TextPieces& out) {
  switch (behavior) {
    case Behavior::kRemoved:
      for (const TextSpan& span : spans) {
        if (!span.is_match) {
          out.add(part(text, span));
        } else if (out.size() == 0 && span.end > span.begin) {
          out.lose_start();
        }
      }
      return;
    case Behavior::kIsolated:
      for (const TextSpan& span : spans) out.add(part(text, span));
      return;
    case Behavior::kMergedWithPrevious:
      for (const TextSpan& span : merged_with_previous(spans)) out.add(part(text, span));
      return;
    case Behavior::kMergedWithNext:
      for (const TextSpan& span : merged_with_next(spans)) out.add(part(text, span));
      return;
    case Behavior::kContiguous:
      for (const TextSpan& span : contiguous(spans)) out.add(part(text, span));
      return;
  }
}

void apply_step(const TextPieces& in, const PreTokenizer::Split& split, TextPieces& out) {
  Spans spans;
  for (std::size_t i = 0; i < in.size(); ++i) {
    spans.clear();
    split.pattern.cut(in[i], [&](const TextSpan& span) {
      spans.push_back({span.begin, span.end, span.is_match != split.invert});
    });
    add_pieces(in[i], spans, split.behavior, out);
  }
}

void apply_step(const TextPieces& in, const PreTokenizer::Characters& characters, TextPieces& out) {
  Spans spans;
  for (std::size_t i = 0; i < in.size(); ++i) {
    spans.clear();
    for (std::size_t at = 0; at < in[i].size();) {
      const CodePoint c = first_code_point(in[i].substr(at));
      const TextSpan span{at, at + c.bytes, characters.matches(c.value)};
      if (!span.is_match && !spans.empty() && !spans.back().is_match) {
        spans.back().end = span.end;
      } else {
        spans.push_back(span);
      }
      at = span.end;
    }
    add_pieces(in[i], spans, characters.behavior, out);
  }
}

void apply_step(const TextPieces& in, PreTokenizer::PrefixSpace, TextPieces& out) {
  for (std::size_t i = 0; i < in.size(); ++i) {
    if (in[i].front() != ' ') out.text() += ' ';
    out.add(in[i]);
  }
}

void apply_step(const TextPieces& in, PreTokenizer::ByteAlphabet, TextPieces& out) {
  for (std::size_t i = 0; i < in.size(); ++i) {
    for (const char byte : in[i]) out.text() += spelling_of_byte(static_cast<unsigned char>(byte));
    out.end_piece();
  }
}

void apply_step(const TextPieces& in, const Metaspace& step, TextPieces& out) {
  const TextPattern space = TextPattern::literal(" "), mark = TextPattern::literal(step.replacement);
  Spans spans;
  for (std::size_t i = 0; i < in.size(); ++i) {
    std::string piece = replace_all(in[i], space, step.replacement);
    const bool wanted = step.prepend == Metaspace::Prepend::kAlways ||
                        (step.prepend == Metaspace::Prepend::kFirst && i == 0 && in.starts_text());
    if (wanted && !piece.starts_with(step.replacement)) piece.insert(0, step.replacement);
    if (!step.split) {
      out.add(piece);
      continue;
    }
    spans.clear();
    mark.cut(piece, [&](const TextSpan& span) { spans.push_back(span); });
    add_pieces(piece, spans, Behavior::kMergedWithNext, out);
  }
}

Behavior read_behavior(const TokenizerFields& fields, const std::string& name) {
  static const std::map<std::string, Behavior> kBehaviors{{"Removed", Behavior::kRemoved},
                                                          {"Isolated", Behavior::kIsolated},
                                                          {"MergedWithPrevious", Behavior::kMergedWithPrevious},
                                                          {"MergedWithNext", Behavior::kMergedWithNext},
                                                          {"Contiguous", Behavior::kContiguous}};
  const auto found = kBehaviors.find(name);
  if (found == kBehaviors.end()) fields.unsupported("behavior", "this behavior");
  return found->second;
}

Metaspace read_metaspace(const TokenizerFields& fields) {
  Metaspace out{fields.character("replacement"), Metaspace::Prepend::kAlways, fields.flag("split", true)};
  // Files older than prepend_scheme have only a boolean.
  const bool legacy = fields.flag("add_prefix_space", true);
  const std::string scheme = fields.text("prepend_scheme", legacy ? "always" : "never");
  if (scheme == "first") {
    out.prepend = Metaspace::Prepend::kFirst;
  } else if (scheme == "never") {
    out.prepend = Metaspace::Prepend::kNever;
  } else if (scheme != "always") {
    fields.unsupported("prepend_scheme", "this scheme");
  }
  return out;
}

using Steps = std::vector<PreTokenizer::Step>;

// The prefix space is inserted before matching, so it may belong to the first match.
void read_byte_level(const TokenizerFields& fields, Steps& steps) {
  if (fields.flag("add_prefix_space")) steps.push_back(PreTokenizer::PrefixSpace{});
  if (fields.flag("use_regex", true)) steps.push_back(PreTokenizer::Split{TextPattern::regex(kGpt2Pattern)});
  steps.push_back(PreTokenizer::ByteAlphabet{});
}

void read_steps(const TokenizerFields& fields, Steps& steps) {
  const std::string type = fields.type();
  if (steps.size() >= TokenizerFields::kMaxSteps) fields.invalid("type", "comes after too many steps");
  if (type == "Sequence") {
    for (const TokenizerFields& step : fields.objects("pretokenizers")) read_steps(step, steps);
  } else if (type == "Split") {
    steps.push_back(PreTokenizer::Split{TextPattern::read(fields, "pattern"),
                                        read_behavior(fields, fields.text("behavior")), fields.flag("invert", false)});
  } else if (type == "ByteLevel") {
    read_byte_level(fields, steps);
  } else if (type == "Metaspace") {
    steps.push_back(read_metaspace(fields));
  } else if (type == "Digits") {
    const bool alone = fields.flag("individual_digits", false);
    steps.push_back(PreTokenizer::Characters{is_number, alone ? Behavior::kIsolated : Behavior::kContiguous});
  } else if (type == "Punctuation") {
    const Behavior behavior = read_behavior(fields, fields.text("behavior", "Isolated"));
    steps.push_back(PreTokenizer::Characters{is_punctuation, behavior});
  } else if (type == "WhitespaceSplit") {
    steps.push_back(PreTokenizer::Characters{is_white_space, Behavior::kRemoved});
  } else if (type == "Whitespace") {
    steps.push_back(PreTokenizer::Split{TextPattern::regex(kWordsAndSymbols), Behavior::kRemoved, /*invert=*/true});
  } else if (type == "CharDelimiterSplit") {
    steps.push_back(
        PreTokenizer::Split{TextPattern::literal(fields.character("delimiter")), Behavior::kRemoved, false});
  } else {
    fields.unsupported("type", "this pre-tokenizer");
  }
}

}  // namespace

void TextPieces::add(std::string_view piece) {
  text_ += piece;
  end_piece();
}

void TextPieces::end_piece() {
  if (text_.size() > kMaxTextBytes) throw Error(ErrorCode::kTooLarge, "the pre-tokenized text is over 512 MiB");
  if (text_.size() > (ends_.empty() ? 0 : ends_.back())) ends_.push_back(text_.size());
}

std::string_view TextPieces::operator[](std::size_t i) const {
  const std::size_t begin = i == 0 ? 0 : ends_[i - 1];
  return std::string_view(text_).substr(begin, ends_[i] - begin);
}

PreTokenizer PreTokenizer::read(const TokenizerFields& fields) {
  PreTokenizer out;
  read_steps(fields, out.steps_);
  return out;
}

bool PreTokenizer::spells_bytes() const {
  return std::any_of(steps_.begin(), steps_.end(),
                     [](const Step& step) { return std::holds_alternative<ByteAlphabet>(step); });
}

TextPieces PreTokenizer::apply(std::string_view text, bool starts_text) const {
  TextPieces pieces(starts_text);
  pieces.add(text);
  for (const Step& step : steps_) {
    TextPieces next(pieces.starts_text());
    std::visit([&](const auto& kind) { apply_step(pieces, kind, next); }, step);
    pieces = std::move(next);
  }
  return pieces;
}

}  // namespace slip
