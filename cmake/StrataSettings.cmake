# SPDX-License-Identifier: Apache-2.0
# Language standards, warnings, sanitizers and the optional CUDA language.
set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_CXX_SCAN_FOR_MODULES OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
set(CMAKE_LINK_DEPENDS_NO_SHARED ON)  # a program is not linked anew because a library has other code
if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release)
endif()
# Floating-point contraction would let the CPU and the GPU disagree about keys and logarithms.
add_compile_options($<$<COMPILE_LANGUAGE:CXX>:-Wall> $<$<COMPILE_LANGUAGE:CXX>:-Wextra>
                    $<$<COMPILE_LANGUAGE:CXX>:-Werror> $<$<COMPILE_LANGUAGE:CXX>:-ffp-contract=off>)
# GCC 12 warns about overlaps that cannot be in std::string (its bug 105651).
add_compile_options($<$<COMPILE_LANG_AND_ID:CXX,GNU>:-Wno-restrict>)

if(STRATA_JOIN_SOURCES)
  set(CMAKE_UNITY_BUILD ON)
  set(CMAKE_UNITY_BUILD_BATCH_SIZE 8)
  # A class whose state is of a type that only its own source knows: the warning takes that source for a header.
  add_compile_options($<$<COMPILE_LANG_AND_ID:CXX,GNU>:-Wno-subobject-linkage>)
endif()

find_program(CCACHE_PROGRAM ccache)
if(CCACHE_PROGRAM)
  set(CMAKE_C_COMPILER_LAUNCHER ${CCACHE_PROGRAM})
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CCACHE_PROGRAM})
  set(CMAKE_CUDA_COMPILER_LAUNCHER ${CCACHE_PROGRAM})
endif()

if(STRATA_SANITIZE)
  set(sanitizers address,undefined)
  if(STRATA_SANITIZE STREQUAL THREAD)
    set(sanitizers thread)
  endif()
  # Whatever the build type says: -O2 -g compiles the checks two to three times slower and finds nothing more.
  add_compile_options($<$<COMPILE_LANGUAGE:CXX>:-O1> $<$<COMPILE_LANGUAGE:CXX>:-g1>
                      $<$<COMPILE_LANGUAGE:CXX>:-fsanitize=${sanitizers}>
                      $<$<COMPILE_LANGUAGE:CXX>:-fno-omit-frame-pointer>)
  add_link_options(-fsanitize=${sanitizers})
  if(NOT STRATA_FUZZ AND sanitizers MATCHES undefined)
    # They take half of the compiler's time. The fuzzers have them.
    add_compile_options($<$<COMPILE_LANGUAGE:CXX>:-fno-sanitize=alignment,null,object-size,vptr>)
  endif()
endif()

if(STRATA_FUZZ)
  # A fuzzer stops at what a sanitizer only prints elsewhere.
  add_compile_options(-fsanitize=fuzzer-no-link -fno-sanitize-recover=all)
endif()

if(STRATA_CUDA)
  if(NOT CMAKE_CUDA_ARCHITECTURES)
    set(CMAKE_CUDA_ARCHITECTURES 90)
  endif()
  enable_language(CUDA)
  # One runtime for libtorch and Strata: streams and pinned memory are shared between them.
  set(CMAKE_CUDA_RUNTIME_LIBRARY Shared)
  set(CMAKE_CUDA_STANDARD 20)
  set(CMAKE_CUDA_STANDARD_REQUIRED ON)
  add_compile_options($<$<COMPILE_LANGUAGE:CUDA>:-Xcompiler=-Wall,-Wextra>
                      $<$<COMPILE_LANGUAGE:CUDA>:-Werror=all-warnings>
                      $<$<COMPILE_LANGUAGE:CUDA>:--expt-relaxed-constexpr>
                      $<$<AND:$<COMPILE_LANGUAGE:CUDA>,$<BOOL:${STRATA_LINE_INFO}>>:-lineinfo>)
endif()
