// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <limits>
#include <span>
#include <string>

#include "strata/comm/machine.hpp"
#include "strata/store/machine_graph.hpp"
#include "strata/tensor/chunk_tensor.hpp"
#include "strata/tensor/host_region.hpp"

namespace strata::store {

/// A typed array in host memory that the ranks of a machine share. An owner of this rank's mapping.
template <typename T>
class HostArray {
 public:
  static HostArray create(const comm::Machine& machine, Count size, const std::string& name) {
    return HostArray(tensor::HostRegion::create(machine, static_cast<std::size_t>(size) * sizeof(T), name),
                     size);
  }
  T* data() const { return reinterpret_cast<T*>(region_.data()); }
  Count size() const { return size_; }
  std::span<T> span() const { return {data(), static_cast<std::size_t>(size_)}; }

  /// Calls fill(T*), which writes the staging.size() elements from `first` on; see HostRegion::fill.
  template <typename Fill>
  void fill(Count first, std::span<T> staging, Fill&& fill) const {
    region_.fill(static_cast<std::size_t>(first) * sizeof(T), std::as_writable_bytes(staging),
                 [&](std::byte* target) { fill(reinterpret_cast<T*>(target)); });
  }

 private:
  HostArray(tensor::HostRegion region, Count size) : region_(std::move(region)), size_(size) {}
  tensor::HostRegion region_;
  Count size_;
};

/// Ids as i32 or i64, the two forms of IdSpan, in shared host memory. An owner of this rank's mapping.
class HostIds {
 public:
  static HostIds create(const comm::Machine& machine, Count size, bool wide, const std::string& name) {
    const std::size_t width = wide ? sizeof(std::int64_t) : sizeof(std::int32_t);
    return HostIds(tensor::HostRegion::create(machine, static_cast<std::size_t>(size) * width, name),
                   {.data = nullptr, .size = size, .wide = wide});
  }
  const IdSpan& view() const { return view_; }
  std::size_t bytes() const { return region_.bytes(); }

  /// Calls fill(pointer to i32 or i64), which writes the staging.size() ids from `first` on; see
  /// HostRegion::fill.
  template <typename Fill>
  void fill(Count first, std::span<std::int64_t> staging, Fill&& fill) const {
    const auto with = [&]<typename Id>(Id*) {
      const std::span bytes(reinterpret_cast<std::byte*>(staging.data()), staging.size() * sizeof(Id));
      region_.fill(static_cast<std::size_t>(first) * sizeof(Id), bytes,
                   [&](std::byte* target) { fill(reinterpret_cast<Id*>(target)); });
    };
    view_.wide ? with(static_cast<std::int64_t*>(nullptr)) : with(static_cast<std::int32_t*>(nullptr));
  }

  /// Calls visitor(pointer to i32 or i64), for writing.
  template <typename Visitor>
  decltype(auto) visit(Visitor&& visitor) const {
    return view_.wide ? visitor(reinterpret_cast<std::int64_t*>(region_.data()))
                      : visitor(reinterpret_cast<std::int32_t*>(region_.data()));
  }

 private:
  HostIds(tensor::HostRegion region, IdSpan view) : region_(std::move(region)), view_(view) {
    view_.data = region_.data();
  }
  tensor::HostRegion region_;
  IdSpan view_;
};

/// Sizes of all that a machine keeps in host memory, except features.
struct RegionSizes {
  Count num_nodes = 0;
  NodeId first_node = 0;
  Count num_local = 0, local_edges = 0;
  Count num_train = 0, local_valid = 0, local_test = 0;
  bool edge_ids = false, weights = false, in_degrees = false;
  bool train_clusters = false;
  Count label_words = 0;    ///< i32 words of a node's label; 0: there are no labels
  bool replicated = false;  ///< the lists of all nodes are here, and `local_edges` is the number of all edges
  Count aliases = 0;        ///< additional original ids, one per list of the halo

  NodeId first_list() const { return replicated ? 0 : first_node; }
  Count num_lists() const { return replicated ? num_nodes : num_local; }
  bool wide_nodes() const { return num_nodes > std::numeric_limits<std::int32_t>::max(); }
  std::int64_t bytes() const;
};

/// Structure, labels and splits of a machine in host memory. An owner.
struct GraphRegions {
  RegionSizes sizes;
  HostArray<Count> indptr;
  HostIds indices;
  HostArray<EdgeId> edge_ids;          ///< size 0 if not asked for
  HostArray<float> weights;            ///< size 0 if not asked for
  HostIds original_ids;                ///< [num_nodes + aliases]
  HostArray<std::int32_t> in_degrees;  ///< size 0 if not asked for
  HostArray<std::int32_t> labels;
  HostArray<NodeId> train, valid, test;
  HostArray<std::int32_t> train_clusters;  ///< size 0 if not asked for

  static GraphRegions create(const comm::Machine& machine, const RegionSizes& sizes);  ///< collective
  /// The same with an existing indptr, for callers that count edges before they know the sizes.
  static GraphRegions create(const comm::Machine& machine, const RegionSizes& sizes, HostArray<Count> indptr);
  GraphView view() const;                         ///< of the machine's own nodes
  GraphView lists_view() const;                   ///< of all nodes whose lists are here
  GraphView own_nodes_of(GraphView lists) const;  ///< the part that view() is of lists_view()
};

}  // namespace strata::store
