// SPDX-License-Identifier: Apache-2.0
#include "batch_loader.hpp"

#include <array>
#include <atomic>
#include <chrono>
#include <thread>
#include <utility>

#include "step_board.hpp"
#include "strata/batches/pipeline.hpp"
#include "strata/cuda/buffer.hpp"
#include "strata/cuda/device.hpp"
#include "strata/cuda/stream.hpp"
#include "strata/sampling/recording_gate.hpp"

namespace strata::batches {
namespace {

class Stopwatch {
 public:
  explicit Stopwatch(std::atomic<double>& total) : total_(total), start_(std::chrono::steady_clock::now()) {}
  ~Stopwatch() { total_ += std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count(); }
  Stopwatch(const Stopwatch&) = delete;
  Stopwatch& operator=(const Stopwatch&) = delete;

 private:
  std::atomic<double>& total_;
  std::chrono::steady_clock::time_point start_;
};

struct RingBuffer {
  LoadedBatch batch;
  SeedSchedule::Step seeds;
  StreamClock sampled, gathered, trained;
  cuda::Array<float> features, unpadded_features;  // those of padded batches never move
  cuda::Array<std::int32_t> host_targets, device_targets;
};

/// Makes room for `size` elements and a quarter more, so that growing batches do not allocate each time.
template <typename T>
void reserve(cuda::Array<T>& array, Count size, cuda::Memory memory, const char* what, Device device) {
  if (array.size() >= size) return;
  array = {};
  array = cuda::Array<T>(memory, size + size / 4, what, device);
}

}  // namespace

struct BatchLoader::State {
  Options options;
  Device device;
  cuda::SmGroup sms;  // of both stages
  std::vector<cuda::Stream> sample_streams, gather_streams;
  std::array<RingBuffer, Pipeline::kMostBuffers> ring;

  std::uint32_t epoch = 0;
  Count first_step = 0, next_step = 0, end_step = 0;  // next_step: that next() gives

  /// The threads of some steps, which they count from 0.
  struct Stages {
    StepBoard board;
    std::vector<std::thread> threads;
  };
  std::unique_ptr<Stages> stages;
  sampling::RecordingGate recordings;  // open while the caller waits for a batch
  std::atomic<Count> unpadded{0}, input_rows{0};
  std::atomic<double> sample_seconds{0}, gather_seconds{0}, wait_seconds{0};

  explicit State(const Options& o) : options(o), device(o.parts.ranks.device()) {
    run_on({});
    // On several machines ranks record in the same order, wherever their callers are.
    if (!options.parts.ranks.on_several_machines()) {
      for (sampling::MiniBatchSampler* sampler : options.lanes.samplers) sampler->record_within(recordings);
    }
    for (RingBuffer& buffer : ring) {
      for (StreamClock* clock : {&buffer.sampled, &buffer.gathered, &buffer.trained})
        *clock = StreamClock(device);
    }
  }

  void run_on(const cuda::SmGroup& group) {
    sms = group;
    sample_streams.clear();
    gather_streams.clear();
    add_streams();
  }

  /// One for each sampler and fetcher that has none.
  void add_streams() {
    // What brings data is a chain of short kernels that keep PCIe, NVLink or the network busy. Without
    // priority, training would fill the GPU before each of them, and other ranks would wait, too.
    const auto add = [&](std::vector<cuda::Stream>& streams, std::size_t lanes, int priority) {
      while (streams.size() < lanes)
        streams.push_back(device.is_cuda() ? cuda::Stream(device, priority, sms) : cuda::Stream());
    };
    add(sample_streams, options.lanes.samplers.size(), options.launches.samples ? cuda::kHighestPriority : 0);
    add(gather_streams, options.lanes.fetchers.size(), cuda::kHighestPriority);
  }

  /// The step counts from the first of begin().
  void find_seeds(Count step) {
    ring[at(buffer_of(step))].seeds = options.schedule->step(epoch, first_step + step);
  }

  void sample(Count step, std::size_t lane) {
    const Stopwatch watch(sample_seconds);
    const cuda::NvtxRange range("sample");
    const cuda::Stream& sample_stream = sample_streams[lane];
    const int index = buffer_of(step);
    RingBuffer& buffer = ring[at(index)];
    const Count step_in_epoch = first_step + step;
    const auto global_step = static_cast<std::uint32_t>(
        static_cast<Count>(epoch) * options.schedule->steps_per_epoch() + step_in_epoch);
    const TraceSpan span(options.made.trace, Trace::Lane::sample, global_step);
    const SeedSchedule::Step& seeds = buffer.seeds;
    LoadedBatch& batch = buffer.batch;
    batch.buffer = index;
    batch.key = {.seed = options.made.seed, .epoch = epoch, .step = global_step};
    batch.step_in_epoch = step_in_epoch;
    batch.num_global_seeds = seeds.num_global;
    batch.seed_places = seeds.places;
    batch.of_links = options.made.epoch.links != nullptr;
    batch.link_sources = seeds.links.sources;
    batch.link_destinations = seeds.links.destinations;
    batch.link_groups = seeds.links.groups;
    sample_stream.wait(buffer.trained.ended());
    buffer.sampled.begin(sample_stream);
    sampling::MiniBatchSampler& sampler = *options.lanes.samplers[lane];
    sampler.exclude({.lists = seeds.links.excluded, .halo = seeds.links.excluded_of_halo});
    batch.sample = sampler.sample(seeds.seeds, batch.key, buffer_of_sampler(step), sample_stream);
    buffer.sampled.end(sample_stream);
    batch.num_inputs = batch.sample.num_inputs();
    batch.padded = sampling::pad(batch.sample, options.padding);
    if (pads() && !batch.padded) ++unpadded;
    buffer.gathered.ended().synchronize();  // so that the targets of the buffer's last batch have been copied
    options.made.brings_places ? look_up_places(seeds, buffer) : look_up_targets(seeds.seeds, buffer);
  }

  bool pads() const { return !options.padding.entries.empty(); }

  void look_up_targets(std::span<const NodeId> seeds, RingBuffer& buffer) const {
    LoadedBatch& batch = buffer.batch;
    batch.num_targets = batch.sample.blocks.back().num_dst;
    const SeedTargets& targets = options.made.targets;
    if (!targets) return;
    const NodeId first_node = options.parts.graph->host_view().first_node;
    const Count words = targets.words_per_node();
    const Count room = std::max(options.schedule->max_seeds(), batch.num_targets) * words;
    reserve(buffer.host_targets, room, cuda::Memory::pinned, "targets of a batch", device);
    for (Count i = 0; i < batch.num_targets; ++i) {
      const auto seed = at(i);
      const std::int32_t* target =
          seed < seeds.size() ? targets.of(seeds[seed] - first_node) : targets.missing.data();
      std::copy_n(target, words, buffer.host_targets.data() + i * words);
    }
  }

  void look_up_places(const SeedSchedule::Step& seeds, RingBuffer& buffer) const {
    LoadedBatch& batch = buffer.batch;
    const LinkSeeds& links = *options.made.epoch.links;
    const PlacesPerLink per_link = links.places_per_link();
    const Count count = std::ssize(seeds.places), most = options.schedule->most_places();
    batch.num_targets = batch.padded ? most : count;
    reserve(buffer.host_targets, most * words_per_target(), cuda::Memory::pinned, "places of links", device);
    auto* next = reinterpret_cast<std::int64_t*>(buffer.host_targets.data());
    const auto add = [&](std::span<const std::int64_t> numbers, Count of_each, std::int64_t padding) {
      next = std::ranges::copy(numbers, next).out;
      next = std::fill_n(next, batch.num_targets * of_each - std::ssize(numbers), padding);
    };
    const auto add_ends = [&](std::span<const std::int64_t> ends, Count of_each) {
      add(ends.first(at(count)), 1, 0);
      add(ends.subspan(at(count)), of_each - 1, 0);
    };
    add(seeds.places, 1, links.size());
    add_ends(seeds.links.sources, per_link.sources);
    add_ends(seeds.links.destinations, per_link.destinations);
  }

  Count words_per_target() const {
    constexpr Count kWords = sizeof(std::int64_t) / sizeof(std::int32_t);
    return options.made.brings_places ? kWords * options.made.epoch.links->places_per_link().numbers()
                                      : options.made.targets.words_per_node();
  }

  void gather(Count step, std::size_t lane) {
    const Stopwatch watch(gather_seconds);
    const cuda::NvtxRange range("gather");
    const cuda::Stream& gather_stream = gather_streams[lane];
    RingBuffer& buffer = ring[at(buffer_of(step))];
    LoadedBatch& batch = buffer.batch;
    const TraceSpan span(options.made.trace, Trace::Lane::gather, batch.key.step);
    gather_stream.wait(buffer.sampled.ended());
    gather_stream.wait(buffer.trained.ended());
    buffer.gathered.begin(gather_stream);
    if (options.made.gather) {
      input_rows += batch.num_inputs;
      const Count rows = batch.sample.num_inputs(),
                  feature_cols = options.parts.graph->manifest().feature_cols;
      cuda::Array<float>& features = pads() && !batch.padded ? buffer.unpadded_features : buffer.features;
      reserve(features, rows * feature_cols, cuda::memory_on(device), "gathered features", device);
      options.lanes.fetchers[lane]->fetch({.ids = batch.sample.input_nodes(),
                                           .count = batch.num_inputs,
                                           .sorted = batch.sample.sorted_inputs,
                                           .sorted_positions = batch.sample.sorted_positions},
                                          features.data(), gather_stream);
      const Count gathered = batch.num_inputs * feature_cols, all = rows * feature_cols;
      if (gathered < all) {
        cuda::fill_async(features.data() + gathered, 0, at(all - gathered) * sizeof(float), gather_stream);
      }
      batch.features = features.data();
    }

    if (words_per_target() > 0) bring_targets(buffer, gather_stream);
    buffer.gathered.end(gather_stream);
  }

  void bring_targets(RingBuffer& buffer, const cuda::Stream& stream) const {
    LoadedBatch& batch = buffer.batch;
    batch.targets = buffer.host_targets.data();
    if (device.is_cuda()) {
      reserve(buffer.device_targets, buffer.host_targets.size(), cuda::memory_on(device),
              "targets of a batch", device);
      cuda::copy_async(buffer.device_targets.data(), buffer.host_targets.data(),
                       at(batch.num_targets * words_per_target()) * sizeof(std::int32_t), stream);
      batch.targets = buffer.device_targets.data();
    }
  }

  /// Adds a thread that does `work` for the steps `lane`, lane + lanes, ... while it returns true.
  template <typename Work>
  void add_thread(std::size_t lane, std::size_t lanes, Work work) {
    stages->threads.emplace_back([this, lane, lanes, work = std::move(work)] {
      try {
        const cuda::DeviceGuard guard(device);
        const auto stride = static_cast<Count>(lanes);
        for (auto step = static_cast<Count>(lane); work(step); step += stride) continue;
      } catch (...) {
        open_order();
        stages->board.fail(std::current_exception());
      }
    });
  }

  /// Opens the launch order, so that no launch waits for another.
  void open_order() {
    if (options.order != nullptr) options.order->open();
  }

  /// 0 without overlap.
  int buffer_of(Count step) const {
    return options.made.overlap ? static_cast<int>(step % options.lanes.buffers) : 0;
  }
  /// The buffer of the step within its sampler; samplers take steps in turn. When the batch of the buffer's
  /// last step is no longer in use, as many further batches as there are buffers may be.
  int buffer_of_sampler(Count step) const {
    if (!options.made.overlap) return 0;
    const auto samplers = static_cast<Count>(options.lanes.samplers.size());
    return static_cast<int>(step / samplers % ((options.lanes.buffers + samplers - 1) / samplers));
  }

  void start_stages() {
    recordings.close();
    stages.reset(new Stages{.board = {end_step - first_step, options.lanes.buffers}, .threads = {}});
    const std::size_t samplers = options.lanes.samplers.size(), fetchers = options.lanes.fetchers.size();
    // Finding links and their edges among many misses the caches of a CPU.
    add_thread(0, 1, [this](Count step) {
      if (!stages->board.wait_until_free(step)) return false;
      find_seeds(step);
      stages->board.seeded(step);
      return true;
    });
    for (std::size_t lane = 0; lane < samplers; ++lane) {
      add_thread(lane, samplers, [this, lane](Count step) {
        if (!stages->board.wait_until_seeded(step)) return false;
        sample(step, lane);
        stages->board.sampled(step);
        return true;
      });
    }
    for (std::size_t lane = 0; lane < fetchers; ++lane) {
      add_thread(lane, fetchers, [this, lane](Count step) {
        if (!stages->board.wait_until_sampled(step)) return false;
        gather(step, lane);
        stages->board.gathered(step);
        return true;
      });
    }
  }

  void end_stages() {
    if (!stages) return;
    recordings.give_up();
    const Count begun = stages->board.close();
    if (options.order != nullptr) options.order->finish(begun);
    for (std::thread& thread : stages->threads) thread.join();
    stages.reset();
  }
};

BatchLoader::BatchLoader(const Options& options) : state_(std::make_unique<State>(options)) {}

BatchLoader::~BatchLoader() { state_->end_stages(); }

void BatchLoader::run_on(const cuda::SmGroup& sms) {
  state_->end_stages();
  for (const RingBuffer& buffer : state_->ring) buffer.gathered.ended().synchronize();
  state_->run_on(sms);
}

void BatchLoader::work_with(const BatchLanes& lanes) {
  state_->end_stages();
  state_->options.lanes = lanes;
  state_->add_streams();
}

void BatchLoader::begin(const Pipeline::Steps& steps) {
  state_->end_stages();
  state_->epoch = steps.epoch;
  state_->first_step = state_->next_step = steps.first;
  state_->end_step = steps.end;
  if (state_->options.order != nullptr) {
    comm::LaunchOrder::Run run = state_->options.launches;
    run.steps = steps.end - steps.first;
    run.ahead = state_->options.made.overlap;
    run.sampled = static_cast<int>(state_->options.lanes.samplers.size());
    run.gathered = static_cast<int>(state_->options.lanes.fetchers.size());
    state_->options.order->begin(run);
  }
  if (state_->options.made.overlap) state_->start_stages();
}

const LoadedBatch* BatchLoader::next(const cuda::Stream& stream) {
  State& s = *state_;
  int index = 0;
  {
    const Stopwatch watch(s.wait_seconds);
    const sampling::RecordingGate::Open open(s.recordings);
    if (s.options.made.overlap) {
      const TraceSpan span(s.options.made.trace, Trace::Lane::wait);
      const Count step = s.next_step - s.first_step;
      if (!s.stages || !s.stages->board.wait_until_gathered(step)) return nullptr;
      index = s.buffer_of(step);
    } else {
      if (s.next_step >= s.end_step) return nullptr;
      const Count step = s.next_step - s.first_step;
      s.find_seeds(step);
      s.sample(step, 0);
      s.gather(step, 0);
    }
    ++s.next_step;
  }
  RingBuffer& buffer = s.ring[at(index)];
  stream.wait(buffer.gathered.ended());
  buffer.trained.begin(stream);
  return &buffer.batch;
}

void BatchLoader::release(const LoadedBatch& batch, const cuda::Stream& stream) {
  state_->ring[at(batch.buffer)].trained.end(stream);
  if (state_->options.order != nullptr) state_->options.order->end_step();
  if (state_->stages) state_->stages->board.release(batch.step_in_epoch - state_->first_step);
}

bool BatchLoader::wait_for(std::chrono::milliseconds patience) {
  if (!state_->stages) return true;
  const sampling::RecordingGate::Open open(state_->recordings);
  return state_->stages->board.wait_for_gathered(state_->next_step - state_->first_step, patience);
}

void BatchLoader::exchange_features(const LoadedBatch& batch, cuda::Array<float>& other) {
  std::swap(state_->ring[at(batch.buffer)].features, other);
}

void BatchLoader::end() {
  state_->end_stages();
  state_->end_step = state_->next_step;
}

void BatchLoader::release_buffers() {
  state_->end_stages();
  for (RingBuffer& buffer : state_->ring) {
    buffer.trained.ended().synchronize();
    buffer.features = {};
    buffer.unpadded_features = {};
  }
}

Count BatchLoader::take_unpadded() { return state_->unpadded.exchange(0); }
Count BatchLoader::take_input_rows() { return state_->input_rows.exchange(0); }

LoaderTimes BatchLoader::take_times() {
  State& s = *state_;
  LoaderTimes times{.sample = s.sample_seconds.exchange(0),
                    .gather = s.gather_seconds.exchange(0),
                    .train = 0,
                    .wait = s.wait_seconds.exchange(0)};
  if (!s.device.is_cuda()) return times;
  times.sample = times.gather = 0;
  for (RingBuffer& buffer : s.ring) {
    times.sample += buffer.sampled.take_seconds();
    times.gather += buffer.gathered.take_seconds();
    times.train += buffer.trained.take_seconds();
  }
  return times;
}

}  // namespace strata::batches
