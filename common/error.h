// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <stdexcept>
#include <string>
#include <utility>

namespace slip {

// The kinds of errors. cli/ maps a code to an exit status, server/ to an HTTP status; no other code branches on it.
enum class ErrorCode : std::uint8_t {
  kInvalidArgument,  // a value of the caller, a file or a peer is wrong        (exit 2, HTTP 400)
  kUnsupported,      // valid, but not supported by this build                  (exit 2, HTTP 400)
  kNotFound,         // no such file, model, draft, route                       (exit 2, HTTP 404)
  kUnauthenticated,  // no or wrong API key                                     (HTTP 401)
  kPermission,       // not allowed: foreign origin, unsafe directory           (exit 1, HTTP 403)
  kConflict,         // in use: a lock file or a port is taken                  (exit 1, HTTP 409)
  kTooLarge,         // exceeds a stated bound                                  (exit 2, HTTP 413)
  kOverloaded,       // the queue is full, try again later                      (HTTP 429)
  kUnavailable,      // loading or draining                                     (exit 1, HTTP 503)
  kUnattainable,     // a speed is asked for that cannot be had now             (HTTP 503)
  kDataLoss,         // a file is torn, truncated or fails its checksum         (exit 1, HTTP 500)
  kIo,               // an operating system call failed                         (exit 1, HTTP 500)
  kCancelled,        // the user cancelled                                      (exit 130)
  kInternal,         // our bug, contained                                      (exit 70, HTTP 500)
};

// The only exception type for errors of a caller, a file or a peer. It is thrown where the error is detected and caught
// once at the program's boundary. `message` says what failed and where; `hint` says the next step.
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

// Check for our own bugs only: prints condition, place and likely reason, then aborts. Never use it for input.
#define SLIP_CHECK(condition, reason)                               \
  do {                                                              \
    if (!(condition)) {                                             \
      ::slip::check_failed(#condition, __FILE__, __LINE__, reason); \
    }                                                               \
  } while (false)
