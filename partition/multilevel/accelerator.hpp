// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <memory>
#include <vector>

#include "multilevel/cluster.hpp"
#include "multilevel/jet_steps.hpp"

namespace strata::partition {

/// A device that clusters and refines levels, with the results of the CPU. For one thread.
///
/// Arrays of one number per node lie in the device's memory. So do neighbor lists if they fit; else they pass
/// through it in pieces, whenever they are scanned. Throws OutOfMemory and CudaError.
class Accelerator {
 public:
  virtual ~Accelerator() = default;

  /// Whether a level is large enough to be worth the way to the device.
  virtual bool suits(const LevelGraph& graph) const = 0;
  virtual Labels propagate(const LevelGraph& graph, const ClusterOptions& options) = 0;
  /// Makes steps that refer to all arguments.
  virtual std::unique_ptr<JetSteps> jet_steps(const LevelGraph& graph,
                                              const std::vector<std::int32_t>& part_of, int num_parts) = 0;
};

struct AcceleratorOptions {
  Count least_entries = Count{1} << 20;  ///< that a level must have to suit
  std::int64_t list_bytes = 0;           ///< most device memory for neighbor lists; 0: what is free
};

/// Throws InputError where there is no device, or the program was built without CUDA.
std::unique_ptr<Accelerator> cuda_accelerator(const AcceleratorOptions& options = {});

/// Whether cuda_accelerator() finds a device.
bool has_cuda_device();

}  // namespace strata::partition
