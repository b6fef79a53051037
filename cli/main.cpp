// SPDX-License-Identifier: Apache-2.0
#include <exception>
#include <filesystem>
#include <iostream>

#include "cli/command.h"
#include "cli/first_process.h"
#include "cli/standard_output.h"
#include "common/error.h"
#include "common/file.h"

namespace {

int exit_status(slip::ErrorCode code) {
  switch (code) {
    case slip::ErrorCode::kInvalidArgument:
    case slip::ErrorCode::kUnsupported:
    case slip::ErrorCode::kNotFound:
    case slip::ErrorCode::kTooLarge:
      return 2;
    case slip::ErrorCode::kCancelled:
      return 130;
    case slip::ErrorCode::kInternal:
      return 70;
    default:
      return 1;
  }
}

int refuse(const slip::Error& error) {
  std::cerr << "slipstream: " << error.message() << "\n";
  if (!error.hint().empty()) std::cerr << "HINT: " << error.hint() << "\n";
  return exit_status(error.code());
}

// Runs the command; the exit status that its arguments ask for.
int run(CLI::App& app, int argc, char** argv) {
  try {
    slip::cli::add_commands(app);  // asks for the machine's instructions, which the environment may get wrong
    app.parse(argc, argv);
    return 0;
  } catch (const CLI::ParseError& error) {  // --help and --version too
    return app.exit(error) == 0 ? 0 : 2;
  }
}

}  // namespace

int main(int argc, char** argv) {
  slip::cli::hold_standard_descriptors();
  slip::cli::end_by_signals_as_first_process();
  CLI::App app{"Slipstream: a speculative-decoding server whose drafts keep learning from the traffic they serve."};
  try {
    const int status = run(app, argc, argv);
    slip::cli::finish_standard_output();
    return status;
  } catch (const slip::Error& error) {
    return refuse(error);
  } catch (const std::filesystem::filesystem_error& error) {
    return refuse(slip::io_error(error));
  } catch (const std::exception& error) {
    std::cerr << "slipstream: internal error: " << error.what() << "\n";
    return 70;
  }
}
