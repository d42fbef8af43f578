// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <memory>

#include "strata/util/types.hpp"

namespace strata::cuda {

namespace backend {
class GreenContext;
}

/// Some of a GPU's multiprocessors (SMs), or all of them. Kernels of a stream that was made for a group run
/// only on its SMs. So do kernels of a graph that was recorded with such a stream, wherever it is launched. A
/// shared owner.
class SmGroup {
 public:
  SmGroup() = default;  ///< all
  explicit SmGroup(std::shared_ptr<const backend::GreenContext> context) : context_(std::move(context)) {}

  bool is_all() const { return context_ == nullptr; }
  int num_sms() const;  ///< REQUIRES: not all
  bool operator==(const SmGroup&) const = default;
  const backend::GreenContext& context() const { return *context_; }  ///< REQUIRES: not all

 private:
  std::shared_ptr<const backend::GreenContext> context_;
};

/// Percent of a GPU's SMs for two kinds of work.
struct SmShares {
  int first = 100, second = 100;
  bool operator==(const SmShares&) const = default;
};

/// The groups of two kinds of work.
struct SmSplit {
  SmGroup first, second;
};

/// Takes the first share from one end of the SMs and the second from the other end, so that they overlap only
/// if their sum exceeds 100. SMs come in units (of 8 on Hopper). Each share gets at least one unit; SMs that
/// do not fill a unit belong to the second share. 100 percent are all SMs.
///
/// Throws CudaError with the reason if the driver, MPS or the GPU does not allow it, or if the GPU has fewer
/// than two units.
SmSplit split_sms(Device device, const SmShares& shares);

}  // namespace strata::cuda
