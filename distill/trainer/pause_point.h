// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>

namespace slip {

// Called between the parts of a pass, a few milliseconds apart on a CPU, so that its thread can give way. May sleep; if
// it throws, the pass ends and its gradients are worthless. Empty: the pass does not pause.
using PausePoint = std::function<void()>;

inline void give_way(const PausePoint& pause) {
  if (pause) pause();
}

}  // namespace slip
