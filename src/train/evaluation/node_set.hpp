// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <bit>
#include <cstdint>
#include <span>
#include <vector>

#include "strata/comm/communicator.hpp"
#include "strata/cuda/buffer.hpp"
#include "strata/cuda/stream.hpp"
#include "strata/util/random.hpp"
#include "strata/util/threads.hpp"
#include "strata/util/types.hpp"

struct CUstream_st;

namespace strata::train {

/// 64 nodes: a bit for each member among them, and the number of members before them.
struct alignas(16) RankedWord {
  std::uint64_t bits = 0;
  Count before = 0;

  static constexpr int kNodes = 64;
  /// REQUIRES: this is the node's word.
  STRATA_HOST_DEVICE Count rank(NodeId node) const {
    const std::uint64_t below =
        bits & ((std::uint64_t{1} << (static_cast<std::uint64_t>(node) % kNodes)) - 1);
#ifdef __CUDA_ARCH__
    return before + __popcll(below);
#else
    return before + std::popcount(below);
#endif
  }
};

/// A set of nodes out of 0 .. num_nodes - 1. A member's rank is the number of members below it:
///
///     {2, 5, 6}:  rank(5) = 1, rank(7) = 3, node_of(2) = 6
///
/// Takes two bits per node.
class NodeSet {
 public:
  explicit NodeSet(Count num_nodes);

  void insert(NodeId node);  ///< thread-safe; the ranks are wrong until unite()
  /// The union of the sets of all ranks. Collective.
  void unite(const comm::Communicator& communicator);

  Count size() const { return size_; }
  bool contains(NodeId node) const { return (word(node).bits >> (node % RankedWord::kNodes) & 1) != 0; }
  Count rank(NodeId node) const { return word(node).rank(node); }  ///< members below; node <= num_nodes
  NodeId node_of(Count rank) const;                                ///< REQUIRES: rank < size()

  /// Calls visit(node) for the members with ranks [begin, end), in ascending order.
  template <typename Visit>
  void for_ranks(Count begin, Count end, Visit&& visit) const {
    if (begin >= end) return;
    NodeId node = node_of(begin);
    for (Count left = end - begin; left > 0; ++node) {
      if (!contains(node)) continue;
      visit(node);
      --left;
    }
  }

  std::span<const RankedWord> words() const { return words_; }

 private:
  const RankedWord& word(NodeId node) const {
    return words_[static_cast<std::size_t>(node / RankedWord::kNodes)];
  }
  std::vector<RankedWord> words_;
  Count size_ = 0;
};

/// Turns ids of members into their ranks, on the device of the ids. A view of the set on the cpu; an owner of
/// a copy of it on a GPU.
class RankLookup {
 public:
  RankLookup(const NodeSet& set, Device device);

  /// ranks[i] = set.rank(ids[i]), all on the device. Asynchronous on a GPU's stream; blocks on the cpu.
  void find(const NodeId* ids, Count count, NodeId* ranks, const cuda::Stream& stream,
            ThreadPool& pool) const;

 private:
  Device device_;
  const RankedWord* words_ = nullptr;
  cuda::Array<RankedWord> copy_;
};

void find_ranks_cuda(const RankedWord* words, const NodeId* ids, Count count, NodeId* ranks,
                     CUstream_st* stream);

}  // namespace strata::train
