// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <mutex>

#include "gather.hpp"
#include "strata/cuda/buffer.hpp"
#include "strata/cuda/stream.hpp"
#include "strata/util/thread_pool.hpp"

namespace strata::tensor {

/// Implements HostPath::copy: CPU threads gather rows into a pinned buffer, and one copy brings them to the
/// GPU. An owner of the buffer.
class CopiedGather {
 public:
  explicit CopiedGather(Device device) : device_(device), copied_(device) {}

  /// Like ChunkTensor::gather on the cpu, but ids and output lie on the GPU of `stream`. Waits for the ids,
  /// and gathers before it returns; only the copy is asynchronous. Thread safe; gathers run one after the
  /// other.
  void gather(const HostRows& host, const RowIds& ids, const RowsOut& out, bool checked,
              const cuda::Stream& stream, ThreadPool& pool);

 private:
  Device device_;
  std::mutex mutex_;
  cuda::Event copied_;  // the previous gather's copy has read rows_
  cuda::Array<std::byte> ids_, rows_;
};

}  // namespace strata::tensor
