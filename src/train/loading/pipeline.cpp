// SPDX-License-Identifier: Apache-2.0
#include "strata/train/pipeline.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "loading/batch_loader.hpp"
#include "loading/padding.hpp"
#include "loading/sampler_choice.hpp"
#include "loading/seed_schedule.hpp"
#include "strata/comm/device_exchange.hpp"
#include "strata/util/error.hpp"

namespace strata::train {
namespace {

SeedSchedule schedule_of(const PipelineParts& parts, const PipelineOptions& options) {
  return SeedSchedule({.train_nodes = parts.graph->train_nodes(),
                       .machine_offsets = parts.graph->machine_offsets(),
                       .part_offsets = parts.graph->part_offsets(),
                       .machine = parts.machine->index(),
                       .local_rank = parts.machine->rank(),
                       .machine_ranks = parts.machine->size(),
                       .global_batch = options.global_batch,
                       .seed = options.seed});
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

struct Pipeline::State {
  PipelineParts parts;
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
  std::unique_ptr<BatchLoader> loader;
  bool overlap;
  std::array<Count, tensor::kNumStrata> told_rows{};  // of the fetcher

  State(const PipelineParts& p, const PipelineOptions& options)
      : parts(p),
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
        sampler(make_sampler(options)),
        fetcher(std::make_unique<feature::RowFetcher>(p.graph->features(), device, row_context(),
                                                      *p.gather_pool)),
        padding(options.pad ? measure(options) : Padding{}),
        loader(make_loader(options)),
        overlap(options.overlap) {}

  bool is_distributed() const { return parts.topology->num_machines() > 1; }
  comm::LaunchOrder* launch_order() { return wire ? &order : nullptr; }

  std::unique_ptr<sampling::MiniBatchSampler> make_sampler(const PipelineOptions& options) {
    sampling::ExchangeContext exchange;
    if (is_distributed() && !parts.graph->is_replicated()) {
      exchange = {.communicator = &sample_communicator,
                  .topology = parts.topology,
                  .machine_offsets = parts.graph->machine_offsets(),
                  .halo = parts.graph->halo_lists(),
                  .pool = parts.sample_pool,
                  .on_devices = neighbors_on_devices ? wire.get() : nullptr,
                  .order = neighbors_on_devices ? &order : nullptr};
    }
    sampling::SamplerOptions sampler_options = options.sampler;
    sampler_options.max_seeds = schedule.max_seeds();
    SamplerChoice choice{.graph = parts.graph,
                         .options = sampler_options,
                         .exchange = exchange,
                         .num_buffers = kBuffers,
                         .pool = parts.sample_pool,
                         .device = device,
                         .requested = options.sampler_device,
                         .schedule = &schedule,
                         .seed = options.seed,
                         .log = parts.world->rank() == 0};
    const bool directly = asks_directly(options, choice);
    if (directly) choice.exchange.halo = nullptr;  // it would be missing in the measured sizes of requests
    // A host that looks at the ids of other machines' rows needs them in order.
    choice.options.sorted_inputs = is_distributed() && !(directly && rows_on_devices);
    return make_training_sampler(choice);
  }

  /// Whether batches can be padded, so that no host looks at their ids; see sampling::PaddedShape.
  bool asks_directly(const PipelineOptions& options, const SamplerChoice& choice) const {
    const sampling::SamplerOptions& sampling = options.sampler;
    return requests_on_devices && options.pad && samples_on_gpu(choice) &&
           sampling.method != sampling::Method::labor && !sampling.device_chooser.narrow &&
           std::ranges::all_of(sampling.fanouts, [](int fanout) { return fanout >= 0; });
  }

  feature::RowExchangeContext row_context() {
    if (!is_distributed()) return {};
    return {.communicator = &gather_communicator,
            .topology = parts.topology,
            .machine_offsets = parts.graph->machine_offsets(),
            .machine = parts.machine->index(),
            .halo = parts.graph->halo_rows(),
            .on_devices = rows_on_devices ? wire.get() : nullptr,
            .order = rows_on_devices ? &order : nullptr};
  }

  Padding measure(const PipelineOptions& options) const {
    return measure_padding({.sampler = sampler.get(),
                            .fetcher = requests_on_devices ? fetcher.get() : nullptr,
                            .communicator = &gather_communicator,
                            .schedule = &schedule,
                            .fanouts = options.sampler.fanouts,
                            .strided = options.sampler.strided,
                            .seed = options.seed},
                           cuda::Stream(device));
  }

  std::unique_ptr<BatchLoader> make_loader(const PipelineOptions& options) {
    return std::make_unique<BatchLoader>(
        BatchLoader::Options{.device = device,
                             .schedule = &schedule,
                             .sampler = sampler.get(),
                             .fetcher = fetcher.get(),
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
void Pipeline::end() { state_->loader->end(); }
void Pipeline::run_on(const cuda::SmGroup& sms) { state_->loader->run_on(sms); }
void Pipeline::release_buffers() { state_->loader->release_buffers(); }

int Pipeline::batches_in_flight() const { return state_->overlap ? kBuffers : 1; }
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
Count Pipeline::take_unpadded() { return state_->loader->take_unpadded(); }

std::array<std::int64_t, tensor::kNumStrata> Pipeline::take_gathered_bytes() {
  const auto rows = state_->fetcher->rows_by_stratum();
  std::array<std::int64_t, tensor::kNumStrata> bytes;
  const auto row_bytes = static_cast<std::int64_t>(state_->parts.graph->features().spec().row_bytes());
  for (std::size_t s = 0; s < bytes.size(); ++s) bytes[s] = (rows[s] - state_->told_rows[s]) * row_bytes;
  state_->told_rows = rows;
  return bytes;
}

sampling::ExchangeReport Pipeline::neighbor_exchange() const { return state_->sampler->report(); }
feature::RowExchangeReport Pipeline::row_exchange_report() const { return state_->fetcher->report(); }

void Pipeline::close() {
  State& s = *state_;
  s.loader.reset();
  s.fetcher.reset();
  s.sampler.reset();
  if (s.wire) s.wire->close();
  s.gather_communicator.close();
  s.sample_communicator.close();
}

}  // namespace strata::train
