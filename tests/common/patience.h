// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace slip::testing {

// What bounds on time are multiplied with: they guard against quadratic cost, and a sanitizer is linear but slow.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
inline constexpr int kPatience = 20;
#else
inline constexpr int kPatience = 1;
#endif

}  // namespace slip::testing
