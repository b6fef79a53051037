// SPDX-License-Identifier: Apache-2.0
#include "text/post_processor.h"

#include <nlohmann/json.hpp>
#include <string>

#include "checkpoints/strict_json.h"
#include "text/tokenizer_fields.h"

namespace slip {

namespace {

using Ids = std::vector<std::int32_t>;

Ids read_special(const TokenizerFields& specials, const std::string& name, std::size_t n_entries) {
  const TokenizerFields token = specials.object(name.c_str());
  const nlohmann::json& list = token.required("ids");
  if (!list.is_array() || list.size() > TokenizerFields::kMaxSteps) token.invalid("ids", "must be a short list");
  Ids out;
  for (const nlohmann::json& value : list) {
    const auto id = exact_integer(value, {0, static_cast<std::int64_t>(n_entries) - 1});
    if (!id) token.invalid("ids", "must be ids of the vocabulary");
    out.push_back(static_cast<std::int32_t>(*id));
  }
  return out;
}

PostProcessor read_template(const TokenizerFields& fields, std::size_t n_entries) {
  PostProcessor out;
  bool text_seen = false;
  for (const TokenizerFields& item : fields.objects("single")) {
    if (item.find("Sequence") != nullptr) {
      const TokenizerFields sequence = item.object("Sequence");
      if (text_seen || sequence.text("id") != "A") sequence.unsupported("id", "anything but one A");
      text_seen = true;
      continue;
    }
    const std::string name = item.object("SpecialToken").text("id");
    const Ids ids = read_special(fields.object("special_tokens"), name, n_entries);
    Ids& side = text_seen ? out.after : out.before;
    side.insert(side.end(), ids.begin(), ids.end());
  }
  if (!text_seen) fields.invalid("single", "has no place for the text");
  return out;
}

}  // namespace

PostProcessor PostProcessor::read(const TokenizerFields& fields, std::size_t n_entries) {
  const std::string type = fields.type();
  if (type == "ByteLevel") return {};
  if (type == "TemplateProcessing") return read_template(fields, n_entries);
  if (type != "Sequence") fields.unsupported("type", "this post-processor");
  PostProcessor out;
  for (const TokenizerFields& step : fields.objects("processors")) {
    const PostProcessor outer = read(step, n_entries);
    out.before.insert(out.before.begin(), outer.before.begin(), outer.before.end());
    out.after.insert(out.after.end(), outer.after.begin(), outer.after.end());
  }
  return out;
}

}  // namespace slip
