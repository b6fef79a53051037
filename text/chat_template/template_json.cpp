// SPDX-License-Identifier: Apache-2.0
#include <array>
#include <cstdio>

#include "text/chat_template/template_builtins.h"

namespace slip {

namespace {

std::string escaped(std::string_view text) {
  std::string out;
  for (const char c : text) {
    constexpr std::string_view kPlain = "\"\\\n\r\t\b\f", kLetters = "\"\\nrtbf";
    if (const std::size_t known = kPlain.find(c); known != std::string_view::npos) {
      out += '\\';
      out += kLetters[known];
    } else if (static_cast<unsigned char>(c) < 0x20) {
      std::array<char, 8> code{};
      std::snprintf(code.data(), code.size(), "\\u%04x", static_cast<unsigned>(c));
      out += code.data();
    } else {
      out += c;
    }
  }
  return out;
}

class JsonWriter {
 public:
  JsonWriter(std::int64_t indent, TemplateWork& work) : indent_(indent), work_(work) {}

  void write(const TemplateValue& value) {
    work_.spend(1);
    if (const TemplateText* text = value.as_text()) return write_text(*text);
    if (const TemplateValue::List* list = value.as_list()) return write_list(*list);
    if (const TemplateValue::Map* map = value.as_map()) return write_map(*map);
    if (value.is_none()) return out_.append_own("null");
    if (const auto* boolean = value.as<bool>()) return out_.append_own(*boolean ? "true" : "false");
    if (value.as<std::int64_t>() == nullptr) work_.fail("tojson of " + value.kind());
    out_.append(value.shown(work_));
  }

  TemplateText take() { return std::move(out_); }

 private:
  void write_text(const TemplateText& text) {
    work_.spend_bytes(out_.size() / TemplateWork::kBytesAStep + 6 * text.size());
    out_.append_own("\"");
    for (const TextPiece& piece : text.pieces()) out_.append(TemplateText(escaped(piece.text), piece.specials));
    out_.append_own("\"");
  }

  void write_list(const TemplateValue::List& list) {
    out_.append_own("[");
    ++level_;
    for (std::size_t i = 0; i < list.items.size(); ++i) {
      separate(i);
      write(list.items[i]);
    }
    close("]", list.items.empty());
  }

  void write_map(const TemplateValue::Map& map) {
    out_.append_own("{");
    ++level_;
    for (std::size_t i = 0; i < map.entries.size(); ++i) {
      separate(i);
      write_text(TemplateText::own(map.entries[i].first));
      out_.append_own(": ");
      write(map.entries[i].second);
    }
    close("}", map.entries.empty());
  }

  void separate(std::size_t i) {
    if (i > 0) out_.append_own(indent_ < 0 ? ", " : ",");
    break_line();
  }

  void close(std::string_view mark, bool empty) {
    --level_;
    if (!empty) break_line();
    out_.append_own(mark);
  }

  void break_line() {
    if (indent_ < 0) return;
    const auto blanks = static_cast<std::size_t>(indent_ * level_);
    work_.spend_bytes(blanks);
    out_.append_own("\n" + std::string(blanks, ' '));
  }

  std::int64_t indent_;
  TemplateWork& work_;
  std::int64_t level_ = 0;
  TemplateText out_;
};

}  // namespace

TemplateText to_json(const TemplateValue& value, std::int64_t indent, TemplateWork& work) {
  if (indent > TemplateWork::kMostLevels) work.fail("tojson with an indent over 64");
  JsonWriter writer(indent, work);
  writer.write(value);
  return writer.take();
}

}  // namespace slip
