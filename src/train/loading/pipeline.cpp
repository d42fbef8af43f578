// SPDX-License-Identifier: Apache-2.0
#include "strata/train/pipeline.hpp"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <array>
#include <span>

#include "loading/batch_loader.hpp"
#include "loading/in_flight.hpp"
#include "loading/padding.hpp"
#include "loading/sampler_choice.hpp"
#include "loading/seed_schedule.hpp"
#include "strata/comm/device_exchange.hpp"
#include "strata/comm/ranks.hpp"
#include "strata/comm/resources.hpp"
#include "strata/util/error.hpp"
#include "strata/util/format.hpp"
#include "strata/util/label_sets.hpp"

namespace strata::train {
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
       .machine = parts.machine->index(),
       .local_rank = parts.machine->rank(),
       .machine_ranks = parts.machine->size(),
       .global_batch = options.global_batch,
       .seed = options.seed,
       .nodes_of_rank = options.epoch.nodes_of_rank});
}

bool can_exchange_on_devices(const PipelineParts& parts) {
  return parts.topology->num_machines() > 1 &&
         comm::can_exchange_on_devices(*parts.topology, parts.machine->device());
}

/// Whether an exchange goes from GPU to GPU. Throws InputError if it must and cannot.
bool goes_on_devices(const PipelineParts& parts, Transport requested, const char* option) {
  const bool possible = can_exchange_on_devices(parts);
  if (requested == Transport::nccl && !possible) {
    throw InputError(fmt::format("{} nccl is not possible here", option),
                     fmt::format("It needs several machines, and a GPU for every rank alone; {} auto goes on "
                                 "without.",
                                 option));
  }
  return possible && requested != Transport::mpi;
}

}  // namespace

std::vector<std::int32_t> missing_label(const graph::Manifest& manifest) {
  return manifest.multi_label ? unlabelled_set(manifest.num_classes) : std::vector<std::int32_t>{-1};
}

struct Pipeline::State {
  PipelineParts parts;
  PipelineOptions options;
  Device device;
  SeedSchedule schedule;
  comm::Communicator sample_communicator, gather_communicator;
  comm::LaunchOrder order;  // of both exchanges, and of what the caller launches
  bool rows_on_devices;
  bool requests_on_devices;                    // the host sees no id that is asked for
  bool neighbors_on_devices;                   // and there are neighbors to ask for
  std::unique_ptr<comm::DeviceExchange> wire;  // null: nothing goes from GPU to GPU
  std::unique_ptr<sampling::MiniBatchSampler> sampler;
  std::unique_ptr<feature::RowFetcher> fetcher;
  Padding padding;
  /// Beside `sampler` and `fetcher`, for batches that are sampled or gathered at the same time.
  struct MoreSampling {
    comm::Communicator communicator;
    std::unique_ptr<sampling::MiniBatchSampler> sampler;
  };
  struct MoreGathering {
    comm::Communicator communicator;
    std::unique_ptr<feature::RowFetcher> fetcher;
  };
  std::vector<std::unique_ptr<MoreSampling>> more_sampling;
  std::vector<std::unique_ptr<MoreGathering>> more_gathering;
  comm::LinkFacts link, gpu_link;
  InFlight in_flight;
  bool in_flight_is_chosen = true;
  std::unique_ptr<BatchLoader> loader;
  std::array<Count, tensor::kNumStrata> told_rows{};  // of the fetchers

  State(const PipelineParts& p, const PipelineOptions& o)
      : parts(p),
        options(o),
        device(p.machine->device()),
        schedule(schedule_of(p, options)),
        sample_communicator(p.world->duplicate()),
        gather_communicator(p.world->duplicate()),
        order(device),
        rows_on_devices(goes_on_devices(p, options.row_exchange, "--row-exchange")),
        requests_on_devices(goes_on_devices(p, options.neighbor_exchange, "--neighbor-exchange")),
        neighbors_on_devices(requests_on_devices && !p.graph->is_replicated()),
        wire(rows_on_devices || neighbors_on_devices ? comm::make_device_exchange(*p.world, device)
                                                     : nullptr),
        sampler(make_sampler(sample_communicator, p.world->rank() == 0)),
        fetcher(make_fetcher(gather_communicator)),
        padding(can_pad() ? measure() : Padding{}),
        link(comm::measure_link(sample_communicator, *p.topology)),
        gpu_link(wire == nullptr ? comm::LinkFacts{}
                                 : comm::measure_link(*wire, sample_communicator, *p.topology, device)) {
    refuse_what_is_impossible();
    in_flight_is_chosen = !can_widen() || options.batches_in_flight > 0;
    if (options.batches_in_flight > 0 && can_widen()) widen(in_flight_of(options.batches_in_flight));
    loader = make_loader();
  }

  bool is_without(Device::Kind kind) const { return comm::ranks_on(*parts.topology, kind).empty(); }

  /// On several machines batches are measured together, and CPUs measure none; the same on all of their
  /// ranks.
  bool can_pad() const { return options.pad && (!is_distributed() || is_without(Device::Kind::cpu)); }

  /// Whether several batches can be sampled, or gathered, at the same time, and whether it can help; the same
  /// on all ranks.
  bool can_widen() const { return is_distributed() && is_without(Device::Kind::cuda) && options.overlap; }

  void refuse_what_is_impossible() const {
    if (device.is_cuda() && options.batches_in_flight > kBuffers) {
      throw InputError(
          fmt::format("--batches-in-flight {} is not possible on a GPU", options.batches_in_flight),
          fmt::format("Its stages work on one batch each: give at most {}, or auto.", kBuffers));
    }
  }

  /// Collective.
  void widen(const InFlight& wanted) {
    while (std::ssize(more_sampling) + 1 < wanted.sampled) {
      more_sampling.push_back(std::make_unique<MoreSampling>(MoreSampling{parts.world->duplicate(), {}}));
      more_sampling.back()->sampler = make_sampler(more_sampling.back()->communicator, false);
    }
    while (std::ssize(more_gathering) + 1 < wanted.gathered) {
      more_gathering.push_back(std::make_unique<MoreGathering>(MoreGathering{parts.world->duplicate(), {}}));
      more_gathering.back()->fetcher = make_fetcher(more_gathering.back()->communicator);
    }
    in_flight = wanted;
  }

  BatchLanes lanes() const {
    BatchLanes lanes{
        .samplers = {sampler.get()}, .fetchers = {fetcher.get()}, .buffers = batches_in_flight()};
    for (const auto& more : more_sampling) lanes.samplers.push_back(more->sampler.get());
    for (const auto& more : more_gathering) lanes.fetchers.push_back(more->fetcher.get());
    return lanes;
  }

  /// More only where a number of batches was given that cannot be worked on at the same time.
  int batches_in_flight() const {
    if (!options.overlap) return 1;
    if (options.batches_in_flight > 0) return options.batches_in_flight;
    return in_flight.batches();
  }

  /// The most batches in flight for which the memory suffices: an eighth of what is free is for more than
  /// three.
  int most_in_flight(Count batches) const {
    const auto rows =
        static_cast<double>(fetcher->report().rows) / static_cast<double>(std::max<Count>(1, batches));
    const double row_bytes = static_cast<double>(parts.graph->manifest().feature_cols) * sizeof(float);
    constexpr double kGrowth = 1.25, kBytesPerNode = 5,
                     kShare = 8;  // of a buffer; of a sampler; of the memory
    const double bytes =
        kGrowth * rows * row_bytes + kBytesPerNode * static_cast<double>(parts.graph->view().num_nodes);
    const auto free = static_cast<double>(comm::resources_of(*parts.machine).free_memory().share_bytes);
    const double more = bytes > 0 ? free / kShare / bytes : 0;
    return kBuffers + static_cast<int>(std::min<double>(kMostBuffers - kBuffers, more));
  }

  StageTimes stage_times(const LoaderTimes& times, double train_seconds, Count steps) const {
    const double batches = static_cast<double>(std::max<Count>(1, steps));
    Count sample_rounds = 0;
    for (const sampling::HopTraffic& hop : sampler->report().traffic) sample_rounds += hop.rounds;
    const auto of_rounds = [&](Count rounds) {
      return static_cast<double>(rounds) * link.round_seconds / batches;
    };
    return {.sample = times.sample / batches,
            .gather = times.gather / batches,
            .train = train_seconds / batches,
            .sample_latency = of_rounds(sample_rounds),
            .gather_latency = of_rounds(fetcher->report().rounds)};
  }

  void choose_in_flight(const LoaderTimes& times, double train_seconds, Count steps) {
    const StageTimes of_batch = stage_times(times, train_seconds, steps);
    std::int64_t most = most_in_flight(steps);
    sample_communicator.all_reduce(std::span(&most, 1), comm::Communicator::Op::min);
    const InFlight mine = in_flight_for(of_batch, static_cast<int>(most));
    std::array<std::int64_t, 2> wanted{mine.sampled, mine.gathered};
    sample_communicator.all_reduce(wanted, comm::Communicator::Op::max);
    InFlight agreed{.sampled = static_cast<int>(wanted[0]), .gathered = static_cast<int>(wanted[1])};
    while (agreed.batches() > most) --(agreed.sampled >= agreed.gathered ? agreed.sampled : agreed.gathered);
    in_flight_is_chosen = true;
    if (agreed == in_flight) return;
    widen(agreed);
    loader->work_with(lanes());
    if (parts.world->rank() != 0) return;
    spdlog::info(
        "{} batches in flight, {} of them sampled and {} gathered at a time: a round trip between machines "
        "takes "
        "{}, and a batch {} of round trips",
        agreed.batches(), agreed.sampled, agreed.gathered, format_seconds(link.round_seconds),
        format_seconds(of_batch.sample_latency + of_batch.gather_latency));
  }

  bool is_distributed() const { return parts.topology->num_machines() > 1; }
  comm::LaunchOrder* launch_order() { return wire ? &order : nullptr; }

  std::unique_ptr<feature::RowFetcher> make_fetcher(const comm::Communicator& communicator) {
    return std::make_unique<feature::RowFetcher>(parts.graph->features(), device, row_context(communicator),
                                                 *parts.gather_pool);
  }

  std::unique_ptr<sampling::MiniBatchSampler> make_sampler(const comm::Communicator& communicator, bool log) {
    sampling::ExchangeContext exchange;
    if (is_distributed() && !parts.graph->is_replicated()) {
      exchange = {.communicator = &communicator,
                  .topology = parts.topology,
                  .machine_offsets = parts.graph->machine_offsets(),
                  .halo = parts.graph->halo_lists(),
                  .pool = parts.sample_pool,
                  .on_devices = neighbors_on_devices ? wire.get() : nullptr,
                  .order = neighbors_on_devices ? &order : nullptr,
                  .listener = options.trace};
    }
    sampling::SamplerOptions sampler_options = options.sampler;
    sampler_options.max_seeds = schedule.max_seeds();
    SamplerChoice choice{.graph = parts.graph,
                         .options = sampler_options,
                         .exchange = exchange,
                         .num_buffers = device.is_cuda() ? kBuffers : kMostBuffers,
                         .pool = parts.sample_pool,
                         .device = device,
                         .requested = options.sampler_device,
                         .schedule = &schedule,
                         .seed = options.seed,
                         .log = log};
    const bool directly = asks_directly(choice);
    // A host that looks at the ids of other machines' rows needs them in order.
    choice.options.sorted_inputs = is_distributed() && !(directly && rows_on_devices);
    return make_training_sampler(choice);
  }

  /// Whether batches can be padded, so that no host looks at their ids.
  bool asks_directly(const SamplerChoice& choice) const {
    return requests_on_devices && options.pad && samples_on_gpu(choice) && bounds_requests(options.sampler);
  }

  feature::RowExchangeContext row_context(const comm::Communicator& communicator) {
    if (!is_distributed()) return {.machine_offsets = {}, .arrival = parts.graph->arrival()};
    return {.communicator = &communicator,
            .topology = parts.topology,
            .machine_offsets = parts.graph->machine_offsets(),
            .machine = parts.machine->index(),
            .halo = parts.graph->halo_rows(),
            .on_devices = rows_on_devices ? wire.get() : nullptr,
            .in_bf16 = options.rows_in_bf16,
            .order = rows_on_devices ? &order : nullptr,
            .listener = options.trace,
            .arrival = parts.graph->arrival()};
  }

  Padding measure() const {
    return measure_padding({.sampler = sampler.get(),
                            .fetcher = requests_on_devices ? fetcher.get() : nullptr,
                            .communicator = &gather_communicator,
                            .schedule = &schedule,
                            .fanouts = options.sampler.fanouts,
                            .strided = options.sampler.strided,
                            .seed = options.seed},
                           cuda::Stream(device));
  }

  std::unique_ptr<BatchLoader> make_loader() {
    return std::make_unique<BatchLoader>(
        BatchLoader::Options{.device = device,
                             .schedule = &schedule,
                             .lanes = lanes(),
                             .labels = parts.graph->labels(),
                             .no_label = options.missing_label,
                             .first_node = parts.graph->host_view().first_node,
                             .feature_cols = parts.graph->manifest().feature_cols,
                             .seed = options.seed,
                             .overlap = options.overlap,
                             .trace = options.trace,
                             .order = launch_order(),
                             .launches = {.samples = neighbors_on_devices && !padding.shape.requests.empty(),
                                          .fetches = rows_on_devices},
                             .gather = options.gather,
                             .padding = padding.shape});
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

void Pipeline::begin(const Steps& steps) { state_->loader->begin(steps); }
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
bool Pipeline::wants_step_times() const { return !state_->in_flight_is_chosen; }
void Pipeline::choose_in_flight(const LoaderTimes& times, double train_seconds, Count steps) {
  state_->choose_in_flight(times, train_seconds, steps);
}
const comm::LinkFacts& Pipeline::link() const { return state_->link; }
const comm::LinkFacts& Pipeline::gpu_link() const { return state_->gpu_link; }
bool Pipeline::pads() const { return !state_->padding.shape.entries.empty(); }
const BatchSizes& Pipeline::batch_sizes() const { return state_->padding.sizes; }
Transport Pipeline::row_exchange() const {
  return state_->rows_on_devices ? Transport::nccl : Transport::mpi;
}
Transport Pipeline::neighbor_transport() const {
  return state_->neighbors_on_devices && pads() ? Transport::nccl : Transport::mpi;
}
comm::LaunchOrder* Pipeline::launch_order() { return state_->launch_order(); }

LoaderTimes Pipeline::take_times() { return state_->loader->take_times(); }
Count Pipeline::take_input_rows() { return state_->loader->take_input_rows(); }
Count Pipeline::take_unpadded() { return state_->loader->take_unpadded(); }

std::array<std::int64_t, tensor::kNumStrata> Pipeline::take_gathered_bytes() {
  auto rows = state_->fetcher->rows_by_stratum();
  for (const auto& more : state_->more_gathering) {
    const auto further = more->fetcher->rows_by_stratum();
    for (std::size_t s = 0; s < rows.size(); ++s) rows[s] += further[s];
  }
  std::array<std::int64_t, tensor::kNumStrata> bytes;
  const auto row_bytes = static_cast<std::int64_t>(state_->parts.graph->features().spec().row_bytes());
  for (std::size_t s = 0; s < bytes.size(); ++s) bytes[s] = (rows[s] - state_->told_rows[s]) * row_bytes;
  state_->told_rows = rows;
  return bytes;
}

sampling::ExchangeReport Pipeline::neighbor_exchange() const {
  sampling::ExchangeReport report = state_->sampler->report();
  for (const auto& more : state_->more_sampling) report += more->sampler->report();
  return report;
}
feature::RowExchangeReport Pipeline::row_exchange_report() const {
  feature::RowExchangeReport report = state_->fetcher->report();
  for (const auto& more : state_->more_gathering) report += more->fetcher->report();
  return report;
}

void Pipeline::close() {
  State& s = *state_;
  s.loader.reset();
  for (const auto& more : s.more_gathering) {
    more->fetcher.reset();
    more->communicator.close();
  }
  for (const auto& more : s.more_sampling) {
    more->sampler.reset();
    more->communicator.close();
  }
  s.fetcher.reset();
  s.sampler.reset();
  if (s.wire) s.wire->close();
  s.gather_communicator.close();
  s.sample_communicator.close();
}

}  // namespace strata::train
