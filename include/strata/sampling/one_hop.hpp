// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>

#include "strata/cuda/stream.hpp"
#include "strata/util/random.hpp"
#include "strata/util/threads.hpp"
#include "strata/util/types.hpp"

/// One hop of neighbor sampling from arrays that lie anywhere: no graph of Strata's, no blocks.
namespace strata::sampling {

constexpr int kMostPieces = 16;  ///< GPUs of one host

/// An array in pieces; a view, which kernels get by value. Element i lies in piece i / piece_size if i is
/// below in_pieces, else in the rest.
///
///     piece_size 25, in_pieces 50: element 30 is pieces[1][5], element 60 is rest[10]
struct PiecedArray {
  std::array<const void*, kMostPieces> pieces{};
  const void* rest = nullptr;
  Count piece_size = 1, in_pieces = 0;
  Count size = 0;
  DType dtype = DType::i64;

  static PiecedArray of(const void* data, Count size, DType dtype) {
    return {.rest = data, .size = size, .dtype = dtype};
  }
};

/// The in-neighbors of node v are indices[indptr[v]] to indices[indptr[v + 1] - 1].
struct HopArrays {
  PiecedArray indptr, indices;         ///< i32 or i64
  std::optional<PiecedArray> weights;  ///< f32 or f64, one per index: neighbors are chosen in proportion
};

enum class Replacement { without, with };

struct HopRule {
  Count fanout = 0;  ///< -1: all neighbors; only without weights and replacement
  Replacement replacement = Replacement::without;
  std::uint64_t key = 0;  ///< of the call; every entry of the seeds has a key of its own
};

/// The picks as edges, in the order of the seeds: seed and neighbor, [num_edges] each, in the types of the
/// seeds and of the indices.
struct HopEdges {
  void* seeds = nullptr;  ///< may be null: they are not written
  void* neighbors = nullptr;
  /// Whether neighbors are [num_edges + seeds]: behind those of each entry stands the entry itself.
  bool and_seeds = false;
};

/// Chooses neighbors of every entry of a list of nodes, in which a node may occur several times. Without
/// replacement a list of at most `fanout` neighbors is taken whole, in order. A neighbor of weight 0 is never
/// chosen. CPU and GPU choose the same.
///
///     const auto hop = make_hop(arrays, seeds, rule, {.pool = &pool});
///     hop->choose({.seeds = rows, .neighbors = cols});        // each has hop->num_edges() elements
class OneHop {
 public:
  virtual ~OneHop() = default;
  virtual Count num_edges() const = 0;
  virtual void choose(const HopEdges& out) = 0;  ///< on a GPU asynchronous on the stream
  /// out[i] is where the edges of entry i of the seeds begin, the last one num_edges(): [seeds + 1]. On a GPU
  /// asynchronous on the stream.
  virtual void starts(Count* out) const = 0;
};

/// The resources of a hop: on a GPU the stream, and memory of it that lives as long as the hop; on the cpu
/// the pool, which outlives the hop.
struct HopPlace {
  cuda::Stream stream;
  std::function<void*(std::size_t bytes)> allocate;
  ThreadPool* pool = nullptr;
};

/// All arrays lie where the stream's device reads them, and outlive the hop. Waits for the number of edges.
/// Throws InputError for a fanout or arrays that are impossible, or a weight among the seeds' lists that is
/// not finite or below 0, std::out_of_range naming the first seed that is no node.
std::unique_ptr<OneHop> make_hop(const HopArrays& arrays, const IdSpan& seeds, const HopRule& rule,
                                 HopPlace place);

}  // namespace strata::sampling
