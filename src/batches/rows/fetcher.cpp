// SPDX-License-Identifier: Apache-2.0
#include "strata/batches/fetcher.hpp"

#include "rows/direct_rows.hpp"
#include "rows/local_rows.hpp"
#include "rows/staged_rows.hpp"
#include "strata/cuda/buffer.hpp"
#include "strata/cuda/stream.hpp"

namespace strata::batches {
namespace {

bool has_other_machines(const RowExchangeContext& exchange) {
  return exchange.communicator != nullptr && exchange.topology->num_machines() > 1;
}

NodeId first_node_of(const RowExchangeContext& exchange) {
  if (!has_other_machines(exchange)) return 0;
  return exchange.machine_offsets[at(exchange.machine)];
}

}  // namespace

RowExchangeReport& RowExchangeReport::operator+=(const RowExchangeReport& other) {
  rows += other.rows;
  remote_rows += other.remote_rows;
  cached_rows += other.cached_rows;
  bytes_sent += other.bytes_sent;
  bytes_received += other.bytes_received;
  request_messages += other.request_messages;
  request_bytes += other.request_bytes;
  row_messages += other.row_messages;
  row_bytes += other.row_bytes;
  rows_sent += other.rows_sent;
  rows_received += other.rows_received;
  rounds += other.rounds;
  repeated_fetches += other.repeated_fetches;
  seconds += other.seconds;
  waited_seconds += other.waited_seconds;
  return *this;
}

struct RowFetcher::State {
  Device device;
  LocalRows local;
  std::unique_ptr<StagedRows> staged;  // null on one machine
  std::unique_ptr<DirectRows> direct;  // null: only the host directs exchanges
  Count num_rows = 0;
  Count repeated = 0;  // fetches

  State(const tensor::ChunkTensor& table, Device the_device, const RowExchangeContext& exchange,
        ThreadPool& pool)
      : device(the_device), local(table, exchange.arrival, first_node_of(exchange), the_device, pool) {
    if (!has_other_machines(exchange)) return;
    staged = std::make_unique<StagedRows>(local, exchange, device);
#if STRATA_WITH_CUDA
    direct = make_direct_rows(local, exchange, device);
#endif
  }

  void fetch_with_remote(const FetchedIds& ids, float* out, const cuda::Stream& stream) {
    const bool directly = direct && direct->ready();
    if (directly && direct->fetch(ids, out, stream)) return;
    repeated += directly;
    // A step has one turn among the launches with NCCL.
    staged->fetch(ids, out, stream, directly ? StagedRows::Wire::mpi : StagedRows::Wire::as_given);
  }
};

RowFetcher::RowFetcher(const tensor::ChunkTensor& table, Device device, const RowExchangeContext& exchange,
                       ThreadPool& pool)
    : state_(std::make_unique<State>(table, device, exchange, pool)) {}
RowFetcher::~RowFetcher() = default;
RowFetcher::RowFetcher(RowFetcher&&) noexcept = default;

void RowFetcher::fetch(const FetchedIds& ids, float* out, const cuda::Stream& stream) {
  const cuda::NvtxRange range("fetch rows");
  State& state = *state_;
  state.num_rows += ids.count;
  if (state.staged) {
    state.fetch_with_remote(ids, out, stream);
  } else {
    state.local.count(ids.ids, ids.count, stream);
    state.local.gather(ids.ids, ids.count, {.data = out}, stream);
  }
}

Count RowFetcher::largest_request(const FetchedIds& ids, const cuda::Stream& stream) {
  return state_->staged ? state_->staged->largest_request(ids, stream) : 0;
}

void RowFetcher::bound_requests(Count rows) {
  if (state_->direct) state_->direct->set_cap(rows);
}

RowExchangeReport RowFetcher::report() const {
  RowExchangeReport report = state_->staged ? state_->staged->report() : RowExchangeReport{};
  if (state_->direct) state_->direct->add_to(report);
  report.rows = state_->num_rows;
  report.repeated_fetches = state_->repeated;
  return report;
}

tensor::ByStratum<Count> RowFetcher::rows_by_stratum() const {
  tensor::ByStratum<Count> rows;
  const cuda::Stream stream = state_->device.is_cuda() ? cuda::Stream(state_->device) : cuda::Stream();
  cuda::copy_async(&rows, state_->local.by_stratum().data(), sizeof(rows), stream);
  stream.synchronize();
  return rows;
}

}  // namespace strata::batches
