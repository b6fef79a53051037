// SPDX-License-Identifier: Apache-2.0
#include "bench/adapt/adapt_service.h"

#include <gtest/gtest.h>

namespace slip::bench {
namespace {

// Bug: failed requests were only printed, so a recorded file with half of its answers looked like a whole one.
TEST(AdaptServiceReport, HasTheNumberOfFailedRequests) {
  ServiceArm arm;
  arm.served.resize(2);
  arm.failed = 3;
  const nlohmann::json report = service_report(AdaptOptions{}, arm, {});
  EXPECT_EQ(report["requests"], 2);
  EXPECT_EQ(report["failed_requests"], 3);
}

}  // namespace
}  // namespace slip::bench
