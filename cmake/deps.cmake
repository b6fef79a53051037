# SPDX-License-Identifier: Apache-2.0
# Packages that tools/rootless.sh unpacked under .deps/ stand in for those of /usr, in the same places of every search.
set(SLIPSTREAM_DEPS "${CMAKE_SOURCE_DIR}/.deps")
if(EXISTS "${SLIPSTREAM_DEPS}/ready")
  set(CMAKE_LIBRARY_ARCHITECTURE x86_64-linux-gnu)  # a compiler that is not the distribution's may know no such folder
  set(deps_libraries "${SLIPSTREAM_DEPS}/usr/lib/${CMAKE_LIBRARY_ARCHITECTURE}")
  list(PREPEND CMAKE_SYSTEM_PREFIX_PATH "${SLIPSTREAM_DEPS}/usr")
  set(ENV{PKG_CONFIG_PATH} "${deps_libraries}/pkgconfig:${SLIPSTREAM_DEPS}/usr/share/pkgconfig:$ENV{PKG_CONFIG_PATH}")
  # Searched where /usr/include is, after LibTorch's headers; CMake then leaves them out of the targets' own lists.
  foreach(folder "${SLIPSTREAM_DEPS}/usr/include/${CMAKE_LIBRARY_ARCHITECTURE}" "${SLIPSTREAM_DEPS}/usr/include")
    list(APPEND CMAKE_CXX_IMPLICIT_INCLUDE_DIRECTORIES "${folder}")
    add_compile_options("SHELL:-idirafter \"${folder}\"")
  endforeach()
  # An RPATH, for it also holds for what the libraries themselves load, and a RUNPATH does not.
  add_link_options("-Wl,--disable-new-dtags" "-Wl,-rpath,${deps_libraries}")
endif()
