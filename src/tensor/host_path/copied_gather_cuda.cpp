// SPDX-License-Identifier: Apache-2.0
#include <cuda_runtime_api.h>

#include <algorithm>

#include "host_path/copied_gather.hpp"
#include "strata/cuda/buffer.hpp"
#include "strata/cuda/check.cuh"
#include "strata/cuda/copy.hpp"
#include "strata/cuda/device.hpp"
#include "strata/cuda/stream.hpp"

namespace strata::tensor {
void CopiedGather::gather(const HostRows& host, const RowIds& ids, const RowsOut& out, bool checked,
                          const cuda::Stream& stream, ThreadPool& pool) {
  if (ids.size == 0 || host.spec->cols == 0) return;
  const cuda::DeviceGuard guard(device_);
  const std::lock_guard lock(mutex_);
  copied_.synchronize();
  const std::size_t id_bytes =
      static_cast<std::size_t>(ids.size) * (ids.wide ? sizeof(std::int64_t) : sizeof(std::int32_t));
  RowIds here = ids;
  here.data =
      ids_.reserve(cuda::Memory::pinned, static_cast<Count>(id_bytes), "ids of gathered rows", device_);
  Count count = ids.size;
  cuda::copy_async(ids_.data(), ids.data, id_bytes, stream);
  if (ids.count != nullptr) cuda::copy_async(&count, ids.count, sizeof(count), stream);
  stream.synchronize();
  here.size = std::clamp<Count>(count, 0, ids.size);
  here.count = nullptr;
  const std::size_t width =
                        static_cast<std::size_t>(host.spec->gathered_cols(out.dtype)) * size_of(out.dtype),
                    height = static_cast<std::size_t>(here.size);
  std::byte* rows = rows_.reserve(cuda::Memory::pinned, static_cast<Count>(width * height),
                                  "gathered rows on the host", device_);
  gather_on_cpu(host, here, {.data = rows, .dtype = out.dtype}, checked, pool);
  const std::size_t pitch = out.pitch > 0 ? static_cast<std::size_t>(out.pitch) * size_of(out.dtype) : width;
  cuda::copy_rows_async({.to = {static_cast<std::byte*>(out.data), pitch},
                         .from = {rows, width},
                         .row_bytes = width,
                         .rows = height},
                        stream);
  copied_.record(stream);
}

}  // namespace strata::tensor
