// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "gather.hpp"
#include "strata/cuda/buffer.hpp"
#include "strata/cuda/stream.hpp"

namespace strata::tensor {

/// Finds the entries of a list whose rows lie in the host stratum. An owner of its scratch memory.
///
/// If rows 0 and 1 are replicated and rows 2 and 3 lie on the host, ids {3, 0, -1, 2} give rows {1, 0} of the
/// host stratum for positions {0, 3}.
class HostSelection {
 public:
  explicit HostSelection(Device device)
      : device_(device), count_(cuda::Memory::device, 1, "host rows", device) {}

  bool has_room(Count bound) const { return bound <= capacity_; }
  void reserve(Count bound);  ///< allocates; no selection may be in use

  /// A list of rows of the host stratum (first = 0, count on the device), in the order of `list`; valid until
  /// the next selection. Asynchronous on `stream`. REQUIRES: has_room(list.bound), list.bound < 2^32.
  RowList select(const RowTable& table, const RowList& list, const cuda::Stream& stream);

 private:
  Device device_;
  Count capacity_ = 0;
  cuda::Array<std::uint32_t> entries_;
  cuda::Array<std::uint32_t> positions_;
  cuda::Array<std::int64_t> rows_;
  cuda::Array<Count> count_;
  cuda::Buffer temporary_;
};

}  // namespace strata::tensor
