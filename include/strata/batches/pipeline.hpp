// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "strata/batches/batch.hpp"
#include "strata/batches/fetcher.hpp"
#include "strata/batches/links.hpp"
#include "strata/batches/routes.hpp"
#include "strata/comm/communicator.hpp"
#include "strata/comm/device_exchange.hpp"
#include "strata/comm/machine.hpp"
#include "strata/comm/reducer.hpp"
#include "strata/cuda/buffer.hpp"
#include "strata/cuda/sm_group.hpp"
#include "strata/cuda/stream.hpp"
#include "strata/sampling/sampler.hpp"
#include "strata/store/machine_graph.hpp"
#include "strata/tensor/chunk_tensor.hpp"
#include "strata/util/random.hpp"
#include "strata/util/threads.hpp"
#include "strata/util/types.hpp"

namespace strata::batches {

/// How many batches are sampled, and gathered, at the same time beside the one that is trained.
struct InFlight {
  int sampled = 1, gathered = 1;

  int batches() const { return sampled + gathered + 1; }
  bool operator==(const InFlight&) const = default;
};

/// Seconds of a round trip between GPUs. A batch has too few shorter ones to be worth more than three in
/// flight.
inline constexpr double kSlowRound = 40e-6;

/// Seconds of a batch in each stage, and of these the round trips between machines.
struct StageTimes {
  double sample = 0, gather = 0, train = 0;
  double sample_latency = 0, gather_latency = 0;
};

/// So many that waiting for round trips does not slow down a step: a stage that takes S, of which L are round
/// trips, works on ceil(S / busy) batches, where `busy` is the longest time of a stage without its round
/// trips. The sum with the one that is trained is at most `most`, and 3 at least.
///
/// Sampling 5 ms, 4 of them round trips, gathering 2.5 ms, 2 of them round trips, training 2 ms: busy is 2
/// ms, so 3 batches are sampled and 2 gathered at a time, 6 in flight. Without round trips 1 and 1 suffice
/// whatever the times.
InFlight in_flight_for(const StageTimes& times, int most);

/// The times of GPUs whose stages exchange one after the other, so that a step of `step` seconds waits for
/// the round trips of both. Training takes what is left of the step, an eighth of it at least, and either
/// stage takes half of that beside its round trips.
///
/// A step of 2 ms, 1 of them round trips for a sample and 0.5 for rows: training takes 0.5 ms, sampling 1.25
/// and gathering 0.75.
StageTimes stages_in_a_chain(double step, double sample_latency, double gather_latency);

/// The times of GPUs whose hosts take part in the exchange of ids, of rows or of both. Three quarters of a
/// step count as their waiting, for GPUs and for each other, two parts of it for ids and one for rows.
///
/// Hosts that look at ids in a step of 4 ms: 3 of them wait, so training takes 1 ms and sampling 3.5, and 4
/// batches are sampled at a time.
StageTimes stages_with_hosts(double step, bool for_ids, bool for_rows);

/// A number that was asked for, divided in proportion to two sampled per gathered batch. 5 gives 3 and 1.
InFlight in_flight_of(int batches);

/// Measures the seconds that a stream takes for the work between begin() and end(), batch after batch,
/// including times in which it waits for other streams. Does nothing on the CPU.
class StreamClock {
 public:
  StreamClock() = default;
  explicit StreamClock(Device device) : used_(device.is_cuda()), begin_(device, used_), end_(device, used_) {}

  void begin(const cuda::Stream& stream) {
    take();
    begin_.record(stream);
  }
  void end(const cuda::Stream& stream) {
    end_.record(stream);
    running_ = used_;
  }
  /// Seconds of the batches that ended since the last call. REQUIRES: end() was called for the last batch.
  double take_seconds() {
    take();
    return std::exchange(seconds_, 0);
  }
  const cuda::Event& ended() const { return end_; }

 private:
  void take() {
    constexpr double kMillisecond = 1e-3;
    if (!std::exchange(running_, false)) return;
    end_.synchronize();
    seconds_ += end_.elapsed_ms(begin_) * kMillisecond;
  }

  bool used_ = false, running_ = false;
  double seconds_ = 0;
  cuda::Event begin_, end_;
};

/// What the stages of a rank did when, for ui.perfetto.dev or chrome://tracing. Thread safe but for write().
///
/// Times are the host's: on a GPU, a span of the sampling stage ends when the batch's sizes are known, one of
/// the training stage when the host may go on, which is at most a step ahead of the GPU. The sum of gradients
/// is as long as its stream took, and ends when the host learns of it. Messages that go from GPU to GPU have
/// no spans of their own.
class Trace final : public comm::ExchangeListener {
 public:
  /// Lanes of a rank, from top to bottom.
  enum class Lane : std::uint8_t {
    sample,
    neighbor_exchange,
    gather,
    row_exchange,
    train,
    gradient_sum,
    wait,
    evaluate
  };

  /// Keeps so many spans, those of the first steps.
  explicit Trace(std::size_t most_spans);
  /// `step` is counted over the whole run; -1: none.
  void add(Lane lane, Clock::time_point begin, Clock::time_point end, std::int64_t step = -1);
  void exchanged(const Messages& messages) override;

  /// Writes the spans of all ranks into one file of trace events (JSON; one process per rank, one thread per
  /// timeline, microseconds since the first rank began). Warns where spans were left out. Collective; the
  /// first rank writes, atomically. Throws IoError there.
  void write(const std::filesystem::path& path, const comm::Communicator& world) const;

 private:
  struct Span {
    Clock::time_point begin, end;
    std::int64_t step;
    Lane lane;
    int hop = -1;
  };
  void keep(const Span& span);

  std::size_t most_spans_;
  std::mutex mutex_;
  std::vector<Span> spans_;
  Clock::time_point full_since_ = {};  // when the first span was left out
  Clock::time_point start_;
  std::chrono::system_clock::time_point wall_start_;  // what ranks on other hosts share
};

/// Adds a span from its making to its end; nothing with a null trace.
class TraceSpan {
 public:
  TraceSpan(Trace* trace, Trace::Lane lane, std::int64_t step = -1)
      : trace_(trace), lane_(lane), step_(step), begin_(Trace::Clock::now()) {}
  ~TraceSpan() {
    if (trace_ != nullptr) trace_->add(lane_, begin_, Trace::Clock::now(), step_);
  }
  TraceSpan(const TraceSpan&) = delete;
  TraceSpan& operator=(const TraceSpan&) = delete;

 private:
  Trace* trace_;
  Trace::Lane lane_;
  std::int64_t step_;
  Trace::Clock::time_point begin_;
};

/// Which seeds a rank trains on in a step. The machines decide only WHO trains a seed, never WHICH seeds a
/// step has.
///
/// A bijection keyed by (seed, epoch) permutes the nodes, of which each is a seed once per epoch. Step s of an
/// epoch is the slice [s * global_batch, (s + 1) * global_batch). A seed goes to the machine that owns it. A
/// machine's seeds of the step are put in order of their parts, and of their clusters within them where there
/// are any, and split evenly among its ranks, so that a rank samples few of them and its batch has fewer
/// distinct nodes.
///
///     machine with parts {0..9}, {10..19}; its seeds 12 3 7 15 1 18, two ranks: 3 7 1 and 12 15 18
///     the same with odd nodes in cluster 0 and even ones in cluster 1 of each part: 3 7 1 and 15 12 18
///
/// Or each rank has nodes of its own, and its seeds of step s are the slice [s * n, (s + 1) * n) of them,
/// with n = global_batch / ranks. A rank whose nodes are used up gets steps without seeds until the last
/// rank's are.
class SeedSchedule {
 public:
  struct Options {
    /// Global ids of all nodes of an epoch, ordered by original id so that steps do not depend on the parts.
    /// Must outlive the schedule.
    std::span<const NodeId> nodes;
    bool shuffle = true;     ///< false: every epoch has this order
    bool drop_last = false;  ///< an epoch has no last step of fewer seeds
    /// Parallel to `nodes`: in which order this machine's seeds are dealt instead of that of their parts, as
    /// store::MachineGraph::train_clusters(). Must outlive the schedule. Empty: none.
    std::span<const std::int32_t> clusters = {};
    std::span<const NodeId> machine_offsets;
    /// Of this machine's parts, [parts + 1]: from its own machine offset to the next. Must outlive the
    /// schedule. Empty: one part.
    std::span<const NodeId> part_offsets = {};
    int machine = 0, local_rank = 0, machine_ranks = 1;
    Count global_batch = 0;
    std::uint64_t seed = 0;
    /// `nodes` are this rank's own, of this machine; these are the numbers that all ranks have. Empty:
    /// `nodes` are all ranks'.
    std::vector<Count> nodes_of_rank = {};
    /// Set: `nodes` are the destinations of these links, which are what a step has of them; seeds are the
    /// distinct ends of a rank's links and negatives. Must outlive the schedule.
    const LinkSeeds* links = nullptr;
  };
  explicit SeedSchedule(const Options& options);

  Count num_seeds() const { return num_seeds_; }  ///< of all ranks
  Count steps_per_epoch() const { return steps_; }
  /// Steps of an epoch of so many seeds.
  static Count num_steps(Count num_seeds, Count global_batch) {
    return (num_seeds + global_batch - 1) / global_batch;
  }
  /// Number of seeds of all ranks in steps [first, last) of an epoch.
  Count num_global_seeds(Count first, Count last) const;
  Count max_seeds() const;     ///< most seeds that one rank can get in a step
  Count most_places() const;   ///< the same of the nodes, or links, of an epoch
  Count max_excluded() const;  ///< most entries that the links of a step exclude

  struct Step {
    std::vector<NodeId> seeds;   ///< of this rank
    std::vector<Count> places;   ///< where each of them, or each of the links, is in Options::nodes
    std::vector<Count> numbers;  ///< the number of each in the step
    Count num_global = 0;        ///< of all ranks
    LinkPairs links = {};        ///< with Options::links only

    void add(NodeId seed, std::size_t place, Count number) {
      seeds.push_back(seed);
      places.push_back(static_cast<Count>(place));
      numbers.push_back(number);
    }
  };
  Step step(std::uint32_t epoch, Count step_in_epoch) const;

 private:
  /// The order of an epoch.
  class Order;
  /// A seed of this machine, and the part or cluster that it is in.
  struct Seed {
    NodeId node;
    std::size_t place;
    Count number;
    std::int32_t group;
  };
  std::vector<Seed> own_seeds(Count first, Count last, const Order& order) const;
  struct Share {
    Count begin, end;
  };
  Share share_of(Count count) const;
  void add_own(Step& step, std::uint32_t epoch, Count step_in_epoch) const;
  void make_pairs(Step& step, std::uint32_t epoch, Count step_in_epoch) const;
  /// The seeds of a step among `nodes` nodes that are cut into slices of `batch`; none after the last.
  Share slice(Count step, Count nodes, Count batch) const;
  bool has_own_nodes() const { return !options_.nodes_of_rank.empty(); }
  Count own_batch() const { return options_.global_batch / std::ssize(options_.nodes_of_rank); }
  bool has_groups() const {
    return options_.machine_ranks > 1 && (!options_.clusters.empty() || options_.part_offsets.size() > 2);
  }

  Options options_;
  Count num_seeds_ = 0, steps_ = 0;
  bool owns_all_ = false;  // this machine owns all nodes of an epoch
};

class Trace;

/// A batch ready to train on: a view of one of the pipeline's buffers. Everything lies on the device of the
/// pipeline's machine. It has no features where rows are read in place.
struct LoadedBatch : Batch {
  int buffer = 0;  ///< which one, in [0, Pipeline::kMostBuffers)
  /// In host memory: where each seed, or each of the links, is among the nodes of the epoch.
  std::span<const Count> seed_places;
  bool of_links = false;
  /// LinkPairs of a batch of links, in host memory.
  std::span<const std::int64_t> link_sources = {}, link_destinations = {}, link_groups = {};
  /// Of the padded shape: everything lies where it lay in the last padded batch of this buffer, and has the
  /// same size. Else of its own sizes.
  bool padded = false;
  Count num_inputs = 0;  ///< input rows that are not padding
  /// [num_targets, words of a target] as SeedTargets has them; of seeds beyond sample.num_seeds the missing
  /// one. Null without targets. With PipelineOptions::brings_places i64, one after the other:
  /// the links' numbers among those of the epoch [num_targets], the places of their sources and those of their
  /// destinations, [num_targets * PlacesPerLink::sources] and so on: of the links, then of their negatives. Padding
  /// has the number LinkSeeds::size() and places 0.
  const std::int32_t* targets = nullptr;
  Count num_targets = 0;  ///< seeds of the last block, or links; padded ones included
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
  const LinkSeeds* links = nullptr;  ///< SeedSchedule::Options::links
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

/// The labels of nodes in the form that the graph has them (label_shape.hpp). None of a graph without labels.
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
  /// Batches of links bring the places of their ends as targets, for links of which all have as many negatives.
  bool brings_places = false;
  Trace* trace = nullptr;  ///< what the stages do is added to it; null: nothing
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
