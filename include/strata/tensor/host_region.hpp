// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>
#include <memory>
#include <span>
#include <string>

#include "strata/comm/machine.hpp"

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

}  // namespace strata::tensor
