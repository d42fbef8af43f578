#pragma once
#include <cstddef>
#include <memory>
#include <string>

#include "strata/comm/machine.hpp"

namespace strata::store {

/// Host memory shared by the ranks of a machine; an owner of this rank's mapping and registration.
///
/// It has no name that a rank that is killed could leave behind, and /dev/shm does not limit its size; but
/// where ranks cannot open each other's files (containers of their own), it is a segment of /dev/shm that has
/// a name until create() returns.
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

 private:
  struct State;
  explicit HostRegion(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace strata::store
