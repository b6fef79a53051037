# SPDX-License-Identifier: Apache-2.0
# configs/topics.toml as a string in the program, so that a service without a configuration has the same topics.
file(READ "${CMAKE_SOURCE_DIR}/configs/topics.toml" SLIPSTREAM_TOPICS_TOML)
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS "${CMAKE_SOURCE_DIR}/configs/topics.toml")
configure_file("${CMAKE_SOURCE_DIR}/cli/config/built_in_topics.cpp.in"
               "${CMAKE_BINARY_DIR}/generated/built_in_topics.cpp" @ONLY)
target_sources(slip_cli PRIVATE "${CMAKE_BINARY_DIR}/generated/built_in_topics.cpp")
