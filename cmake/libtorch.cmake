# SPDX-License-Identifier: Apache-2.0
# LibTorch as the target `slipstream::torch`.
#
# The PyPI wheel is the default: of it we link only libtorch_cpu and libc10, which in turn need libcudart and libcupti
# from two small wheels beside it (no CUDA toolkit, no 3 GB of other packages), whether or not our own kernels are built
# for CUDA. Any other LibTorch, one with CUDA too, is taken through CMAKE_PREFIX_PATH by find_package.
set(SLIPSTREAM_VENV "${CMAKE_SOURCE_DIR}/.venv" CACHE PATH "Python environment that holds the torch wheel")

if(CMAKE_PREFIX_PATH)
  set(kept_flags "${CMAKE_CUDA_FLAGS}")
  set(kept_architectures "${CMAKE_CUDA_ARCHITECTURES}")
  find_package(Torch REQUIRED)
  # It adds its own architectures and options for its own headers, which no device code of ours includes.
  set(CMAKE_CUDA_FLAGS "${kept_flags}")
  set(CMAKE_CUDA_ARCHITECTURES "${kept_architectures}")
  add_library(slipstream_torch INTERFACE)
  # Ahead of libtorch.so, which exports parts of the C++ library of its own that call what it has not got.
  target_link_options(slipstream_torch INTERFACE "LINKER:--push-state,--no-as-needed,-lstdc++,--pop-state")
  target_link_libraries(slipstream_torch INTERFACE ${TORCH_LIBRARIES})
  target_include_directories(slipstream_torch SYSTEM INTERFACE ${TORCH_INCLUDE_DIRS})
else()
  file(GLOB site_packages "${SLIPSTREAM_VENV}/lib/python3*/site-packages")
  find_library(SLIPSTREAM_TORCH_CPU torch_cpu PATHS "${site_packages}/torch/lib" NO_DEFAULT_PATH)
  find_library(SLIPSTREAM_C10 c10 PATHS "${site_packages}/torch/lib" NO_DEFAULT_PATH)
  file(GLOB SLIPSTREAM_CUDART "${site_packages}/nvidia/*/lib/libcudart.so.*")
  file(GLOB SLIPSTREAM_CUPTI "${site_packages}/nvidia/*/lib/libcupti.so.*")
  if(NOT SLIPSTREAM_TORCH_CPU OR NOT SLIPSTREAM_CUDART OR NOT SLIPSTREAM_CUPTI)
    message(FATAL_ERROR "LibTorch was not found in ${SLIPSTREAM_VENV}. Run `make setup`, or pass -DCMAKE_PREFIX_PATH=<libtorch>.")
  endif()
  list(GET SLIPSTREAM_CUDART 0 SLIPSTREAM_CUDART)
  list(GET SLIPSTREAM_CUPTI 0 SLIPSTREAM_CUPTI)
  get_filename_component(torch_lib_dir "${SLIPSTREAM_TORCH_CPU}" DIRECTORY)
  get_filename_component(cudart_dir "${SLIPSTREAM_CUDART}" DIRECTORY)
  get_filename_component(cupti_dir "${SLIPSTREAM_CUPTI}" DIRECTORY)
  add_library(slipstream_torch INTERFACE)
  target_include_directories(slipstream_torch SYSTEM INTERFACE
    "${site_packages}/torch/include" "${site_packages}/torch/include/torch/csrc/api/include")
  # --no-as-needed: libtorch_cpu registers its operators in static initialisers.
  target_link_libraries(slipstream_torch INTERFACE
    "-Wl,--no-as-needed" "${SLIPSTREAM_TORCH_CPU}" "${SLIPSTREAM_C10}" "${SLIPSTREAM_CUDART}" "${SLIPSTREAM_CUPTI}" "-Wl,--as-needed")
  target_link_options(slipstream_torch INTERFACE
    "-Wl,-rpath,${torch_lib_dir}:${cudart_dir}:${cupti_dir}" "-Wl,-rpath-link,${torch_lib_dir}:${cudart_dir}:${cupti_dir}")
endif()
add_library(slipstream::torch ALIAS slipstream_torch)
