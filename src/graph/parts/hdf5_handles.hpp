// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <hdf5.h>

#include <mutex>
#include <string>
#include <utility>

namespace strata::graph::h5 {

/// The lock to hold around every use of HDF5, because the library is not thread safe.
std::unique_lock<std::mutex> lock_library();

/// An owner of an HDF5 id; closes it with the call that its kind needs.
class Handle {
 public:
  using Closer = herr_t (*)(hid_t);
  Handle() = default;
  Handle(hid_t id, Closer closer) : id_{id}, closer_{closer} {}
  Handle(Handle&& other) noexcept : id_{std::exchange(other.id_, H5I_INVALID_HID)}, closer_{other.closer_} {}
  Handle& operator=(Handle&& other) noexcept {
    std::swap(id_, other.id_);
    std::swap(closer_, other.closer_);
    return *this;
  }
  ~Handle() {
    if (id_ >= 0) closer_(id_);
  }

  hid_t id() const noexcept { return id_; }
  explicit operator bool() const noexcept { return id_ >= 0; }

  /// Closes now, and returns false if that failed, as the last flush to disk can.
  bool close() noexcept { return id_ < 0 || closer_(std::exchange(id_, H5I_INVALID_HID)) >= 0; }

 private:
  hid_t id_ = H5I_INVALID_HID;
  Closer closer_ = nullptr;
};

/// Access to a file without locks, which many network file systems refuse. Parts need none: the folder that
/// is written has a name that nobody else knows, and parts never change once they are published.
Handle access_without_locks();

/// Text of the innermost entry of HDF5's error stack ("unable to open file"), with the system's reason if it
/// names one.
std::string last_error();

/// HDF5's type for the name of a strata::DType ("i64", "f16"); bf16 is stored as u16. An owner.
Handle make_type(const std::string& dtype);

}  // namespace strata::graph::h5
