// SPDX-License-Identifier: Apache-2.0
#include <cuda_runtime_api.h>
#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <exception>
#include <mutex>

#include "host_path/host_gather.hpp"
#include "host_path/host_kernels_cuda.hpp"
#include "host_path/host_workers_cpu.hpp"
#include "host_path/share_tuner.hpp"
#include "strata/cuda/buffer.hpp"
#include "strata/cuda/check.cuh"
#include "strata/cuda/device.hpp"
#include "strata/cuda/stream.hpp"
#include "strata/util/error.hpp"
#include "strata/util/threads.hpp"

namespace strata::tensor {
namespace {

constexpr Count kSmallJob = 4096;  // rows; zero copy would be done before the threads wake up
constexpr std::size_t kSlotBytes = std::size_t{256} << 10;
constexpr std::size_t kLeastChunkBytes = std::size_t{32} << 10;
constexpr int kSlotsPerThread = 4;
constexpr int kChunksPerThread = 16;  // so that threads end at about the same time
constexpr int kMultiprocessors = 8;   // some thousand rows in flight; translation needs only a few hundred
constexpr int kMaxThreads = 1024;

/// A job that shows how fast both sides are. Only one is under way at a time.
struct MeasuredJob {
  explicit MeasuredJob(Device device)
      : start(device, true),
        kernel_end(device, true),
        threads_end(device, true),
        split(cuda::Memory::pinned, 1, "the host stratum's measurement", device) {}

  cuda::Event start, kernel_end, threads_end;
  cuda::Array<Split> split;
  bool running = false;
  bool sorted = false;
  double share = 0;
};

bool has_completed(const cuda::Event& event) {
  const cudaError_t code = cudaEventQuery(event.get());
  if (code == cudaErrorNotReady) {
    cudaGetLastError();  // this is no error, and a later check must not see it
    return false;
  }
  cuda::check(code, "cudaEventQuery");
  return true;
}

/// Pinned memory of the current job, for as many rows and chunks as any job had so far.
struct JobMemory {
  Count rows = 0, chunks = 0;
  cuda::Buffer numbers;
  cuda::Array<std::uint64_t> flags;  // exported, filled, drained
};

template <typename Call>
void ignoring_errors(Call&& call) {
  try {
    call();
  } catch (const std::exception&) {  // the GPU is lost; the next call that needs it reports it
  }
}

}  // namespace

struct HostGather::State {
  State(Device on, const Source& from, const Options& with);
  ~State();

  /// What a job needs.
  struct Plan {
    double share = 0;
    SplitRule rule;
    Count kernel_bound = 0;  // rows for the kernel, at most
    bool threads = false, kernel = false, sorts = false, measured = false;
  };
  Plan plan_of(const RowGather& gather) const;
  double share_of(bool sorted) const { return options.share > 0 ? options.share : tuners[sorted].share(); }

  void gather(RowGather gather, const cuda::Stream& stream, BadId* bad);
  void launch(const RowGather& gather, const Plan& plan, const HostJob& host_job, const cuda::Stream& stream);
  HostJob next_job(const RowGather& gather, const Plan& plan);
  void launch_threads_part(const RowGather& gather, const HostJob& host_job, const cuda::Stream& stream);
  void launch_kernel_part(const RowGather& gather, const Plan& plan, const cuda::Stream& stream);
  Count chunk_rows(const RowGather& gather, const Plan& plan) const;
  void reserve(Count rows, Count chunks);
  void reserve_sort(Count bound);
  void learn();
  void report(bool sorted) const;

  const Device device;
  Source source;  // `bad` of its table is the current job's
  const Options options;
  const std::size_t row_bytes, slot_bytes;
  int threads = 0;
  LaunchShape zero_copy;

  mutable std::mutex mutex;
  std::exception_ptr failure;
  // exports and drains, at high priority, so that the threads get their row numbers at once
  cuda::Stream side;
  cuda::Event forked, joined, done;
  cuda::Array<Split> split;
  cuda::Array<std::uint64_t> doorbell;
  cuda::Buffer ring;
  JobMemory memory;
  RowSorter sorter;
  std::uint64_t ticket = 0;
  std::array<ShareTuner, 2> tuners;  // of random and of sorted ids
  MeasuredJob measured;
  std::unique_ptr<HostWorkers> workers;
};

HostGather::State::State(Device on, const Source& from, const Options& with)
    : device(on),
      source(from),
      options(with),
      row_bytes(at(from.table.row_bytes)),
      slot_bytes(std::max(kSlotBytes, (row_bytes + 255) / 256 * 256)),
      threads(with.threads > 0 ? with.threads : default_host_threads(available_cores())),
      zero_copy(with.zero_copy),
      side(on, cuda::kHighestPriority),
      forked(on),
      joined(on),
      done(on),
      split(cuda::Memory::device, 1, "the host stratum's jobs", on),
      doorbell(cuda::Memory::pinned, 1, "the host stratum's doorbell", on),
      sorter(on, from.table),
      measured(on) {
  if (options.share < 0 || options.share > 1 || options.threads < 0 || options.threads > kMaxThreads) {
    throw InputError(
        fmt::format("host stratum: {} threads for a share of {} of the rows", options.threads, options.share),
        fmt::format("Give 0 to {} threads and a share from 0 to 1.", kMaxThreads));
  }
  const int all = cuda::num_multiprocessors(device.index);
  zero_copy.multiprocessors =
      std::clamp(zero_copy.multiprocessors > 0 ? zero_copy.multiprocessors : kMultiprocessors, 1, all);
  const std::size_t num_slots = at(threads * kSlotsPerThread);
  ring = cuda::Buffer(cuda::Memory::pinned, num_slots * slot_bytes, "the host stratum's ring", device);
  doorbell[0] = 0;
  workers = std::make_unique<HostWorkers>(
      RowSource{.data = source.rows, .row_bytes = row_bytes, .row_pitch = at(source.table.row_pitch)},
      HostWorkers::Options{.threads = threads, .processors = options.processors, .stores = options.stores});
}

// Waits for the side stream, too, because a launch that failed half-way may have left work on it that `done`
// does not cover.
HostGather::State::~State() {
  ignoring_errors([&] { done.synchronize(); });
  ignoring_errors([&] { side.synchronize(); });
  workers.reset();
}

HostGather::State::Plan HostGather::State::plan_of(const RowGather& gather) const {
  Plan plan;
  plan.share = share_of(gather.sorted);
  const bool threads_alone = options.share == 1;  // a measured share of 1 does not apply to short lists
  const bool small = gather.list.bound < kSmallJob && !threads_alone;
  if (small) plan.share = 0;
  plan.rule = {.threads_share = std::llround(plan.share * static_cast<double>(SplitRule::kUnit)),
               .least_rows = threads_alone ? 0 : kSmallJob};
  plan.threads = plan.rule.threads_share > 0;
  plan.kernel = !threads_alone;
  // The kernel gets most rows either from the longest list or from the longest list without rows for the
  // threads.
  plan.kernel_bound = std::max(gather.list.bound - plan.rule.threads_rows(gather.list.bound),
                               std::min(gather.list.bound, plan.rule.least_rows));
  const bool large_table = at(source.table.rows) * at(source.table.row_pitch) > options.sort_above_bytes;
  constexpr Count kMaxPositions = Count{1} << 32;
  plan.sorts = plan.kernel && !gather.sorted && large_table && plan.kernel_bound > kSmallJob &&
               gather.list.bound <= kMaxPositions;
  plan.measured = options.share == 0 && !small && !measured.running && !tuners[gather.sorted].settled();
  return plan;
}

Count HostGather::State::chunk_rows(const RowGather& gather, const Plan& plan) const {
  const auto rows = at(plan.rule.threads_rows(gather.list.bound));
  const std::size_t even = rows * row_bytes / at(threads * kChunksPerThread);
  return static_cast<Count>(
      std::max<std::size_t>(1, std::clamp(even, kLeastChunkBytes, kSlotBytes) / row_bytes));
}

void HostGather::State::reserve(Count rows, Count chunks) {
  if (rows <= memory.rows && chunks <= memory.chunks) return;
  done.synchronize();  // earlier jobs use the memory that is freed
  const Count more_rows = std::max(rows + rows / 4, memory.rows),
              more_chunks = std::max(chunks + chunks / 4, memory.chunks);
  memory = JobMemory();
  const std::size_t number_bytes =
      has_wide_numbers(source.table) ? sizeof(std::uint64_t) : sizeof(std::uint32_t);
  memory.numbers = cuda::Buffer(cuda::Memory::pinned, at(more_rows) * number_bytes,
                                "the host stratum's row numbers", device);
  memory.flags =
      cuda::Array<std::uint64_t>(cuda::Memory::pinned, 3 * more_chunks, "the host stratum's flags", device);
  std::ranges::fill(memory.flags.span(), 0);
  memory.rows = more_rows;
  memory.chunks = more_chunks;
}

void HostGather::State::reserve_sort(Count bound) {
  if (sorter.has_room(bound)) return;
  done.synchronize();
  sorter.reserve(bound + bound / 4);
}

HostJob HostGather::State::next_job(const RowGather& gather, const Plan& plan) {
  HostJob next;
  next.ticket = ++ticket;
  next.chunk_rows = chunk_rows(gather, plan);
  next.row_bytes = row_bytes;
  reserve(gather.list.bound, next.num_chunks(gather.list.bound));
  next.wide = has_wide_numbers(source.table);
  next.numbers = memory.numbers.data();
  next.doorbell = doorbell.data();
  next.exported = memory.flags.data();
  next.filled = next.exported + memory.chunks;
  next.drained = next.filled + memory.chunks;
  next.slots = static_cast<std::byte*>(ring.data());
  next.slot_bytes = slot_bytes;
  next.num_slots = threads * kSlotsPerThread;
  return next;
}

// The threads get the job before the drain is launched, because a launch may block until the kernel has ended
// (CUDA_LAUNCH_BLOCKING, profilers).
void HostGather::State::launch_threads_part(const RowGather& gather, const HostJob& host_job,
                                            const cuda::Stream& stream) {
  forked.record(stream);
  side.wait(forked);
  export_numbers(source.table, gather.list, host_job, split.data(), side);
  workers->post(host_job);
  try {
    drain_ring(host_job, gather, source.table.rows, split.data(), side);
  } catch (...) {
    workers->cancel_last();
    throw;
  }
}

void HostGather::State::launch_kernel_part(const RowGather& gather, const Plan& plan,
                                           const cuda::Stream& stream) {
  RowGather part = gather;
  part.list.begin = &split.data()->begin;
  part.list.end = &split.data()->middle;
  if (plan.sorts) part.list = sorter.sort(source.table, gather.list, split.data(), plan.kernel_bound, stream);
  gather_on_gpu(source.table, part, zero_copy, stream);
}

void HostGather::State::launch(const RowGather& gather, const Plan& plan, const HostJob& host_job,
                               const cuda::Stream& stream) {
  stream.wait(done);
  if (plan.measured) measured.start.record(stream);
  split_list(gather.list, plan.rule, host_job, split.data(), plan.measured ? measured.split.data() : nullptr,
             stream);
  if (plan.threads) launch_threads_part(gather, host_job, stream);
  if (plan.kernel) launch_kernel_part(gather, plan, stream);
  if (plan.measured) {
    measured.kernel_end.record(stream);
    measured.threads_end.record(plan.threads ? side : stream);
    measured.sorted = gather.sorted;
    measured.share = plan.share;
    measured.running = true;
  }
  if (plan.threads) {
    joined.record(side);
    stream.wait(joined);
  }
  done.record(stream);
}

void HostGather::State::gather(RowGather gather, const cuda::Stream& stream, BadId* bad) {
  if (gather.list.bound == 0 || gather.format.cols == 0) return;
  if (stream.device() != device) {
    throw Error(fmt::format("host rows for {} cannot be gathered on a stream of {}", device.str(),
                            stream.device().str()));
  }
  const cuda::DeviceGuard guard(device);
  const std::lock_guard lock(mutex);
  if (failure) std::rethrow_exception(failure);
  source.table.bad = bad;
  if (gather.format.out_pitch == 0) gather.format.out_pitch = gather.format.cols;
  learn();
  side.follow(stream);
  const Plan plan = plan_of(gather);
  HostJob host_job;
  if (plan.threads) host_job = next_job(gather, plan);
  if (plan.sorts) reserve_sort(plan.kernel_bound);
  try {
    launch(gather, plan, host_job, stream);
  } catch (...) {
    failure = std::current_exception();
    throw;
  }
}

/// Reads the times of a measured job if it has ended.
void HostGather::State::learn() {
  if (!measured.running || !has_completed(measured.kernel_end) || !has_completed(measured.threads_end))
    return;
  measured.running = false;
  const Split& was = measured.split[0];
  if (was.end - was.begin < kSmallJob) return;
  constexpr double kMillisecond = 1e-3;
  const auto side_of = [&](Count rows, const cuda::Event& end) {
    return ShareTuner::Side{rows, rows > 0 ? end.elapsed_ms(measured.start) * kMillisecond : 0};
  };
  ShareTuner& tuner = tuners[measured.sorted];
  tuner.add({.share = measured.share,
             .threads = side_of(was.end - was.middle, measured.threads_end),
             .kernel = side_of(was.kernel_rows, measured.kernel_end)});
  if (tuner.settled()) report(measured.sorted);
}

void HostGather::State::report(bool sorted) const {
  const ShareTuner::Trial& best = tuners[sorted].best();
  constexpr double kMillion = 1e6, kGiga = 1e9;
  spdlog::info(
      "host rows of {} bytes, {} ids: {} threads take {:.0f} % ({:.1f} million rows/s), zero copy the rest "
      "({:.1f} million rows/s); together {:.1f} GB/s, the best of the shares tried",
      row_bytes, sorted ? "sorted" : "random", threads, 100 * best.share, best.threads.rate() / kMillion,
      best.kernel.rate() / kMillion, best.rate() * static_cast<double>(row_bytes) / kGiga);
}

HostGather::HostGather(Device device, const Source& source, const Options& options) {
  const cuda::DeviceGuard guard(device);
  state_ = std::make_unique<State>(device, source, options);
}

HostGather::~HostGather() = default;

void HostGather::gather(const RowGather& gather, const cuda::Stream& stream, BadId* bad) {
  state_->gather(gather, stream, bad);
}

HostGather::Shares HostGather::shares() const {
  const std::lock_guard lock(state_->mutex);
  return {.sorted = state_->share_of(true), .random = state_->share_of(false)};
}

int HostGather::num_threads() const { return state_->threads; }

}  // namespace strata::tensor
