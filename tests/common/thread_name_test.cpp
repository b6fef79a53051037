// SPDX-License-Identifier: Apache-2.0
#include "common/thread_name.h"

#include <gtest/gtest.h>

#include <array>
#include <string>
#include <thread>

namespace slip {
namespace {

std::string name_of_this_thread() {
  std::array<char, 16> name{};
  ::pthread_getname_np(::pthread_self(), name.data(), name.size());
  return name.data();
}

TEST(ThreadName, IsThatOfTheCallingThreadAndOfThoseThatItStarts) {
  const std::string before = name_of_this_thread();
  std::string named, inherited;
  std::thread([&] {
    name_thread("fifteen letters");
    named = name_of_this_thread();
    std::thread([&] { inherited = name_of_this_thread(); }).join();
  }).join();
  EXPECT_EQ(named, "fifteen letters");
  EXPECT_EQ(inherited, "fifteen letters");
  EXPECT_EQ(name_of_this_thread(), before);
}

}  // namespace
}  // namespace slip
