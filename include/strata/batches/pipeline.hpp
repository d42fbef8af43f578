// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "strata/batches/batch.hpp"
#include "strata/batches/fetcher.hpp"
#include "strata/batches/routes.hpp"
#include "strata/comm/launch_order.hpp"
#include "strata/comm/link.hpp"
#include "strata/comm/ranks.hpp"
#include "strata/cuda/buffer.hpp"
#include "strata/cuda/sm_group.hpp"
#include "strata/cuda/stream.hpp"
#include "strata/sampling/sampler.hpp"
#include "strata/store/machine_graph.hpp"
#include "strata/tensor/chunk_tensor.hpp"
#include "strata/util/random.hpp"
#include "strata/util/thread_pool.hpp"

namespace strata::batches {

class Trace;

/// A batch ready to train on: a view of one of the pipeline's buffers. Everything lies on the device of the
/// pipeline's machine. It has no features where rows are read in place.
struct LoadedBatch : Batch {
  int buffer = 0;                      ///< which one, in [0, Pipeline::kMostBuffers)
  std::span<const Count> seed_places;  ///< in host memory: where each seed is among the nodes of the epoch
  /// Of the padded shape: everything lies where it lay in the last padded batch of this buffer, and has the
  /// same size. Else of its own sizes.
  bool padded = false;
  Count num_inputs = 0;  ///< input rows that are not padding
  /// [num_targets, words of a target] as SeedTargets has them; of seeds beyond sample.num_seeds the missing
  /// one. Null without targets.
  const std::int32_t* targets = nullptr;
  Count num_targets = 0;  ///< seeds of the last block, padded ones included
};

/// Seconds that each stage worked; on a GPU, that its stream took.
struct LoaderTimes {
  double sample = 0, gather = 0;
  double train = 0;  ///< from next() to release(); on a GPU only
  double wait = 0;   ///< that the caller of next() waited

  LoaderTimes operator+(const LoaderTimes& other) const {
    return {sample + other.sample, gather + other.gather, train + other.train, wait + other.wait};
  }
};

/// What a pipeline works with. A view: all of it outlives the pipeline.
struct PipelineParts {
  comm::Ranks ranks;  ///< their communicator is duplicated, once for each stage
  const store::MachineGraph* graph = nullptr;
  ThreadPool* sample_pool = nullptr;  ///< of the sampling stage
  ThreadPool* gather_pool = nullptr;  ///< of the gathering stage; another one, if the stages overlap
};

/// What an epoch goes through, and how.
struct EpochNodes {
  /// Global ids, distinct; the same on all ranks, unless each has its own. They outlive the pipeline. Unset:
  /// the graph's training nodes.
  std::optional<std::span<const NodeId>> nodes = {};
  bool shuffle = true;     ///< false: in the order that they have in every epoch
  bool drop_last = false;  ///< the last step of an epoch is left out if it has fewer seeds than the others
  /// Set: `nodes` are this rank's own, which its machine owns, and these are the numbers that all ranks give.
  /// The rank's batches have global_batch / ranks of them each, and none when they are used up.
  std::vector<Count> nodes_of_rank = {};
};

/// What is to be learned of nodes: some words of 32 bits each, whose meaning only the task knows.
struct SeedTargets {
  /// [nodes that this machine owns, missing.size()]; a view, which outlives the pipeline.
  std::span<const std::int32_t> words = {};
  std::vector<std::int32_t> missing = {};  ///< of a node without target; empty: there are no targets

  explicit operator bool() const { return !missing.empty(); }
  Count words_per_node() const { return std::ssize(missing); }
  /// Of the machine's node `row`.
  const std::int32_t* of(Count row) const { return words.data() + row * words_per_node(); }
  /// Whether the machine's node `row` has a target.
  bool has(Count row) const { return !std::equal(missing.begin(), missing.end(), of(row)); }
};

/// The classes of nodes, as the graph has them: one number per node, -1 where it is missing, or a set of
/// classes (label_sets.hpp). None of a graph without labels.
SeedTargets labels_of(const store::MachineGraph& graph);

/// What a pipeline makes. The same on all ranks, except `trace`.
struct PipelineOptions {
  /// How neighbors are chosen, and what blocks contain. The pipeline sets max_seeds and sorted_inputs.
  sampling::SamplerOptions sampler;
  /// What samples for a GPU; automatic: what is measured to be faster where all neighbor lists lie in host
  /// memory, else the GPU.
  comm::TopologyOptions::Compute sampler_device = comm::TopologyOptions::Compute::automatic;
  EpochNodes epoch = {};
  Count global_batch = 0;  ///< seeds per step, over all ranks
  std::uint64_t seed = 0;  ///< keys the order of the seeds and the choice of neighbors
  bool overlap = true;     ///< stages of different steps work at the same time; off gives the same batches
  bool gather = true;      ///< off: the reader of the batches reads the rows in place
  /// Batches get one shape, which is measured, where the sampler knows how large they can become: on a GPU,
  /// with fanouts other than -1, and on several machines if neighbors come over NCCL or are replicated.
  bool pad = false;
  Transport exchange = Transport::automatic;  ///< see choose_routes()
  bool rows_in_bf16 = false;                  ///< rows of other machines travel rounded
  /// Batches in work at the same time, 2 to 8; 0: kBuffers until note_step_times() knows better.
  int batches_in_flight = 0;
  /// On GPUs, whether the launches with NCCL of several batches may be on their way at the same time, where
  /// that hides a network. The caller's own then take their places in launch_order(), with at most
  /// most_launch_blocks(), and the pipeline runs on all SMs.
  bool may_overlap_launches = false;
  SeedTargets targets = {};  ///< that batches bring, as LoadedBatch::targets
  Trace* trace = nullptr;    ///< what the stages do is added to it; null: nothing
};

/// Average size of a batch on this rank. Empty if batches are not padded.
struct BatchSizes {
  std::vector<double> nodes;  ///< with sampled edges, by hop, seeds first
  std::vector<double> edges;  ///< of these nodes
};

/// Turns the training nodes of a graph into batches: samples batch t + 2 and gathers batch t + 1 while the
/// caller uses batch t. An owner of its threads, buffers and communicators; it knows no model and no loss.
///
///     Pipeline pipeline(parts, {.sampler = {.fanouts = {15, 10, 5}}, .global_batch = 4096});
///     for (std::uint32_t epoch = 0; epoch < 10; ++epoch) {
///       pipeline.begin({.epoch = epoch, .first = 0, .end = pipeline.steps_per_epoch()});
///       while (const LoadedBatch* batch = pipeline.next(stream)) {
///         ...                                // enqueued on `stream`
///         pipeline.release(*batch, stream);
///       }
///     }
///     pipeline.close();
///
/// The training nodes, or those of PipelineOptions::epoch, in an order that is keyed by seed and epoch, are
/// cut into steps of `global_batch` seeds. With 10 nodes and 4 seeds per step an epoch has 3 steps, the last
/// of 2 seeds. A seed goes to the machine that owns it and is dealt to one of its ranks, so a rank's share of
/// a step can be empty: the rank gets a batch without seeds. Ranks, machines and parts decide who gets a seed
/// and change no batch as a whole.
///
/// One thread calls a pipeline. All ranks begin the same steps and take the same number of batches of them:
/// on several machines the stages ask each other for neighbors and rows. A batch is released before the next
/// one is asked for.
class Pipeline {
 public:
  static constexpr int kBuffers = 3;      ///< where nothing else is asked for or measured
  static constexpr int kMostBuffers = 8;  ///< batches in flight at most

  /// Collective over `world`; the first rank logs what samples. Throws InputError for a device that cannot
  /// sample, or a row exchange that cannot be had, on all ranks alike.
  Pipeline(const PipelineParts& parts, const PipelineOptions& options);
  ~Pipeline();  ///< ends the stages; if they wait for another rank, the caller must have ended the run
  Pipeline(const Pipeline&) = delete;
  Pipeline& operator=(const Pipeline&) = delete;

  Count num_seeds() const;  ///< per epoch, over all ranks
  Count steps_per_epoch() const;
  /// Number of seeds of all ranks in steps [first, last) of an epoch.
  Count num_global_seeds(Count first, Count last) const;
  /// This rank's seeds of a step, as global ids.
  std::vector<NodeId> seeds_of(std::uint32_t epoch, Count step_in_epoch) const;

  struct Steps {
    std::uint32_t epoch = 0;
    Count first = 0, end = 0;
  };
  /// Begins to load these steps of an epoch, and ends the ones before.
  void begin(const Steps& steps);
  /// The next batch; its memory is valid until release(). Null after the last. `stream` waits for the data;
  /// the host waits until the batch's sizes are known. Rethrows what a stage threw.
  const LoadedBatch* next(const cuda::Stream& stream);
  /// Whether next() would not wait for a stage, or throw, within so long.
  bool wait_for(std::chrono::milliseconds patience);
  /// Exchanges the memory of a batch's rows, of which next() gave the address, for `other`, which may be
  /// empty: the rows then stay with the caller for as long as it likes, and the pipeline gathers the next
  /// ones into `other`, once release() says so. What still reads `other` was enqueued on the stream of that
  /// release(). REQUIRES: the batch is not padded, and has rows.
  void exchange_features(const LoadedBatch& batch, cuda::Array<float>& other);
  /// The caller is done with the batch once `stream` reaches this point.
  void release(const LoadedBatch& batch, const cuda::Stream& stream);
  /// Ends the stages, before the last step of begin() if need be: at the same batch on all ranks. next() then
  /// gives none.
  void end();

  /// After the last batch: both stages move to these SMs of the GPU.
  void run_on(const cuda::SmGroup& sms);
  /// Ends the stages and frees the gathered features; the next steps allocate them anew. All batches are
  /// released.
  void release_buffers();

  int batches_in_flight() const;  ///< 1 without overlap
  /// Whether the number of batches in flight is still to be chosen from the times of some steps.
  bool wants_step_times() const;
  /// Takes the times of some steps into account. In the end there are as many as hide the round trips between
  /// machines, if steps are faster with them; the first rank logs it. After some steps of begin(); `times`
  /// are those of these `steps`, `train_seconds` what they took without waiting for batches. Collective, with
  /// the same choice on all ranks. REQUIRES: wants_step_times().
  void note_step_times(const LoaderTimes& times, double train_seconds, Count steps);
  const comm::LinkFacts& link() const;  ///< between machines over MPI, measured
  /// From GPU to GPU; all zero if nothing goes that way.
  const comm::LinkFacts& gpu_link() const;
  bool pads() const;  ///< whether this rank's batches have a padded shape
  const BatchSizes& batch_sizes() const;
  const Routes& routes() const;
  /// Null where the pipeline launches nothing with NCCL. Otherwise the caller's own launches with NCCL
  /// between next() and release() take their places in it (comm::in_order).
  comm::LaunchOrder* launch_order();
  bool launches_overlap() const;  ///< LaunchOrder::Run::overlap
  /// The most blocks on the GPU for each of the caller's launches with NCCL; 0: any number.
  int most_launch_blocks() const;

  /// Since the last call. Between steps of begin(), when `stream` has reached the last release().
  LoaderTimes take_times();
  /// Input rows of the batches that were gathered since the last call; none if a model reads them in place.
  Count take_input_rows();
  /// Batches since the last call that did not fit the padded shape.
  Count take_unpadded();
  /// Bytes of feature rows that were read from each stratum of this machine since the last call. Call it as
  /// take_times().
  tensor::ByStratum<std::int64_t> take_gathered_bytes();

  /// What this rank exchanged with other machines since the pipeline was made. Call it as take_times().
  sampling::ExchangeReport neighbor_exchange() const;
  RowExchangeReport row_exchange_report() const;

  void close();  ///< ends the stages and frees everything; nothing may be called after it. Collective

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace strata::batches
