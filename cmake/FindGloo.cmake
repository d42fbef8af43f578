# SPDX-License-Identifier: Apache-2.0
# Gloo::headers: the declarations of gloo that torch's own header of ProcessGroupGloo includes. The torch wheel has gloo's code
# within libtorch, but not its headers, which are Debian's package libgloo-dev.
find_path(GLOO_INCLUDE_DIR gloo/context.h)
include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(Gloo REQUIRED_VARS GLOO_INCLUDE_DIR)
if(Gloo_FOUND AND NOT TARGET Gloo::headers)
  add_library(Gloo::headers INTERFACE IMPORTED GLOBAL)
  target_compile_options(Gloo::headers INTERFACE "SHELL:-idirafter ${GLOO_INCLUDE_DIR}")
endif()
