// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "cache/adjacency_directory.hpp"
#include "strata/comm/machine.hpp"
#include "strata/cuda/buffer.hpp"
#include "strata/cuda/stream.hpp"
#include "strata/store/graph_view.hpp"
#include "strata/tensor/array_copies.hpp"

namespace strata::store {

/// The neighbor lists of a machine, in host memory that all its ranks see and that is registered with their
/// GPUs.
struct HostLists {
  const Count* indptr = nullptr;
  const Count* indptr_for_gpu = nullptr;  ///< the same, at an address where the GPU reads it faster
  struct Array {                          ///< one array of the lists' entries
    std::string name;
    const void* data = nullptr;
    DType dtype = DType::i64;
  };
  std::vector<Array> arrays;
};

/// Copies of chosen neighbor lists in the memory of the GPUs: the same lists of every array. An owner.
class AdjacencyCache {
 public:
  /// Chooses the lists, allocates their copies and fills them. Without peer access there are no stripes:
  /// their lists then have no copy, and the log says so. Collective over a machine whose ranks all have a
  /// GPU; throws on all of them alike.
  AdjacencyCache(const comm::Machine& machine, const HostLists& lists, const plan::ListRanking& ranking,
                 const tensor::Placement& wanted);

  AdjacencyCacheView lists() const { return lists_; }
  CachedEntries entries(std::size_t array) const { return arrays_[array].copies; }
  const tensor::Placement& placement() const { return placement_; }  ///< of the entries, as realised
  void close(const comm::Machine& machine);                          ///< collective

 private:
  struct Array {
    HostLists::Array host;
    std::optional<tensor::ArrayCopies> owner = {};
    CachedEntries copies = {};
  };
  void allocate(const comm::Machine& machine, const tensor::Segment& totals);
  void drop_lacking(AdjacencyDirectory& directory) const;
  const AdjacencyCacheView::Group* upload(const AdjacencyDirectory::Groups& groups,
                                          const cuda::Stream& stream);
  void fill(const comm::Machine& machine, const Count* indptr, Count num_nodes,
            const cuda::Stream& stream) const;

  tensor::Placement placement_;
  std::vector<Array> arrays_;
  std::vector<cuda::Buffer> groups_;
  AdjacencyCacheView lists_;
};

}  // namespace strata::store
