// SPDX-License-Identifier: Apache-2.0
#include "strata/batches/pipeline.hpp"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <array>
#include <deque>
#include <span>
#include <utility>

#include "batch_loader.hpp"
#include "padding.hpp"
#include "sampler_choice.hpp"
#include "strata/batches/routes.hpp"
#include "strata/comm/device_exchange.hpp"
#include "strata/comm/machine.hpp"
#include "strata/cuda/device.hpp"
#include "strata/plan/forecast.hpp"
#include "strata/store/halo.hpp"
#include "strata/util/label_sets.hpp"
#include "strata/util/text.hpp"

namespace strata::batches {
namespace {

SeedSchedule schedule_of(const PipelineParts& parts, const PipelineOptions& options) {
  const std::span<const NodeId> train = parts.graph->train_nodes(),
                                nodes = options.epoch.nodes.value_or(train);
  const bool all_train = nodes.data() == train.data() && nodes.size() == train.size();
  return SeedSchedule(
      {.nodes = nodes,
       .shuffle = options.epoch.shuffle,
       .drop_last = options.epoch.drop_last,
       .clusters = all_train ? parts.graph->train_clusters() : std::span<const std::int32_t>(),
       .machine_offsets = parts.graph->machine_offsets(),
       .part_offsets = parts.graph->part_offsets(),
       .machine = parts.ranks.machine->index(),
       .local_rank = parts.ranks.machine->rank(),
       .machine_ranks = parts.ranks.machine->size(),
       .global_batch = options.global_batch,
       .seed = options.seed,
       .nodes_of_rank = options.epoch.nodes_of_rank,
       .links = options.epoch.links});
}

/// Throws InputError if an exchange must go from GPU to GPU and cannot.
Routes routes_of(const PipelineParts& parts, const PipelineOptions& options) {
  const RouteRequest request{.exchange = options.exchange,
                             .padded = options.pad,
                             .bounded = options.sampler_device != comm::TopologyOptions::Compute::cpu &&
                                        bounds_requests(options.sampler),
                             .replicated = parts.graph->is_replicated()};
  check_routes(*parts.ranks.topology, request);
  return choose_routes(*parts.ranks.topology, request);
}

/// Where the choice of a number of batches in flight is. First steps allocate and record, and say nothing.
enum class Choice : std::uint8_t { warms_up, times_three, warms_up_more, times_more, settled };

/// By all batches of this rank.
struct Exchanged {
  Count sample_rounds = 0, gather_rounds = 0, rows = 0;
};

/// What works on batches of its own in a stage, and its connections to the other ranks.
template <typename Worker>
struct Lane {
  comm::Communicator communicator;
  std::unique_ptr<comm::DeviceExchange> wire;  // null: nothing goes from GPU to GPU
  std::unique_ptr<Worker> worker;

  explicit Lane(comm::Communicator&& c) : communicator(std::move(c)) {}
  void close() {
    worker.reset();
    if (wire) wire->close();
    communicator.close();
  }
};

}  // namespace

SeedTargets labels_of(const store::MachineGraph& graph) {
  const graph::Manifest& manifest = graph.manifest();
  if (!manifest.has_labels) return {};
  return {.words = graph.labels(), .missing = manifest.label_shape().missing()};
}

struct Pipeline::State {
  PipelineParts parts;
  PipelineOptions options;
  Device device;
  SeedSchedule schedule;
  comm::LaunchOrder order;  // of all exchanges, and of what the caller launches
  Routes routes;
  // Each of a stage works on other batches. The first of both share a wire, unless launches overlap.
  std::deque<Lane<sampling::MiniBatchSampler>> sampling;
  std::deque<Lane<RowFetcher>> gathering;
  comm::LinkFacts link, gpu_link;
  Padding padding;
  InFlight in_flight;
  Choice choice = Choice::settled;
  Exchanged before_steps;  // of begin(), while in_flight is to be chosen
  double three_step = 0;   // with three batches in flight, of the slowest rank
  std::unique_ptr<BatchLoader> loader;
  tensor::ByStratum<Count> reported_rows;  // of the fetchers

  State(const PipelineParts& p, const PipelineOptions& o)
      : parts(p),
        options(o),
        device(p.ranks.device()),
        schedule(schedule_of(p, options)),
        order(device),
        routes(routes_of(p, options)) {
    sampling.emplace_back(p.ranks.world->duplicate());
    gathering.emplace_back(p.ranks.world->duplicate());
    link = comm::measure_link(communicator(), *p.ranks.topology);
    if (uses_wires()) connect_devices();
    sampling.front().worker = make_sampler(0);
    gathering.front().worker = make_fetcher(0);
    if (can_pad()) padding = measure();
    if (can_widen()) choose_or_widen();
    loader = make_loader();
  }

  void choose_or_widen() {
    if (options.batches_in_flight > 0) return widen(in_flight_of(options.batches_in_flight));
    choice = device.is_cuda() ? Choice::warms_up : Choice::times_three;
  }

  const comm::Communicator& communicator() const { return sampling.front().communicator; }

  bool is_without(Device::Kind kind) const { return comm::ranks_on(*parts.ranks.topology, kind).empty(); }
  bool rows_on_devices() const { return routes.rows == Transport::nccl; }
  bool neighbors_on_devices() const { return routes.neighbors == Transport::nccl; }
  bool uses_wires() const { return rows_on_devices() || neighbors_on_devices(); }

  /// On several machines batches are measured together, and CPUs measure none; the same on all of their
  /// ranks.
  bool can_pad() const { return options.pad && (!is_distributed() || is_without(Device::Kind::cpu)); }

  /// Whether several batches can be sampled, or gathered, at the same time, and whether it can help; the same
  /// on all ranks.
  bool can_widen() const {
    if (!is_distributed() || !options.overlap) return false;
    if (is_without(Device::Kind::cuda)) return true;
    return is_without(Device::Kind::cpu) && options.may_overlap_launches &&
           (options.batches_in_flight > kBuffers || waits_for_others());
  }
  /// Of GPUs.
  bool waits_for_others() const { return hosts_take_part() || gpu_link.round_seconds > kSlowRound; }
  /// Whether there is more to wait for than round trips from GPU to GPU.
  bool hosts_take_part() const { return hosts_ask() || !rows_on_devices(); }
  bool hosts_ask() const { return !parts.graph->is_replicated() && !neighbors_on_devices(); }
  bool launches_overlap() const { return uses_wires() && can_widen(); }
  int most_launch_blocks() const {
    return launches_overlap() ? comm::blocks_that_fit(device, kMostBuffers) : 0;
  }

  std::unique_ptr<comm::DeviceExchange> make_wire() const {
    return comm::make_device_exchange(communicator(), device, most_launch_blocks());
  }

  /// Collective.
  void connect_devices() {
    auto& wire = sampling.front().wire;
    wire = comm::make_device_exchange(communicator(), device);
    gpu_link = comm::measure_link(*wire, communicator(), *parts.ranks.topology, device);
    if (!launches_overlap()) return;
    wire->close();
    wire = make_wire();
    if (rows_on_devices() && neighbors_on_devices()) gathering.front().wire = make_wire();
  }

  /// Collective. Connections are made from the pipeline's own: a pipeline of another thread may widen at the
  /// same time, and the order of the two on `world` would differ from rank to rank.
  void widen(const InFlight& wanted) {
    while (std::ssize(sampling) < wanted.sampled) {
      auto& lane = sampling.emplace_back(communicator().duplicate());
      if (neighbors_on_devices()) lane.wire = make_wire();
      lane.worker = make_sampler(static_cast<int>(sampling.size()) - 1);
      if (pads()) lane.worker->pad_nodes(padding.shape);
    }
    while (std::ssize(gathering) < wanted.gathered) {
      auto& lane = gathering.emplace_back(communicator().duplicate());
      if (rows_on_devices()) lane.wire = make_wire();
      lane.worker = make_fetcher(static_cast<int>(gathering.size()) - 1);
      if (pads() && routes.requests == Transport::nccl) lane.worker->bound_requests(padding.requested_rows);
    }
    in_flight = wanted;
  }

  BatchLanes lanes() const {
    BatchLanes lanes{.samplers = {}, .fetchers = {}, .buffers = batches_in_flight()};
    for (int k = 0; k < in_flight.sampled; ++k) lanes.samplers.push_back(sampling[at(k)].worker.get());
    for (int k = 0; k < in_flight.gathered; ++k) lanes.fetchers.push_back(gathering[at(k)].worker.get());
    return lanes;
  }

  /// More only where a number of batches was given that cannot be worked on at the same time.
  int batches_in_flight() const {
    if (!options.overlap) return 1;
    if (options.batches_in_flight > 0) return options.batches_in_flight;
    return in_flight.batches();
  }

  double free_bytes() const {
    const comm::Resources resources = comm::resources_of(*parts.ranks.machine);
    if (!device.is_cuda()) return static_cast<double>(resources.free_memory().share_bytes);
    return static_cast<double>(cuda::device_memory(device.index).free_bytes / resources.gpu_sharers());
  }

  /// The most batches in flight for which the memory suffices: an eighth of what is free is for more than
  /// three.
  int most_in_flight(Count batches) const {
    constexpr double kShare = 8;                              // of the memory
    constexpr double kBytesPerNode = 5, kBytesPerInput = 64;  // of a sampler
    const double rows = static_cast<double>(exchanged().rows - before_steps.rows) /
                        static_cast<double>(std::max<Count>(1, batches));
    const double row_bytes = static_cast<double>(parts.graph->manifest().feature_cols) * sizeof(float);
    const double asked = static_cast<double>(padding.requested_rows * parts.ranks.world->size());
    const store::HaloLists* lists = neighbors_on_devices() ? parts.graph->halo_lists() : nullptr;
    const double kept = lists == nullptr ? 0 : static_cast<double>(lists->view.indices.size);
    const double bytes = rows * (plan::kBufferGrowth * row_bytes + kBytesPerInput) + 2 * asked * row_bytes +
                         kept * sizeof(NodeId) +
                         kBytesPerNode * static_cast<double>(parts.graph->view().num_nodes);
    const double more = bytes > 0 ? free_bytes() / kShare / bytes : 0;
    return kBuffers + static_cast<int>(std::min<double>(kMostBuffers - kBuffers, more));
  }

  Exchanged exchanged() const {
    const RowExchangeReport rows = row_exchange_report();
    Exchanged exchanged{.sample_rounds = 0, .gather_rounds = rows.rounds, .rows = rows.rows};
    for (const sampling::HopTraffic& hop : neighbor_exchange().traffic) exchanged.sample_rounds += hop.rounds;
    return exchanged;
  }

  void begin(const Steps& steps) {
    if (choice != Choice::settled) before_steps = exchanged();
    loader->begin(steps);
  }

  StageTimes stage_times(const LoaderTimes& times, double train_seconds, Count steps) const {
    const auto batches = static_cast<double>(std::max<Count>(1, steps));
    const Exchanged now = exchanged();
    const auto of_rounds = [&](Count rounds, bool on_devices) {
      return static_cast<double>(rounds) * (on_devices ? gpu_link : link).round_seconds / batches;
    };
    const bool requests_are_direct = routes.requests == Transport::nccl && !padding.shape.requests.empty();
    const double sample_latency =
                     of_rounds(now.sample_rounds - before_steps.sample_rounds, requests_are_direct),
                 gather_latency =
                     of_rounds(now.gather_rounds - before_steps.gather_rounds, rows_on_devices());
    const double step = (times.wait + train_seconds) / batches;
    if (device.is_cuda() && hosts_take_part())
      return stages_with_hosts(step, hosts_ask(), !rows_on_devices());
    if (device.is_cuda()) return stages_in_a_chain(step, sample_latency, gather_latency);
    return {.sample = times.sample / batches,
            .gather = times.gather / batches,
            .train = train_seconds / batches,
            .sample_latency = sample_latency,
            .gather_latency = gather_latency};
  }

  /// Of the slowest rank.
  double slowest(double seconds) const {
    constexpr double kNano = 1e-9;
    auto nanoseconds = static_cast<std::int64_t>(seconds / kNano);
    communicator().all_reduce(std::span(&nanoseconds, 1), comm::Communicator::Op::max);
    return static_cast<double>(nanoseconds) * kNano;
  }

  void note_step_times(const LoaderTimes& times, double train_seconds, Count steps) {
    const double step =
        slowest((times.wait + train_seconds) / static_cast<double>(std::max<Count>(1, steps)));
    switch (choice) {
      case Choice::warms_up:
        choice = Choice::times_three;
        return;
      case Choice::times_three:
        three_step = step;
        try_what_hides(stage_times(times, train_seconds, steps), steps);
        return;
      case Choice::warms_up_more:
        choice = Choice::times_more;
        return;
      case Choice::times_more:
        settle(step);
        return;
      case Choice::settled:
        return;
    }
  }

  void try_what_hides(const StageTimes& of_batch, Count steps) {
    std::int64_t most = most_in_flight(steps);
    communicator().all_reduce(std::span(&most, 1), comm::Communicator::Op::min);
    const InFlight mine = in_flight_for(of_batch, static_cast<int>(most));
    std::array<std::int64_t, 2> wanted{mine.sampled, mine.gathered};
    communicator().all_reduce(wanted, comm::Communicator::Op::max);
    InFlight agreed{.sampled = static_cast<int>(wanted[0]), .gathered = static_cast<int>(wanted[1])};
    while (agreed.batches() > most) --(agreed.sampled >= agreed.gathered ? agreed.sampled : agreed.gathered);
    choice = agreed == in_flight ? Choice::settled : Choice::warms_up_more;
    if (choice == Choice::settled) return;
    widen(agreed);
    loader->work_with(lanes());
    if (parts.ranks.world->rank() != 0) return;
    const bool on_devices = device.is_cuda() && !hosts_take_part();
    spdlog::info(
        "{} batches in flight, {} of them sampled and {} gathered at a time: a round trip between machines "
        "takes {}, and a batch waits {}",
        agreed.batches(), agreed.sampled, agreed.gathered,
        format_seconds((on_devices ? gpu_link : link).round_seconds),
        format_seconds(of_batch.sample_latency + of_batch.gather_latency));
  }

  /// Keeps more in flight only if that is faster.
  void settle(double step) {
    choice = Choice::settled;
    if (step <= three_step) return;
    if (parts.ranks.world->rank() == 0)
      spdlog::info("{} batches in flight again: a step took {} with {}, and {} with {}", kBuffers,
                   format_seconds(step), in_flight.batches(), format_seconds(three_step), kBuffers);
    in_flight = {};
    loader->work_with(lanes());
  }

  bool is_distributed() const { return parts.ranks.on_several_machines(); }
  bool pads() const { return !padding.shape.entries.empty(); }
  comm::LaunchOrder* launch_order() { return uses_wires() ? &order : nullptr; }

  comm::DeviceExchange* row_wire(const Lane<RowFetcher>& lane) const {
    if (!rows_on_devices()) return nullptr;
    return lane.wire ? lane.wire.get() : sampling.front().wire.get();
  }

  std::unique_ptr<RowFetcher> make_fetcher(int lane) {
    return std::make_unique<RowFetcher>(parts.graph->features(), device, row_context(lane),
                                        *parts.gather_pool);
  }

  std::unique_ptr<sampling::MiniBatchSampler> make_sampler(int index) {
    const auto& lane = sampling[at(index)];
    sampling::ExchangeContext exchange;
    if (is_distributed() && !parts.graph->is_replicated()) {
      exchange = {.communicator = &lane.communicator,
                  .topology = parts.ranks.topology,
                  .machine_offsets = parts.graph->machine_offsets(),
                  .halo = parts.graph->halo_lists(),
                  .pool = parts.sample_pool,
                  .on_devices = neighbors_on_devices() ? lane.wire.get() : nullptr,
                  .order = neighbors_on_devices() ? &order : nullptr,
                  .lane = index,
                  .listener = options.trace};
    }
    SamplerChoice choice{.graph = parts.graph,
                         .options = options.sampler,
                         .exchange = exchange,
                         .num_buffers = kMostBuffers,
                         .pool = parts.sample_pool,
                         .device = device,
                         .requested = options.sampler_device,
                         .schedule = &schedule,
                         .seed = options.seed,
                         .log = index == 0 && parts.ranks.world->rank() == 0};
    choice.options.max_seeds = schedule.max_seeds();
    choice.options.max_excluded = schedule.max_excluded();
    const bool directly =
        routes.requests == Transport::nccl && bounds_requests(options.sampler) && samples_on_gpu(choice);
    // A host that looks at the ids of other machines' rows needs them in order.
    choice.options.sorted_inputs = is_distributed() && !(directly && rows_on_devices());
    return make_training_sampler(choice);
  }

  RowExchangeContext row_context(int index) {
    if (!is_distributed()) return {.machine_offsets = {}, .arrival = parts.graph->arrival()};
    const auto& lane = gathering[at(index)];
    return {.communicator = &lane.communicator,
            .topology = parts.ranks.topology,
            .machine_offsets = parts.graph->machine_offsets(),
            .machine = parts.ranks.machine->index(),
            .halo = parts.graph->halo_rows(),
            .on_devices = row_wire(lane),
            .in_bf16 = options.rows_in_bf16,
            .order = rows_on_devices() ? &order : nullptr,
            .lane = index,
            .listener = options.trace,
            .arrival = parts.graph->arrival()};
  }

  Padding measure() const {
    const auto& gather = gathering.front();
    return measure_padding({.sampler = sampling.front().worker.get(),
                            .fetcher = routes.requests == Transport::nccl ? gather.worker.get() : nullptr,
                            .communicator = &gather.communicator,
                            .schedule = &schedule,
                            .fanouts = options.sampler.fanouts,
                            .strided = options.sampler.strided,
                            .seed = options.seed},
                           cuda::Stream(device));
  }

  std::unique_ptr<BatchLoader> make_loader() {
    return std::make_unique<BatchLoader>(BatchLoader::Options{
        .parts = parts,
        .made = options,
        .schedule = &schedule,
        .lanes = lanes(),
        .order = launch_order(),
        .launches = {.samples = neighbors_on_devices() && !padding.shape.requests.empty(),
                     .fetches = rows_on_devices(),
                     .overlap = launches_overlap()},
        .padding = padding.shape});
  }

  sampling::ExchangeReport neighbor_exchange() const {
    sampling::ExchangeReport report;
    for (const auto& lane : sampling) report += lane.worker->report();
    return report;
  }
  RowExchangeReport row_exchange_report() const {
    RowExchangeReport report;
    for (const auto& lane : gathering) report += lane.worker->report();
    return report;
  }

  tensor::ByStratum<Count> rows_by_stratum() const {
    tensor::ByStratum<Count> all;
    for (const auto& lane : gathering) all += lane.worker->rows_by_stratum();
    return all;
  }

  void close() {
    loader.reset();
    // Rows may have the wire of the first sampler.
    for (auto& lane : gathering) lane.close();
    for (auto& lane : sampling) lane.close();
  }
};

Pipeline::Pipeline(const PipelineParts& parts, const PipelineOptions& options)
    : state_(std::make_unique<State>(parts, options)) {}
Pipeline::~Pipeline() = default;

Count Pipeline::num_seeds() const { return state_->schedule.num_seeds(); }
Count Pipeline::steps_per_epoch() const { return state_->schedule.steps_per_epoch(); }
Count Pipeline::num_global_seeds(Count first, Count last) const {
  return state_->schedule.num_global_seeds(first, last);
}
std::vector<NodeId> Pipeline::seeds_of(std::uint32_t epoch, Count step_in_epoch) const {
  return state_->schedule.step(epoch, step_in_epoch).seeds;
}

void Pipeline::begin(const Steps& steps) { state_->begin(steps); }
const LoadedBatch* Pipeline::next(const cuda::Stream& stream) { return state_->loader->next(stream); }
void Pipeline::release(const LoadedBatch& batch, const cuda::Stream& stream) {
  state_->loader->release(batch, stream);
}
bool Pipeline::wait_for(std::chrono::milliseconds patience) { return state_->loader->wait_for(patience); }
void Pipeline::exchange_features(const LoadedBatch& batch, cuda::Array<float>& other) {
  state_->loader->exchange_features(batch, other);
}
void Pipeline::end() { state_->loader->end(); }
void Pipeline::run_on(const cuda::SmGroup& sms) { state_->loader->run_on(sms); }
void Pipeline::release_buffers() { state_->loader->release_buffers(); }

int Pipeline::batches_in_flight() const { return state_->batches_in_flight(); }
bool Pipeline::wants_step_times() const { return state_->choice != Choice::settled; }
void Pipeline::note_step_times(const LoaderTimes& times, double train_seconds, Count steps) {
  state_->note_step_times(times, train_seconds, steps);
}
const comm::LinkFacts& Pipeline::link() const { return state_->link; }
const comm::LinkFacts& Pipeline::gpu_link() const { return state_->gpu_link; }
bool Pipeline::pads() const { return state_->pads(); }
const BatchSizes& Pipeline::batch_sizes() const { return state_->padding.sizes; }
const Routes& Pipeline::routes() const { return state_->routes; }
comm::LaunchOrder* Pipeline::launch_order() { return state_->launch_order(); }
bool Pipeline::launches_overlap() const { return state_->launches_overlap(); }
int Pipeline::most_launch_blocks() const { return state_->most_launch_blocks(); }
LoaderTimes Pipeline::take_times() { return state_->loader->take_times(); }
Count Pipeline::take_input_rows() { return state_->loader->take_input_rows(); }
Count Pipeline::take_unpadded() { return state_->loader->take_unpadded(); }

tensor::ByStratum<std::int64_t> Pipeline::take_gathered_bytes() {
  const auto rows = state_->rows_by_stratum();
  tensor::ByStratum<std::int64_t> bytes;
  const auto row_bytes = static_cast<std::int64_t>(state_->parts.graph->features().spec().row_bytes());
  for (const tensor::Stratum s : tensor::kStrata) bytes[s] = (rows[s] - state_->reported_rows[s]) * row_bytes;
  state_->reported_rows = rows;
  return bytes;
}

sampling::ExchangeReport Pipeline::neighbor_exchange() const { return state_->neighbor_exchange(); }
RowExchangeReport Pipeline::row_exchange_report() const { return state_->row_exchange_report(); }
void Pipeline::close() { state_->close(); }

}  // namespace strata::batches
