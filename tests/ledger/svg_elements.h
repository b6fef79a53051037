// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <map>
#include <stdexcept>
#include <string>
#include <vector>

namespace slip::testing {

// An element of an XML text, with its ancestors. Supports only the XML that the reports write, and is strict about it.
struct XmlElement {
  std::string name;
  std::map<std::string, std::string> attributes;
  std::vector<std::size_t> inside;  // indices of the elements around it, outermost first
  std::string text;

  std::string operator[](const std::string& key) const {
    const auto found = attributes.find(key);
    return found == attributes.end() ? std::string() : found->second;
  }
};

// Throws std::runtime_error if the text is not well formed: tags that do not match, attributes that are unquoted or
// duplicate, a bare & or <, a control character, more than one root.
class XmlReader {
 public:
  explicit XmlReader(const std::string& text) : text_(text) {
    for (const char c : text) require(static_cast<unsigned char>(c) >= 0x20 || c == '\n', "a control character");
    while (at_ < text_.size()) text_[at_] == '<' ? tag() : characters();
    require(open_.empty() && roots_ == 1, "not one closed root");
  }
  std::vector<XmlElement> take() { return std::move(elements_); }

 private:
  static void require(bool good, const std::string& what) {
    if (!good) throw std::runtime_error("not well formed: " + what);
  }
  static void check_entities(const std::string& text) {
    for (auto at = text.find('&'); at != std::string::npos; at = text.find('&', at + 1)) {
      bool known = false;
      for (const char* entity : {"&lt;", "&gt;", "&amp;", "&quot;", "&#39;"})
        known |= text.compare(at, std::string(entity).size(), entity) == 0;
      require(known, "a bare &");
    }
  }
  void characters() {
    const auto end = std::min(text_.find('<', at_), text_.size());
    const std::string text = text_.substr(at_, end - at_);
    at_ = end;
    check_entities(text);
    require(!open_.empty() || text.find_first_not_of("\n ") == std::string::npos, "text outside the root");
    if (!open_.empty()) elements_[open_.back()].text += text;
  }
  void tag() {
    const auto end = text_.find('>', at_);
    require(end != std::string::npos, "a tag without an end");
    std::string inner = text_.substr(at_ + 1, end - at_ - 1);
    at_ = end + 1;
    if (inner.starts_with('/')) {
      require(!open_.empty() && elements_[open_.back()].name == inner.substr(1), "</" + inner.substr(1) + ">");
      open_.pop_back();
      return;
    }
    const bool empty = inner.ends_with('/');
    if (empty) inner.pop_back();
    if (open_.empty()) ++roots_;
    elements_.push_back({inner.substr(0, inner.find_first_of(" \n")), {}, open_, {}});
    attributes(inner, elements_.back());
    if (!empty) open_.push_back(elements_.size() - 1);
  }
  static void attributes(const std::string& inner, XmlElement& element) {
    std::size_t at = element.name.size();
    while (true) {
      at = inner.find_first_not_of(" \n", at);
      if (at == std::string::npos) return;
      const auto equals = inner.find("=\"", at);
      require(equals != std::string::npos, "an attribute without a quoted value in <" + element.name);
      const auto close = inner.find('"', equals + 2);
      require(close != std::string::npos, "a quote without an end");
      const std::string value = inner.substr(equals + 2, close - equals - 2);
      require(value.find('<') == std::string::npos, "a < in an attribute");
      check_entities(value);
      require(element.attributes.emplace(inner.substr(at, equals - at), value).second, "an attribute twice");
      at = close + 1;
    }
  }

  const std::string& text_;
  std::size_t at_ = 0;
  int roots_ = 0;
  std::vector<XmlElement> elements_;
  std::vector<std::size_t> open_;
};

inline std::vector<XmlElement> parse_xml(const std::string& text) {
  return XmlReader(text).take();
}

}  // namespace slip::testing
