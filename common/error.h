// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <stdexcept>
#include <string>
#include <utility>

namespace slip {

// What went wrong, in the terms a boundary can act on. cli/ maps a code to an exit status, server/ to an
// HTTP status; nobody else branches on it.
enum class ErrorCode : std::uint8_t {
  kInvalidArgument,  // a value the caller, a file or a peer gave is wrong      (exit 2, HTTP 400)
  kUnsupported,      // understood, but this build does not do it               (exit 2, HTTP 400)
  kNotFound,         // no such file, model, draft, route                       (exit 2, HTTP 404)
  kUnauthenticated,  // no or wrong API key                                     (HTTP 401)
  kPermission,       // not allowed: foreign origin, unsafe directory           (exit 1, HTTP 403)
  kConflict,         // somebody else holds it: lock file, port                 (exit 1, HTTP 409)
  kTooLarge,         // over a stated bound                                     (exit 2, HTTP 413)
  kOverloaded,       // the queue is full, try later                            (HTTP 429)
  kUnavailable,      // loading or draining                                     (exit 1, HTTP 503)
  kDataLoss,         // a file is torn, truncated or fails its checksum         (exit 1, HTTP 500)
  kIo,               // the operating system refused                            (exit 1, HTTP 500)
  kCancelled,        // the user asked to stop                                  (exit 130)
  kInternal,         // our bug, contained                                      (exit 70, HTTP 500)
};

// The one exception type for what a caller, a file or a peer got wrong. Thrown at the boundary that notices,
// caught once where the program meets the outside. `message` says what and where; `hint` says the next step.
class Error : public std::runtime_error {
 public:
  Error(ErrorCode code, const std::string& message, std::string hint = {}, std::string param = {})
      : std::runtime_error(message), code_(code), hint_(std::move(hint)), param_(std::move(param)) {}

  ErrorCode code() const { return code_; }
  std::string message() const { return what(); }
  const std::string& hint() const { return hint_; }
  // The request field, flag or file key at fault; empty when there is none.
  const std::string& param() const { return param_; }

 private:
  ErrorCode code_;
  std::string hint_;
  std::string param_;
};

[[noreturn]] void check_failed(const char* condition, const char* file, int line, const char* reason);

}  // namespace slip

// For our own bugs only: prints condition, place and the likely reason, then aborts. Never for input.
#define SLIP_CHECK(condition, reason)                               \
  do {                                                              \
    if (!(condition)) {                                             \
      ::slip::check_failed(#condition, __FILE__, __LINE__, reason); \
    }                                                               \
  } while (false)
