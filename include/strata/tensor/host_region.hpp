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
/// A rank that is killed leaves no memory behind, and /dev/shm does not limit its size; but where ranks
/// cannot open each other's files (containers of their own), or with STRATA_SHARED_MEMORY=named in the
/// environment, it lies in /dev/shm.
class HostRegion {
 public:
  /// Collective. Zero-filled. Registered with CUDA where the machine has GPUs. Throws OutOfMemory on all
  /// ranks (also when /dev/shm is needed and too small, naming its size and the remedy).
  static HostRegion create(const comm::Machine& machine, std::size_t bytes, const std::string& name);
  HostRegion(HostRegion&&) noexcept;
  HostRegion& operator=(HostRegion&&) noexcept;
  ~HostRegion();
  std::byte* data() const;
  std::size_t bytes() const;

  /// Lets `fill(target)` write the staging.size() bytes at `offset`: in place, or into `staging`, from which
  /// they are copied. Memory that several ranks share and nobody has touched is filled half as fast again by
  /// writes to its file from a buffer that stays in the caches: they take a page without zeroing it first.
  /// Thread safe for ranges that do not overlap.
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
