// SPDX-License-Identifier: Apache-2.0
#include "engine/grammar/schema_compiler.h"

#include <algorithm>
#include <limits>
#include <map>
#include <set>
#include <tuple>
#include <utility>
#include <vector>

#include "engine/grammar/grammar_state.h"
#include "engine/grammar/schema_overlap.h"
#include "engine/grammar/schema_scalars.h"

namespace slip {

namespace {

constexpr std::size_t kMostAlternatives = 64;  // of a oneOf; each pair is compared
constexpr std::int32_t kUnbounded = std::numeric_limits<std::int32_t>::max();

using Names = std::set<std::string>;

// Keywords that only inform people.
const Names& annotations() {
  static const Names names = {"title",      "description", "default",      "examples", "example",
                              "deprecated", "readOnly",    "writeOnly",    "$comment", "$schema",
                              "$defs",      "definitions", "discriminator"};
  return names;
}

struct TypeKeywords {
  const char* type;
  Names keywords;
};
const std::vector<TypeKeywords>& type_keywords() {
  static const std::vector<TypeKeywords> all = {
      {"string", {"minLength", "maxLength", "pattern", "format"}},
      {"number", {"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"}},
      {"array", {"items", "prefixItems", "minItems", "maxItems", "uniqueItems"}},
      {"object", {"properties", "required", "additionalProperties"}}};
  return all;
}

bool is_type_keyword(const std::string& name) {
  return std::any_of(type_keywords().begin(), type_keywords().end(),
                     [&](const TypeKeywords& one) { return one.keywords.contains(name); });
}

class SchemaCompiler {
 public:
  SchemaCompiler(const SchemaJson& schema, const std::string& where)
      : document_({schema, where}), builder_(where), json_(JsonLexemes::shared()) {}

  std::shared_ptr<const Grammar> compile() {
    const std::int32_t root = value(document_.root(), builder_.end_of_rule());
    // Compiles referenced schemas one after the other, so that a chain of references needs no deep stack.
    while (!waiting_.empty()) {
      const auto [place, rule] = waiting_.back();
      waiting_.pop_back();
      builder_.set_fork(rule, {value(place, builder_.end_of_rule())});
    }
    return builder_.finish(root);
  }

 private:
  struct Property {
    std::string name;
    std::optional<SchemaPlace> schema;  // none: any value
    bool required = false;
    bool shares_rule = false;  // calls the one rule of `schema` instead of compiling it again
  };

  // Each of these returns the node at which a value of the schema begins; `next` follows it.

  std::int32_t value(const SchemaPlace& place, std::int32_t next) {
    if (place.json().is_boolean()) return place.json().get<bool>() ? any(next) : builder_.dead();
    if (!place.json().is_object()) place.refuse("must be a schema: an object, true or false");
    check_keywords(place);
    if (place.has("$ref")) {
      check_alone(place, {"$ref"});
      return builder_.call(rule_of(document_.resolve(place)), next);
    }
    for (const char* key : {"anyOf", "oneOf", "allOf"}) {
      if (place.has(key)) return alternatives(place, key, next);
    }
    if (listed_values(place)) {
      check_alone(place, {"enum", "const", "type", "nullable"});
      return builder_.lexeme(listed_lexeme(place, budget_), next);
    }
    return typed(place, next);
  }

  void check_keywords(const SchemaPlace& place) const {
    static const Names others = {"$ref", "anyOf", "oneOf", "allOf", "enum", "const", "type", "nullable"};
    for (const auto& [name, unused] : place.json().items()) {
      const bool is_root_id = name == "$id" && &place.json() == &document_.root().json();
      const bool known = annotations().contains(name) || others.contains(name) || is_type_keyword(name) || is_root_id;
      if (!known && name.rfind("x-", 0) != 0) place.at(name).refuse_unsupported();
    }
  }

  // Combining these keywords needs an intersection, which is not implemented.
  void check_alone(const SchemaPlace& place, const Names& allowed) const {
    for (const auto& [name, value] : place.json().items()) {
      const bool is_default = name == "nullable" && value == SchemaJson(false);
      const bool says_something =
          !annotations().contains(name) && name != "$id" && name.rfind("x-", 0) != 0 && !is_default;
      if (says_something && !allowed.contains(name)) {
        const auto given = std::find_if(allowed.begin(), allowed.end(),
                                        [&](const std::string& one) { return place.has(one.c_str()); });
        place.at(name).refuse_unsupported("beside " + *given + " is not supported");
      }
    }
  }

  std::int32_t any(std::int32_t next) { return builder_.call(builder_.any_value(), next); }

  std::int32_t rule_of(const SchemaPlace& place) {
    const auto [found, is_new] = rules_.try_emplace(&place.json(), -1);
    if (is_new) {
      found->second = builder_.fork({});
      waiting_.emplace_back(place, found->second);
    }
    return found->second;
  }

  std::int32_t alternatives(const SchemaPlace& place, const std::string& key, std::int32_t next) {
    check_alone(place, {key});
    const SchemaPlace list = place.at(key);
    if (!list.json().is_array() || list.json().empty()) list.refuse("must be a list of at least one schema");
    if (key == "allOf" && list.json().size() > 1) list.refuse_unsupported("of more than one schema is not supported");
    if (key == "oneOf") check_apart(list);
    std::vector<std::int32_t> ways;
    for (std::size_t i = 0; i < list.json().size(); ++i) {
      const auto said_before = list.json().begin() + static_cast<std::ptrdiff_t>(i);
      if (std::find(list.json().begin(), said_before, *said_before) != said_before) continue;
      ways.push_back(value(list.at(i), next));
    }
    return builder_.fork(std::move(ways));
  }

  void check_apart(const SchemaPlace& list) {
    if (apart_.contains(&list.json())) return;
    if (list.json().size() > kMostAlternatives) {
      list.refuse_unsupported("of more than " + std::to_string(kMostAlternatives) +
                              " schemas is not supported: use anyOf");
    }
    SchemaOverlap overlap(document_);
    for (std::size_t j = 1; j < list.json().size(); ++j) {
      for (std::size_t i = 0; i < j; ++i) {
        if (!overlap.might(list.at(i), list.at(j))) continue;
        list.at(j).refuse_unsupported("may be satisfied together with alternative " + std::to_string(i) +
                                      ": use anyOf, or a required property whose constants differ");
      }
    }
    apart_.insert(&list.json());
  }

  std::int32_t typed(const SchemaPlace& place, std::int32_t next) {
    std::vector<std::string> types = declared_types(place);
    if (types.empty()) {
      for (const auto& [type, keywords] : type_keywords()) {
        const bool meant = std::any_of(keywords.begin(), keywords.end(),
                                       [&](const std::string& keyword) { return place.has(keyword.c_str()); });
        if (meant) types.emplace_back(type);
      }
      if (!types.empty() && is_nullable(place)) types.emplace_back("null");
    }
    if (types.empty()) return any(next);
    std::vector<std::int32_t> ways;
    for (const std::string& type : types) ways.push_back(of_type(place, type, next));
    return ways.size() == 1 ? ways.front() : builder_.fork(std::move(ways));
  }

  std::int32_t of_type(const SchemaPlace& place, const std::string& type, std::int32_t next) {
    if (type == "null") return builder_.lexeme(json_.null, next);
    if (type == "boolean") return builder_.lexeme(json_.boolean, next);
    if (type == "array") return array(place, next);
    if (type == "object") return object(place, next);
    return builder_.lexeme(scalar(place, type), next);
  }

  // Equal schemas share an automaton, and so its cached masks.
  Lexeme scalar(const SchemaPlace& place, const std::string& type) {
    std::string saying = type;
    for (const TypeKeywords& one : type_keywords()) {
      for (const std::string& keyword : one.keywords) {
        if (place.has(keyword.c_str())) saying += " " + keyword + " " + place.json().at(keyword).dump();
      }
    }
    Lexeme& lexeme = scalars_[saying];
    if (lexeme == nullptr && type == "string") lexeme = string_lexeme(place, budget_);
    if (lexeme == nullptr) lexeme = number_lexeme(place, type == "integer", budget_);
    return lexeme;
  }

  // ---- objects ----

  std::int32_t object(const SchemaPlace& place, std::int32_t next) {
    const bool has_properties = place.has("properties");
    const bool open = place.has("additionalProperties") ? place.json().at("additionalProperties") != SchemaJson(false)
                                                        : !has_properties;
    const auto properties = properties_of(place, open);
    if (properties.empty() && !open)
      return builder_.lexeme(json_.open_object, builder_.lexeme(json_.close_empty_object, next));
    const std::int32_t close = builder_.lexeme(json_.close_object, next);
    // `key` reads the key of one of the remaining properties; `after` follows a property's value.
    std::int32_t key = builder_.dead(), after = close;
    if (open) std::tie(key, after) = further_properties(place, properties, close);
    bool some_required = false;
    for (std::size_t i = properties.size(); i-- > 0;) {
      const std::int32_t own = property(properties[i], after);
      key = properties[i].required ? own : builder_.fork({own, key});
      some_required = some_required || properties[i].required;
      const std::int32_t more = builder_.lexeme(json_.comma, key);
      after = some_required ? more : builder_.fork({close, more});
    }
    const std::int32_t empty = builder_.lexeme(json_.close_empty_object, next);
    return builder_.lexeme(json_.open_object, some_required ? key : builder_.fork({empty, key}));
  }

  std::vector<Property> properties_of(const SchemaPlace& place, bool open) const {
    std::vector<Property> properties;
    std::map<std::string, std::size_t> index;
    const auto further = further_schema(place);
    bool is_compiled = false;  // `further`, by an earlier name
    if (place.has("properties")) {
      const SchemaPlace list = place.at("properties");
      if (!list.json().is_object()) list.refuse("must be an object of schemas");
      for (const auto& [name, schema] : list.json().items()) {
        index.emplace(name, properties.size());
        properties.push_back({name, list.at(name)});
      }
    }
    if (!place.has("required")) return properties;
    const SchemaPlace required = place.at("required");
    if (!required.json().is_array()) required.refuse("must be a list of names");
    for (std::size_t i = 0; i < required.json().size(); ++i) {
      const SchemaPlace name = required.at(i);
      if (!name.json().is_string()) name.refuse("must be a name");
      const auto [found, is_new] = index.try_emplace(name.json().get<std::string>(), properties.size());
      if (is_new && !open && place.has("additionalProperties")) {
        name.refuse("is required, but neither in properties nor allowed by additionalProperties");
      }
      // Many names may need the schema. The first needs no rule, since a rule is a level of nesting.
      if (is_new) properties.push_back({found->first, further, true, std::exchange(is_compiled, further.has_value())});
      properties[found->second].required = true;
    }
    return properties;
  }

  static std::optional<SchemaPlace> further_schema(const SchemaPlace& place) {
    if (!place.has("additionalProperties")) return std::nullopt;
    return place.at("additionalProperties");
  }

  std::int32_t property(const Property& property, std::int32_t next) {
    budget_.where = document_.root().path();
    const Lexeme name = std::make_shared<const ByteAutomaton>(literals({SchemaJson(property.name).dump()}, budget_));
    const std::int32_t after_colon = !property.schema       ? any(next)
                                     : property.shares_rule ? builder_.call(rule_of(*property.schema), next)
                                                            : value(*property.schema, next);
    return builder_.lexeme(name, builder_.lexeme(json_.colon, after_colon));
  }

  // Returns the node at which the first one begins and the node after each.
  std::pair<std::int32_t, std::int32_t> further_properties(const SchemaPlace& place,
                                                           const std::vector<Property>& properties,
                                                           std::int32_t close) {
    Lexeme name = json_.string;
    if (!properties.empty()) {
      std::vector<std::string> taken;
      for (const Property& property : properties) taken.push_back(SchemaJson(property.name).dump());
      budget_.where = place.path();
      name = std::make_shared<const ByteAutomaton>(string_besides(taken, budget_));
    }
    const std::int32_t after = builder_.fork({});
    const auto schema = further_schema(place);
    const std::int32_t after_colon = schema ? value(*schema, after) : any(after);
    const std::int32_t key = builder_.lexeme(name, builder_.lexeme(json_.colon, after_colon));
    builder_.set_fork(after, {close, builder_.lexeme(json_.comma, key)});
    return {key, after};
  }

  // ---- arrays ----

  std::int32_t array(const SchemaPlace& place, std::int32_t next) {
    if (place.has("uniqueItems") && place.json().at("uniqueItems") != SchemaJson(false)) {
      place.at("uniqueItems").refuse_unsupported();
    }
    const std::int32_t least = place.count("minItems").value_or(0);
    const std::int32_t most = place.count("maxItems").value_or(kUnbounded);
    if (least > most) return builder_.dead();
    const std::int32_t n_prefix = prefix_length(place);
    const bool counted = least - n_prefix > 1 || (most != kUnbounded && most > n_prefix);
    if (!counted) return array_body(place, {least, most}, next);
    // Each call has its own count.
    const std::int32_t rule = builder_.fork({});
    builder_.set_fork(rule, {array_body(place, {least, most}, builder_.end_of_rule())});
    return builder_.call(rule, next);
  }

  std::int32_t prefix_length(const SchemaPlace& place) const {
    if (place.has("items") && place.json().at("items").is_array()) {
      place.at("items").refuse_unsupported("as a list is not supported: use prefixItems");
    }
    if (!place.has("prefixItems")) return 0;
    const SchemaPlace prefix = place.at("prefixItems");
    if (!prefix.json().is_array() || prefix.json().empty()) prefix.refuse("must be a list of at least one schema");
    return static_cast<std::int32_t>(prefix.json().size());
  }

  struct Lengths {
    std::int32_t least, most;
  };

  std::int32_t array_body(const SchemaPlace& place, Lengths lengths, std::int32_t next) {
    const std::int32_t n_prefix = prefix_length(place);
    const std::int32_t close = builder_.lexeme(json_.close_array, next);
    // The node at which item i begins. Built from the last item with its own schema to the first.
    std::int32_t item = lengths.most > n_prefix ? further_items(place, lengths, n_prefix, close) : builder_.dead();
    for (std::int32_t i = std::min(n_prefix, lengths.most); i-- > 0;) {
      std::vector<std::int32_t> after;
      if (i + 1 >= lengths.least) after.push_back(close);
      if (i + 1 < lengths.most) after.push_back(builder_.lexeme(json_.comma, item));
      item = value(place.at("prefixItems").at(static_cast<std::size_t>(i)), builder_.fork(std::move(after)));
    }
    std::vector<std::int32_t> first = {item};
    if (lengths.least == 0) first.push_back(builder_.lexeme(json_.close_empty_array, next));
    return builder_.lexeme(json_.open_array, builder_.fork(std::move(first)));
  }

  // Items after the prefix; returns the node at which the first begins.
  std::int32_t further_items(const SchemaPlace& place, Lengths lengths, std::int32_t n_prefix, std::int32_t close) {
    const std::int32_t least = std::max(lengths.least - n_prefix, 0);
    const bool bounded = lengths.most != kUnbounded;
    const std::int32_t most = bounded ? lengths.most - n_prefix : kUnbounded;
    const bool counted = least > 1 || bounded;
    const std::int32_t after = builder_.fork({});
    const std::int32_t behind = counted ? builder_.tally(bounded ? most : least, after) : after;
    const std::int32_t item = place.has("items") ? value(place.at("items"), behind) : any(behind);
    const std::int32_t more = builder_.lexeme(json_.comma, item);
    if (counted) {
      builder_.set_fork(
          after, {builder_.guard(least, kUnbounded, close), builder_.guard(0, bounded ? most - 1 : kUnbounded, more)});
    } else {
      builder_.set_fork(after, {close, more});
    }
    return item;
  }

  SchemaDocument document_;
  GrammarBuilder builder_;
  const JsonLexemes& json_;
  AutomatonBudget budget_;
  std::map<std::string, Lexeme> scalars_;
  std::map<const SchemaJson*, std::int32_t> rules_;
  std::set<const SchemaJson*> apart_;  // lists of a oneOf whose alternatives do not overlap
  std::vector<std::pair<SchemaPlace, std::int32_t>> waiting_;
};

}  // namespace

std::shared_ptr<const Grammar> compile_schema(const SchemaJson& schema, const std::string& where) {
  auto grammar = SchemaCompiler(schema, where).compile();
  GrammarState::start(*grammar);  // reports a schema with too many initial parses here, not during an answer
  return grammar;
}

}  // namespace slip
