#pragma once
#include <memory>
#include <span>
#include <vector>

#include "strata/comm/machine.hpp"
#include "strata/cuda/runtime.hpp"
#include "strata/sampling/block.hpp"
#include "strata/store/machine_graph.hpp"
#include "strata/util/random.hpp"
#include "strata/util/thread_pool.hpp"

namespace strata::sampling {

struct SamplerOptions {
  std::vector<int> fanouts;  ///< from the seeds outwards; -1: all neighbours; 0 allowed
  Count max_seeds = 0;       ///< no call gets more; buffers are sized from it
  bool edge_ids = false;
  bool in_degrees = false;
  bool transpose = false;        ///< of every block but the input layer's (whose input needs no gradient)
  bool input_transpose = false;  ///< of the input layer's, too

  /// The number of blocks with a transpose, counted from the seeds.
  std::size_t num_transposes() const {
    return !transpose ? 0 : input_transpose ? fanouts.size() : fanouts.size() - 1;
  }
};

/// Where requests for remote neighbours go: everything is on one machine if num_machines is 1, and then
/// nothing is sent.
struct ExchangeContext {
  const comm::Communicator* communicator =
      nullptr;  ///< of the stage's own, over all ranks; null on one machine
  const comm::Topology* topology = nullptr;
  std::span<const NodeId> machine_offsets;
};

/// What an exchange did, since it was made.
struct ExchangeReport {
  std::vector<Count> frontier_nodes, remote_nodes;  ///< by hop
  Count bytes_sent = 0, bytes_received = 0;
  double seconds = 0;
};

/// Uniform neighbour sampling without replacement, keyed by (batch, hop, original id): the set of sampled
/// (layer, dst, edge id) is the same for every number of ranks, machines and parts, on CPU and GPU.
///
/// Slot j of a node of degree d > fanout holds the neighbour at position shuffled(j, d, node_key(key, sample,
/// hop, id)); a node of smaller degree has all its neighbours in order. Hop h samples for ALL nodes found so
/// far, the seeds included.
class MiniBatchSampler {
 public:
  virtual ~MiniBatchSampler() = default;

  /// Samples the blocks of `seeds` (global ids, host memory, distinct, owned by any machine).
  ///
  /// Collective over the exchange's communicator if there is one: every rank calls it equally often, with no
  /// seeds if it has none. The result lies on the sampler's device and is complete when the call returns on
  /// the cpu, when `stream` reaches this point on a GPU. `slot` chooses one of the sampler's buffer sets (0
  /// <= slot < num_slots): the memory of an earlier result from the same slot is reused.
  virtual MiniBatch sample(std::span<const NodeId> seeds, const BatchKey& key, int slot,
                           const cuda::Stream& stream) = 0;
  virtual ExchangeReport report() const = 0;
};

/// The sampler for view.device. `view` and `pool` must outlive it. Throws InputError for fanouts below -1 or
/// none.
std::unique_ptr<MiniBatchSampler> make_sampler(const store::GraphView& view, const SamplerOptions& options,
                                               const ExchangeContext& exchange, int num_slots,
                                               ThreadPool& pool);

}  // namespace strata::sampling
