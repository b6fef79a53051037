// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <map>
#include <string>

#include "engine/scheduler/step_curve.h"

namespace slip::cli {

// What the times of steps depend on besides the load, by name: models, number format, machine, threads.
using StepTimesOrigin = std::map<std::string, std::string>;

// The step times that an engine measured, as a JSON file.
struct StoredStepTimes {
  StepTimesOrigin origin;
  StepCurves curves;  // `unleased` is there
};

// Atomic replacement; fail points `step_times.*`. REQUIRES: stored.curves.unleased. Error{kIo}.
void write_step_times(const std::filesystem::path& file, const StoredStepTimes& stored);
// Error{kNotFound | kInvalidArgument | kTooLarge | kIo} naming the file and the field.
StoredStepTimes read_step_times(const std::filesystem::path& file);

// The curves that an engine of this origin begins with. Empty if there is no file, and with a log line that says why if
// its times are of another origin or it cannot be read. Such a file is left as it is: the next stop replaces it.
StepCurves load_step_times(const std::filesystem::path& file, const StepTimesOrigin& origin);

}  // namespace slip::cli
