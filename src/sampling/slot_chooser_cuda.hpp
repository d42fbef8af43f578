#pragma once
#include <memory>

#include "strata/cuda/runtime.hpp"
#include "strata/store/machine_graph.hpp"
#include "strata/util/random.hpp"

namespace strata::sampling {

/// Nodes in device memory, whose number the host need not know.
struct DeviceFrontier {
  const NodeId* nodes = nullptr;
  const Count* count = nullptr;  ///< on the device
  Count bound = 0;               ///< at least the count
};

struct DeviceQuery {
  DeviceFrontier frontier;
  int fanout = 0;
  BatchKey key;
  std::uint32_t hop = 0;
};

/// Where a node's in-neighbours lie and the key of its choice (set only where there is something to choose).
struct DeviceRange {
  Count begin = 0, degree = 0;
  std::uint64_t key = 0;
};

template <typename Id>
struct DeviceSlotOutput {
  const Count* offsets = nullptr;  ///< [bound + 1]: the slots of node i begin at offsets[i]
  Count edge_bound = 0;            ///< at least the number of slots
  Id* neighbors = nullptr;
  EdgeId* edge_ids = nullptr;  ///< null: not asked for
};

/// SlotChooser on a device: asynchronous on `stream`, allocates and synchronises nothing. The same choice as
/// on the CPU.
template <typename Id>
class DeviceSlotChooser {
 public:
  virtual ~DeviceSlotChooser() = default;
  /// counts[i] = slots of node i, 0 for i from the number of nodes to the bound (inclusive). plan [bound].
  virtual void measure(const DeviceQuery& query, DeviceRange* plan, Count* counts,
                       const cuda::Stream& stream) = 0;
  virtual void choose(const DeviceQuery& query, const DeviceRange* plan, const DeviceSlotOutput<Id>& out,
                      const cuda::Stream& stream) = 0;
};

template <typename Id>
std::unique_ptr<DeviceSlotChooser<Id>> make_uniform_device_chooser(const store::GraphView& view);

}  // namespace strata::sampling
