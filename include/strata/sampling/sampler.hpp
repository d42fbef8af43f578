// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "strata/comm/device_exchange.hpp"
#include "strata/comm/machine.hpp"
#include "strata/comm/reducer.hpp"
#include "strata/cuda/stream.hpp"
#include "strata/sampling/block.hpp"
#include "strata/sampling/neighbor_chooser.hpp"
#include "strata/store/graph_view.hpp"
#include "strata/store/halo.hpp"
#include "strata/util/random.hpp"
#include "strata/util/text.hpp"
#include "strata/util/threads.hpp"
#include "strata/util/types.hpp"

namespace strata::sampling {

class RecordingGate;

/// The method that chooses a node's neighbors. With a fanout of -1, every method takes all of them.
enum class Method {
  uniform,   ///< `fanout` of them, all equally likely; without replacement all of them if there are no more
  weighted,  ///< with probabilities in proportion to GraphView::weights; an edge of weight 0 is never chosen
  labor,     ///< LABOR-0: `fanout` on average; nodes that share neighbors choose the same ones; see LaborRule
};

struct SamplerOptions {
  std::vector<int> fanouts;  ///< from the seeds outwards; -1: all neighbors; 0 allowed
  /// [hops][relations] what a node gets over each relation; empty: `fanouts` of each. If given, a hop's
  /// fanout is the largest of its relations, or -1 if one of them is.
  std::vector<std::vector<int>> relation_fanouts = {};
  Method method = Method::uniform;
  bool replace = false;  ///< uniform and weighted: a neighbor may be chosen several times
  /// With labor, hops share their random numbers, so that there are fewer distinct nodes.
  bool layer_dependent = false;
  /// Each node's neighbors are chosen once: hop h chooses only for nodes that hop h - 1 found, and those
  /// known before have no edges in its block. The edges of all blocks then make one sampled graph, as PyG's
  /// loaders give it: a node has the same local id in every block.
  bool new_nodes_only = false;
  std::shared_ptr<NeighborChooser> chooser = nullptr;  ///< a user's own on the cpu, instead of `method`
  DeviceChooserMaker device_chooser = {};              ///< the same on a GPU
  Count max_seeds = 0;                                 ///< most seeds of any call; buffers are sized for it
  Count max_excluded = 0;                              ///< most entries that exclude() is given
  bool edge_ids = false;
  bool in_degrees = false;
  bool transpose = false;        ///< of every block except the input layer's, whose input needs no gradient
  bool input_transpose = false;  ///< of the input layer's block, too
  /// Lists of fixed stride, with `fanout` entries per dst node, if the sampler can make them (on GPUs without
  /// an exchange, for fanouts up to 32): this saves one scan per hop. Else the lists are packed.
  bool strided = false;
  /// False: the last hop's neighbors stay global ids, and are neither made distinct nor numbered, for a first
  /// layer that reads rows where they lie. Only without an exchange and with ids of 32 bits.
  bool compact_inputs = true;
  bool sorted_inputs = false;  ///< also give the input nodes in ascending order; needs compact_inputs
  /// False: src_original_ids of nodes that only the last hop found are not set.
  bool input_original_ids = true;

  /// The number of blocks with a transpose, counted from the seeds.
  std::size_t num_transposes() const {
    return !transpose ? 0 : input_transpose ? fanouts.size() : fanouts.size() - 1;
  }
};

/// The ways of requests for neighbors of remote nodes. Nothing is sent if there is only one machine.
struct ExchangeContext {
  /// A communicator over all ranks that only this stage uses; null on one machine.
  const comm::Communicator* communicator = nullptr;
  const comm::Topology* topology = nullptr;
  std::span<const NodeId> machine_offsets;
  const store::HaloLists* halo = nullptr;  ///< lists of some nodes of other machines; null: none
  ThreadPool* pool = nullptr;              ///< chooses from these lists on the cpu; needed with `halo`
  /// Carries requests and picks from GPU to GPU, once MiniBatchSampler::pad_nodes() has set how many there
  /// can be; the lists of `halo` are then copied to the GPU. Null: they pass through host memory. Same bits.
  comm::DeviceExchange* on_devices = nullptr;
  /// The order of the launches of `on_devices`, where a batch is the sample of a step; null: any.
  comm::LaunchOrder* order = nullptr;
  int lane = 0;                                ///< LaunchOrder::Turn::lane of this sampler
  comm::ExchangeListener* listener = nullptr;  ///< of messages that pass through host memory; null: nobody

  comm::LaunchOrder::Turn turn() const { return {comm::LaunchOrder::Exchange::sample, lane}; }
};

/// What a rank sent and received for one hop of its batches.
struct HopTraffic {
  Count request_messages = 0, request_bytes = 0;  ///< sent: ids that this rank asks about
  Count answer_messages = 0, answer_bytes = 0;    ///< sent: counts and picks for those who ask
  Count received_bytes = 0;
  /// Exchanges that followed each other, each of which takes at least the latency of a message.
  Count rounds = 0;

  HopTraffic& operator+=(const HopTraffic& other) {
    request_messages += other.request_messages;
    request_bytes += other.request_bytes;
    answer_messages += other.answer_messages;
    answer_bytes += other.answer_bytes;
    received_bytes += other.received_bytes;
    rounds += other.rounds;
    return *this;
  }
};

/// What an exchange did since it was made.
struct ExchangeReport {
  std::vector<Count> frontier_nodes, remote_nodes;  ///< by hop; remote nodes belong to other machines
  std::vector<Count> cached_nodes;                  ///< by hop: remote nodes that the halo cache answered for
  std::vector<Count> hop_bytes;                     ///< bytes sent, by hop
  std::vector<HopTraffic> traffic;                  ///< by hop
  std::vector<Count> largest_requests;              ///< by hop: most nodes asked of one rank in one batch
  std::vector<Count> largest_answers;               ///< by hop: most picks of these nodes
  Count bytes_sent = 0, bytes_received = 0;
  double seconds = 0;          ///< that messages took, including waits for other ranks
  double waited_seconds = 0;   ///< those that the sampler waited for; the others passed while it sampled
  Count repeated_batches = 0;  ///< sampled once more, because something did not fit its room

  explicit ExchangeReport(std::size_t num_hops = 0)
      : frontier_nodes(num_hops),
        remote_nodes(num_hops),
        cached_nodes(num_hops),
        hop_bytes(num_hops),
        traffic(num_hops),
        largest_requests(num_hops),
        largest_answers(num_hops) {}

  /// Adds what another exchange did with the same hops.
  ExchangeReport& operator+=(const ExchangeReport& other);
};

/// Entries that a batch must not have, such as the edges that it is to predict; a view of host memory, which
/// enqueue() has read when it returns. Ascending positions in GraphView::indices.
struct ExcludedEntries {
  std::span<const Count> lists = {};  ///< in the sampler's view
  std::span<const Count> halo = {};   ///< in the view of ExchangeContext::halo
};

/// Samples minibatches of blocks. Random choices are keyed by (batch, hop, original id), so the set of
/// sampled (layer, dst, edge id) is the same for every number of ranks, machines and parts, on CPU and GPU.
///
/// In a graph of several relations a node gets neighbors over each relation by itself, in the order of the
/// relations; the key of the choice has the relation's number.
///
/// Uniform sampling without replacement gives a node of degree d > fanout the positions of Subset(d, fanout,
/// node_key(key, sample, hop, id)), pick by pick; beyond what Subset admits, the first positions of the keyed
/// permutation Shuffle. A node of smaller degree gets all its neighbors in order. Hop h samples for ALL nodes
/// found so far, including the seeds, unless SamplerOptions::new_nodes_only is set.
class MiniBatchSampler {
 public:
  virtual ~MiniBatchSampler() = default;

  /// Begins to sample the blocks of `seeds` into `buffer`, one of the sampler's buffer sets (0 <= buffer <
  /// num_buffers), whose earlier result is lost. Seeds are global ids that any machine may own, in host
  /// memory or on the sampler's GPU.
  ///
  /// Collective over the exchange's communicator if there is one: every rank calls it equally often, without
  /// seeds if it has none. All is done when the call returns on the cpu, and when `stream` reaches this point
  /// on a GPU. Without an exchange and with bounded fanouts the host waits for nothing, and the batches of a
  /// buffer set are replays of one CUDA graph. Seeds in host memory may be reused at once. Every enqueue() of
  /// a buffer must be followed by its finish().
  virtual void enqueue(std::span<const NodeId> seeds, const BatchKey& key, int buffer,
                       const cuda::Stream& stream) = 0;
  /// The result of this buffer set's enqueue(). Waits until its sizes are known on the host.
  ///
  /// Seeds must be distinct, because a block has one row per node. If a node occurs twice, or an id belongs
  /// to no node, InputError is thrown here or by enqueue().
  virtual MiniBatch finish(int buffer) = 0;

  MiniBatch sample(std::span<const NodeId> seeds, const BatchKey& key, int buffer,
                   const cuda::Stream& stream) {
    enqueue(seeds, key, buffer, stream);
    return finish(buffer);
  }
  virtual ExchangeReport report() const = 0;

  /// The next enqueue() chooses none of these entries; see PickQuery::excluded.
  virtual void exclude(const ExcludedEntries& entries) = 0;

  /// The most that a batch can need, if that is known beforehand; else a shape without hops. Where fanouts
  /// do not bound a node's picks, it is more after a batch that needed more.
  virtual PaddedShape bounds() const { return {}; }
  /// From the next batch on, pad() may give batches this shape, which must lie within bounds(): src_nodes
  /// after the sampled ones are then -1, with original id 0 and degree 0. Call it only between batches, and
  /// only for samplers with bounds().
  virtual void pad_nodes(const PaddedShape& /*shape*/) {}
  /// From the next batch on, CUDA graphs are recorded only while the gate is open; enqueue() may wait for
  /// that once per buffer set. Without a gate they are recorded at any time.
  virtual void record_within(RecordingGate& /*gate*/) {}
};

/// Makes the sampler for view.device. `view` and `pool` must outlive it. Throws InputError if there are no
/// fanouts or one is below -1.
std::unique_ptr<MiniBatchSampler> make_sampler(const store::GraphView& view, const SamplerOptions& options,
                                               const ExchangeContext& exchange, int num_buffers,
                                               ThreadPool& pool);

/// The device that blocks are copied to, and the cores that sample for it.
struct UploadTarget {
  Device device;
  ThreadPool* pool = nullptr;
};

/// Makes a sampler that runs on the CPU for a GPU: it reads a view in host memory and copies the same blocks
/// as a sampler on the GPU would make, in packed lists. enqueue() takes seeds in host memory, samples, and
/// begins the copies; finish() waits for nothing. Throws as make_sampler() does.
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

namespace strata::sampling {

/// Appends the positions that a uniform sampler takes of a list of `degree` neighbors, `fanout` of them.
/// `key` is that of the node's choice (node_key). REQUIRES: 0 <= fanout < degree.
void append_uniform_picks(Count degree, int fanout, std::uint64_t key, std::vector<Count>& positions);

}  // namespace strata::sampling
