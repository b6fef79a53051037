// SPDX-License-Identifier: Apache-2.0
#include "cli/step_times_file.h"

#include <algorithm>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>

#include "checkpoints/strict_json.h"
#include "common/counted.h"
#include "common/error.h"
#include "common/file.h"
#include "common/log.h"

namespace slip::cli {
namespace {

using nlohmann::json;

constexpr int kFormat = 1;
constexpr const char* kFormatKey = "slipstream_step_times";
constexpr std::uint64_t kMostBytes = 1 << 16;
constexpr double kLeastUs = 1e-3, kMostUs = 3.6e9;  // of a pass; an hour
constexpr double kMostRatio = 1e4;                  // of two passes' times, and its inverse the least

json curve_json(const StepCurveState& curve) {
  json ratios = json::array();
  for (const auto& [rows, ratio] : curve.ratios) ratios.push_back({rows, ratio});
  return {{"level_us", curve.level_us},
          {"prompt_row_us", curve.prompt_row_us},
          {"draft_begin_us", curve.drafting.begin_us},
          {"draft_pass_us", curve.drafting.pass_us},
          {"ratios", std::move(ratios)}};
}

const json& member(const JsonFields& fields, const char* key) {
  const json* value = fields.find(key);
  if (value == nullptr) fields.refuse(key, "is missing");
  return *value;
}

double us_of(const JsonFields& fields, const char* key, double least) {
  const auto us = fields.optional_number(key, {least, kMostUs});
  if (!us) fields.refuse(key, "is missing");
  return *us;
}

StepCurveState read_curve(const json& object, const std::string& where) {
  const JsonFields fields(object, where);
  StepCurveState curve{us_of(fields, "level_us", kLeastUs),
                       us_of(fields, "prompt_row_us", 0),
                       {us_of(fields, "draft_begin_us", 0), us_of(fields, "draft_pass_us", 0)},
                       {}};
  const json& ratios = member(fields, "ratios");
  if (!ratios.is_array()) fields.refuse("ratios", "is no array");
  std::int64_t last = 0;
  for (const json& pair : ratios) {
    const bool is_pair = pair.is_array() && pair.size() == 2 && pair[1].is_number();
    const auto rows = is_pair ? exact_integer(pair[0], {last + 1, StepCurve::kRows}) : std::nullopt;
    const double ratio = rows ? pair[1].get<double>() : 0;
    if (!(ratio >= 1 / kMostRatio && ratio <= kMostRatio)) {
      fields.refuse("ratios", "must hold pairs of rows, ascending from 1 to 128, and a ratio from 0.0001 to 10000");
    }
    last = *rows;
    curve.ratios[static_cast<std::int32_t>(last)] = ratio;
  }
  return curve;
}

StepTimesOrigin read_origin(const json& object, const std::string& where) {
  const JsonFields fields(object, where);
  StepTimesOrigin origin;
  for (const auto& [name, value] : object.items()) {
    if (!value.is_string()) fields.refuse(name.c_str(), "must be a string");
    origin[name] = value.get<std::string>();
  }
  return origin;
}

// The name of a value that differs, or that only one of them has. REQUIRES: they differ.
std::string first_difference(const StepTimesOrigin& one, const StepTimesOrigin& other) {
  for (const auto& [name, value] : one) {
    const auto found = other.find(name);
    if (found == other.end() || found->second != value) return name;
  }
  return std::find_if(other.begin(), other.end(), [&](const auto& entry) { return !one.contains(entry.first); })->first;
}

}  // namespace

void write_step_times(const std::filesystem::path& file, const StoredStepTimes& stored) {
  json out = {{kFormatKey, kFormat},
              {"measured_with", stored.origin},
              {"unleased", curve_json(stored.curves.unleased.value())}};
  if (stored.curves.leased) out["leased"] = curve_json(*stored.curves.leased);
  replace_file(file, out.dump(2) + "\n", "step_times");
}

StoredStepTimes read_step_times(const std::filesystem::path& file) {
  const std::string name = file.string();
  const json read = parse_strict_json(read_file(file, kMostBytes), name);
  const JsonFields fields(read, name);
  if (member(fields, kFormatKey) != kFormat) fields.refuse(kFormatKey, "must be 1, the format of this program");
  StoredStepTimes stored;
  stored.origin = read_origin(member(fields, "measured_with"), name + ": measured_with");
  stored.curves.unleased = read_curve(member(fields, "unleased"), name + ": unleased");
  if (const json* leased = fields.find("leased")) stored.curves.leased = read_curve(*leased, name + ": leased");
  return stored;
}

StepCurves load_step_times(const std::filesystem::path& file, const StepTimesOrigin& origin) {
  try {
    StoredStepTimes stored = read_step_times(file);
    if (stored.origin != origin) {
      log_info("step times are measured anew: those in " + file.string() + " were measured with another " +
               first_difference(stored.origin, origin));
      return {};
    }
    log_info("planning begins with the step times in " + file.string() + ", of " +
             counted(stored.curves.unleased.value().ratios.size(), "row count"));
    return std::move(stored.curves);
  } catch (const Error& error) {
    if (error.code() != ErrorCode::kNotFound) {
      log_warn(error.message() + "; step times are measured anew, and the next clean stop replaces the file");
    }
    return {};
  }
}

}  // namespace slip::cli
