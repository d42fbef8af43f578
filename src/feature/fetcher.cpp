// SPDX-License-Identifier: Apache-2.0
#include "strata/feature/fetcher.hpp"

#include <algorithm>
#include <chrono>
#include <future>
#include <numeric>
#include <utility>

#include "place_rows.hpp"
#include "requests.hpp"
#include "strata/cuda/buffer.hpp"
#include "strata/cuda/copy.hpp"
#include "strata/cuda/nvtx_range.hpp"
#include "strata/cuda/stream.hpp"
#include "strata/util/error.hpp"

namespace strata::feature {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_of(Clock::duration duration) { return std::chrono::duration<double>(duration).count(); }

/// The part of a fetch that is this machine's; a view.
struct LocalRows {
  const NodeId* ids;
  Count count;
  float* out;
  const cuda::Stream& stream;
};

}  // namespace

struct RowFetcher::State {
  const tensor::ChunkTensor& table;
  Device device;
  RowExchangeContext exchange;
  ThreadPool& pool;
  RowExchangeReport report;
  Servers servers;
  NodeId first_node = 0;
  cuda::Stream serving;  // for rows that others asked for, which must not wait for this rank's rows
  cuda::Event placed;    // the last fetch has read its pinned arrays
  cuda::Array<NodeId> ids, sorted_ids, local_ids, asked_ids;  // pinned
  cuda::Array<std::int32_t> sorted_positions, positions;      // pinned
  cuda::Array<float> arrived, served;                         // pinned
  cuda::Array<NodeId> device_local_ids, device_asked_ids;     // only on a GPU
  cuda::Array<float> device_served, device_arrived;
  cuda::Event asked_copied;                        // asked_ids may be written again
  cuda::Event sending, exchanged, gathered_local;  // with timing; used if rows travel from GPU to GPU
  bool exchanging = false;        // these events belong to a fetch whose times were not read yet
  cuda::Array<Count> by_stratum;  // rows read; on the device

  State(const tensor::ChunkTensor& the_table, Device the_device, const RowExchangeContext& context,
        ThreadPool& the_pool)
      : table(the_table),
        device(the_device),
        exchange(context),
        pool(the_pool),
        serving(device),
        placed(device),
        asked_copied(device),
        sending(device, true),
        exchanged(device, true),
        gathered_local(device, true),
        by_stratum(cuda::memory_on(device), tensor::kNumStrata, "counts of gathered rows", device) {
    cuda::fill_async(by_stratum.data(), 0, by_stratum.span().size_bytes(), serving);
    serving.synchronize();
    if (!has_remote()) return;
    const int rank = exchange.communicator->rank();
    servers = Servers::of(*exchange.topology, exchange.machine_offsets, rank);
    servers.machine = exchange.machine;
    servers.halo = exchange.halo;
    first_node = exchange.machine_offsets[static_cast<std::size_t>(exchange.machine)];
  }

  bool has_remote() const {
    return exchange.communicator != nullptr && exchange.topology->num_machines() > 1;
  }
  Count cols() const { return table.spec().cols; }
  Count row_bytes() const { return cols() * static_cast<Count>(sizeof(float)); }

  /// The most rows to ask one rank for in a round. It bounds the memory of a fetch, however many rows it has.
  Count quota() const {
    const Count others = exchange.topology->num_machines() - 1;
    return std::max<Count>(1, exchange.round_bytes / std::max<Count>(1, row_bytes() * others));
  }

  FetchedIds on_host(const FetchedIds& given, const cuda::Stream& stream) {
    if (!device.is_cuda()) return given;
    const auto copied = [&]<typename T>(const T* from, cuda::Array<T>& pinned) -> const T* {
      if (from == nullptr) return nullptr;
      T* copy = pinned.reserve(cuda::Memory::pinned, given.count, "row ids", device);
      cuda::copy_async(copy, from, static_cast<std::size_t>(given.count) * sizeof(T), stream);
      return copy;
    };
    const FetchedIds here{.ids = copied(given.ids, ids),
                          .count = given.count,
                          .sorted = copied(given.sorted, sorted_ids),
                          .sorted_positions = copied(given.sorted_positions, sorted_positions)};
    stream.synchronize();
    return here;
  }

  /// Writes the ids of this machine to local_ids, and the positions of the others to `positions`.
  Requests split(const FetchedIds& wanted) {
    const auto count = static_cast<std::size_t>(wanted.count);
    const SplitTarget target{local_ids.reserve(cuda::Memory::pinned, wanted.count, "row ids", device),
                             positions.reserve(cuda::Memory::pinned, wanted.count, "row positions", device)};
    if (wanted.sorted == nullptr) return split_requests({wanted.ids, count}, servers, target);
    const SortedIds sorted{{wanted.sorted, count}, wanted.sorted_positions};
    return split_requests({wanted.ids, count}, sorted, servers, target);
  }

  /// The address from which the gather reads ids: a copy on a GPU, `host_ids` on the cpu.
  const NodeId* ids_for_gather(const NodeId* host_ids, Count count, cuda::Array<NodeId>& on_device,
                               const cuda::Stream& stream) {
    if (!device.is_cuda()) return host_ids;
    NodeId* copy = on_device.reserve(cuda::Memory::device, count, "row ids", device);
    cuda::copy_async(copy, host_ids, static_cast<std::size_t>(count) * sizeof(NodeId), stream);
    return copy;
  }

  /// Gathers rows of this machine. The ids are a few ascending runs.
  void gather_here(const NodeId* where, Count count, float* out, const cuda::Stream& stream) {
    table.gather(row_ids(where, count), out, stream, pool);
  }
  void count_here(const NodeId* where, Count count, const cuda::Stream& stream) {
    table.count_strata(row_ids(where, count), by_stratum.data(), stream);
  }
  tensor::RowIds row_ids(const NodeId* where, Count count) const {
    return {.data = where, .size = count, .first = first_node, .sorted = true};
  }

  /// Rows of this machine that others asked for, on this rank's device; ready when `serving` reaches this
  /// point.
  float* serve(std::span<const NodeId> asked) {
    const Count count = std::ssize(asked);
    const NodeId* where = asked.data();
    if (device.is_cuda()) {
      asked_copied.synchronize();
      NodeId* pinned = asked_ids.reserve(cuda::Memory::pinned, count, "row ids", device);
      std::ranges::copy(asked, pinned);
      where = ids_for_gather(pinned, count, device_asked_ids, serving);
      asked_copied.record(serving);
    }
    float* rows = (device.is_cuda() ? device_served : served)
                      .reserve(cuda::memory_on(device), count * cols(), "rows for other machines", device);
    if (count == 0) return rows;
    count_here(where, count, serving);
    gather_here(where, count, rows, serving);
    return rows;
  }
  /// The same in host memory.
  const float* serve_on_host(std::span<const NodeId> asked) {
    const float* rows = serve(asked);
    if (!device.is_cuda()) return rows;
    const Count count = std::ssize(asked);
    float* here = served.reserve(cuda::Memory::pinned, count * cols(), "rows for other machines", device);
    cuda::copy_async(here, rows, static_cast<std::size_t>(count * row_bytes()), serving);
    serving.synchronize();
    return here;
  }

  void fetch_with_remote(const FetchedIds& wanted, float* out, const cuda::Stream& stream);
  void fetch_over_mpi(const Requests& requests, Count rounds, const LocalRows& local);
  void fetch_on_devices(const Requests& requests, Count rounds, const LocalRows& local);
  comm::Communicator::Received<NodeId> ask(const Requests& requests, Count round);
  void exchange_over_mpi(const comm::Communicator::Received<NodeId>& asked, std::span<const Count> counts);
  void exchange_on_devices(const comm::Communicator::Received<NodeId>& asked, std::span<const Count> counts);
  void take_device_times();
  void place_round(const Requests& requests, Count round, const float* rows, const LocalRows& local);
  std::vector<Count> in_bytes(std::span<const Count> rows) const;
  void begin_exchange() {
    if (exchange.order != nullptr)
      exchange.order->begin_exchange(comm::LaunchOrder::Exchange::fetch, serving);
    sending.record(serving);
  }
  Count agreed_rounds(const Requests& requests) const;
  std::vector<Count> counts_of_round(const Requests& requests, Count round) const;
};

Count RowFetcher::State::agreed_rounds(const Requests& requests) const {
  std::int64_t rounds = (requests.largest() + quota() - 1) / quota();
  exchange.communicator->all_reduce(std::span(&rounds, 1), comm::Communicator::Op::max);
  return rounds;
}

std::vector<Count> RowFetcher::State::counts_of_round(const Requests& requests, Count round) const {
  std::vector<Count> counts;
  for (int rank = 0; rank < servers.num_ranks; ++rank) {
    counts.push_back(std::clamp<Count>(requests.count_for(rank) - round * quota(), 0, quota()));
  }
  return counts;
}

std::vector<Count> RowFetcher::State::in_bytes(std::span<const Count> rows) const {
  std::vector<Count> bytes(rows.begin(), rows.end());
  for (Count& count : bytes) count *= row_bytes();
  return bytes;
}

/// Sends this rank's ids of a round, and returns the ids that others ask this rank for.
comm::Communicator::Received<NodeId> RowFetcher::State::ask(const Requests& requests, Count round) {
  const std::vector<Count> counts = counts_of_round(requests, round);
  std::vector<NodeId> round_ids;
  for (std::size_t rank = 0; rank < counts.size(); ++rank) {
    const auto first =
        requests.remote_ids.begin() + requests.first_of_rank[rank] + (counts[rank] > 0 ? round * quota() : 0);
    round_ids.insert(round_ids.end(), first, first + counts[rank]);
  }
  auto asked = exchange.communicator->all_to_all(std::span<const NodeId>(round_ids), counts);
  const Count num_asked = std::ssize(asked.values), num_wanted = std::ssize(round_ids);
  constexpr Count kIdBytes = sizeof(NodeId);
  report.bytes_sent += num_wanted * kIdBytes + num_asked * row_bytes();
  report.bytes_received += num_asked * kIdBytes + num_wanted * row_bytes();
  return asked;
}

/// Receives the rows of a round into `arrived`, in order of rank.
void RowFetcher::State::exchange_over_mpi(const comm::Communicator::Received<NodeId>& asked,
                                          std::span<const Count> counts) {
  const float* rows = serve_on_host(asked.values);
  const Count wanted = std::reduce(counts.begin(), counts.end());
  placed.synchronize();  // `arrived` may still be read by the round before
  float* target = arrived.reserve(cuda::Memory::pinned, wanted * cols(), "rows of other machines", device);
  exchange.communicator->all_to_all(rows, in_bytes(asked.counts), target, in_bytes(counts));
}

/// Receives them into `device_arrived`; ready when `serving` reaches this point.
void RowFetcher::State::exchange_on_devices(const comm::Communicator::Received<NodeId>& asked,
                                            std::span<const Count> counts) {
  const float* rows = serve(asked.values);
  const Count wanted = std::reduce(counts.begin(), counts.end());
  float* target =
      device_arrived.reserve(cuda::Memory::device, wanted * cols(), "rows of other machines", device);
  serving.wait(placed);  // it may still be read by the round before
  exchange.on_devices->all_to_all(rows, in_bytes(asked.counts), target, in_bytes(counts), serving);
  exchanged.record(serving);
}

void RowFetcher::State::place_round(const Requests& requests, Count round, const float* rows,
                                    const LocalRows& local) {
  const std::vector<Count> counts = counts_of_round(requests, round);
  Count begin = 0;
  for (std::size_t rank = 0; rank < counts.size(); ++rank) {
    if (counts[rank] == 0) continue;
    const Count first = requests.first_of_rank[rank] + round * quota();
    place_rows({rows + begin * cols(), positions.data() + first, counts[rank], cols()}, local.out,
               local.stream, pool);
    begin += counts[rank];
  }
  placed.record(local.stream);
}

// A GPU gathers the local rows while this thread exchanges the others. On the cpu a second thread gathers
// them, and takes turns with serving for the pool.
void RowFetcher::State::fetch_over_mpi(const Requests& requests, Count rounds, const LocalRows& local) {
  const auto start = Clock::now();
  std::future<Clock::time_point> gathering;
  Clock::time_point local_end = start;
  if (device.is_cuda() || rounds == 0) {
    gather_here(local.ids, local.count, local.out, local.stream);
  } else {
    gathering = std::async(std::launch::async, [&] {
      gather_here(local.ids, local.count, local.out, local.stream);
      return Clock::now();
    });
  }
  for (Count round = 0; round < rounds; ++round) {
    const auto round_start = round == 0 ? start : Clock::now();
    exchange_over_mpi(ask(requests, round), counts_of_round(requests, round));
    const auto round_end = Clock::now();
    if (gathering.valid()) local_end = gathering.get();
    report.seconds += seconds_of(round_end - round_start);
    report.waited_seconds += std::max(0.0, seconds_of(round_end - std::max(local_end, round_start)));
    place_round(requests, round, arrived.data(), local);
  }
}

// Ids cross MPI while the GPU gathers local rows; then nothing waits on the host.
void RowFetcher::State::fetch_on_devices(const Requests& requests, Count rounds, const LocalRows& local) {
  gather_here(local.ids, local.count, local.out, local.stream);
  gathered_local.record(local.stream);
  for (Count round = 0; round < rounds; ++round) {
    const auto start = Clock::now();
    const auto asked = ask(requests, round);
    report.seconds += seconds_of(Clock::now() - start);
    if (round == 0) begin_exchange();
    exchange_on_devices(asked, counts_of_round(requests, round));
    local.stream.wait(exchanged);
    place_round(requests, round, device_arrived.data(), local);
  }
  if (rounds == 0) begin_exchange();
  if (exchange.order != nullptr) exchange.order->end_exchange(comm::LaunchOrder::Exchange::fetch, serving);
  exchanging = rounds > 0;
}

/// REQUIRES: the last fetch has reached its end on the GPU.
void RowFetcher::State::take_device_times() {
  constexpr double kMillisecond = 1e-3;
  if (!std::exchange(exchanging, false)) return;
  exchanged.synchronize();
  gathered_local.synchronize();
  report.seconds += exchanged.elapsed_ms(sending) * kMillisecond;
  report.waited_seconds += std::max(0.0, exchanged.elapsed_ms(gathered_local) * kMillisecond);
}

void RowFetcher::State::fetch_with_remote(const FetchedIds& wanted, float* out, const cuda::Stream& stream) {
  placed.synchronize();
  take_device_times();
  // NCCL's kernels wait for other blocks of the same kernel, and few SMs may not hold all of them at once.
  if (exchange.on_devices == nullptr) serving.follow(stream);
  const Requests requests = split(on_host(wanted, stream));
  const Count count = wanted.count;
  report.remote_rows += std::ssize(requests.remote_ids) + requests.cached;
  report.cached_rows += requests.cached;
  const NodeId* here = ids_for_gather(local_ids.data(), count, device_local_ids, stream);
  count_here(here, count, stream);
  const auto start = Clock::now();
  const Count rounds = agreed_rounds(requests);
  const double agreed_seconds = seconds_of(Clock::now() - start);
  report.seconds += agreed_seconds;
  report.waited_seconds += agreed_seconds;
  const LocalRows local{here, count, out, stream};
  if (exchange.on_devices != nullptr) {
    fetch_on_devices(requests, rounds, local);
  } else {
    fetch_over_mpi(requests, rounds, local);
  }
  placed.record(stream);
}

RowFetcher::RowFetcher(const tensor::ChunkTensor& table, Device device, const RowExchangeContext& exchange,
                       ThreadPool& pool)
    : state_(std::make_unique<State>(table, device, exchange, pool)) {}
RowFetcher::~RowFetcher() = default;
RowFetcher::RowFetcher(RowFetcher&&) noexcept = default;

void RowFetcher::fetch(const FetchedIds& ids, float* out, const cuda::Stream& stream) {
  const cuda::NvtxRange range("fetch rows");
  State& state = *state_;
  state.report.rows += ids.count;
  if (state.has_remote()) {
    state.fetch_with_remote(ids, out, stream);
  } else {
    state.count_here(ids.ids, ids.count, stream);
    state.gather_here(ids.ids, ids.count, out, stream);
  }
}

RowExchangeReport RowFetcher::report() const {
  state_->take_device_times();
  return state_->report;
}

std::array<Count, tensor::kNumStrata> RowFetcher::rows_by_stratum() const {
  std::array<Count, tensor::kNumStrata> rows;
  cuda::copy_async(rows.data(), state_->by_stratum.data(), sizeof(rows), state_->serving);
  state_->serving.synchronize();
  return rows;
}

}  // namespace strata::feature
