// SPDX-License-Identifier: Apache-2.0
#include "engine/grammar/schema_scalars.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "engine/grammar/number_automaton.h"
#include "engine/grammar/pattern.h"

namespace slip {

namespace {

// Narrower than the formats where a check would need arithmetic: no 29 February, no leap second.
constexpr const char* kDate =
    "[1-9][0-9]{3}-((0[13578]|1[02])-(0[1-9]|[12][0-9]|3[01])|(0[469]|11)-(0[1-9]|[12][0-9]|30)|"
    "02-(0[1-9]|1[0-9]|2[0-8]))";
constexpr const char* kTime =
    "([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](\\.[0-9]{1,6})?(Z|[+-]([01][0-9]|2[0-3]):[0-5][0-9])";
constexpr const char* kOctet = "(25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9]?[0-9])";
constexpr const char* kLabel = "[A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?";
// A subset of RFC 3986, with a host name and without user information, such as "https://example.org:8080/a?b=c#d". It
// has few states, since a length limit multiplies them by its number of characters.
constexpr const char* kScheme = "[a-z][a-z0-9+.-]*";
constexpr const char* kHost = "([A-Za-z0-9]([A-Za-z0-9-]*[A-Za-z0-9])?\\.)*[A-Za-z]([A-Za-z0-9-]*[A-Za-z0-9])?";
constexpr const char* kPath = "([A-Za-z0-9._~!$&'()*+,;=:@/-]|%[0-9A-Fa-f]{2})*";
constexpr const char* kQuery = "([A-Za-z0-9._~!$&'()*+,;=:@/?-]|%[0-9A-Fa-f]{2})*";
constexpr std::int32_t kLongestUri = 256;  // pydantic's HttpUrl allows 2083, which would need 60,000 states

std::string format_pattern(const std::string& name) {
  const std::string octet = kOctet, label = kLabel;
  const std::string atom = "[A-Za-z0-9_+-]{1,32}";
  if (name == "date") return kDate;
  if (name == "time") return kTime;
  if (name == "date-time") return std::string("(") + kDate + ")T" + kTime;
  if (name == "uuid") return "[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}";
  if (name == "ipv4") return "(" + octet + "\\.){3}" + octet;
  if (name == "email") return atom + "(\\." + atom + ")?@" + label + "(\\." + label + "){1,3}";
  if (name == "uri") {
    return std::string(kScheme) + "://" + kHost + "(:[1-9][0-9]{0,3})?(/" + kPath + ")?(\\?" + kQuery + ")?(#" +
           kQuery + ")?";
  }
  return {};
}

void meet(std::optional<ByteAutomaton>& strings, ByteAutomaton more, AutomatonBudget& budget) {
  strings = strings ? intersect(*strings, more, budget) : std::move(more);
}

std::optional<NumberShape::Limit> limit(const SchemaPlace& place, const char* key, bool exclusive) {
  if (!place.has(key)) return std::nullopt;
  const SchemaPlace bound = place.at(key);
  if (!bound.json().is_number()) bound.refuse("must be a number");
  const auto value = parse_decimal(bound.json().dump());
  if (!value) {
    bound.refuse_unsupported("must have at most " + std::to_string(NumberShape::kMostDigits) +
                             " digits before and after the point");
  }
  return NumberShape::Limit{*value, exclusive};
}

std::optional<NumberShape::Divisor> divisor(const SchemaPlace& place) {
  if (!place.has("multipleOf")) return std::nullopt;
  const SchemaPlace of = place.at("multipleOf");
  if (!of.json().is_number() || !(of.json().get<double>() > 0)) of.refuse("must be a number above 0");
  const auto value = parse_decimal(of.json().dump());
  const auto divisor = value ? divisor_of(*value) : std::nullopt;
  if (!divisor) {
    of.refuse_unsupported("must have at most " + std::to_string(NumberShape::Divisor::kMostFraction) +
                          " digits behind its point and, without the point, be at most " +
                          std::to_string(NumberShape::Divisor::kMostDigits));
  }
  return divisor;
}

// The stricter limit: the larger of two lower limits, the smaller of two upper ones.
std::optional<NumberShape::Limit> tighter(const SchemaPlace& place, const char* inclusive, const char* exclusive,
                                          double sign) {
  const auto a = limit(place, inclusive, false), b = limit(place, exclusive, true);
  if (!a || !b) return a ? a : b;
  const double loose = sign * place.json().at(inclusive).get<double>();
  const double strict = sign * place.json().at(exclusive).get<double>();
  return loose > strict ? a : b;
}

bool is_of_type(const SchemaJson& value, const std::string& type) {
  if (type == "integer") {
    return value.is_number() && (!value.is_number_float() || value.get<double>() == std::floor(value.get<double>()));
  }
  if (type == "number") return value.is_number();
  if (type == "null") return value.is_null();
  if (type == "boolean") return value.is_boolean();
  if (type == "string") return value.is_string();
  return type == "array" ? value.is_array() : value.is_object();
}

}  // namespace

Lexeme string_lexeme(const SchemaPlace& place, AutomatonBudget& budget) {
  const auto least = place.count("minLength");
  auto most = place.count("maxLength");
  std::optional<ByteAutomaton> strings;
  if (place.has("pattern")) {
    const SchemaPlace pattern = place.at("pattern");
    if (!pattern.json().is_string()) pattern.refuse("must be a string");
    budget.where = pattern.path();
    meet(strings, pattern_automaton(pattern.json().get_ref<const std::string&>(), budget), budget);
  }
  if (place.has("format")) {
    const SchemaPlace format = place.at("format");
    if (!format.json().is_string()) format.refuse("must be a string");
    const std::string pattern = format_pattern(format.json().get<std::string>());
    if (pattern.empty()) {
      format.refuse_unsupported("is none of the supported date, time, date-time, uuid, ipv4, email and uri");
    }
    budget.where = format.path();
    meet(strings, pattern_automaton("^(" + pattern + ")$", budget), budget);
    if (format.json() == "uri") {
      const std::int32_t longest = std::max(kLongestUri, least.value_or(0));
      most = std::min(most.value_or(longest), longest);
    }
  }
  if (least.value_or(0) > 0 || most) {
    const char* key = place.has("maxLength") ? ".maxLength" : place.has("minLength") ? ".minLength" : ".format";
    budget.where = place.path() + key;
    meet(strings, counted_string(least.value_or(0), most.value_or(-1), budget), budget);
  }
  return strings ? std::make_shared<const ByteAutomaton>(std::move(*strings)) : JsonLexemes::shared().string;
}

Lexeme number_lexeme(const SchemaPlace& place, bool integer, AutomatonBudget& budget) {
  NumberShape shape{.integer = integer};
  shape.low = tighter(place, "minimum", "exclusiveMinimum", 1);
  shape.high = tighter(place, "maximum", "exclusiveMaximum", -1);
  shape.multiple_of = divisor(place);
  if (!shape.low && !shape.high && !shape.multiple_of)
    return integer ? JsonLexemes::shared().integer : JsonLexemes::shared().number;
  budget.where = place.path() + (shape.multiple_of ? ".multipleOf" : "");
  return std::make_shared<const ByteAutomaton>(number_automaton(shape, budget));
}

std::optional<std::vector<const SchemaJson*>> listed_values(const SchemaPlace& place) {
  std::optional<std::vector<const SchemaJson*>> values;
  if (place.has("const")) values = {&place.json().at("const")};
  if (!place.has("enum")) return values;
  const SchemaPlace list = place.at("enum");
  if (!list.json().is_array() || list.json().empty()) list.refuse("must be a list of at least one value");
  if (values) list.refuse_unsupported("beside const is not supported");
  values.emplace();
  for (const SchemaJson& value : list.json()) values->push_back(&value);
  return values;
}

Lexeme listed_lexeme(const SchemaPlace& place, AutomatonBudget& budget) {
  const auto types = declared_types(place);
  const auto values = listed_values(place).value_or(std::vector<const SchemaJson*>{});
  std::vector<std::string> texts;
  for (const SchemaJson* value : values) {
    const auto is_its_type = [&](const std::string& type) { return is_of_type(*value, type); };
    if (types.empty() || std::any_of(types.begin(), types.end(), is_its_type)) texts.push_back(value->dump());
  }
  budget.where = place.path() + (place.has("enum") ? ".enum" : ".const");
  return std::make_shared<const ByteAutomaton>(literals(texts, budget));
}

}  // namespace slip
