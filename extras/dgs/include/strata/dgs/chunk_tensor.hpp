// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <memory>
#include <optional>

#include "strata/comm/machine.hpp"
#include "strata/cuda/stream.hpp"
#include "strata/sampling/one_hop.hpp"
#include "strata/tensor/chunk_tensor.hpp"
#include "strata/util/threads.hpp"
#include "strata/util/types.hpp"

namespace strata::dgs {

class Peers;

/// Dist-GPU-sampling's ChunkTensor: rows in their order, one block of them on each GPU of a machine, the rest
/// in host memory. An owner; Group makes it.
///
/// 100 elements of 8 bytes with 200 bytes per GPU on two GPUs:
///
///     element  0 .. 24 | 25 .. 49 | 50 .. 99
///     lies on  gpu0    | gpu1     | host
class ChunkTensor {
 public:
  struct Spec {
    Count rows = 0, cols = 1;
    DType dtype = DType::f32;
    Count capacity_per_gpu = 0;  ///< bytes

    bool operator==(const Spec&) const = default;
  };
  /// Number of GPUs of the machine, and the index of this rank's; -1: none.
  struct Gpus {
    int count = 0, own = -1;
  };

  /// Collective over the machine.
  ChunkTensor(const comm::Machine& machine, const Spec& spec, const Gpus& gpus, std::int64_t number);
  ChunkTensor(const ChunkTensor&) = delete;
  ChunkTensor& operator=(const ChunkTensor&) = delete;
  ~ChunkTensor();

  const Spec& spec() const { return spec_; }
  Device device() const { return device_; }  ///< where index() reads and writes
  Count rows_per_gpu() const { return rows_per_gpu_; }
  Count rows_on_gpus() const { return rows_on_gpus_; }  ///< of all GPUs together; the others lie on the host
  /// Rows [first, first + count) lie on this rank's GPU.
  struct Rows {
    Count first = 0, count = 0;
  };
  Rows own_rows() const;

  /// Rows that lie one after the other in one memory; a view.
  struct View {
    std::byte* data = nullptr;
    Count rows = 0;
  };
  View host() const;
  View own_gpu() const;
  Count gpu_bytes() const;  ///< of this rank's GPU
  /// The addresses at which this rank's kernels, or its CPU, read the rows; sizes are in rows. A view.
  sampling::PiecedArray pieces() const;

  /// Writes all rows from host memory; blocks. Other ranks see them once this rank has reported to them that
  /// it is done.
  void load(const void* rows, ThreadPool& pool);

  /// Throws std::out_of_range naming the first id that is no row. Ids on a GPU are not looked at.
  void check(const IdSpan& ids) const;
  /// out[i] = row ids[i], in the tensor's type or as f32. On a GPU: asynchronous on `stream`, and an id that
  /// is no row gives zeros. On the cpu: blocks; the ids are checked.
  struct Out {
    void* data = nullptr;
    DType dtype = DType::f32;
  };
  void index(const IdSpan& ids, const Out& out, const cuda::Stream& stream, ThreadPool& pool) const;

  bool is_closed() const { return !tensor_; }
  void close(const comm::Machine& machine);  ///< collective; the group calls it

 private:
  const tensor::ChunkTensor& tensor() const;

  Spec spec_;
  Device device_;
  Gpus gpus_;
  Count rows_per_gpu_ = 0, rows_on_gpus_ = 0;
  std::optional<tensor::ChunkTensor> tensor_;
  std::unique_ptr<Peers> peers_;  // null unless ranks share rows of GPUs; ends before the rows
};

}  // namespace strata::dgs
