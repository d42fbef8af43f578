# SPDX-License-Identifier: Apache-2.0
# LibTorch::cpu, and LibTorch::cuda in CUDA builds: libtorch as the PyPI wheel ships it.
#
# The wheel's own CMake package insists on a full CUDA toolkit even for CPU programs, so the few libraries are named here.
# CMAKE_PREFIX_PATH may be what torch.utils.cmake_prefix_path says, which is torch/share/cmake: two folders below the package.
file(GLOB LIBTORCH_ROOT_CANDIDATES "${STRATA_PYTHON_ENV}/lib/python3*/site-packages/torch")
find_path(LIBTORCH_INCLUDE_DIR ATen/core/Tensor.h HINTS ${LIBTORCH_ROOT} ${LIBTORCH_ROOT_CANDIDATES} PATH_SUFFIXES include ../../include)
find_library(LIBTORCH_CPU_LIBRARY torch_cpu HINTS ${LIBTORCH_ROOT} ${LIBTORCH_ROOT_CANDIDATES} PATH_SUFFIXES lib ../../lib)
include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(LibTorch REQUIRED_VARS LIBTORCH_CPU_LIBRARY LIBTORCH_INCLUDE_DIR)
if(LibTorch_FOUND AND NOT TARGET LibTorch::cpu)
  cmake_path(NORMAL_PATH LIBTORCH_INCLUDE_DIR)
  cmake_path(NORMAL_PATH LIBTORCH_CPU_LIBRARY)
  cmake_path(GET LIBTORCH_CPU_LIBRARY PARENT_PATH LIBTORCH_LIBRARY_DIR)
  cmake_path(GET LIBTORCH_LIBRARY_DIR PARENT_PATH LIBTORCH_PACKAGE_DIR)
  cmake_path(GET LIBTORCH_PACKAGE_DIR PARENT_PATH LIBTORCH_SITE_PACKAGES)
  # The CUDA libraries that the wheel depends on lie beside it in packages of their own.
  file(GLOB LIBTORCH_NVIDIA_LIBRARY_DIRS "${LIBTORCH_SITE_PACKAGES}/nvidia/*/lib")
  set(LIBTORCH_RPATH ${LIBTORCH_LIBRARY_DIR} ${LIBTORCH_NVIDIA_LIBRARY_DIRS})
  # Where an installed file looks last. Of pip's build environment nothing stays: torch lies beside the package then.
  set(LIBTORCH_INSTALL_RPATH ${LIBTORCH_RPATH})
  if(SKBUILD)
    set(LIBTORCH_INSTALL_RPATH $ORIGIN)
  endif()
  add_library(LibTorch::cpu INTERFACE IMPORTED)
  # -idirafter: the wheel carries headers of its own fmt, which must not hide those that fmt::fmt and spdlog were built with.
  foreach(dir ${LIBTORCH_INCLUDE_DIR} ${LIBTORCH_INCLUDE_DIR}/torch/csrc/api/include)
    target_compile_options(LibTorch::cpu INTERFACE "$<$<COMPILE_LANGUAGE:CXX>:SHELL:-idirafter ${dir}>")
  endforeach()
  target_link_libraries(LibTorch::cpu INTERFACE ${LIBTORCH_LIBRARY_DIR}/libtorch_cpu.so ${LIBTORCH_LIBRARY_DIR}/libc10.so)
  # -rpath-link: the wheel's libraries need their CUDA siblings at link time even where no GPU code is called.
  foreach(dir IN LISTS LIBTORCH_RPATH)
    target_link_options(LibTorch::cpu INTERFACE LINKER:-rpath-link,${dir})
  endforeach()
  add_library(LibTorch::cuda INTERFACE IMPORTED)
  # libtorch_cuda registers its kernels from static initialisers: it must be loaded although no symbol of it is named.
  target_link_libraries(LibTorch::cuda INTERFACE LibTorch::cpu
    -Wl,--no-as-needed ${LIBTORCH_LIBRARY_DIR}/libtorch_cuda.so -Wl,--as-needed ${LIBTORCH_LIBRARY_DIR}/libc10_cuda.so)
endif()
