// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <exception>
#include <new>
#include <optional>

#include "common/error.h"

namespace slip {

// Runs `action`; what it threw, as the one kind of error a request can end with.
template <class Action>
std::optional<Error> contain(const Action& action) {
  try {
    action();
    return std::nullopt;
  } catch (const Error& error) {
    return error;
  } catch (const std::bad_alloc&) {
    return Error(ErrorCode::kUnavailable, "the server has no memory for this request", "try again later");
  } catch (const std::exception& error) {
    return Error(ErrorCode::kInternal, error.what());
  } catch (...) {
    return Error(ErrorCode::kInternal, "an unknown exception");
  }
}

}  // namespace slip
