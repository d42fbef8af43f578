// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>

#include "strata/comm/machine.hpp"
#include "strata/util/types.hpp"

namespace strata::tensor {

/// Host memory shared by the ranks of a machine; an owner of this rank's mapping and registration.
///
/// Usually the memory vanishes with its ranks even if they are killed, and the size of /dev/shm does not
/// limit it. It lies in /dev/shm if the ranks cannot open each other's files (because each has a container of
/// its own), or if the environment says STRATA_SHARED_MEMORY=named.
class HostRegion {
 public:
  /// Makes a region of zeros, registered with CUDA if the machine has GPUs. Collective over the machine.
  /// Throws OutOfMemory on all ranks; where /dev/shm is needed and too small, it names the size of /dev/shm
  /// and the remedy.
  static HostRegion create(const comm::Machine& machine, std::size_t bytes, const std::string& name);
  HostRegion(HostRegion&&) noexcept;
  HostRegion& operator=(HostRegion&&) noexcept;
  ~HostRegion();
  std::byte* data() const;
  std::size_t bytes() const;

  /// Calls `fill(target)`, which writes the staging.size() bytes that belong at `offset`. `target` is either
  /// the region itself or `staging`, which is then copied. The copy is a write to the file behind shared
  /// memory: it fills untouched pages 1.5 times as fast, because it does not zero them first and `staging`
  /// stays in the caches. Thread safe for ranges that do not overlap.
  template <typename Fill>
  void fill(std::size_t offset, std::span<std::byte> staging, Fill&& fill) const {
    if (!is_filled_by_writes()) return fill(data() + offset);
    fill(staging.data());
    write(offset, staging);
  }

 private:
  bool is_filled_by_writes() const;
  void write(std::size_t offset, std::span<const std::byte> bytes) const;

  struct State;
  explicit HostRegion(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

/// A typed array in host memory that the ranks of a machine share. An owner of this rank's mapping.
template <typename T>
class HostArray {
 public:
  static HostArray create(const comm::Machine& machine, Count size, const std::string& name) {
    return HostArray(HostRegion::create(machine, at(size) * sizeof(T), name), size);
  }
  T* data() const { return reinterpret_cast<T*>(region_.data()); }
  Count size() const { return size_; }
  std::span<T> span() const { return {data(), at(size_)}; }

  /// Calls fill(T*), which writes the staging.size() elements from `first` on; see HostRegion::fill.
  template <typename Fill>
  void fill(Count first, std::span<T> staging, Fill&& fill) const {
    region_.fill(at(first) * sizeof(T), std::as_writable_bytes(staging),
                 [&](std::byte* target) { fill(reinterpret_cast<T*>(target)); });
  }

 private:
  HostArray(HostRegion region, Count size) : region_(std::move(region)), size_(size) {}
  HostRegion region_;
  Count size_;
};

/// Ids as i32 or i64, the two forms of IdSpan, in shared host memory. An owner of this rank's mapping.
class HostIds {
 public:
  static HostIds create(const comm::Machine& machine, Count size, bool wide, const std::string& name) {
    const std::size_t width = wide ? sizeof(std::int64_t) : sizeof(std::int32_t);
    return HostIds(HostRegion::create(machine, at(size) * width, name),
                   {.data = nullptr, .size = size, .wide = wide});
  }
  const IdSpan& view() const { return view_; }
  std::size_t bytes() const { return region_.bytes(); }

  /// Calls fill(pointer to i32 or i64), which writes the staging.size() ids from `first` on; see
  /// HostRegion::fill.
  template <typename Fill>
  void fill(Count first, std::span<std::int64_t> staging, Fill&& fill) const {
    const auto with = [&]<typename Id>(Id*) {
      const std::span bytes(reinterpret_cast<std::byte*>(staging.data()), staging.size() * sizeof(Id));
      region_.fill(at(first) * sizeof(Id), bytes,
                   [&](std::byte* target) { fill(reinterpret_cast<Id*>(target)); });
    };
    view_.wide ? with(static_cast<std::int64_t*>(nullptr)) : with(static_cast<std::int32_t*>(nullptr));
  }

  /// Calls visitor(pointer to i32 or i64), for writing.
  template <typename Visitor>
  decltype(auto) visit(Visitor&& visitor) const {
    return view_.wide ? visitor(reinterpret_cast<std::int64_t*>(region_.data()))
                      : visitor(reinterpret_cast<std::int32_t*>(region_.data()));
  }

 private:
  HostIds(HostRegion region, IdSpan view) : region_(std::move(region)), view_(view) {
    view_.data = region_.data();
  }
  HostRegion region_;
  IdSpan view_;
};

}  // namespace strata::tensor
