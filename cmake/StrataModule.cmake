# strata_add_module(NAME [SOURCES ...] [CUDA ...] [PUBLIC ...] [PRIVATE ...])
#
# One static library strata_NAME with the alias strata::NAME. SOURCES are compiled always, CUDA sources in CUDA builds only;
# there the macro STRATA_WITH_CUDA is 1, elsewhere 0.
function(strata_add_module name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "SOURCES;CUDA;PUBLIC;PRIVATE")
  set(target strata_${name})
  add_library(${target} STATIC ${arg_SOURCES})
  add_library(strata::${name} ALIAS ${target})
  set_target_properties(${target} PROPERTIES EXPORT_NAME ${name})
  target_include_directories(${target} PUBLIC $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include> $<INSTALL_INTERFACE:include>
                             PRIVATE ${CMAKE_CURRENT_SOURCE_DIR})
  target_link_libraries(${target} PUBLIC ${arg_PUBLIC} PRIVATE ${arg_PRIVATE})
  if(STRATA_CUDA AND arg_CUDA)
    target_sources(${target} PRIVATE ${arg_CUDA})
    set_target_properties(${target} PROPERTIES CUDA_SEPARABLE_COMPILATION OFF)
  endif()
  set_property(GLOBAL APPEND PROPERTY STRATA_MODULES ${target})
endfunction()

# strata_add_program(NAME SOURCES ... LINKS ...): an executable that finds libtorch and its CUDA libraries in the build tree.
function(strata_add_program name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "SOURCES;LINKS")
  add_executable(${name} ${arg_SOURCES})
  target_link_libraries(${name} PRIVATE ${arg_LINKS})
  set_target_properties(${name} PROPERTIES BUILD_RPATH "${LIBTORCH_RPATH}" RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/bin)
endfunction()

# strata_add_test(NAME SOURCES ... LINKS ... [TIMEOUT seconds] [LABELS ...])
#
# A program whose every case is skipped exits with 77, here and below, and counts as skipped.
function(strata_add_test name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "TIMEOUT" "SOURCES;LINKS;LABELS")
  if(NOT arg_TIMEOUT)
    set(arg_TIMEOUT 300)
  endif()
  strata_add_program(${name} SOURCES ${arg_SOURCES} LINKS ${arg_LINKS} GTest::gmock strata::test_main)
  # The sanitized build is tested together with another one: its tests carry a name of their own.
  set(test ${name})
  if(STRATA_SANITIZE)
    string(APPEND test .sanitized)
    math(EXPR arg_TIMEOUT "${arg_TIMEOUT} * 4")
  endif()
  add_test(NAME ${test} COMMAND ${name})
  set_tests_properties(${test} PROPERTIES TIMEOUT ${arg_TIMEOUT} LABELS "${arg_LABELS}" SKIP_RETURN_CODE 77)
endfunction()

# strata_add_mpi_test(NAME SOURCES ... LINKS ... [RANKS 1 2 3] [TIMEOUT seconds] [LABELS ...])
#
# One ctest a rank count. The main of strata::test_mpi runs every test on all ranks and fails all where one fails.
function(strata_add_mpi_test name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "TIMEOUT" "SOURCES;LINKS;RANKS;LABELS")
  if(NOT arg_RANKS)
    set(arg_RANKS 1 2 3)
  endif()
  if(NOT arg_TIMEOUT)
    set(arg_TIMEOUT 120)
  endif()
  strata_add_program(${name} SOURCES ${arg_SOURCES} LINKS ${arg_LINKS} strata::test_mpi GTest::gmock)
  foreach(ranks IN LISTS arg_RANKS)
    add_test(NAME ${name}.ranks${ranks} COMMAND ${STRATA_MPIRUN} -n ${ranks} $<TARGET_FILE:${name}>)
    set_tests_properties(${name}.ranks${ranks} PROPERTIES TIMEOUT ${arg_TIMEOUT} LABELS "mpi;${arg_LABELS}" PROCESSORS 2
                         SKIP_RETURN_CODE 77 ENVIRONMENT "${STRATA_MPI_ENVIRONMENT}")
  endforeach()
endfunction()
set(STRATA_MPIRUN ${MPIEXEC_EXECUTABLE} --oversubscribe --bind-to none)
# Containers forbid the cross-memory attach that Open MPI prefers; tests may run as root.
set(STRATA_MPI_ENVIRONMENT OMPI_MCA_btl_vader_single_copy_mechanism=none OMPI_ALLOW_RUN_AS_ROOT=1
    OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1)
