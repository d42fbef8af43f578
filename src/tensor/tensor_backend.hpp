// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>
#include <memory>
#include <vector>

#include "strata/comm/machine.hpp"
#include "strata/cuda/stream.hpp"
#include "strata/tensor/array_copies.hpp"
#include "strata/tensor/chunk_tensor.hpp"

namespace strata::tensor {

/// Reads and writes the strata of a tensor for one rank: does what ChunkTensor promises, once arguments are
/// checked. An owner of the rows on GPUs; host rows belong to the tensor.
class TensorBackend {
 public:
  TensorBackend() = default;
  TensorBackend(const TensorBackend&) = delete;
  TensorBackend& operator=(const TensorBackend&) = delete;
  virtual ~TensorBackend() = default;

  /// Allocates the rows that the placement has on GPUs. Those that cannot be there become host rows of the
  /// placement. Collective over the machine; throws on all of its ranks alike.
  virtual void allocate(const comm::Machine& machine, Placement& placement) = 0;
  /// Takes the final layout and the rows that it has on the host and below; needed once, before anything
  /// below.
  virtual void adopt(const Layout& layout, std::byte* host_rows, RowStorage* storage) = 0;
  /// Replaces automatic settings by values where they matter.
  virtual void configure(GatherSettings& settings) = 0;
  virtual std::vector<StratumView> views() const = 0;

  virtual void write_rows(Count first, Count count, const std::byte* rows) = 0;
  virtual void read_rows(Count first, Count count, std::byte* rows) const = 0;

  /// Each throws Error for a stream of a device that cannot reach the rows.
  virtual void gather(const RowIds& ids, const RowsOut& out, const cuda::Stream& stream,
                      ThreadPool& pool) const = 0;
  virtual void decode(const CodedRows& coded, float* out, const cuda::Stream& stream,
                      ThreadPool& pool) const = 0;
  virtual void count_strata(const RowIds& ids, Count* counts, const cuda::Stream& stream) const = 0;
  virtual void scatter(const RowIds& ids, const RowsIn& in, const cuda::Stream& stream, ThreadPool& pool) = 0;

  virtual void check_ids(bool on) = 0;
  virtual void verify(const cuda::Stream& stream) const = 0;
  /// Frees the rows on GPUs. Collective over the machine.
  virtual void close(const comm::Machine& machine) = 0;
};

/// Makes the backend of the rank's device. `resources`: what CPU threads that gather for a GPU may take.
std::unique_ptr<TensorBackend> make_backend(Device device, const TensorSpec& spec,
                                            const comm::Resources& resources);

}  // namespace strata::tensor
