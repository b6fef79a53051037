// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace slip {

// P(T > t) of Student's t with `degrees` > 0 degrees of freedom, to about 1e-12. Pure.
double student_t_tail(double t, double degrees);
// The t with student_t_tail(t, degrees) = tail, tail in (0, 0.5].
double student_t_quantile(double tail, double degrees);

}  // namespace slip
