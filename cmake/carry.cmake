# SPDX-License-Identifier: Apache-2.0
# What a build of the `core` preset takes from .carry/ (tools/carry.sh fills it) on a host that has LibTorch, the CUDA
# toolkit and CMake but none of the distribution's libraries: the same targets that find_package would have made.
set(SLIPSTREAM_CARRY "${CMAKE_SOURCE_DIR}/.carry")
set(SLIPSTREAM_CARRIED OFF)
if(NOT SLIPSTREAM_CORE_ONLY OR NOT EXISTS "${SLIPSTREAM_CARRY}/ready")
  return()
endif()
set(SLIPSTREAM_CARRIED ON)

function(carried name)
  add_library(${name} INTERFACE IMPORTED)
  target_include_directories(${name} SYSTEM INTERFACE "${SLIPSTREAM_CARRY}/include")
endfunction()
carried(spdlog::spdlog)
target_compile_definitions(spdlog::spdlog INTERFACE SPDLOG_FMT_EXTERNAL FMT_HEADER_ONLY)
carried(nlohmann_json::nlohmann_json)
carried(PkgConfig::xxhash)
carried(OpenSSL::Crypto)
target_link_libraries(OpenSSL::Crypto INTERFACE "${SLIPSTREAM_CARRY}/lib/libcrypto.a" ${CMAKE_DL_LIBS})

set(INSTALL_GTEST OFF)
add_subdirectory("${SLIPSTREAM_CARRY}/googletest" "${CMAKE_BINARY_DIR}/googletest" EXCLUDE_FROM_ALL)
foreach(name gtest gtest_main gmock)
  if(NOT TARGET GTest::${name})
    add_library(GTest::${name} ALIAS ${name})
  endif()
endforeach()
