// SPDX-License-Identifier: Apache-2.0
#include "rows/staged_rows.hpp"

#include <algorithm>
#include <numeric>
#include <utility>

#include "strata/cuda/buffer.hpp"

namespace strata::batches {
namespace {

using Clock = comm::ExchangeListener::Clock;

double seconds_of(Clock::duration duration) { return std::chrono::duration<double>(duration).count(); }

/// Lets no work outlive the scope whose variables it uses, even if that is left by an exception.
class EndsWithScope {
 public:
  explicit EndsWithScope(Worker& worker) : worker_(worker) {}
  ~EndsWithScope() {
    try {
      worker_.wait();
    } catch (...) {  // another exception is on its way
    }
  }
  EndsWithScope(const EndsWithScope&) = delete;
  EndsWithScope& operator=(const EndsWithScope&) = delete;

 private:
  Worker& worker_;
};

}  // namespace

StagedRows::StagedRows(const LocalRows& local, const RowExchangeContext& exchange, Device device)
    : local_(local),
      exchange_(exchange),
      device_(device),
      sent_type_(local.sent_type(exchange)),
      servers_(
          store::Servers::of(*exchange.topology, exchange.machine_offsets, exchange.communicator->rank())),
      serving_(device.is_cuda() ? cuda::Stream(device) : cuda::Stream()),
      placed_(device),
      asked_copied_(device),
      sending_(device, true),
      exchanged_(device, true),
      gathered_local_(device, true) {
  servers_.machine = exchange.machine;
  servers_.halo = exchange.halo;
}

/// The most rows to ask one rank for in a round. It bounds the memory of a fetch, however many rows it has.
Count StagedRows::quota() const {
  const Count others = exchange_.topology->num_machines() - 1;
  return std::max<Count>(1, exchange_.round_bytes / std::max<Count>(1, sent_row_bytes() * others));
}

FetchedIds StagedRows::on_host(const FetchedIds& given, const cuda::Stream& stream) {
  if (!device_.is_cuda()) return given;
  const auto copied = [&]<typename T>(const T* from, cuda::Array<T>& pinned) -> const T* {
    if (from == nullptr) return nullptr;
    T* copy = pinned.reserve(cuda::Memory::pinned, given.count, "row ids", device_);
    cuda::copy_async(copy, from, at(given.count) * sizeof(T), stream);
    return copy;
  };
  const FetchedIds here{.ids = copied(given.ids, ids_),
                        .count = given.count,
                        .sorted = copied(given.sorted, sorted_ids_),
                        .sorted_positions = copied(given.sorted_positions, sorted_positions_)};
  stream.synchronize();
  return here;
}

/// Writes the ids of this machine to local_ids, and the positions of the others to `positions`.
Requests StagedRows::split(const FetchedIds& wanted) {
  const SplitTarget target{local_ids_.reserve(cuda::Memory::pinned, wanted.count, "row ids", device_),
                           positions_.reserve(cuda::Memory::pinned, wanted.count, "row positions", device_)};
  return split_requests(wanted, servers_, target);
}

/// The address from which the gather reads ids: a copy on a GPU, `host_ids` on the cpu.
const NodeId* StagedRows::ids_for_gather(const NodeId* host_ids, Count count, cuda::Array<NodeId>& on_device,
                                         const cuda::Stream& stream) {
  if (!device_.is_cuda()) return host_ids;
  NodeId* copy = on_device.reserve(cuda::Memory::device, count, "row ids", device_);
  cuda::copy_async(copy, host_ids, at(count) * sizeof(NodeId), stream);
  return copy;
}

/// Rows of this machine that others asked for, on this rank's device and as they are sent; ready when
/// `serving` reaches this point.
std::byte* StagedRows::serve(std::span<const NodeId> asked) {
  const Count count = std::ssize(asked);
  const NodeId* where = asked.data();
  if (device_.is_cuda()) {
    asked_copied_.synchronize();
    NodeId* pinned = asked_ids_.reserve(cuda::Memory::pinned, count, "row ids", device_);
    std::ranges::copy(asked, pinned);
    where = ids_for_gather(pinned, count, device_asked_ids_, serving_);
    asked_copied_.record(serving_);
  }
  std::byte* rows = (device_.is_cuda() ? device_served_ : served_)
                        .reserve(cuda::memory_on(device_), count * sent_row_bytes() + kWireSlack,
                                 "rows for other machines", device_);
  if (count == 0) return rows;
  local_.count(where, count, serving_);
  local_.gather(where, count, {.data = rows, .dtype = sent_type_}, serving_);
  return rows;
}
/// The same in host memory.
const std::byte* StagedRows::serve_on_host(std::span<const NodeId> asked) {
  const std::byte* rows = serve(asked);
  if (!device_.is_cuda()) return rows;
  const Count bytes = std::ssize(asked) * sent_row_bytes();
  std::byte* here = served_.reserve(cuda::Memory::pinned, bytes, "rows for other machines", device_);
  cuda::copy_async(here, rows, at(bytes), serving_);
  serving_.synchronize();
  return here;
}

Count StagedRows::agreed_rounds(const Requests& requests) const {
  std::int64_t rounds = (requests.largest() + quota() - 1) / quota();
  exchange_.communicator->all_reduce(std::span(&rounds, 1), comm::Communicator::Op::max);
  return rounds;
}

std::vector<Count> StagedRows::counts_of_round(const Requests& requests, Count round) const {
  std::vector<Count> counts;
  for (int rank = 0; rank < servers_.num_ranks; ++rank) {
    counts.push_back(std::clamp<Count>(requests.count_for(rank) - round * quota(), 0, quota()));
  }
  return counts;
}

std::vector<Count> StagedRows::in_bytes(std::span<const Count> rows) const {
  std::vector<Count> bytes(rows.begin(), rows.end());
  for (Count& count : bytes) count *= sent_row_bytes();
  return bytes;
}

/// Sends this rank's ids of a round, and returns the ids that others ask this rank for.
StagedRows::Asked StagedRows::ask(const Requests& requests, Count round) {
  const std::vector<Count> counts = counts_of_round(requests, round);
  std::vector<NodeId> round_ids;
  for (std::size_t rank = 0; rank < counts.size(); ++rank) {
    const auto first =
        requests.remote_ids.begin() + requests.first_of_rank[rank] + (counts[rank] > 0 ? round * quota() : 0);
    round_ids.insert(round_ids.end(), first, first + counts[rank]);
  }
  auto asked = exchange_.communicator->all_to_all(std::span<const NodeId>(round_ids), counts);
  const Count num_asked = std::ssize(asked.values), num_wanted = std::ssize(round_ids);
  constexpr Count kIdBytes = sizeof(NodeId);
  report_.bytes_sent += num_wanted * kIdBytes + num_asked * sent_row_bytes();
  report_.bytes_received += num_asked * kIdBytes + num_wanted * sent_row_bytes();
  const auto messages = [](std::span<const Count> rows) {
    return std::ranges::count_if(rows, [](Count count) { return count > 0; });
  };
  report_.request_messages += messages(counts);
  report_.request_bytes += num_wanted * kIdBytes;
  report_.row_messages += messages(asked.counts);
  report_.row_bytes += num_asked * sent_row_bytes();
  report_.rows_sent += num_asked;
  report_.rows_received += num_wanted;
  constexpr Count kRounds = 3;  // counts, ids, rows
  report_.rounds += kRounds;
  return asked;
}

/// Receives the rows of a round into `arrived`, in order of rank.
void StagedRows::exchange_over_mpi(const Asked& asked, std::span<const Count> counts) {
  const std::byte* rows = serve_on_host(asked.values);
  const Count wanted = std::reduce(counts.begin(), counts.end());
  placed_.synchronize();  // `arrived_` may still be read by the round before
  std::byte* target =
      arrived_.reserve(cuda::Memory::pinned, wanted * sent_row_bytes(), "rows of other machines", device_);
  exchange_.communicator->all_to_all(rows, in_bytes(asked.counts), target, in_bytes(counts));
}

/// Receives them into `device_arrived`; ready when `serving` reaches this point.
void StagedRows::exchange_on_devices(const Asked& asked, std::span<const Count> counts) {
  const std::byte* rows = serve(asked.values);
  const Count wanted = std::reduce(counts.begin(), counts.end());
  std::byte* target = device_arrived_.reserve(cuda::Memory::device, wanted * sent_row_bytes(),
                                              "rows of other machines", device_);
  serving_.wait(placed_);  // it may still be read by the round before
  exchange_.on_devices->all_to_all(rows, in_bytes(asked.counts), target, in_bytes(counts), serving_);
  exchanged_.record(serving_);
}

void StagedRows::place_round(const Requests& requests, Count round, const std::byte* rows,
                             const Wanted& wanted) {
  const std::vector<Count> counts = counts_of_round(requests, round);
  Count begin = 0;
  for (std::size_t rank = 0; rank < counts.size(); ++rank) {
    if (counts[rank] == 0) continue;
    const Count first = requests.first_of_rank[rank] + round * quota();
    local_.place({.rows = rows + begin * sent_row_bytes(),
                  .dtype = sent_type_,
                  .positions = positions_.data() + first,
                  .count = counts[rank],
                  .cols = cols()},
                 wanted.out, wanted.stream);
    begin += counts[rank];
  }
  placed_.record(wanted.stream);
}

Clock::time_point StagedRows::count_messages(Clock::time_point begin) {
  const auto end = Clock::now();
  report_.seconds += seconds_of(end - begin);
  if (exchange_.listener != nullptr) {
    exchange_.listener->exchanged(
        {.what = comm::ExchangeListener::Messages::What::rows, .begin = begin, .end = end});
  }
  return end;
}

// A GPU gathers the local rows while this thread exchanges the others. On the cpu a second thread gathers
// them, and takes turns with serving for the pool.
void StagedRows::fetch_over_mpi(const Requests& requests, Count rounds, const Wanted& wanted) {
  const auto start = Clock::now();
  Clock::time_point local_end = start;
  const EndsWithScope gathering_ends(gathering_);
  if (device_.is_cuda() || rounds == 0) {
    local_.gather(wanted.ids, wanted.count, {.data = wanted.out}, wanted.stream);
  } else {
    gathering_.start([&wanted, &local_end, this] {
      local_.gather(wanted.ids, wanted.count, {.data = wanted.out}, wanted.stream);
      local_end = Clock::now();
    });
  }
  for (Count round = 0; round < rounds; ++round) {
    const auto round_start = round == 0 ? start : Clock::now();
    exchange_over_mpi(ask(requests, round), counts_of_round(requests, round));
    const auto round_end = count_messages(round_start);
    gathering_.wait();
    report_.waited_seconds += std::max(0.0, seconds_of(round_end - std::max(local_end, round_start)));
    place_round(requests, round, arrived_.data(), wanted);
  }
}

// Ids cross MPI while the GPU gathers local rows; then nothing waits on the host.
void StagedRows::fetch_on_devices(const Requests& requests, Count rounds, const Wanted& wanted) {
  local_.gather(wanted.ids, wanted.count, {.data = wanted.out}, wanted.stream);
  gathered_local_.record(wanted.stream);
  for (Count round = 0; round < rounds; ++round) {
    const auto start = Clock::now();
    const auto asked = ask(requests, round);
    count_messages(start);
    if (round == 0) begin_exchange();
    exchange_on_devices(asked, counts_of_round(requests, round));
    wanted.stream.wait(exchanged_);
    place_round(requests, round, device_arrived_.data(), wanted);
  }
  if (rounds == 0) begin_exchange();
  if (exchange_.order != nullptr) exchange_.order->end_exchange(exchange_.turn(), serving_);
  exchanging_ = rounds > 0;
}

/// REQUIRES: the last fetch has reached its end on the GPU.
void StagedRows::take_device_times() {
  constexpr double kMillisecond = 1e-3;
  if (!std::exchange(exchanging_, false)) return;
  exchanged_.synchronize();
  gathered_local_.synchronize();
  report_.seconds += exchanged_.elapsed_ms(sending_) * kMillisecond;
  report_.waited_seconds += std::max(0.0, exchanged_.elapsed_ms(gathered_local_) * kMillisecond);
}

void StagedRows::begin_exchange() {
  if (exchange_.order != nullptr) exchange_.order->begin_exchange(exchange_.turn(), serving_);
  sending_.record(serving_);
}

const RowExchangeReport& StagedRows::report() {
  take_device_times();
  return report_;
}

Count StagedRows::largest_request(const FetchedIds& ids, const cuda::Stream& stream) {
  placed_.synchronize();
  return split(on_host(ids, stream)).largest();
}

void StagedRows::fetch(const FetchedIds& ids, float* out, const cuda::Stream& stream, Wire wire) {
  const bool on_devices = exchange_.on_devices != nullptr && wire == Wire::as_given;
  placed_.synchronize();
  take_device_times();
  // NCCL's kernels wait for other blocks of the same kernel, and few SMs may not hold all of them at once.
  if (exchange_.on_devices == nullptr) serving_.follow(stream);
  const Requests requests = split(on_host(ids, stream));
  report_.remote_rows += std::ssize(requests.remote_ids) + requests.cached;
  report_.cached_rows += requests.cached;
  const Wanted wanted{ids_for_gather(local_ids_.data(), ids.count, device_local_ids_, stream), ids.count, out,
                      stream};
  local_.count(wanted.ids, wanted.count, stream);
  const auto start = Clock::now();
  const Count rounds = agreed_rounds(requests);
  ++report_.rounds;
  report_.waited_seconds += seconds_of(count_messages(start) - start);
  if (on_devices) {
    fetch_on_devices(requests, rounds, wanted);
  } else {
    fetch_over_mpi(requests, rounds, wanted);
  }
  placed_.record(stream);
}

}  // namespace strata::batches
