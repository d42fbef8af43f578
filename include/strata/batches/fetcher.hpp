// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <memory>
#include <span>

#include "strata/comm/device_exchange.hpp"
#include "strata/comm/machine.hpp"
#include "strata/comm/reducer.hpp"
#include "strata/cuda/stream.hpp"
#include "strata/store/halo.hpp"
#include "strata/store/machine_graph.hpp"
#include "strata/tensor/chunk_tensor.hpp"
#include "strata/util/threads.hpp"

namespace strata::batches {

/// Where rows of other machines come from; all null on one machine, except `arrival`.
struct RowExchangeContext {
  const comm::Communicator* communicator = nullptr;  ///< of the stage's own, over all ranks
  const comm::Topology* topology = nullptr;
  std::span<const NodeId> machine_offsets;  ///< [machines + 1]
  int machine = 0;                          ///< this rank's
  /// Most bytes of rows that a rank asks for at once; the rest follows in further rounds. The same on all
  /// ranks.
  Count round_bytes = Count{64} << 20;
  /// Nodes of other machines whose rows this machine keeps. The row of position s is the table's row s after
  /// those of the machine's own nodes. Null: none.
  const store::NodeIndex* halo = nullptr;
  /// Brings rows from GPU to GPU; `communicator` then carries only ids, and after bound_requests() nothing.
  /// The bits are the same. Null: rows travel by MPI.
  comm::DeviceExchange* on_devices = nullptr;
  /// Rows cross machines as bf16, rounded to nearest even by the machine that has them, and become f32 again
  /// where they arrive. The bits are the same with and without `on_devices`. REQUIRES: rows of f32, f16 or
  /// bf16. Compressed rows travel as they are stored, whatever this says.
  bool in_bf16 = false;
  /// Of the launches of `on_devices`, where a fetch is the exchange of a step; null: any.
  comm::LaunchOrder* order = nullptr;
  int lane = 0;                                ///< LaunchOrder::Turn::lane of this fetcher
  comm::ExchangeListener* listener = nullptr;  ///< of messages that pass through host memory; null: nobody

  /// Of this machine's rows that are still being read, which fetches wait for. Null: all are in place.
  store::FeatureArrival* arrival = nullptr;

  comm::LaunchOrder::Turn turn() const { return {comm::LaunchOrder::Exchange::fetch, lane}; }
  DType sent_type() const { return in_bf16 ? DType::bf16 : DType::f32; }
};

/// The ids of one fetch, on the fetcher's device; -1 is none.
struct FetchedIds {
  const NodeId* ids = nullptr;
  Count count = 0;
  /// The same ids in ascending order and their positions in `ids`, as a sampler gives them
  /// (MiniBatch::sorted_inputs). The host then need not look at each id. Only for ids without -1. Null: not
  /// known.
  const NodeId* sorted = nullptr;
  const std::int32_t* sorted_positions = nullptr;
};

/// What a fetcher did since it was made.
struct RowExchangeReport {
  Count rows = 0;
  Count remote_rows = 0;  ///< of other machines' nodes
  Count cached_rows = 0;  ///< of these, read from the halo cache
  Count bytes_sent = 0, bytes_received = 0;
  Count request_messages = 0, request_bytes = 0;  ///< sent: ids of rows that this rank asks for
  Count row_messages = 0, row_bytes = 0;          ///< sent: rows for those who ask
  /// For and from other ranks; with the padding of messages that have a fixed size.
  Count rows_sent = 0, rows_received = 0;
  Count rounds = 0;            ///< exchanges that followed each other
  Count repeated_fetches = 0;  ///< fetched once more, because a request did not fit its message
  double seconds = 0;          ///< that messages took, including what other ranks let this one wait
  /// Those of these seconds that passed after the rows of this machine were gathered; all of them if MPI
  /// brings rows to a GPU.
  double waited_seconds = 0;

  RowExchangeReport& operator+=(const RowExchangeReport& other);
};

/// Reads rows of a tensor that is distributed over machines. The row of global id g is row g -
/// machine_offsets[m] of the ChunkTensor of the machine m that owns g.
class RowFetcher {
 public:
  /// `device` is where ids and results lie. References must outlive the fetcher.
  RowFetcher(const tensor::ChunkTensor& table, Device device, const RowExchangeContext& exchange,
             ThreadPool& pool);
  ~RowFetcher();
  RowFetcher(RowFetcher&&) noexcept;

  /// out[i] = row of global id ids[i] as f32; -1 gives zeros.
  ///
  /// out [count, cols] on the device. Collective over the exchange's communicator if there is one; a rank
  /// without ids passes count = 0. Ids of other machines are asked for in ascending order; an id that is
  /// given twice is asked for twice. The rows are complete when the call returns on the cpu, and when
  /// `stream` reaches this point on a GPU.
  void fetch(const FetchedIds& ids, float* out, const cuda::Stream& stream);
  /// The most of these ids that one other rank would be asked for. Waits for the stream; not collective.
  Count largest_request(const FetchedIds& ids, const cuda::Stream& stream);
  /// From the next fetch on, ids travel from GPU to GPU, too, in messages with room for so many rows; the
  /// same number on all ranks. A fetch in which some rank needs more is repeated over MPI. Without effect
  /// unless there is RowExchangeContext::on_devices.
  void bound_requests(Count rows);
  RowExchangeReport report() const;
  /// Rows that were read from each stratum of this machine since the fetcher was made, including those for
  /// other machines. Waits for nothing: call it when the streams of all fetches have reached their ends.
  tensor::ByStratum<Count> rows_by_stratum() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace strata::batches
