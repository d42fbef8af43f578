// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <memory>
#include <span>
#include <vector>

#include "strata/comm/machine.hpp"
#include "strata/cuda/stream.hpp"
#include "strata/sampling/block.hpp"
#include "strata/sampling/device_pick_chooser.hpp"
#include "strata/sampling/neighbor_chooser.hpp"
#include "strata/store/graph_view.hpp"
#include "strata/store/halo_lists.hpp"
#include "strata/util/enum_names.hpp"
#include "strata/util/random.hpp"
#include "strata/util/thread_pool.hpp"

namespace strata::sampling {

/// How a node's neighbors are chosen. With a fanout of -1, every method takes all of them.
enum class Method {
  uniform,   ///< `fanout` of them, each as likely; without replacement all where there are no more
  weighted,  ///< in proportion to GraphView::weights; an edge of weight 0 is never chosen
  labor,     ///< LABOR-0: `fanout` on average, the same ones for nodes that share neighbors; see LaborRule
};

struct SamplerOptions {
  std::vector<int> fanouts;  ///< from the seeds outwards; -1: all neighbors; 0 allowed
  Method method = Method::uniform;
  bool replace = false;          ///< uniform and weighted: a neighbor may be chosen several times
  bool layer_dependent = false;  ///< labor: hops share their random numbers, so that fewer nodes are met
  std::shared_ptr<NeighborChooser> chooser = nullptr;  ///< a user's own, instead of a method, on the cpu
  DeviceChooserMaker device_chooser = {};              ///< and on a GPU
  Count max_seeds = 0;                                 ///< no call gets more; buffers are sized from it
  bool edge_ids = false;
  bool in_degrees = false;
  bool transpose = false;        ///< of every block but the input layer's (whose input needs no gradient)
  bool input_transpose = false;  ///< of the input layer's, too
  /// Edges in fixed-stride lists, a fanout a dst node, where the sampler has them so (GPUs without an
  /// exchange, fanouts up to 32): spares a scan a hop. Else, and by default, packed lists.
  bool strided = false;
  /// Off: the last hop's neighbors are left as global ids, and are neither made distinct nor numbered: for a
  /// first layer that reads rows where they lie. Without an exchange, and with ids of 32 bits, only.
  bool compact_inputs = true;
  bool sorted_inputs = false;      ///< the input nodes in ascending order, too; with compacted ones only
  bool input_original_ids = true;  ///< off: src_original_ids of nodes that only the last hop met are not set

  /// The number of blocks with a transpose, counted from the seeds.
  std::size_t num_transposes() const {
    return !transpose ? 0 : input_transpose ? fanouts.size() : fanouts.size() - 1;
  }
};

/// Where requests for remote neighbors go: everything is on one machine if num_machines is 1, and then
/// nothing is sent.
struct ExchangeContext {
  /// Of the stage's own, over all ranks; null on one machine.
  const comm::Communicator* communicator = nullptr;
  const comm::Topology* topology = nullptr;
  std::span<const NodeId> machine_offsets;
  const store::HaloLists* halo = nullptr;  ///< answers for some nodes of other machines; null: none
  ThreadPool* pool = nullptr;              ///< chooses for them; needed with `halo`
};

/// What an exchange did, since it was made.
struct ExchangeReport {
  std::vector<Count> frontier_nodes, remote_nodes;  ///< by hop; remote: of other machines
  std::vector<Count> cached_nodes;                  ///< by hop: remote ones that the halo cache answered
  std::vector<Count> hop_bytes;                     ///< by hop, sent
  Count bytes_sent = 0, bytes_received = 0;
  double seconds = 0;         ///< that messages took, including what other ranks let this one wait
  double waited_seconds = 0;  ///< of these, that the sampler waited for; the rest passed while it sampled

  explicit ExchangeReport(std::size_t num_hops = 0)
      : frontier_nodes(num_hops), remote_nodes(num_hops), cached_nodes(num_hops), hop_bytes(num_hops) {}
};

/// Uniform neighbor sampling without replacement, keyed by (batch, hop, original id): the set of sampled
/// (layer, dst, edge id) is the same for every number of ranks, machines and parts, on CPU and GPU.
///
/// A node of degree d > fanout gets the positions of Subset(d, fanout, node_key(key, sample, hop, id)), pick
/// by pick (beyond what Subset admits: the first of the keyed permutation Shuffle); a node of smaller degree
/// has all its neighbors in order. Hop h samples for ALL nodes found so far, the seeds included.
class MiniBatchSampler {
 public:
  virtual ~MiniBatchSampler() = default;

  /// Begins to sample the blocks of `seeds` (global ids, owned by any machine; in host memory, or on the
  /// sampler's GPU) into `buffer`, one of the sampler's buffer sets (0 <= buffer < num_buffers), whose
  /// earlier result is lost.
  ///
  /// Collective over the exchange's communicator if there is one: every rank calls it equally often, with no
  /// seeds if it has none. On the cpu all is done when the call returns, on a GPU when `stream` reaches this
  /// point; without an exchange and with fanouts that are bounded, the host waits for nothing and a buffer
  /// set's batches are replays of one CUDA graph. Seeds in host memory may be reused at once. Every enqueue()
  /// of a buffer is followed by its finish().
  virtual void enqueue(std::span<const NodeId> seeds, const BatchKey& key, int buffer,
                       const cuda::Stream& stream) = 0;
  /// The result of that buffer set's enqueue(). Waits until its sizes are known on the host.
  ///
  /// Seeds are distinct, for a block has one row a node: a batch with a node twice, or with an id of no node,
  /// throws InputError here or from enqueue().
  virtual MiniBatch finish(int buffer) = 0;

  MiniBatch sample(std::span<const NodeId> seeds, const BatchKey& key, int buffer,
                   const cuda::Stream& stream) {
    enqueue(seeds, key, buffer, stream);
    return finish(buffer);
  }
  virtual ExchangeReport report() const = 0;

  /// The most that a batch can need where that is known beforehand; else no hops.
  virtual PaddedShape bounds() const { return {}; }
  /// From the next batch on a batch may be given the shape by pad(), as far as bounds() go: src_nodes beyond
  /// the sampled ones are -1, with original id and degree 0. Between batches only; samplers with bounds()
  /// only.
  virtual void pad_nodes(const PaddedShape& /*shape*/) {}
};

/// The sampler for view.device. `view` and `pool` must outlive it. Throws InputError for fanouts below -1 or
/// none.
std::unique_ptr<MiniBatchSampler> make_sampler(const store::GraphView& view, const SamplerOptions& options,
                                               const ExchangeContext& exchange, int num_buffers,
                                               ThreadPool& pool);

/// The device that blocks are copied to, and the cores that sample for it.
struct UploadTarget {
  Device device;
  ThreadPool* pool = nullptr;
};

/// Samples a view in host memory on the CPU for a GPU: the same blocks as a sampler on the device, in packed
/// lists. enqueue() samples, with seeds in host memory, and begins the copies; finish() waits for nothing.
/// Throws as make_sampler.
std::unique_ptr<MiniBatchSampler> make_uploading_sampler(const store::GraphView& view,
                                                         const SamplerOptions& options,
                                                         const ExchangeContext& exchange, int num_buffers,
                                                         const UploadTarget& target);

}  // namespace strata::sampling

namespace strata {

template <>
inline constexpr auto enum_names<sampling::Method> =
    std::to_array<EnumName<sampling::Method>>({{sampling::Method::uniform, "uniform"},
                                               {sampling::Method::weighted, "weighted"},
                                               {sampling::Method::labor, "labor"}});

}  // namespace strata
