# SPDX-License-Identifier: Apache-2.0
# Every module's public headers get an include root of their own, in which they are the only ones.
file(GLOB header_folders CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/include/strata/* ${PROJECT_SOURCE_DIR}/extras/*/include/strata/*)
foreach(folder IN LISTS header_folders)
  cmake_path(GET folder FILENAME module)
  file(MAKE_DIRECTORY ${PROJECT_BINARY_DIR}/include/${module}/strata)
  file(CREATE_LINK ${folder} ${PROJECT_BINARY_DIR}/include/${module}/strata/${module} SYMBOLIC)
endforeach()

# strata_add_module(NAME [LIBRARY strata|strata_torch] [SOURCES ...] [CUDA ...] [HEADERS FOLDER] [SEES ...] [PUBLIC ...] [PRIVATE ...])
#
# Compiles the objects of strata_NAME, which LIBRARY takes (strata_add_library); without one they make a static library. Others
# link them as strata::NAME. SOURCES are compiled always, CUDA sources in CUDA builds only; there the macro STRATA_WITH_CUDA is 1,
# elsewhere 0. Its public headers are those of include/strata/NAME, or of include/strata/FOLDER, in the engine or in an extra. A module
# sees the public headers of those modules only that it links, and of those that SEES names: there it reads values that need no
# linking. Its private headers are included by their path from its own folder.
function(strata_add_module name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "HEADERS;LIBRARY" "SOURCES;CUDA;SEES;PUBLIC;PRIVATE")
  if(NOT arg_HEADERS)
    set(arg_HEADERS ${name})
  endif()
  set(target strata_${name})
  set(users ${target}_users)
  if(arg_LIBRARY)
    add_library(${target} OBJECT ${arg_SOURCES})
    set(linked ${arg_LIBRARY})
    set_property(GLOBAL APPEND PROPERTY STRATA_MODULES_OF_${arg_LIBRARY} ${name})
  else()
    add_library(${target} STATIC ${arg_SOURCES})
    set(linked ${target} $<LINK_ONLY:${arg_PRIVATE}>)
    set_property(GLOBAL APPEND PROPERTY STRATA_EXPORTED ${target})
  endif()
  add_library(${users} INTERFACE)
  add_library(strata::${name} ALIAS ${users})
  set_target_properties(${users} PROPERTIES EXPORT_NAME ${name})
  set_property(GLOBAL APPEND PROPERTY STRATA_EXPORTED ${users})
  set(include_roots ${arg_HEADERS} ${arg_SEES})
  list(TRANSFORM include_roots PREPEND ${PROJECT_BINARY_DIR}/include/)
  target_include_directories(${users} INTERFACE "$<BUILD_INTERFACE:${include_roots}>" $<INSTALL_INTERFACE:include>)
  target_compile_definitions(${users} INTERFACE STRATA_WITH_CUDA=$<BOOL:${STRATA_CUDA}>)
  target_link_libraries(${users} INTERFACE ${linked} ${arg_PUBLIC})

  target_include_directories(${target} PRIVATE ${CMAKE_CURRENT_SOURCE_DIR})
  target_link_libraries(${target} PRIVATE $<COMPILE_ONLY:${users}>)
  foreach(dependency IN LISTS arg_PUBLIC arg_PRIVATE)
    target_link_libraries(${target} PRIVATE $<COMPILE_ONLY:${dependency}>)
    if(NOT dependency MATCHES "^strata::")
      set_property(GLOBAL APPEND PROPERTY STRATA_OUTSIDE_OF_${name} ${dependency})
    endif()
  endforeach()
  if(STRATA_CUDA AND arg_CUDA)
    target_sources(${target} PRIVATE ${arg_CUDA})
    set_source_files_properties(${arg_CUDA} PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
    set_target_properties(${target} PROPERTIES CUDA_SEPARABLE_COMPILATION OFF)
  endif()
endfunction()

# strata_take_modules(TARGET NAMES...): the objects of the modules become part of TARGET, which links what they need from outside.
function(strata_take_modules target)
  foreach(name IN LISTS ARGN)
    get_property(outside GLOBAL PROPERTY STRATA_OUTSIDE_OF_${name})
    target_sources(${target} PRIVATE $<TARGET_OBJECTS:strata_${name}>)
    target_link_libraries(${target} PRIVATE ${outside})
  endforeach()
endfunction()

# strata_add_library(NAME [LINKS...]): the shared library of all modules that name it as theirs.
function(strata_add_library name)
  get_property(modules GLOBAL PROPERTY STRATA_MODULES_OF_${name})
  add_library(${name} SHARED)
  strata_take_modules(${name} ${modules})
  target_link_libraries(${name} PRIVATE ${ARGN})
  set_target_properties(${name} PROPERTIES LINKER_LANGUAGE CXX LIBRARY_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/lib
    BUILD_RPATH "$ORIGIN;${LIBTORCH_RPATH}"
    INSTALL_RPATH "$ORIGIN;$ORIGIN/../../torch/lib;$ORIGIN/../../nvidia/cu13/lib;$ORIGIN/../../nvidia/nccl/lib;${LIBTORCH_INSTALL_RPATH}")
  # Calls within the library stay there, as in a static one. Old-style run paths also hold for the libraries of libraries.
  # What starts without CUDA has a CUDA runtime of its own, which nobody else sees: runtimes share devices, streams and memory.
  target_link_options(${name} PRIVATE LINKER:-Bsymbolic-functions LINKER:--disable-new-dtags LINKER:--exclude-libs,libcudart_static.a)
  strata_install_library(${name} EXPORT StrataTargets PACKAGE RUNTIME_DEPENDENCY_SET python_libraries)
endfunction()

# strata_install_library(TARGET [EXPORT NAME] [PACKAGE ...]): for programs, for those who build with Strata, and, with the words after
# PACKAGE, in the Python package.
function(strata_install_library target)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "EXPORT;PACKAGE")
  if(arg_EXPORT)
    list(PREPEND arg_EXPORT EXPORT)
  endif()
  install(TARGETS ${target} LIBRARY DESTINATION lib COMPONENT programs)
  install(TARGETS ${target} ${arg_EXPORT} LIBRARY DESTINATION lib COMPONENT development)
  install(TARGETS ${target} ${arg_PACKAGE} LIBRARY DESTINATION strata/lib COMPONENT python EXCLUDE_FROM_ALL)
endfunction()

# strata_add_program(NAME SOURCES ... LINKS ...): an executable that finds libtorch and its CUDA libraries in the build tree, and
# Strata's own library for Parquet.
function(strata_add_program name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "SOURCES;LINKS")
  add_executable(${name} ${arg_SOURCES})
  target_link_libraries(${name} PRIVATE ${arg_LINKS})
  set_target_properties(${name} PROPERTIES BUILD_RPATH "$ORIGIN/../lib;${LIBTORCH_RPATH}" RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/bin)
endfunction()

# strata_add_test(NAME SOURCES ... LINKS ... [TIMEOUT seconds] [COST seconds] [LABELS ...] [UNSANITIZED cases])
#
# LABELS are those beside the label of the folder (strata_label_tests). COST is what a test takes of one core, if that is more than a
# few seconds: the longest tests start first. The sanitized build leaves out the cases of UNSANITIZED (as --gtest_filter names them),
# which run the code of other cases for longer.
#
# A program whose every case is skipped exits with 77, here and below, and counts as skipped.
function(strata_add_test name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "TIMEOUT;COST;UNSANITIZED" "SOURCES;LINKS;LABELS")
  if(NOT arg_TIMEOUT)
    set(arg_TIMEOUT 300)
  endif()
  strata_add_program(${name} SOURCES ${arg_SOURCES} LINKS ${arg_LINKS} GTest::gmock strata::test_main)
  # The sanitized build is tested together with another one: its tests carry a name of their own.
  set(test ${name})
  set(command ${name})
  if(STRATA_SANITIZE)
    string(APPEND test .sanitized)
    if(arg_UNSANITIZED)
      list(APPEND command --gtest_filter=-${arg_UNSANITIZED})
    endif()
    math(EXPR arg_TIMEOUT "${arg_TIMEOUT} * 4")
    if(arg_COST)
      math(EXPR arg_COST "${arg_COST} * 3")
    endif()
  endif()
  add_test(NAME ${test} COMMAND ${command})
  set_tests_properties(${test} PROPERTIES TIMEOUT ${arg_TIMEOUT} COST "${arg_COST}" LABELS "${arg_LABELS}" SKIP_RETURN_CODE 77)
endfunction()

# strata_add_mpi_test(NAME SOURCES ... LINKS ... [RANKS 1 2 3] [BACKENDS solo torch] [TORCH_RANKS 1 2 3] [TIMEOUT seconds] [LABELS ...])
#
# One ctest a rank count. The main of strata::test_mpi runs every test on all ranks and fails all where one fails. BACKENDS
# are other ways to run the ranks, beside MPI: 'solo', one rank on its own; 'torch', as torchrun starts them, on TORCH_RANKS ranks if
# not on as many: what only calls comm, whose own tests run on all numbers of ranks, runs once on three ranks of torchrun.
function(strata_add_mpi_test name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "TIMEOUT" "SOURCES;LINKS;RANKS;BACKENDS;TORCH_RANKS;LABELS")
  if(NOT arg_RANKS)
    set(arg_RANKS 1 2 3)
  endif()
  if(NOT arg_TIMEOUT)
    set(arg_TIMEOUT 120)
  endif()
  if(STRATA_SANITIZE)
    math(EXPR arg_TIMEOUT "${arg_TIMEOUT} * 4")
  endif()
  set(main strata::test_mpi)
  if(torch IN_LIST arg_BACKENDS)
    set(main strata::test_ranks)
  endif()
  strata_add_program(${name} SOURCES ${arg_SOURCES} LINKS ${arg_LINKS} ${main} GTest::gmock)
  foreach(ranks IN LISTS arg_RANKS)
    add_test(NAME ${name}.ranks${ranks} COMMAND ${STRATA_MPIRUN} -n ${ranks} $<TARGET_FILE:${name}>)
    set_tests_properties(${name}.ranks${ranks} PROPERTIES TIMEOUT ${arg_TIMEOUT} LABELS "${arg_LABELS}" PROCESSORS 2
                         SKIP_RETURN_CODE 77 ENVIRONMENT "${STRATA_MPI_ENVIRONMENT}")
  endforeach()
  set(others "")
  if(solo IN_LIST arg_BACKENDS)
    add_test(NAME ${name}.solo COMMAND ${name})
    list(APPEND others ${name}.solo)
  endif()
  if(torch IN_LIST arg_BACKENDS)
    if(NOT arg_TORCH_RANKS)
      set(arg_TORCH_RANKS ${arg_RANKS})
    endif()
    foreach(ranks IN LISTS arg_TORCH_RANKS)
      add_test(NAME ${name}.torch.ranks${ranks} COMMAND ${STRATA_SPAWN_RANKS} ${ranks} $<TARGET_FILE:${name}>)
      list(APPEND others ${name}.torch.ranks${ranks})
    endforeach()
  endif()
  if(others)
    set_tests_properties(${others} PROPERTIES TIMEOUT ${arg_TIMEOUT} LABELS "${arg_LABELS}" PROCESSORS 2 SKIP_RETURN_CODE 77)
  endif()
endfunction()

# strata_label_tests(FOLDER): gives every test in or below the folder the label of its place (tests/unit, tests/mpi, which is called
# ranks, and so on), and a COST where it has none.
function(strata_label_tests folder)
  get_property(folders DIRECTORY ${folder} PROPERTY SUBDIRECTORIES)
  foreach(below IN LISTS folders)
    strata_label_tests(${below})
  endforeach()
  get_property(tests DIRECTORY ${folder} PROPERTY TESTS)
  cmake_path(RELATIVE_PATH folder BASE_DIRECTORY ${PROJECT_SOURCE_DIR} OUTPUT_VARIABLE place)
  if(NOT place MATCHES "(^|/)tests/([a-z0-9]+)")
    return()
  endif()
  string(REPLACE mpi ranks label ${CMAKE_MATCH_2})
  set(cost_unit 1)
  set(cost_ranks 2)
  set(cost_gpu 3)
  set(cost_python 10)
  set(cost_e2e 20)
  set(cost_fuzz 20)
  foreach(test IN LISTS tests)
    get_property(labels TEST ${test} DIRECTORY ${folder} PROPERTY LABELS)
    get_property(cost TEST ${test} DIRECTORY ${folder} PROPERTY COST)
    if(NOT cost)
      set(cost ${cost_${label}})
    endif()
    list(APPEND labels ${label})
    set_tests_properties(${test} DIRECTORY ${folder} PROPERTIES LABELS "${labels}" COST ${cost})
  endforeach()
endfunction()

set(STRATA_SPAWN_RANKS ${PROJECT_SOURCE_DIR}/tests/support/spawn_ranks.py)
set(STRATA_MPIRUN ${MPIEXEC_EXECUTABLE} --oversubscribe --bind-to none)
# Containers forbid the cross-memory attach that Open MPI prefers; tests may run as root, and beside each other: a rank that waits
# leaves its core to others.
set(STRATA_MPI_ENVIRONMENT OMPI_MCA_btl_vader_single_copy_mechanism=none OMPI_ALLOW_RUN_AS_ROOT=1
    OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_mpi_yield_when_idle=1)

# Held by tests that give memory names in /dev/shm, which remove those that killed ranks left. Others look for names of their own ranks.
set(STRATA_SHARED_NAMES_LOCK shared_memory_names)
# Unbuffered, Python writes a line and its end apart, and those of several ranks mix.
set(STRATA_WHOLE_LINES PYTHONUNBUFFERED=unset:)

# strata_add_python_tests(NAMES...): test_NAME.py of the current folder, on the package strata as it lies in the build tree.
function(strata_add_python_tests)
  foreach(name IN LISTS ARGN)
    add_test(NAME python.${name} COMMAND ${STRATA_PYTHON_ENV}/bin/python ${CMAKE_CURRENT_SOURCE_DIR}/test_${name}.py)
    set_tests_properties(python.${name} PROPERTIES TIMEOUT 900 PROCESSORS 2 SKIP_RETURN_CODE 77
                         ENVIRONMENT "STRATA_BIN=${PROJECT_BINARY_DIR}/bin;PYTHONPATH=${PROJECT_BINARY_DIR}/python:${PROJECT_SOURCE_DIR}/tests/python;${STRATA_MPI_ENVIRONMENT}"
                         ENVIRONMENT_MODIFICATION "${STRATA_WHOLE_LINES}")
  endforeach()
endfunction()

# strata_add_e2e_tests(NAMES...): test_NAME.py of the current folder, which drives the built programs as a user does.
function(strata_add_e2e_tests)
  foreach(name IN LISTS ARGN)
    add_test(NAME e2e.${name} COMMAND ${STRATA_TEST_PYTHON} ${CMAKE_CURRENT_SOURCE_DIR}/test_${name}.py)
    set_tests_properties(e2e.${name} PROPERTIES TIMEOUT 900 PROCESSORS 2 SKIP_RETURN_CODE 77
                         ENVIRONMENT "STRATA_BIN=${PROJECT_BINARY_DIR}/bin;STRATA_PYTHON_ENV=${STRATA_PYTHON_ENV};PYTHONPATH=${PROJECT_SOURCE_DIR}/tests/e2e"
                         ENVIRONMENT_MODIFICATION "${STRATA_WHOLE_LINES}")
  endforeach()
endfunction()

# strata_precompile_torch(TARGET): its C++ sources find libtorch's headers precompiled, which take 10 s per source otherwise.
# All targets share one precompiled header, and so the flags that it was compiled with; a program's sources are compiled as a
# library's are, as position-independent code.
function(strata_precompile_torch target)
  if(NOT TARGET strata_torch_headers)
    add_library(strata_torch_headers STATIC ${PROJECT_SOURCE_DIR}/cmake/torch_headers.cpp)
    target_link_libraries(strata_torch_headers PRIVATE LibTorch::cpu fmt::fmt spdlog::spdlog nlohmann_json::nlohmann_json)
    target_compile_options(strata_torch_headers PRIVATE $<$<COMPILE_LANGUAGE:CXX>:${OpenMP_CXX_FLAGS}>)
    target_precompile_headers(strata_torch_headers PRIVATE
      <algorithm> <cstdint> <filesystem> <functional> <map> <memory> <optional> <span> <string> <vector>
      <ATen/core/Tensor.h> <ATen/ops/empty.h> <ATen/ops/from_blob.h> <ATen/ops/full.h> <ATen/ops/zeros.h>
      <torch/nn/module.h> <fmt/format.h> <nlohmann/json.hpp>)
  endif()
  target_compile_options(${target} PRIVATE $<$<COMPILE_LANGUAGE:CXX>:${OpenMP_CXX_FLAGS}>)
  target_precompile_headers(${target} REUSE_FROM strata_torch_headers)
  get_target_property(type ${target} TYPE)
  if(type STREQUAL EXECUTABLE)
    set_target_properties(${target} PROPERTIES POSITION_INDEPENDENT_CODE OFF)
    target_compile_options(${target} PRIVATE $<$<COMPILE_LANGUAGE:CXX>:-fPIC> $<$<COMPILE_LANGUAGE:CUDA>:-Xcompiler=-fPIC>)
  endif()
endfunction()
