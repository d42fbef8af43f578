// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <memory>

#include "strata/comm/machine.hpp"
#include "strata/plan/graph_placement.hpp"
#include "strata/store/graph_view.hpp"

namespace strata::store {

/// Copies of the structure on the GPUs, and the view that this rank's kernels get. Each array lies on this
/// rank's GPU, or in host memory that the GPU reads, with copies of some elements on GPUs. An owner; on the
/// cpu it holds nothing, and the view is the host's.
class GraphOnDevice {
 public:
  GraphOnDevice();
  /// Makes the copies, and sets `placement` to what was realised. Collective over the machine; throws on all
  /// ranks alike.
  GraphOnDevice(const comm::Machine& machine, const GraphView& host, plan::GraphPlacement& placement);
  GraphOnDevice(GraphOnDevice&&) noexcept;
  GraphOnDevice& operator=(GraphOnDevice&&) noexcept;
  ~GraphOnDevice();

  const GraphView& view() const { return view_; }
  void close(const comm::Machine& machine);  ///< collective

 private:
  struct Copies;
  GraphView view_;
  std::unique_ptr<Copies> copies_;  ///< null: there are none
};

}  // namespace strata::store
