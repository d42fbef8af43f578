// SPDX-License-Identifier: Apache-2.0
#include "load/late_rows.hpp"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <exception>
#include <mutex>
#include <thread>
#include <utility>

#include "load/row_flags.hpp"
#include "strata/cuda/buffer.hpp"
#include "strata/cuda/device.hpp"
#include "strata/tensor/host_array.hpp"

namespace strata::store {
namespace {

constexpr double kHotShare = 0.1;  // of the rows of a segment
constexpr std::size_t kPieceBytes = std::size_t{1} << 20;
// A disk reads so many bytes in a row in about the time that another request takes.
constexpr std::size_t kGapBytes = std::size_t{8} << 10;
constexpr std::size_t kRunBytes = std::size_t{128} << 10;
// They wait for the disk, which answers many requests at a time.
constexpr int kSingleThreads = 32;

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

/// Runs that cover ascending rows, with the rows between two of them if they are few.
std::vector<Range> runs_over(const std::vector<Count>& rows, std::size_t row_bytes) {
  const Count gap = static_cast<Count>(kGapBytes / row_bytes),
              most = static_cast<Count>(kRunBytes / row_bytes);
  std::vector<Range> runs;
  for (const Count row : rows) {
    const bool joins = !runs.empty() && row - runs.back().end() <= gap && row - runs.back().first < most;
    if (joins)
      runs.back().count = row - runs.back().first + 1;
    else
      runs.push_back({row, 1});
  }
  return runs;
}

}  // namespace

Count HotAndLate::late_rows() const {
  Count rows = 0;
  for (const Range& range : late) rows += range.count;
  return rows;
}

HotAndLate hot_and_late(const tensor::Placement& placement, int machine_ranks) {
  HotAndLate rows;
  Count first = 0;
  for (const tensor::Segment& segment : placement.segments) {
    const Count all = segment.rows();
    Count hot = std::min(all, static_cast<Count>(static_cast<double>(all) * kHotShare) + 1);
    if (machine_ranks > 1) hot = std::max(hot, segment[tensor::Stratum::replicated]);
    if (hot > 0) rows.hot.push_back({first, hot});
    if (hot < all) rows.late.push_back({first + hot, all - hot});
    first += all;
  }
  return rows;
}

struct FeatureArrival::State {
  tensor::ChunkTensor& tensor;
  Device device;
  LateReading reading;
  Count num_late;
  std::vector<Range> share;  // of the late rows, for this rank to read in the background
  tensor::HostRegion memory;
  RowFlags flags;
  std::uint64_t* ranks_done;  // of the machine
  std::uint64_t machine_ranks;
  ThreadPool background_pool, single_pool{kSingleThreads};

  std::atomic<bool> stopping{false}, failed{false}, complete{false};
  std::mutex mutex;  // guards what follows
  std::exception_ptr error;
  Report told;
  Clock::time_point start = Clock::now();
  std::thread background;

  State(const comm::Machine& machine, tensor::ChunkTensor& the_tensor, const std::vector<Range>& late,
        LateReading the_reading)
      : tensor(the_tensor),
        device(machine.device()),
        reading(std::move(the_reading)),
        num_late(HotAndLate{.hot = {}, .late = late}.late_rows()),
        memory(tensor::HostRegion::create(machine,
                                          (RowFlags::words(tensor.spec().rows) + 1) * sizeof(std::uint64_t),
                                          "flags of rows that are in place")),
        flags(reinterpret_cast<std::uint64_t*>(memory.data()) + 1, tensor.spec().rows),
        ranks_done(reinterpret_cast<std::uint64_t*>(memory.data())),
        machine_ranks(static_cast<std::uint64_t>(machine.size())),
        background_pool(reading.threads) {
    told.late_rows = num_late;
    for (const Range& range : late) share.push_back(share_of(range, machine.rank(), machine.size()));
    if (machine.rank() == 0) say_what_is_there(late);
    machine.barrier();
    background = std::thread([this] { read_share(); });
  }

  ~State() {
    stopping = true;
    if (background.joinable()) background.join();
  }

  void say_what_is_there(const std::vector<Range>& late) {
    Count row = 0;
    for (const Range& range : late) {
      flags.put({row, range.first - row}, [](Range) {});
      row = range.end();
    }
    flags.put({row, tensor.spec().rows - row}, [](Range) {});
  }

  std::size_t row_bytes() const { return tensor.spec().row_bytes(); }

  /// Reads rows and puts those in place that nobody else has put there.
  void bring(const FeatureSource& source, Range rows, std::vector<std::byte>& buffer) {
    buffer.resize(at(rows.count) * row_bytes());
    read_rows(source, reading.form, tensor.spec().code, {rows, buffer.data()});
    flags.put(rows, [&](Range run) {
      tensor.write_rows(run.first, run.count, buffer.data() + at(run.first - rows.first) * row_bytes());
    });
  }

  void read_share() {
    try {
      for (const Range& range : share) read_in_pieces(range);
    } catch (...) {
      const std::lock_guard lock(mutex);
      error = std::current_exception();
      failed = true;
      return;
    }
    if (stopping) return;
    std::atomic_ref(*ranks_done).fetch_add(1, std::memory_order_acq_rel);
    const std::lock_guard lock(mutex);
    told.background_seconds = seconds_since(start);
  }

  void read_in_pieces(Range rows) {
    const Count step = std::max<Count>(1, static_cast<Count>(kPieceBytes / row_bytes()));
    background_pool.parallel_for(rows.count, step, [&](Count begin, Count end) {
      if (stopping || failed) return;
      const cuda::DeviceGuard guard(device);
      std::vector<std::byte> buffer;
      const Count first = begin == 0 ? rows.first : block_start(rows, rows.first + begin);
      const Count last = end == rows.count ? rows.end() : block_start(rows, rows.first + end);
      if (first < last) bring(reading.checked, {first, last - first}, buffer);
    });
  }

  /// Where to cut the reading near a row, so that no block is read twice.
  Count block_start(Range rows, Count row) const {
    return reading.checked.block_start ? std::max(rows.first, reading.checked.block_start(row)) : row;
  }

  void rethrow_failure() {
    if (!failed) return;
    const std::lock_guard lock(mutex);
    std::rethrow_exception(error);
  }

  bool is_complete() {
    if (complete.load(std::memory_order_acquire)) return true;
    if (std::atomic_ref(*ranks_done).load(std::memory_order_acquire) < machine_ranks) return false;
    complete.store(true, std::memory_order_release);
    return true;
  }

  /// Ascending and distinct.
  std::vector<Count> missing_of(const tensor::RowIds& ids, const cuda::Stream& stream) const {
    std::vector<NodeId> copied;
    const auto* data = static_cast<const NodeId*>(ids.data);
    if (device.is_cuda()) {
      copied.resize(at(ids.size));
      cuda::copy_async(copied.data(), ids.data, copied.size() * sizeof(NodeId), stream);
      stream.synchronize();
      data = copied.data();
    }
    std::vector<Count> missing;
    for (Count i = 0; i < ids.size; ++i) {
      const Count row = data[i] - ids.first;
      if (data[i] >= 0 && row >= 0 && row < tensor.spec().rows && !flags.has(row)) missing.push_back(row);
    }
    std::ranges::sort(missing);
    missing.erase(std::ranges::unique(missing).begin(), missing.end());
    return missing;
  }

  void bring_now(const std::vector<Count>& missing) {
    const auto begin = Clock::now();
    const std::vector<Range> runs = runs_over(missing, row_bytes());
    single_pool.parallel_for(std::ssize(runs), 1, [&](Count from, Count to) {
      const cuda::DeviceGuard guard(device);
      std::vector<std::byte> buffer;
      for (Count i = from; i < to; ++i) bring(reading.single, runs[at(i)], buffer);
    });
    // Others may be writing some of them.
    for (const Count row : missing) {
      while (!flags.has(row)) {
        rethrow_failure();
        std::this_thread::yield();
      }
    }
    const std::lock_guard lock(mutex);
    told.required_rows += std::ssize(missing);
    told.required_seconds += seconds_since(begin);
  }
};

FeatureArrival::FeatureArrival(std::unique_ptr<State> state) : state_(std::move(state)) {}
FeatureArrival::~FeatureArrival() = default;

void FeatureArrival::require(const tensor::RowIds& ids, const cuda::Stream& stream) {
  State& state = *state_;
  state.rethrow_failure();
  if (state.is_complete()) return;
  const std::vector<Count> missing = state.missing_of(ids, stream);
  if (!missing.empty()) state.bring_now(missing);
}

void FeatureArrival::finish() {
  if (state_->background.joinable()) state_->background.join();
  state_->rethrow_failure();
}

FeatureArrival::Report FeatureArrival::report() const {
  const std::lock_guard lock(state_->mutex);
  return state_->told;
}

std::unique_ptr<FeatureArrival> read_late(const comm::Machine& machine, tensor::ChunkTensor& tensor,
                                          std::vector<Range> late, LateReading reading) {
  return std::make_unique<FeatureArrival>(
      std::make_unique<FeatureArrival::State>(machine, tensor, late, std::move(reading)));
}

}  // namespace strata::store
