# SPDX-License-Identifier: Apache-2.0
# NCCL::NCCL: a system NCCL, or the one that the torch wheel brings.
set(NCCL_ROOT_CANDIDATES ${LIBTORCH_SITE_PACKAGES}/nvidia/nccl)
find_path(NCCL_INCLUDE_DIR nccl.h HINTS ${NCCL_ROOT_CANDIDATES} PATH_SUFFIXES include)
find_library(NCCL_LIBRARY NAMES nccl libnccl.so.2 HINTS ${NCCL_ROOT_CANDIDATES} PATH_SUFFIXES lib)
include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(NCCL REQUIRED_VARS NCCL_LIBRARY NCCL_INCLUDE_DIR)
if(NCCL_FOUND AND NOT TARGET NCCL::NCCL)
  add_library(NCCL::NCCL UNKNOWN IMPORTED)
  set_target_properties(NCCL::NCCL PROPERTIES IMPORTED_LOCATION ${NCCL_LIBRARY}
                        INTERFACE_INCLUDE_DIRECTORIES ${NCCL_INCLUDE_DIR})
endif()
