// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace slip::cli {

// Opens standard descriptors that the caller closed, so that no later file or socket gets their numbers and receives
// printed text. Reading or writing them fails. Call before opening anything else.
void hold_standard_descriptors();

// Flushes C++ streams and stdio. Error{kIo} if any output of this process was lost, such as on a full disk or a closed
// descriptor. Main thread.
void finish_standard_output();
// Ignores failures so far.
void forget_standard_output_failure();

}  // namespace slip::cli
