# SPDX-License-Identifier: Apache-2.0
# XXHASH::XXHASH
find_path(XXHASH_INCLUDE_DIR xxhash.h)
find_library(XXHASH_LIBRARY xxhash)
include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(XXHASH REQUIRED_VARS XXHASH_LIBRARY XXHASH_INCLUDE_DIR)
if(XXHASH_FOUND AND NOT TARGET XXHASH::XXHASH)
  add_library(XXHASH::XXHASH UNKNOWN IMPORTED)
  set_target_properties(XXHASH::XXHASH PROPERTIES IMPORTED_LOCATION ${XXHASH_LIBRARY}
                        INTERFACE_INCLUDE_DIRECTORIES ${XXHASH_INCLUDE_DIR})
endif()

# Does the library choose the widest vectors of the CPU when it runs? Not all builds of it do.
if(XXHASH_FOUND AND NOT DEFINED XXHASH_HAS_DISPATCH)
  include(CheckCXXSourceCompiles)
  include(CMakePushCheckState)
  cmake_push_check_state(RESET)
  set(CMAKE_REQUIRED_INCLUDES ${XXHASH_INCLUDE_DIR})
  set(CMAKE_REQUIRED_LIBRARIES ${XXHASH_LIBRARY})
  check_cxx_source_compiles("#include <xxhash.h>
    #include <xxh_x86dispatch.h>
    int main() { return static_cast<int>(XXH3_64bits_dispatch(\"\", 0)); }" XXHASH_HAS_DISPATCH)
  cmake_pop_check_state()
endif()
