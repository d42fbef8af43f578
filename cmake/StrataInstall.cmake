# SPDX-License-Identifier: Apache-2.0
# Programs, libraries, headers and the CMake package.
#
# Components: programs (strata-partition, strata-plan, strata-train, those of extras, and the libraries they share), development (headers, find_package(Strata)),
# and tests, which is installed only when asked for by name (the tests and benchmarks, to run them on another machine).
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

# strata_collect_executables(RESULT FOLDER): every executable that a folder and those below it define.
function(strata_collect_executables result folder)
  set(found)
  if(IS_DIRECTORY ${PROJECT_SOURCE_DIR}/${folder})
    get_property(known DIRECTORY ${PROJECT_SOURCE_DIR} PROPERTY SUBDIRECTORIES)
    while(known)
      list(POP_FRONT known directory)
      get_property(below DIRECTORY ${directory} PROPERTY SUBDIRECTORIES)
      list(APPEND known ${below})
      if(NOT directory MATCHES "^${PROJECT_SOURCE_DIR}/${folder}(/|$)")
        continue()
      endif()
      get_property(targets DIRECTORY ${directory} PROPERTY BUILDSYSTEM_TARGETS)
      foreach(target IN LISTS targets)
        get_target_property(type ${target} TYPE)
        if(type STREQUAL EXECUTABLE)
          list(APPEND found ${target})
        endif()
      endforeach()
    endwhile()
  endif()
  set(${result} ${found} PARENT_SCOPE)
endfunction()

# strata_install_executables(COMPONENT FOLDER_FROM_PREFIX LIBRARIES_FROM_THERE TARGETS...)
function(strata_install_executables component destination libraries)
  if(ARGN)
    set(site "$ORIGIN/${libraries}/../..")  # of a wheel, in which torch and the CUDA libraries lie beside the package
    set_target_properties(${ARGN} PROPERTIES
      INSTALL_RPATH "$ORIGIN/${libraries};${site}/torch/lib;${site}/nvidia/cu13/lib;${site}/nvidia/nccl/lib;${LIBTORCH_INSTALL_RPATH}")
    # Old-style run paths also hold for the libraries of libraries, which a packed folder brings along.
    foreach(target IN LISTS ARGN)
      target_link_options(${target} PRIVATE LINKER:--disable-new-dtags)
    endforeach()
    install(TARGETS ${ARGN} RUNTIME DESTINATION ${destination} COMPONENT ${component} ${STRATA_INSTALL_WHEN})
  endif()
endfunction()

strata_collect_executables(STRATA_PROGRAMS partition)
if(TARGET strata-train)
  list(APPEND STRATA_PROGRAMS strata-plan strata-train)
endif()
strata_collect_executables(test_programs tests)
strata_collect_executables(unit_programs tests/unit)
foreach(extra IN LISTS STRATA_EXTRA_FOLDERS)
  strata_collect_executables(extra_programs extras/${extra}/src)
  list(APPEND STRATA_PROGRAMS ${extra_programs})
  strata_collect_executables(extra_tests extras/${extra}/tests)
  list(APPEND test_programs ${extra_tests})
  strata_collect_executables(extra_tests extras/${extra}/tests/unit)
  list(APPEND unit_programs ${extra_tests})
endforeach()
strata_collect_executables(benchmark_programs benchmarks)
strata_install_executables(programs bin ../lib ${STRATA_PROGRAMS})
if(TARGET strata-train-program)
  strata_install_executables(programs libexec ../lib strata-train-program)
endif()
set(STRATA_INSTALL_WHEN EXCLUDE_FROM_ALL)
if(TARGET strata_core)
  strata_install_executables(python strata/bin ../lib ${STRATA_PROGRAMS})
  strata_install_executables(python strata/libexec ../lib strata-train-program)
  install(PROGRAMS launch/strata-run DESTINATION strata/launch COMPONENT python EXCLUDE_FROM_ALL)
  install(FILES launch/mpi-env launch/strata.sbatch DESTINATION strata/launch COMPONENT python EXCLUDE_FROM_ALL)
endif()
strata_install_executables(tests bin/tests ../../lib ${test_programs} ${benchmark_programs})

# What quickstart builds, and what can run under the sanitizers.
add_custom_target(programs DEPENDS ${STRATA_PROGRAMS})
if(TARGET strata_core)
  add_custom_target(wheel DEPENDS python programs)  # what a wheel holds
endif()
add_custom_target(unit_tests DEPENDS ${unit_programs})

get_property(exported GLOBAL PROPERTY STRATA_EXPORTED)
set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/Strata)
install(TARGETS ${exported} EXPORT StrataTargets ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT development)
export(EXPORT StrataTargets NAMESPACE strata:: FILE ${PROJECT_BINARY_DIR}/StrataTargets.cmake)
install(EXPORT StrataTargets NAMESPACE strata:: DESTINATION ${package_dir} COMPONENT development)
install(DIRECTORY include/strata DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} COMPONENT development)
foreach(extra IN LISTS STRATA_EXTRA_FOLDERS)
  if(IS_DIRECTORY ${PROJECT_SOURCE_DIR}/extras/${extra}/include)
    install(DIRECTORY extras/${extra}/include/strata DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} COMPONENT development)
  endif()
endforeach()
configure_package_config_file(cmake/StrataConfig.cmake.in ${PROJECT_BINARY_DIR}/StrataConfig.cmake
                              INSTALL_DESTINATION ${package_dir})
write_basic_package_version_file(${PROJECT_BINARY_DIR}/StrataConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/StrataConfig.cmake ${PROJECT_BINARY_DIR}/StrataConfigVersion.cmake
              cmake/StrataDependencies.cmake cmake/FindAsio.cmake cmake/FindCereal.cmake cmake/FindLibTorch.cmake cmake/FindMETIS.cmake cmake/FindNCCL.cmake
              cmake/FindXXHASH.cmake cmake/FindZstd.cmake
        DESTINATION ${package_dir} COMPONENT development)
