// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace slip::testing {

// The factor of time limits in tests. The limits detect quadratic cost, and a sanitizer is slow but linear.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
inline constexpr int kPatience = 20;
#else
inline constexpr int kPatience = 1;
#endif

}  // namespace slip::testing
