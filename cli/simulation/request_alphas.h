// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <vector>

#include "engine/request.h"

namespace slip {

struct RequestAlphas {
  double all = 0;            // of all requests together; 0: nothing was accepted
  std::vector<double> each;  // of each request
};

// Estimates each request's α from its tested first choices. One request has few of them, so its own rate is shrunk to
// that of all requests: (accepted + w · all) / (tested + w), the posterior mean of the beta-binomial model. The prior's
// weight w, in tested tokens, is fitted to the requests by the method of moments: the more they differ beyond what
// chance explains, the smaller it is. In ledgers of bench/ it was mostly 3 to 45, where a request has 5 to 80 tested
// tokens. If chance explains all, each α is `all`. w is at least 1, so that no α is 0 beside others that are not. Pure.
RequestAlphas request_alphas(std::span<const TestedTokens> requests);

}  // namespace slip
