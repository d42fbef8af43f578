// SPDX-License-Identifier: Apache-2.0
#include "operators/hot_rows.hpp"

#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <fmt/format.h>

#include <bit>
#include <limits>

#include "operators/arguments.hpp"
#include "strata/cuda/device.hpp"
#include "strata/dgs/id_maps.hpp"
#include "strata/util/error.hpp"

namespace strata::dgs {
namespace {

void check_pair(const at::Tensor& keys, const at::Tensor& values) {
  if (keys.numel() == values.numel() && keys.scalar_type() == values.scalar_type() &&
      keys.device() == values.device())
    return;
  throw InputError(fmt::format("{} keys of {} on {} have {} values of {} on {}", keys.numel(),
                               c10::toString(keys.scalar_type()), keys.device().str(), values.numel(),
                               c10::toString(values.scalar_type()), values.device().str()),
                   "Give as many values as keys, of one type on one device.");
}

HashMapView view_of(const HashMap& map) {
  const auto& [keys, values] = map;
  check_pair(keys, values);
  const bool has_room = keys.numel() > 0 && std::has_single_bit(static_cast<std::uint64_t>(keys.numel()));
  if (!has_room || !keys.is_contiguous() || !values.is_contiguous()) {
    throw InputError(fmt::format("{} keys are no hash map", keys.numel()),
                     "Give what _CAPI_create_hash_map() returned.");
  }
  return {.keys = keys.mutable_data_ptr(),
          .values = values.mutable_data_ptr(),
          .capacity = keys.numel(),
          .wide = keys.scalar_type() == at::kLong};
}

Count row_bytes(const at::Tensor& rows) { return rows.size(1) * static_cast<Count>(rows.element_size()); }

RowSource source_of(const at::Tensor& rows) {
  return {.rows = sampling::PiecedArray::of(rows.const_data_ptr(), rows.size(0), DType::u8),
          .row_bytes = row_bytes(rows)};
}

void check_rows(const at::Tensor& rows, const char* name) {
  if (rows.dim() == 2 && rows.is_contiguous()) return;
  throw InputError(fmt::format("{} has {} dimensions, or is not contiguous", name, rows.dim()),
                   "Give contiguous rows, [n, columns].");
}

/// Throws InputError unless the device reads it in place.
void check_readable(const at::Tensor& cpu, Device device) {
  if (!cpu.device().is_cpu())
    throw InputError(fmt::format("the rows of the host are on {}", cpu.device().str()), "Give a CPU tensor.");
  if (device.is_cuda() && !cpu.is_pinned()) {
    throw InputError("the rows of the host are not pinned, so that a GPU cannot read them",
                     "Give tensor.pin_memory(), once.");
  }
}

at::Tensor run(const FetchArguments& arguments, const RowSource& hot, at::ScalarType type, Device device) {
  check_rows(arguments.cpu, "the host's tensor");
  const cuda::DeviceGuard guard(device);
  const at::Tensor& cpu = arguments.cpu;
  check_readable(cpu, device);
  const at::Tensor ids = ids_on(arguments.ids, device, "nid");
  const HashMapView map = view_of(arguments.map);
  const at::Tensor& keys = std::get<0>(arguments.map);
  const RowSource cold = source_of(cpu);
  if (cpu.scalar_type() != type || cold.row_bytes != hot.row_bytes)
    throw InputError(
        fmt::format("rows of {} with {} bytes are cached as {} with {} bytes",
                    c10::toString(cpu.scalar_type()), cold.row_bytes, c10::toString(type), hot.row_bytes),
        "Give a cache of the same type and as many columns.");
  if (ids.scalar_type() != keys.scalar_type() || keys.device() != ids.device())
    throw InputError(
        fmt::format("ids of {} are asked of a hash map of {} on {}", c10::toString(ids.scalar_type()),
                    c10::toString(keys.scalar_type()), keys.device().str()),
        "Give ids of the type of the keys, and the hash map on the device.");
  at::Tensor out =
      at::empty({ids.numel(), cpu.size(1)}, cpu.options().device(torch_device(device)).pinned_memory(false));
  if (out.numel() > 0) fetch(map, span_of(ids), hot, cold, out.mutable_data_ptr(), current_stream(device));
  return out;
}

}  // namespace

HashMap create_hash_map(const at::Tensor& keys, const at::Tensor& values) {
  check_pair(keys, values);
  const Device device = device_of(keys.device());
  const cuda::DeviceGuard guard(device);
  const at::Tensor from = ids_on(keys, device, "keys"), to = ids_on(values, device, "values");
  const bool wide = from.scalar_type() == at::kLong;
  const std::int64_t largest =
      wide ? std::numeric_limits<std::int64_t>::max() : std::numeric_limits<std::int32_t>::max();
  const HashMap map{at::full({capacity_for(from.numel())}, -1, from.options()),
                    at::full({capacity_for(from.numel())}, largest, to.options())};
  fill(view_of(map), span_of(from), span_of(to), current_stream(device));
  return map;
}

at::Tensor fetch(const FetchArguments& arguments, const at::Tensor& cache) {
  check_rows(cache, "the cache");
  return run(arguments, source_of(cache), cache.scalar_type(), device_of(cache.device()));
}

at::Tensor fetch(const FetchArguments& arguments, const TorchChunkTensor& cache) {
  const ChunkTensor& rows = cache.rows();
  const Count bytes = rows.spec().cols * static_cast<Count>(size_of(rows.spec().dtype));
  return run(arguments, {.rows = rows.pieces(), .row_bytes = bytes}, cache.dtype(), rows.device());
}

}  // namespace strata::dgs
