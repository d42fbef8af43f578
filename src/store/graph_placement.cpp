#include "graph_placement.hpp"

#include <algorithm>
#include <numeric>

namespace strata::store {
namespace {

std::int64_t id_width(const RegionSizes& sizes) { return sizes.wide_nodes() ? 8 : 4; }

}  // namespace

Count FeatureShape::rows() const { return std::accumulate(part_rows.begin(), part_rows.end(), Count{0}); }

std::int64_t GraphPlacement::host_bytes(const RegionSizes& sizes, const FeatureShape& shape) const {
  Count host_rows = 0;
  for (const Segment& s : features.segments) host_rows += s.host;
  return sizes.bytes() + host_rows * shape.row_bytes();
}

GraphPlacement plan_placement(const RegionSizes& sizes, const FeatureShape& features,
                              std::int64_t gpu_bytes) {
  std::int64_t left = gpu_bytes;
  const auto take = [&left](bool wanted, std::int64_t bytes) {
    if (!wanted || bytes > left) return false;
    left -= bytes;
    return true;
  };
  GraphPlacement plan;
  if (gpu_bytes > 0) {
    plan.indptr = take(true, (sizes.num_local + 1) * static_cast<std::int64_t>(sizeof(Count)));
    plan.original_ids = take(true, sizes.num_nodes * id_width(sizes));
    plan.in_degrees =
        take(sizes.in_degrees, sizes.num_nodes * static_cast<std::int64_t>(sizeof(std::int32_t)));
    plan.indices = take(true, sizes.local_edges * id_width(sizes));
  }
  const Count rows = features.rows();
  const Count rows_that_fit = features.row_bytes() > 0 ? std::min(rows, left / features.row_bytes()) : 0;
  const double fraction = rows > 0 ? static_cast<double>(rows_that_fit) / static_cast<double>(rows) : 0;
  for (const Count part_rows : features.part_rows) {
    const Count on_gpu =
        rows_that_fit == rows ? part_rows : static_cast<Count>(fraction * static_cast<double>(part_rows));
    plan.features.segments.push_back({.replicated = gpu_bytes > 0 ? on_gpu : 0,
                                      .striped = 0,
                                      .host = gpu_bytes > 0 ? part_rows - on_gpu : part_rows});
  }
  return plan;
}

GraphOnDevice::GraphOnDevice(Device device, const GraphView& host, const GraphPlacement& placement)
    : view_(host) {
  view_.device = device;
  if (!device.is_cuda()) return;
  const cuda::Stream stream(device);
  const auto place = [&](bool wanted, const auto* data, Count size, const char* name) {
    using Pointer = decltype(data);
    if (!wanted) return data;
    return static_cast<Pointer>(copy(data, size * static_cast<std::int64_t>(sizeof(*data)), name, stream));
  };
  const auto place_ids = [&](bool wanted, IdSpan ids, const char* name) {
    ids.visit([&](const auto* typed) { ids.data = place(wanted, typed, ids.size, name); });
    return ids;
  };
  view_.indptr = place(placement.indptr, host.indptr, host.num_local + 1, "indptr");
  view_.original_ids = place_ids(placement.original_ids, host.original_ids, "original ids");
  view_.in_degrees = place(placement.in_degrees && host.in_degrees != nullptr, host.in_degrees,
                           host.num_nodes, "in-degrees");
  view_.indices = place_ids(placement.indices, host.indices, "indices");
  stream.synchronize();
}

const void* GraphOnDevice::copy(const void* data, std::int64_t bytes, const std::string& name,
                                const cuda::Stream& stream) {
  // A copy must not cross the border of two registered blocks; they begin at multiples of 64 GiB.
  constexpr std::int64_t kPiece = std::int64_t{1} << 30;
  buffers_.emplace_back(cuda::Memory::device, static_cast<std::size_t>(bytes), name, stream.device());
  for (std::int64_t offset = 0; offset < bytes; offset += kPiece) {
    cuda::copy_async(static_cast<std::byte*>(buffers_.back().data()) + offset,
                     static_cast<const std::byte*>(data) + offset,
                     static_cast<std::size_t>(std::min(kPiece, bytes - offset)), stream);
  }
  return buffers_.back().data();
}

std::vector<MachineGraph::PlanRow> plan_rows(const GraphRegions& regions, const GraphPlacement& placement,
                                             const ChunkTensor& features, Device device) {
  const RegionSizes& sizes = regions.sizes;
  std::vector<MachineGraph::PlanRow> rows;
  const auto add = [&](const char* tensor, bool on_gpu, Count count, std::int64_t bytes) {
    if (count > 0) rows.push_back({tensor, on_gpu && device.is_cuda() ? "gpu" : "host", count, bytes});
  };
  add("indptr", placement.indptr, sizes.num_local + 1,
      static_cast<std::int64_t>(regions.indptr.span().size_bytes()));
  add("indices", placement.indices, sizes.local_edges, static_cast<std::int64_t>(regions.indices.bytes()));
  add("edge ids", false, regions.edge_ids.size(),
      static_cast<std::int64_t>(regions.edge_ids.span().size_bytes()));
  add("original ids", placement.original_ids, sizes.num_nodes,
      static_cast<std::int64_t>(regions.original_ids.bytes()));
  add("in-degrees", placement.in_degrees, regions.in_degrees.size(),
      static_cast<std::int64_t>(regions.in_degrees.span().size_bytes()));
  Segment sum;
  for (const Segment& s : features.placement().segments) {
    sum.replicated += s.replicated;
    sum.striped += s.striped;
    sum.host += s.host;
  }
  const auto row_bytes = static_cast<std::int64_t>(features.spec().row_bytes());
  if (row_bytes > 0) {
    add("features", true, sum.replicated, sum.replicated * row_bytes);
    add("features", false, sum.host, sum.host * row_bytes);
  }
  return rows;
}

}  // namespace strata::store
