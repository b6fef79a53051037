// SPDX-License-Identifier: Apache-2.0
// Tests that run once for each instruction class of this machine and each number format.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <tuple>

#include "tests/kernels/kernel_cases.h"

namespace slip::kernels {

inline auto every_isa_and_dtype() {
  return testing::Combine(testing::ValuesIn(available_isas()), testing::Values(Dtype::kBFloat16, Dtype::kFloat32));
}
inline std::string isa_and_dtype_name(const testing::TestParamInfo<std::tuple<IsaClass, Dtype>>& param) {
  const char* dtype = std::get<1>(param.param) == Dtype::kFloat32 ? "_float32" : "_bfloat16";
  return isa_class_name(std::get<0>(param.param)) + std::string(dtype);
}

}  // namespace slip::kernels
