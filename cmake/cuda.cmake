# SPDX-License-Identifier: Apache-2.0
# The device kernels: kernels/cuda/*.cu in one static library, which needs of the toolkit the compiler and the static
# runtime. That runtime looks for the driver when it is first asked for a device, so the program starts without either.
if(NOT SLIPSTREAM_CUDA)
  return()
endif()
# 80 with its PTX runs on everything from Ampere on; 90a has Hopper's own instructions.
set(CMAKE_CUDA_ARCHITECTURES "80;90a-real" CACHE STRING "Architectures of the device kernels")
set(TORCH_CUDA_ARCH_LIST "8.0+PTX;9.0a" CACHE STRING "What a LibTorch with CUDA asks for")
if(CCACHE)
  set(CMAKE_CUDA_COMPILER_LAUNCHER "${CCACHE}")
endif()
enable_language(CUDA)
find_package(CUDAToolkit 13 REQUIRED)
if(NOT CMAKE_CUDA20_STANDARD_COMPILE_OPTION)  # CMake 3.25 does not know that nvcc 13 has it
  set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION "-std=c++20")
  set(CMAKE_CUDA20_EXTENSION_COMPILE_OPTION "-std=c++20")
endif()

file(GLOB cuda_sources CONFIGURE_DEPENDS "kernels/cuda/*.cu")
add_library(slip_kernels_cuda STATIC ${cuda_sources})
target_include_directories(slip_kernels_cuda PUBLIC "${CMAKE_SOURCE_DIR}")
# In place of the directory's options, which nvcc does not know. No contraction: host and device compute the same bits.
set_target_properties(slip_kernels_cuda PROPERTIES COMPILE_OPTIONS "--fmad=false;-Xcompiler=-Wall")
target_link_libraries(slip_kernels_cuda PUBLIC CUDA::cudart_static)
# LibTorch brings the shared runtime: its calls must not end up in ours.
target_link_options(slip_kernels_cuda INTERFACE "-Wl,--exclude-libs,libcudart_static.a")
