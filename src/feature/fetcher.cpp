#include "strata/feature/fetcher.hpp"

#include <algorithm>
#include <chrono>
#include <future>

#include "place_rows.hpp"
#include "requests.hpp"
#include "strata/util/error.hpp"

namespace strata::feature {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_of(Clock::duration duration) { return std::chrono::duration<double>(duration).count(); }

template <typename T>
T* room_for(cuda::Array<T>& array, Count size, cuda::Memory memory, const char* what, Device device) {
  if (array.size() < size) array = cuda::Array<T>(memory, std::max(size, array.size() * 3 / 2), what, device);
  return array.data();
}

}  // namespace

struct RowFetcher::State {
  const store::ChunkTensor& table;
  Device device;
  RowExchangeContext exchange;
  ThreadPool& pool;
  RowExchangeReport report;
  Servers servers;
  NodeId first_node = 0;
  cuda::Stream serving;                           // rows for others must not wait for the rows of this rank
  cuda::Event placed;                             // the last fetch has read its pinned arrays
  cuda::Array<NodeId> ids, local_ids, asked_ids;  // pinned
  cuda::Array<std::int32_t> positions;            // pinned
  cuda::Array<float> arrived, served;             // pinned
  cuda::Array<NodeId> device_local_ids, device_asked_ids;  // on a GPU alone
  cuda::Array<float> device_served;
  cuda::Array<Count> by_stratum;  // rows read; on the device

  State(const store::ChunkTensor& the_table, Device the_device, const RowExchangeContext& context,
        ThreadPool& the_pool)
      : table(the_table),
        device(the_device),
        exchange(context),
        pool(the_pool),
        serving(device),
        placed(device),
        by_stratum(cuda::memory_on(device), store::kNumStrata, "counts of gathered rows", device) {
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

  /// Rows that may be asked of one rank in a round; bounds the memory of a fetch whatever the number of its
  /// rows.
  Count quota() const {
    const Count others = exchange.topology->num_machines() - 1;
    return std::max<Count>(1, exchange.round_bytes / std::max<Count>(1, row_bytes() * others));
  }

  const NodeId* ids_on_host(const NodeId* given, Count count, const cuda::Stream& stream) {
    if (!device.is_cuda()) return given;
    NodeId* pinned = room_for(ids, count, cuda::Memory::pinned, "row ids", device);
    cuda::copy_async(pinned, given, static_cast<std::size_t>(count) * sizeof(NodeId), stream);
    stream.synchronize();
    return pinned;
  }

  /// Ids where the gather reads them: copied to a GPU, as they are on the cpu.
  const NodeId* ids_for_gather(const NodeId* host_ids, Count count, cuda::Array<NodeId>& on_device,
                               const cuda::Stream& stream) {
    if (!device.is_cuda()) return host_ids;
    NodeId* copy = room_for(on_device, count, cuda::Memory::device, "row ids", device);
    cuda::copy_async(copy, host_ids, static_cast<std::size_t>(count) * sizeof(NodeId), stream);
    return copy;
  }

  /// Rows of this machine: ids in a few ascending runs.
  void gather_here(const NodeId* where, Count count, float* out, const cuda::Stream& stream) {
    table.gather(row_ids(where, count), out, stream, pool);
  }
  void count_here(const NodeId* where, Count count, const cuda::Stream& stream) {
    table.count_strata(row_ids(where, count), by_stratum.data(), stream);
  }
  store::RowIds row_ids(const NodeId* where, Count count) const {
    return {.data = where, .size = count, .first = first_node, .sorted = true};
  }

  /// Rows of this machine that others asked for, in host memory.
  const float* serve(std::span<const NodeId> asked) {
    const Count count = std::ssize(asked);
    float* rows = room_for(served, count * cols(), cuda::Memory::pinned, "rows for other machines", device);
    if (count == 0) return rows;
    if (!device.is_cuda()) {
      count_here(asked.data(), count, serving);
      gather_here(asked.data(), count, rows, serving);
      return rows;
    }
    NodeId* pinned = room_for(asked_ids, count, cuda::Memory::pinned, "row ids", device);
    std::ranges::copy(asked, pinned);
    const NodeId* where = ids_for_gather(pinned, count, device_asked_ids, serving);
    float* on_device =
        room_for(device_served, count * cols(), cuda::Memory::device, "rows for other machines", device);
    count_here(where, count, serving);
    gather_here(where, count, on_device, serving);
    cuda::copy_async(rows, on_device, static_cast<std::size_t>(count * row_bytes()), serving);
    serving.synchronize();
    return rows;
  }

  void fetch_with_remote(const NodeId* given, Count count, float* out, const cuda::Stream& stream);
  void run_round(const Requests& requests, Count round);
  void place_round(const Requests& requests, Count round, float* out, const cuda::Stream& stream);
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

/// Asks, serves, and leaves the rows of this round in `arrived`, in order of rank.
void RowFetcher::State::run_round(const Requests& requests, Count round) {
  const std::vector<Count> counts = counts_of_round(requests, round);
  std::vector<NodeId> round_ids;
  for (std::size_t rank = 0; rank < counts.size(); ++rank) {
    const auto first =
        requests.remote_ids.begin() + requests.first_of_rank[rank] + (counts[rank] > 0 ? round * quota() : 0);
    round_ids.insert(round_ids.end(), first, first + counts[rank]);
  }
  const auto asked = exchange.communicator->all_to_all(std::span<const NodeId>(round_ids), counts);
  const float* rows = serve(asked.values);
  const auto in_bytes = [this](std::vector<Count> values) {
    for (Count& v : values) v *= row_bytes();
    return values;
  };
  const Count num_asked = std::ssize(asked.values), num_wanted = std::ssize(round_ids);
  placed.synchronize();  // `arrived` may still be read by the round before
  float* target =
      room_for(arrived, num_wanted * cols(), cuda::Memory::pinned, "rows of other machines", device);
  exchange.communicator->all_to_all(rows, in_bytes(asked.counts), target, in_bytes(counts));
  constexpr Count kIdBytes = sizeof(NodeId);
  report.bytes_sent += num_wanted * kIdBytes + num_asked * row_bytes();
  report.bytes_received += num_asked * kIdBytes + num_wanted * row_bytes();
}

void RowFetcher::State::place_round(const Requests& requests, Count round, float* out,
                                    const cuda::Stream& stream) {
  const std::vector<Count> counts = counts_of_round(requests, round);
  Count begin = 0;
  for (std::size_t rank = 0; rank < counts.size(); ++rank) {
    if (counts[rank] == 0) continue;
    const Count slot = requests.first_of_rank[rank] + round * quota();
    place_rows({arrived.data() + begin * cols(), positions.data() + slot, counts[rank], cols()}, out, stream,
               pool);
    begin += counts[rank];
  }
  placed.record(stream);
}

void RowFetcher::State::fetch_with_remote(const NodeId* given, Count count, float* out,
                                          const cuda::Stream& stream) {
  placed.synchronize();
  const NodeId* host_ids = ids_on_host(given, count, stream);
  const SplitTarget target{room_for(local_ids, count, cuda::Memory::pinned, "row ids", device),
                           room_for(positions, count, cuda::Memory::pinned, "row positions", device)};
  const Requests requests = split_requests({host_ids, static_cast<std::size_t>(count)}, servers, target);
  report.remote_rows += std::ssize(requests.remote_ids) + requests.cached;
  report.cached_rows += requests.cached;
  const NodeId* here = ids_for_gather(local_ids.data(), count, device_local_ids, stream);
  count_here(here, count, stream);
  const auto start = Clock::now();
  const Count rounds = agreed_rounds(requests);
  // A GPU gathers the local rows while this thread exchanges the others; on the cpu a second thread does,
  // which takes turns with serving for the pool.
  std::future<Clock::time_point> local;
  Clock::time_point local_end = start;
  if (device.is_cuda() || rounds == 0) {
    gather_here(here, count, out, stream);
  } else {
    local = std::async(std::launch::async, [&] {
      gather_here(here, count, out, stream);
      return Clock::now();
    });
  }
  for (Count round = 0; round < rounds; ++round) {
    const auto round_start = round == 0 ? start : Clock::now();
    run_round(requests, round);
    const auto round_end = Clock::now();
    if (local.valid()) local_end = local.get();
    report.seconds += seconds_of(round_end - round_start);
    report.waited_seconds += std::max(0.0, seconds_of(round_end - std::max(local_end, round_start)));
    place_round(requests, round, out, stream);
  }
  placed.record(stream);
}

RowFetcher::RowFetcher(const store::ChunkTensor& table, Device device, const RowExchangeContext& exchange,
                       ThreadPool& pool)
    : state_(std::make_unique<State>(table, device, exchange, pool)) {}
RowFetcher::~RowFetcher() = default;
RowFetcher::RowFetcher(RowFetcher&&) noexcept = default;

void RowFetcher::fetch(const NodeId* ids, Count count, float* out, const cuda::Stream& stream) {
  const cuda::Range range("fetch rows");
  State& state = *state_;
  state.report.rows += count;
  if (state.has_remote()) {
    state.fetch_with_remote(ids, count, out, stream);
  } else {
    state.count_here(ids, count, stream);
    state.gather_here(ids, count, out, stream);
  }
}

RowExchangeReport RowFetcher::report() const { return state_->report; }

std::array<Count, store::kNumStrata> RowFetcher::rows_by_stratum() const {
  std::array<Count, store::kNumStrata> rows;
  cuda::copy_async(rows.data(), state_->by_stratum.data(), sizeof(rows), state_->serving);
  state_->serving.synchronize();
  return rows;
}

}  // namespace strata::feature
