#pragma once
#include <memory>
#include <string>

#include "gpu_strata.hpp"
#include "strata/comm/machine.hpp"
#include "strata/store/array_strata.hpp"

namespace strata::store {

/// An array in host memory that all ranks of a machine see.
struct HostElements {
  std::string name;
  const void* data = nullptr;
  Count size = 0;
  DType dtype = DType::i64;
};

/// Copies of the elements of an array that a placement replicates or stripes, in the memory of the GPUs. An
/// owner.
class ArrayCopies {
 public:
  /// Allocates and fills them. Where stripes cannot be, for lack of peer access, their elements have no copy
  /// and the log says so. Collective over a machine whose ranks all have a GPU; throws on all of them alike.
  ArrayCopies(const comm::Machine& machine, const HostElements& array, Placement placement);

  ArrayStrata strata() const { return strata_; }
  const Placement& placement() const { return placement_; }              ///< as realised
  void close(const comm::Machine& machine) { copies_->close(machine); }  ///< collective

 private:
  void fill(const comm::Machine& machine, const HostElements& array, const Layout& layout);

  Placement placement_;
  std::unique_ptr<GpuStrata> copies_;
  ArrayStrata strata_;
  cuda::Buffer segments_;
};

}  // namespace strata::store
