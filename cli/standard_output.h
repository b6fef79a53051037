// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace slip::cli {

// Takes the places of standard descriptors that the caller closed, so that no file or socket gets one of them and what
// is printed goes into it. Reading or writing there fails. Before anything is opened.
void hold_standard_descriptors();

// Writes out what standard output still holds, of C++ streams and of stdio. Error{kIo} when any of what this process
// printed did not get there: a full disk behind it, or a closed descriptor. Main thread.
void finish_standard_output();
// What failed so far no longer counts.
void forget_standard_output_failure();

}  // namespace slip::cli
