#pragma once
#include <string>
#include <vector>

#include "graph_regions.hpp"
#include "strata/store/chunk_tensor.hpp"
#include "strata/store/machine_graph.hpp"

namespace strata::store {

/// Rows of one tensor in bytes, for planning.
struct FeatureShape {
  Count cols = 0;
  DType dtype = DType::f32;
  std::vector<Count> part_rows;  ///< of each hosted part, hottest row first

  std::int64_t row_bytes() const { return cols * static_cast<std::int64_t>(size_of(dtype)); }
  Count rows() const;
};

/// What of a machine's graph goes to every GPU of it, in the order in which the budget is spent.
struct GraphPlacement {
  bool indptr = false, original_ids = false, in_degrees = false, indices = false;
  Placement features;

  std::int64_t host_bytes(const RegionSizes& sizes, const FeatureShape& features) const;
};

/// Spends `gpu_bytes`: what the sampler reads at random first, then the indices if they fit whole, then the
/// hottest rows of each part's features, the same fraction of each.
GraphPlacement plan_placement(const RegionSizes& sizes, const FeatureShape& features, std::int64_t gpu_bytes);

/// Copies of structure on this rank's GPU, and the view that kernels get: each array there, or zero-copy in
/// host memory. An owner; on the cpu it holds nothing and the view is the host's.
class GraphOnDevice {
 public:
  GraphOnDevice() = default;
  GraphOnDevice(Device device, const GraphView& host, const GraphPlacement& placement);
  const GraphView& view() const { return view_; }

 private:
  const void* copy(const void* data, std::int64_t bytes, const std::string& name, const cuda::Stream& stream);
  GraphView view_;
  std::vector<cuda::Buffer> buffers_;
};

std::vector<MachineGraph::PlanRow> plan_rows(const GraphRegions& regions, const GraphPlacement& placement,
                                             const ChunkTensor& features, Device device);

}  // namespace strata::store
