// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <memory>
#include <span>
#include <vector>

#include "learned/row_groups.hpp"
#include "strata/comm/device_exchange.hpp"
#include "strata/comm/machine.hpp"
#include "strata/cuda/buffer.hpp"
#include "strata/cuda/stream.hpp"
#include "strata/tensor/chunk_tensor.hpp"

namespace strata::batches {

/// The rows of a table, each of which one rank of its machine owns: machine by machine, and within a machine
/// rank by rank.
struct RowOwners {
  std::vector<NodeId> bounds;  ///< [ranks + 1] where the rows of each owner begin
  std::vector<int> ranks;      ///< world rank of each owner

  NodeId end() const { return bounds.back(); }
  NodeId first_of(int rank) const;
  NodeId end_of(int rank) const;
};

/// Brings rows with what belongs to them to their owners on all machines: from GPU to GPU where every rank
/// has one, else in messages of the ranks. An owner of its communicator and of what arrives.
class OwnerExchange {
 public:
  /// Collective over the ranks, of which there are several.
  OwnerExchange(const comm::Ranks& ranks, RowOwners owners);

  /// What arrived, in the order of the ranks that sent it; good until the next call.
  struct Arrived {
    const NodeId* rows = nullptr;
    const std::byte* values = nullptr;
    Count count = 0;
  };
  /// Collective, with equal row_bytes; `listed` by the bounds of the owners. No rank returns before all have
  /// called it. What arrives is there when `stream` reaches this point.
  Arrived exchange(const ListedRows& listed, const cuda::Stream& stream);

  comm::DeviceExchange& wire() { return *wire_; }
  bool is_direct() const { return is_direct_; }  ///< from GPU to GPU
  const comm::Communicator& communicator() const { return communicator_; }
  void close();  ///< collective

 private:
  RowOwners owners_;
  Device device_;
  comm::Communicator communicator_;
  bool is_direct_;
  std::unique_ptr<comm::DeviceExchange> wire_;
  cuda::Array<NodeId> rows_;  // on the device
  cuda::Array<std::byte> values_;
};

/// Rows to write, with their values; on the device.
struct GivenRows {
  const NodeId* rows = nullptr;
  Count count = 0;
  const std::byte* values = nullptr;  ///< [count, row_bytes]
  Count row_bytes = 0;
};
/// The table that they belong to.
struct OwnedTable {
  tensor::ChunkTensor& table;
  NodeId first_row;  ///< of the machine, which is row 0 of `table`
  const RowOwners& owners;
  RowGrouper& grouper;
  OwnerExchange* exchange;  ///< null: one rank
};
/// Writes rows of any machine; of a row that is given several times the last value counts, of ranks the
/// highest. Collective. Readers see the rows after a fence of the table.
void write_rows(const GivenRows& given, const OwnedTable& owned, const cuda::Stream& stream,
                ThreadPool& pool);

}  // namespace strata::batches
