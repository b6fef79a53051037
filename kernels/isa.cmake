# SPDX-License-Identifier: Apache-2.0
# One source file an instruction class, each with its own flags; kernel_table.cpp chooses among them at run time.
# -O3 even in sanitizer builds: registers hold the tiles only when the short loops over them are unrolled.
# Rounding is said outright (lanes.h): a compiler that fused here and not there would make classes of functions differ.
set(always -O3 -ffp-contract=off)
if(SLIPSTREAM_SANITIZE)  # GCC follows the null branch of the checks that UBSan adds, and warns about what it does there
  list(APPEND always -Wno-array-bounds -Wno-stringop-overflow)
endif()
set_property(SOURCE kernels/kernels_scalar.cpp APPEND PROPERTY COMPILE_OPTIONS ${always})
if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
  set(avx2 ${always} -mavx2 -mfma)
  # GCC 12 takes its own AVX-512 headers' "undefined" values for ours (GCC bug 105593).
  set(avx512 ${avx2} -Wno-maybe-uninitialized -Wno-uninitialized -mavx512f -mavx512bw -mavx512dq -mavx512vl -mprefer-vector-width=512)
  set_property(SOURCE kernels/kernels_avx2.cpp APPEND PROPERTY COMPILE_OPTIONS ${avx2})
  set_property(SOURCE kernels/kernels_avx512.cpp APPEND PROPERTY COMPILE_OPTIONS ${avx512})
  set_property(SOURCE kernels/kernels_avx512_bf16.cpp APPEND PROPERTY COMPILE_OPTIONS ${avx512} -mavx512bf16)
  set_property(SOURCE kernels/kernels_amx_bf16.cpp APPEND PROPERTY COMPILE_OPTIONS ${avx512} -mavx512bf16 -mamx-tile -mamx-bf16)
endif()
