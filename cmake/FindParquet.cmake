# SPDX-License-Identifier: Apache-2.0
# Parquet::parquet: Arrow's libraries for Parquet files, of the system or as the wheel of pyarrow ships them.
file(GLOB PARQUET_ROOT_CANDIDATES "${STRATA_PYTHON_ENV}/lib/python3*/site-packages/pyarrow")
# The wheel names libraries by version only.
file(GLOB PARQUET_NAMES RELATIVE "${PARQUET_ROOT_CANDIDATES}" "${PARQUET_ROOT_CANDIDATES}/libparquet.so.*")
file(GLOB ARROW_NAMES RELATIVE "${PARQUET_ROOT_CANDIDATES}" "${PARQUET_ROOT_CANDIDATES}/libarrow.so.*")
find_path(PARQUET_INCLUDE_DIR parquet/arrow/reader.h HINTS ${PARQUET_ROOT_CANDIDATES} PATH_SUFFIXES include)
find_library(PARQUET_LIBRARY NAMES ${PARQUET_NAMES} parquet HINTS ${PARQUET_ROOT_CANDIDATES})
find_library(ARROW_LIBRARY NAMES ${ARROW_NAMES} arrow HINTS ${PARQUET_ROOT_CANDIDATES})
include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(Parquet REQUIRED_VARS PARQUET_LIBRARY ARROW_LIBRARY PARQUET_INCLUDE_DIR)
if(Parquet_FOUND AND NOT TARGET Parquet::parquet)
  add_library(Parquet::parquet INTERFACE IMPORTED)
  set_target_properties(Parquet::parquet PROPERTIES INTERFACE_INCLUDE_DIRECTORIES ${PARQUET_INCLUDE_DIR}
                        INTERFACE_LINK_LIBRARIES "${PARQUET_LIBRARY};${ARROW_LIBRARY}")
endif()
