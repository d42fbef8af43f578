// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <array>
#include <cstddef>
#include <vector>

#include "strata/comm/machine.hpp"
#include "strata/sampling/one_hop.hpp"

namespace strata::dgs {

/// The addresses of memory that every GPU of a machine has, as this rank's kernels read it. An owner of what
/// it opened; the memory belongs to the tensor.
class Peers {
 public:
  Peers() = default;
  /// `own` lies on GPU `own_gpu` of the machine, which the lowest rank with that GPU reports to the others.
  /// Collective; throws on all ranks alike.
  Peers(const comm::Machine& machine, int own_gpu, std::byte* own);
  Peers(Peers&&) noexcept;
  Peers& operator=(Peers&&) noexcept;
  ~Peers();

  /// The addresses by GPU.
  const std::array<const void*, sampling::kMostPieces>& pieces() const { return pieces_; }
  void close();  ///< no kernel may still read

 private:
  std::array<const void*, sampling::kMostPieces> pieces_{};
  std::vector<void*> opened_;
};

}  // namespace strata::dgs
