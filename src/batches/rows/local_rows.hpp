// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "rows/place_rows.hpp"
#include "strata/batches/fetcher.hpp"
#include "strata/cuda/buffer.hpp"
#include "strata/cuda/stream.hpp"
#include "strata/store/machine_graph.hpp"
#include "strata/tensor/chunk_tensor.hpp"
#include "strata/util/threads.hpp"

namespace strata::batches {

/// Bytes that NCCL may read behind the end of a message whose size is no multiple of its words.
inline constexpr Count kWireSlack = 16;

/// The rows of this machine, and how many were read from each stratum. The global id of row r is first_node +
/// r; -1 names a row of zeros.
class LocalRows {
 public:
  /// `arrival` has the rows that are still being read; null: none.
  LocalRows(const tensor::ChunkTensor& table, store::FeatureArrival* arrival, NodeId first_node,
            Device device, ThreadPool& pool)
      : table_(table),
        arrival_(arrival),
        first_node_(first_node),
        pool_(pool),
        by_stratum_(cuda::memory_on(device), tensor::kNumStrata, "counts of gathered rows", device) {
    const cuda::Stream stream = device.is_cuda() ? cuda::Stream(device) : cuda::Stream();
    cuda::fill_async(by_stratum_.data(), 0, by_stratum_.span().size_bytes(), stream);
    stream.synchronize();
  }

  NodeId first_node() const { return first_node_; }
  Count cols() const { return table_.spec().cols; }
  /// How rows cross machines: in the table's code, if it has one, or as the exchange says.
  DType sent_type(const RowExchangeContext& exchange) const {
    return table_.spec().code ? table_.spec().dtype : exchange.sent_type();
  }
  Count sent_row_bytes(DType sent_type) const {
    return table_.spec().gathered_cols(sent_type) * static_cast<Count>(size_of(sent_type));
  }
  /// out[positions[i]] = row i, as f32; as place_rows(), also for rows in the table's code.
  void place(const ArrivedRows& arrived, float* out, const cuda::Stream& stream) const {
    if (!table_.spec().code) return place_rows(arrived, out, stream, pool_);
    table_.decode({.rows = arrived.rows, .positions = arrived.positions, .count = arrived.count}, out, stream,
                  pool_);
  }
  const cuda::Array<Count>& by_stratum() const { return by_stratum_; }  ///< on the device

  /// out[i] = row of ids[i]. The ids are a few ascending runs on the stream's device, among which -1 may be.
  void gather(const NodeId* ids, Count count, const tensor::RowsOut& out, const cuda::Stream& stream) const {
    if (arrival_ != nullptr) arrival_->require(named(ids, count), stream);
    table_.gather(named(ids, count), out, stream, pool_);
  }
  void count(const NodeId* ids, Count count, const cuda::Stream& stream) const {
    table_.count_strata(named(ids, count), by_stratum_.data(), stream);
  }

 private:
  tensor::RowIds named(const NodeId* ids, Count count) const {
    return {.data = ids, .size = count, .first = first_node_, .sorted = true};
  }

  const tensor::ChunkTensor& table_;
  store::FeatureArrival* arrival_;
  NodeId first_node_;
  ThreadPool& pool_;
  cuda::Array<Count> by_stratum_;
};

}  // namespace strata::batches
