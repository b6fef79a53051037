// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <exception>
#include <new>
#include <optional>

#include "common/error.h"

namespace slip {

// What a request ends with that memory ran out for. Copies allocate nothing: they share the message, and the hint is
// short enough for std::string's own buffer. The first call allocates; State's constructor makes it.
inline const Error& no_memory() {
  static const Error error(ErrorCode::kUnavailable, "the server has no memory for this request", "try again later");
  return error;
}

// Runs `action`; what it threw, as the one kind of error a request can end with.
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
  } catch (const std::bad_alloc&) {  // for the error itself
    return no_memory();
  }
}

}  // namespace slip
