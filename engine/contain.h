// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <exception>
#include <new>
#include <optional>

#include "common/error.h"

namespace slip {

// The error of a request that ran out of memory. Copying it allocates nothing: copies share the message, and the hint
// fits std::string's inline buffer. The first call allocates; the constructor of Engine::State makes it.
inline const Error& no_memory() {
  static const Error error(ErrorCode::kUnavailable, "the server has no memory for this request", "try again later");
  return error;
}

// Runs `action`. Converts anything it throws into Error, the only kind of error that a request can end with.
template <class Action>
std::optional<Error> contain(const Action& action) noexcept {
  try {
    try {
      action();
      return std::nullopt;
    } catch (const Error& error) {
      return error;
    } catch (const std::bad_alloc&) {
      return no_memory();
    } catch (const std::exception& error) {
      return Error(ErrorCode::kInternal, error.what());
    } catch (...) {
      return Error(ErrorCode::kInternal, "an unknown exception");
    }
  } catch (const std::bad_alloc&) {  // making the error ran out of memory
    return no_memory();
  }
}

}  // namespace slip
