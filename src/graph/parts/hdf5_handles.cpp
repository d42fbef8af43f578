// SPDX-License-Identifier: Apache-2.0
#include "parts/hdf5_handles.hpp"

#include <cstdlib>

#include "strata/util/error.hpp"

// HDF5 can leave locks out for a single file since 1.10.7, and in the next line since 1.12.1.
#define STRATA_HDF5_HAS_FILE_LOCKING \
  (H5_VERSION_GE(1, 10, 7) && !(H5_VERSION_GE(1, 12, 0) && H5_VERSION_LE(1, 12, 0)))

namespace strata::graph::h5 {
namespace {

// IEEE binary16 as in h5py and NumPy. HDF5 1.10 has no predefined type of this width.
Handle make_half() {
  Handle type{H5Tcopy(H5T_IEEE_F32LE), H5Tclose};
  H5Tset_fields(type.id(), 15, 10, 5, 0, 10);
  H5Tset_size(type.id(), 2);
  H5Tset_ebias(type.id(), 15);
  return type;
}

herr_t append_entry(unsigned, const H5E_error2_t* entry, void* text) {
  if (entry->desc != nullptr) *static_cast<std::string*>(text) = entry->desc;
  return 0;
}

}  // namespace

std::unique_lock<std::mutex> lock_library() {
  static std::mutex mutex;
  std::unique_lock lock{mutex};
  // At the end of the process HDF5 would close files again that could not be closed on a full disk, and
  // crash.
  static const herr_t no_cleanup = H5dont_atexit();
  (void)no_cleanup;
#if !STRATA_HDF5_HAS_FILE_LOCKING
  static const int no_locks = ::setenv("HDF5_USE_FILE_LOCKING", "FALSE", /*replace=*/0);
  (void)no_locks;
#endif
  H5Eset_auto2(H5E_DEFAULT, nullptr, nullptr);  // errors are thrown, not printed
  return lock;
}

Handle access_without_locks() {
  Handle access{H5Pcreate(H5P_FILE_ACCESS), H5Pclose};
#if STRATA_HDF5_HAS_FILE_LOCKING
  H5Pset_file_locking(access.id(), /*use_file_locking=*/false, /*ignore_when_disabled=*/true);
#endif
  return access;
}

std::string last_error() {
  std::string text = "unknown HDF5 error";
  H5Ewalk2(H5E_DEFAULT, H5E_WALK_DOWNWARD, append_entry, &text);
  H5Eclear2(H5E_DEFAULT);
  return text;
}

Handle make_type(const std::string& dtype) {
  if (dtype == "f16") return make_half();
  const hid_t base = dtype == "i64"    ? H5T_STD_I64LE
                     : dtype == "i32"  ? H5T_STD_I32LE
                     : dtype == "f32"  ? H5T_IEEE_F32LE
                     : dtype == "bf16" ? H5T_STD_U16LE
                     : dtype == "u8"   ? H5T_STD_U8LE
                                       : H5I_INVALID_HID;
  if (base < 0) throw Error("part files have no type " + dtype);
  return {H5Tcopy(base), H5Tclose};
}

}  // namespace strata::graph::h5
