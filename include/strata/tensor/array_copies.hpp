// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <memory>

#include "strata/comm/machine.hpp"
#include "strata/cuda/buffer.hpp"
#include "strata/tensor/array_strata.hpp"
#include "strata/tensor/chunk_tensor.hpp"

namespace strata::tensor {

class GpuStrata;

/// Copies of the elements of an array that a placement replicates or stripes, in the memory of the GPUs; the
/// array itself lies in host memory. An owner.
class ArrayCopies {
 public:
  /// Allocates the copies; their contents are undefined. `array` has one column. Without peer access there
  /// are no stripes: their elements then have no copy, which is logged. Collective over a machine whose
  /// ranks all have a GPU; throws on all of them alike.
  ArrayCopies(const comm::Machine& machine, const TensorSpec& array, Placement placement);
  ArrayCopies(ArrayCopies&&) noexcept;
  ArrayCopies& operator=(ArrayCopies&&) noexcept;
  ~ArrayCopies();

  /// Fills the copies from `elements`: the whole array, in host memory that all ranks see. Collective over
  /// the machine.
  void fill(const comm::Machine& machine, const void* elements);

  ArrayStrata strata() const { return strata_; }
  const Placement& placement() const { return placement_; }  ///< as realised
  void close(const comm::Machine& machine);                  ///< collective

 private:
  void adopt(const comm::Machine& machine);
  void write_share(const comm::Machine& machine, const std::byte* elements) const;

  Placement placement_;
  Count size_ = 0, element_bytes_ = 0;
  std::unique_ptr<GpuStrata> copies_;
  ArrayStrata strata_;
  cuda::Buffer segments_;
};

}  // namespace strata::tensor
