// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>
#include <memory>
#include <mutex>

#include "strata/cuda/buffer.hpp"
#include "strata/cuda/stream.hpp"
#include "strata/tensor/chunk_tensor.hpp"
#include "strata/util/thread_pool.hpp"

namespace strata::batches {

class IdCheck;

/// Rows that somebody has in host memory, one after the other.
struct HostRows {
  void* data = nullptr;
  Count rows = 0;
  std::size_t row_bytes = 0;
  std::size_t element_bytes = 1;  ///< to which `data` and rows are aligned: 1, 2, 4 or 8
  std::shared_ptr<const void> keep_alive;
};

/// Rows in host memory that a GPU reads and writes in place (zero copy; Min et al., "Large Graph
/// Convolutional Network Training with GPU-Oriented Data Communication Architecture", VLDB 2021, whose
/// unified tensors these are). An owner of the registration with CUDA; of the memory only as `keep_alive` is.
/// Rows are bytes to it. On the cpu it gathers with threads.
///
/// For one caller at a time.
class UnifiedTensor {
 public:
  /// Memory that CUDA cannot register (files mapped on some file systems) is gathered by threads of the CPU
  /// and copied, with a warning. `settings` say how rows reach a GPU, and count for nothing without one.
  /// Throws InputError for an element size that has no type, and for settings out of range.
  UnifiedTensor(Device device, const HostRows& rows, const tensor::GatherSettings& settings = {});

  struct Ids {
    const void* data = nullptr;  ///< [count] on the device
    Count count = 0;
    bool wide = true;  ///< i64, else i32
  };
  /// out[i] = row ids[i]; out [count, row_bytes] on the device, aligned to elements. Asynchronous on a GPU
  /// without `check`. With it, throws std::out_of_range naming the first id below 0 or beyond the last row,
  /// and reads nothing that is not a row.
  void gather(const Ids& ids, void* out, const cuda::Stream& stream, bool check = true);
  /// row ids[i] = in[i], for distinct ids; as gather(). The host sees the rows after fence().
  void scatter(const Ids& ids, const void* in, const cuda::Stream& stream, bool check = true);
  void fence(const cuda::Stream& stream) const;  ///< waits for the stream

  Count rows() const { return tensor_.spec().rows; }

 private:
  tensor::ChunkTensor wrap(const HostRows& rows);
  template <typename Run>
  void run(const Ids& ids, const cuda::Stream& stream, bool check, Run work);
  void check(const Ids& ids, const cuda::Stream& stream) const;
  bool reads_in_place() const { return tensor_device_ == device_; }
  void gather_and_copy(const tensor::RowIds& rows, void* out, const cuda::Stream& stream);

  Device device_, tensor_device_;
  ThreadPool pool_;
  tensor::ChunkTensor tensor_;
  std::shared_ptr<IdCheck> id_check_;
  std::mutex staging_mutex_;
  cuda::Array<std::byte> staging_;  ///< pinned; of gathered rows that are copied to the GPU
};

}  // namespace strata::batches
