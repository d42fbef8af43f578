// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <span>
#include <vector>

#include "rows/local_rows.hpp"
#include "rows/requests.hpp"
#include "strata/batches/fetcher.hpp"
#include "strata/cuda/buffer.hpp"
#include "strata/cuda/stream.hpp"
#include "strata/util/threads.hpp"

namespace strata::batches {

/// Brings rows of other machines as the host directs: it splits the ids, and sends them over MPI. Rows travel
/// over MPI, too, or from GPU to GPU, in as many rounds as the largest request of any rank needs.
class StagedRows {
 public:
  /// References must outlive it.
  StagedRows(const LocalRows& local, const RowExchangeContext& exchange, Device device);

  enum class Wire { as_given, mpi };  ///< RowExchangeContext::on_devices if there is one, or not
  /// As RowFetcher::fetch().
  void fetch(const FetchedIds& ids, float* out, const cuda::Stream& stream, Wire wire);
  /// The most of the ids that one rank would be asked for. Waits for the stream; not collective.
  Count largest_request(const FetchedIds& ids, const cuda::Stream& stream);
  /// Of rows that crossed machines; RowExchangeReport::rows is left out.
  const RowExchangeReport& report();

 private:
  /// The part of a fetch that is this machine's; a view.
  struct Wanted {
    const NodeId* ids;
    Count count;
    float* out;
    const cuda::Stream& stream;
  };
  using Asked = comm::Communicator::Received<NodeId>;

  Count cols() const { return local_.cols(); }
  /// Of a row on the wire.
  Count sent_row_bytes() const { return local_.sent_row_bytes(sent_type_); }
  Count quota() const;
  Count agreed_rounds(const Requests& requests) const;
  std::vector<Count> counts_of_round(const Requests& requests, Count round) const;
  std::vector<Count> in_bytes(std::span<const Count> rows) const;

  FetchedIds on_host(const FetchedIds& given, const cuda::Stream& stream);
  Requests split(const FetchedIds& wanted);
  const NodeId* ids_for_gather(const NodeId* host_ids, Count count, cuda::Array<NodeId>& on_device,
                               const cuda::Stream& stream);
  std::byte* serve(std::span<const NodeId> asked);
  const std::byte* serve_on_host(std::span<const NodeId> asked);
  Asked ask(const Requests& requests, Count round);
  void exchange_over_mpi(const Asked& asked, std::span<const Count> counts);
  void exchange_on_devices(const Asked& asked, std::span<const Count> counts);
  void place_round(const Requests& requests, Count round, const std::byte* rows, const Wanted& wanted);
  void fetch_over_mpi(const Requests& requests, Count rounds, const Wanted& wanted);
  void fetch_on_devices(const Requests& requests, Count rounds, const Wanted& wanted);
  /// Adds to the report what messages took from `begin` until now, which it returns.
  comm::ExchangeListener::Clock::time_point count_messages(comm::ExchangeListener::Clock::time_point begin);
  void begin_exchange();
  void take_device_times();

  const LocalRows& local_;
  RowExchangeContext exchange_;
  Device device_;
  DType sent_type_;
  RowExchangeReport report_;
  store::Servers servers_;
  cuda::Stream serving_;  // for rows that others asked for, which must not wait for this rank's rows
  cuda::Event placed_;    // the last fetch has read its pinned arrays
  cuda::Array<NodeId> ids_, sorted_ids_, local_ids_, asked_ids_;  // pinned
  cuda::Array<std::int32_t> sorted_positions_, positions_;        // pinned
  cuda::Array<std::byte> arrived_, served_;                       // pinned; of the type on the wire
  cuda::Array<NodeId> device_local_ids_, device_asked_ids_;       // only on a GPU
  cuda::Array<std::byte> device_served_, device_arrived_;
  cuda::Event asked_copied_;                          // asked_ids_ may be written again
  cuda::Event sending_, exchanged_, gathered_local_;  // with timing; used if rows travel from GPU to GPU
  bool exchanging_ = false;  // these events belong to a fetch whose times were not read yet
  Worker gathering_;         // of local rows, on the cpu
};

}  // namespace strata::batches
