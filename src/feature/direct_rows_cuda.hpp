// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "local_rows.hpp"
#include "strata/comm/id_segments.hpp"
#include "strata/cuda/buffer.hpp"
#include "strata/cuda/stream.hpp"
#include "strata/feature/fetcher.hpp"

namespace strata::feature {

/// Brings rows of other machines from GPU to GPU in messages of fixed size (comm::IdSegments), so that the
/// host sees no id. Rows that the halo keeps are found by an index on the GPU.
class DirectRows {
 public:
  /// References must outlive it. REQUIRES: exchange.on_devices.
  DirectRows(const LocalRows& local, const RowExchangeContext& exchange, Device device);

  /// The most rows to ask one rank for. The same on all ranks.
  void set_cap(Count rows) { cap_ = rows; }
  bool ready() const { return cap_ >= 0; }

  /// As RowFetcher::fetch(). False on all ranks if some rank asks for more rows than the cap allows: `out` is
  /// then worth nothing. Waits until this is known.
  bool fetch(const FetchedIds& ids, float* out, const cuda::Stream& stream);

  void add_to(RowExchangeReport& report) const;  ///< waits for the device

 private:
  void locate(const FetchedIds& ids, const cuda::Stream& stream);
  void bring(const cuda::Stream& stream);
  store::NodeIndexView copy_halo(const store::NodeIndex* halo);

  const LocalRows& local_;
  comm::DeviceExchange& wire_;
  comm::LaunchOrder* order_;
  Device device_;
  NodeId end_of_machine_;
  Count cap_ = -1;
  comm::IdSegments<NodeId> segments_;
  cuda::Stream stream_;  // for what crosses machines; other work must not hold it up
  cuda::Event located_, arrived_, decided_, placed_;
  cuda::Event sending_, gathered_;  // with timing, as arrived_

  cuda::Array<std::uint32_t> halo_first_;  // this and all below: device memory
  cuda::Array<NodeId> halo_nodes_;
  cuda::Array<std::int32_t> halo_positions_;
  store::NodeIndexView halo_;
  cuda::Array<NodeId> local_ids_, asked_;
  cuda::Array<Count> numbers_;   // see Number
  cuda::Array<Count> overflow_;  // pinned
  cuda::Array<float> served_rows_, arrived_rows_;

  RowExchangeReport report_;
};

}  // namespace strata::feature
