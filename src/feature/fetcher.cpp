// SPDX-License-Identifier: Apache-2.0
#include "strata/feature/fetcher.hpp"

#include "local_rows.hpp"
#include "staged_rows.hpp"
#include "strata/cuda/copy.hpp"
#include "strata/cuda/nvtx_range.hpp"
#include "strata/cuda/stream.hpp"
#if STRATA_WITH_CUDA
#include "direct_rows_cuda.hpp"
#endif

namespace strata::feature {
namespace {

bool has_other_machines(const RowExchangeContext& exchange) {
  return exchange.communicator != nullptr && exchange.topology->num_machines() > 1;
}

NodeId first_node_of(const RowExchangeContext& exchange) {
  if (!has_other_machines(exchange)) return 0;
  return exchange.machine_offsets[static_cast<std::size_t>(exchange.machine)];
}

}  // namespace

struct RowFetcher::State {
  Device device;
  LocalRows local;
  std::unique_ptr<StagedRows> staged;  // null on one machine
#if STRATA_WITH_CUDA
  std::unique_ptr<DirectRows> direct;  // null: only the host directs exchanges
#endif
  Count num_rows = 0;

  State(const tensor::ChunkTensor& table, Device the_device, const RowExchangeContext& exchange,
        ThreadPool& pool)
      : device(the_device), local(table, first_node_of(exchange), the_device, pool) {
    if (!has_other_machines(exchange)) return;
    staged = std::make_unique<StagedRows>(local, exchange, device);
#if STRATA_WITH_CUDA
    if (exchange.on_devices != nullptr && device.is_cuda())
      direct = std::make_unique<DirectRows>(local, exchange, device);
#endif
  }

  /// False if the rows have to be brought by other means, on all ranks.
  bool fetch_directly(const FetchedIds& ids, float* out, const cuda::Stream& stream, bool& tried) {
#if STRATA_WITH_CUDA
    tried = direct && direct->ready();
    return tried && direct->fetch(ids, out, stream);
#else
    static_cast<void>(ids), static_cast<void>(out), static_cast<void>(stream);
    tried = false;
    return false;
#endif
  }

  void fetch_with_remote(const FetchedIds& ids, float* out, const cuda::Stream& stream) {
    bool tried = false;
    if (fetch_directly(ids, out, stream, tried)) return;
    // A step has one turn among the launches with NCCL.
    staged->fetch(ids, out, stream, tried ? StagedRows::Transport::mpi : StagedRows::Transport::as_given);
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
    state.local.gather(ids.ids, ids.count, out, stream);
  }
}

Count RowFetcher::largest_request(const FetchedIds& ids, const cuda::Stream& stream) {
  return state_->staged ? state_->staged->largest_request(ids, stream) : 0;
}

void RowFetcher::bound_requests(Count rows) {
#if STRATA_WITH_CUDA
  if (state_->direct) state_->direct->set_cap(rows);
#else
  static_cast<void>(rows);
#endif
}

RowExchangeReport RowFetcher::report() const {
  RowExchangeReport report = state_->staged ? state_->staged->report() : RowExchangeReport{};
#if STRATA_WITH_CUDA
  if (state_->direct) state_->direct->add_to(report);
#endif
  report.rows = state_->num_rows;
  return report;
}

std::array<Count, tensor::kNumStrata> RowFetcher::rows_by_stratum() const {
  std::array<Count, tensor::kNumStrata> rows;
  const cuda::Stream stream = state_->device.is_cuda() ? cuda::Stream(state_->device) : cuda::Stream();
  cuda::copy_async(rows.data(), state_->local.by_stratum().data(), sizeof(rows), stream);
  stream.synchronize();
  return rows;
}

}  // namespace strata::feature
