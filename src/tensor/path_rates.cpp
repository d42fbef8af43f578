// SPDX-License-Identifier: Apache-2.0
#include "strata/tensor/path_rates.hpp"

#include <algorithm>
#include <chrono>
#include <limits>
#include <optional>

#include "strata/comm/machine.hpp"
#include "strata/cuda/buffer.hpp"
#include "strata/cuda/stream.hpp"
#include "strata/tensor/chunk_tensor.hpp"
#include "strata/util/random.hpp"
#include "strata/util/threads.hpp"

namespace strata::tensor {
namespace {

// a scratch table takes at most 1/16 of a GPU's or the host's free memory
constexpr std::int64_t kFreeShares = 16;
constexpr int kRepeats = 3;
constexpr int kGathers = 4;  // one after the other, so that the time of launches is hidden

/// How much is gathered at once.
struct Load {
  std::int64_t bytes = 0;
  Count ids = 0;
};
constexpr Load kGpuLoad{std::int64_t{64} << 20, Count{1} << 20};
constexpr Load kHostLoad{std::int64_t{32} << 20, Count{1} << 17};
constexpr Load kLargeHostLoad{std::int64_t{256} << 20,
                              Count{1} << 20};  // beside the other: what a start takes

constexpr std::int64_t kShortestForThreads = 16;
constexpr Count kFewOnGpu = 16;    // of so many rows, one
constexpr int kEnoughThreads = 3;  // HostPath::automatic needs one core more

/// Rows of the given length in the widest type that divides it.
TensorSpec scratch_spec(std::int64_t table_bytes, std::int64_t row_bytes) {
  const DType dtype = row_bytes % 8 == 0 ? DType::i64 : row_bytes % 4 == 0 ? DType::i32 : DType::u8;
  return {.name = "scratch of the measured rates",
          .rows = std::max<Count>(1, table_bytes / row_bytes),
          .cols = row_bytes / static_cast<std::int64_t>(size_of(dtype)),
          .dtype = dtype};
}

/// Random ids and room for what they name, on this rank's device.
class Probe {
 public:
  explicit Probe(const comm::Machine& machine)
      : machine_(machine), stream_(machine.device()), memory_(cuda::memory_on(machine.device())) {}

  /// The best rate of some runs, and of these the least of all ranks, which begin together.
  double rate(const TensorSpec& spec, const Placement& placement, const Load& load) {
    ChunkTensor tensor = ChunkTensor::create(machine_, spec, placement);
    return rate_and_close(tensor, placement, load);
  }
  /// The rate of host rows by zero copy.
  double zero_copy_rate(const TensorSpec& spec, const Load& load, bool aligned_reads) {
    const Placement placement = Placement::on_host(spec.rows);
    ChunkTensor tensor = ChunkTensor::create(machine_, spec, placement);
    machine_.together(
        [&] { tensor.configure({.host_path = HostPath::zero_copy, .aligned_reads = aligned_reads}); });
    return rate_and_close(tensor, placement, load);
  }
  struct WithThreads {
    PathRate alone, both;
  };
  /// The rates of host rows that CPU threads gather, among a few rows that lie on the GPU, because selecting
  /// host rows costs time, too. Rates are 0 if there are too few threads.
  WithThreads with_threads(const TensorSpec& spec, int threads) {
    const Count few = spec.rows / kFewOnGpu;
    ChunkTensor tensor = ChunkTensor::create(
        machine_, spec, {.segments = {{{Stratum::replicated, few}, {Stratum::host, spec.rows - few}}}});
    WithThreads rates;
    const auto rate_with = [&](const GatherSettings& settings) {
      machine_.together([&] { tensor.configure(settings); });
      return host_rate(tensor);
    };
    if (have_threads(tensor)) {
      rates.alone = rate_with({.host_path = HostPath::threads, .threads = threads});
      rates.both = rate_with({.host_path = HostPath::both, .threads = threads, .threads_share = 0.5});
    }
    tensor.close(machine_);
    return rates;
  }

 private:
  struct Work {
    Count count = 0;
    std::int64_t row_bytes = 0;
    std::int64_t bytes() const { return count * row_bytes; }
  };
  PathRate host_rate(const ChunkTensor& tensor) {
    const Work little = work_of(tensor, kHostLoad), much = work_of(tensor, kLargeHostLoad);
    const double short_seconds = seconds_of(tensor, little), long_seconds = seconds_of(tensor, much);
    constexpr double kOnHost = 1 - 1.0 / static_cast<double>(kFewOnGpu);
    const double little_bytes = kOnHost * static_cast<double>(little.bytes()),
                 much_bytes = kOnHost * static_cast<double>(much.bytes());
    const double more_seconds = long_seconds - short_seconds;
    PathRate rate{.bytes_per_second = more_seconds > 0 ? (much_bytes - little_bytes) / more_seconds
                                                       : much_bytes / long_seconds};
    rate.start_seconds = std::max(0.0, short_seconds - little_bytes / rate.bytes_per_second);
    return rate;
  }
  static Work work_of(const ChunkTensor& tensor, const Load& load) {
    const auto row_bytes = static_cast<std::int64_t>(tensor.spec().row_bytes());
    return {std::clamp<Count>(load.bytes / row_bytes, 1, load.ids), row_bytes};
  }
  bool have_threads(const ChunkTensor& tensor) const {
    std::int64_t enough = machine_.device().is_cuda() && tensor.settings().threads >= kEnoughThreads;
    machine_.communicator().all_reduce(std::span(&enough, 1), comm::Communicator::Op::min);
    return enough == 1;
  }

  /// The rate, or 0 if the placement was not realised.
  double rate_and_close(ChunkTensor& tensor, const Placement& placement, const Load& load) {
    const Work work = work_of(tensor, load);
    const double seconds = seconds_of(tensor, work);
    const bool realised =
        placement.total()[Stratum::striped] == 0 || tensor.placement().total()[Stratum::striped] > 0;
    tensor.close(machine_);
    return realised ? static_cast<double>(work.bytes()) / seconds : 0;
  }
  /// Seconds of a gather: the best of some runs on the slowest rank.
  double seconds_of(const ChunkTensor& tensor, const Work& work) {
    machine_.together([&] { prepare(tensor.spec().rows, work.count, work.row_bytes); });
    double seconds = std::numeric_limits<double>::infinity();
    for (int i = 0; i <= kRepeats; ++i) {
      machine_.barrier();
      machine_.together([&] {
        const double taken = gather(tensor, work.count);
        if (i > 0) seconds = std::min(seconds, taken);  // the first run warms up
      });
    }
    machine_.communicator().all_reduce(std::span(&seconds, 1), comm::Communicator::Op::max);
    return seconds;
  }
  void prepare(Count rows, Count count, std::int64_t row_bytes) {
    cuda::Array<NodeId> ids(cuda::Memory::pinned, count, "ids", machine_.device());
    for (Count i = 0; i < count; ++i) {
      ids[i] = static_cast<NodeId>(mix64(static_cast<std::uint64_t>(i)) % static_cast<std::uint64_t>(rows));
    }
    ids_ = cuda::Array<NodeId>(memory_, count, "ids", machine_.device());
    cuda::copy_async(ids_.data(), ids.data(), at(count) * sizeof(NodeId), stream_);
    const auto bytes = at(count * row_bytes);
    if (out_.bytes() < bytes) out_ = cuda::Buffer(memory_, bytes, "gathered rows", machine_.device());
    stream_.synchronize();
  }

  double gather(const ChunkTensor& tensor, Count count) {
    const auto begin = std::chrono::steady_clock::now();
    for (int i = 0; i < kGathers; ++i) {
      tensor.gather({.data = ids_.data(), .size = count}, {.data = out_.data(), .dtype = tensor.spec().dtype},
                    stream_, pool_);
    }
    stream_.synchronize();
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count() / kGathers;
  }

  const comm::Machine& machine_;
  cuda::Stream stream_;
  cuda::Memory memory_;
  cuda::Array<NodeId> ids_;
  cuda::Buffer out_;
  ThreadPool pool_{1};
};

/// At most `wanted` bytes; the same on all ranks.
std::int64_t host_table_bytes(const comm::Machine& machine, std::int64_t wanted) {
  return std::min(wanted, comm::free_host_memory(machine).share_bytes / kFreeShares);
}

/// The same for each GPU.
std::int64_t gpu_table_bytes(const comm::Machine& machine, std::int64_t wanted) {
  if (!comm::computes_on_gpus(machine)) return wanted;
  return std::min(wanted, comm::free_gpu_bytes_per_rank(machine) / kFreeShares);
}

}  // namespace

std::vector<MeasuredPaths> measure_path_rates(const comm::Machine& machine,
                                              std::span<const std::int64_t> row_bytes,
                                              const ScratchTables& tables) {
  const std::int64_t gpu_table = gpu_table_bytes(machine, tables.gpu_bytes);
  const std::int64_t threads_table = host_table_bytes(machine, tables.threads_bytes);
  const int num_gpus = gpus_of(machine).size();
  std::optional<Probe> probe;
  machine.together([&] { probe.emplace(machine); });
  bool peers = num_gpus > 1;
  std::vector<MeasuredPaths> rates;
  for (const std::int64_t length : row_bytes) {
    const TensorSpec on_gpu = scratch_spec(gpu_table, length),
                     on_host = scratch_spec(tables.host_bytes, length);
    PathRates r{{Stratum::replicated, {probe->rate(on_gpu, Placement::replicated(on_gpu.rows), kGpuLoad)}},
                {Stratum::host, {probe->rate(on_host, Placement::on_host(on_host.rows), kHostLoad)}}};
    if (peers) {
      // A share of 1 / G of striped rows is local and costs almost nothing.
      const double rate =
          probe->rate(on_gpu, Placement::striped(on_gpu.rows), kGpuLoad) * (num_gpus - 1) / num_gpus;
      r[Stratum::striped] = {rate};
      peers = rate > 0;
    }
    Probe::WithThreads threads;
    if (num_gpus > 0 && length >= kShortestForThreads)
      threads = probe->with_threads(scratch_spec(threads_table, length), tables.threads);
    rates.push_back({.row_bytes = length,
                     .rates = r,
                     .host_threads = threads.alone.bytes_per_second,
                     .host_both = threads.both.bytes_per_second,
                     .host_start = threads.both.start_seconds});
  }
  return rates;
}

LayoutRates measure_layouts(const comm::Machine& machine, std::int64_t row_bytes,
                            const ScratchTables& tables) {
  std::optional<Probe> probe;
  machine.together([&] { probe.emplace(machine); });
  TensorSpec spec = scratch_spec(tables.host_bytes, row_bytes);
  LayoutRates rates{.as_they_lie = probe->zero_copy_rate(spec, kHostLoad, false),
                    .aligned = probe->zero_copy_rate(spec, kHostLoad, true)};
  spec.padded = true;
  rates.padded = probe->zero_copy_rate(spec, kHostLoad, false);
  return rates;
}

}  // namespace strata::tensor
