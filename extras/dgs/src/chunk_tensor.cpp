// SPDX-License-Identifier: Apache-2.0
#include "strata/dgs/chunk_tensor.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>

#include "peers.hpp"
#include "strata/comm/machine.hpp"
#include "strata/util/error.hpp"

namespace strata::dgs {
namespace {

tensor::TensorSpec spec_of(const ChunkTensor::Spec& spec, std::int64_t number) {
  return {.name = fmt::format("ChunkTensor {}", number),
          .rows = spec.rows,
          .cols = spec.cols,
          .dtype = spec.dtype};
}

/// Number of rows that `capacity_per_gpu` bytes hold, or an even share if all rows fit.
Count rows_per_gpu(const ChunkTensor::Spec& spec, int num_gpus) {
  const Count row_bytes = spec.cols * static_cast<Count>(size_of(spec.dtype));
  if (num_gpus == 0 || spec.rows == 0 || row_bytes == 0) return 0;
  const Count even = (spec.rows + num_gpus - 1) / num_gpus;
  return std::min(spec.capacity_per_gpu / row_bytes, even);
}

/// The placement; a single rank does not open its rows to others, and reads them with all SMs of its GPU.
tensor::Placement placement_of(const ChunkTensor::Spec& spec, Count rows_per_gpu, int num_gpus, bool alone) {
  if (alone)
    return {.segments = {{{tensor::Stratum::replicated, rows_per_gpu},
                          {tensor::Stratum::host, spec.rows - rows_per_gpu}}}};
  return tensor::Placement::contiguous(spec.rows, rows_per_gpu, num_gpus);
}

}  // namespace

ChunkTensor::ChunkTensor(const comm::Machine& machine, const Spec& spec, const Gpus& gpus,
                         std::int64_t number)
    : spec_(spec),
      device_(comm::computes_on_gpus(machine) ? machine.device() : Device{}),
      gpus_(gpus),
      rows_per_gpu_(dgs::rows_per_gpu(spec, gpus.count)),
      tensor_(
          tensor::ChunkTensor::create(machine, spec_of(spec, number),
                                      placement_of(spec, rows_per_gpu_, gpus.count, machine.size() == 1))) {
  rows_on_gpus_ = tensor_->placement().total().on_gpus();
  if (rows_on_gpus_ == 0) rows_per_gpu_ = 0;  // without peer access
  if (machine.size() > 1 && rows_on_gpus_ > 0)
    peers_ = std::make_unique<Peers>(machine, gpus_.own, own_gpu().data);
}

ChunkTensor::~ChunkTensor() = default;

const tensor::ChunkTensor& ChunkTensor::tensor() const {
  if (tensor_) return *tensor_;
  throw InputError("the ChunkTensor was closed", "Use it before close(), or make another.");
}

ChunkTensor::Rows ChunkTensor::own_rows() const {
  if (gpus_.own < 0 || rows_per_gpu_ == 0) return {};
  const Count first = std::min(rows_per_gpu_ * gpus_.own, rows_on_gpus_);
  return {.first = first, .count = std::min(rows_per_gpu_, rows_on_gpus_ - first)};
}

ChunkTensor::View ChunkTensor::host() const {
  for (const tensor::StratumView& view : tensor().views())
    if (view.stratum == tensor::Stratum::host) return {.data = view.data, .rows = view.rows};
  return {};
}

ChunkTensor::View ChunkTensor::own_gpu() const {
  for (const tensor::StratumView& view : tensor().views()) {
    if (view.stratum != tensor::Stratum::host)
      return {.data = view.data, .rows = std::min(view.rows, own_rows().count)};
  }
  return {};
}

Count ChunkTensor::gpu_bytes() const {
  if (!tensor_ || gpus_.own < 0) return 0;
  return rows_per_gpu_ * spec_.cols * static_cast<Count>(size_of(spec_.dtype));
}

sampling::PiecedArray ChunkTensor::pieces() const {
  sampling::PiecedArray array{.rest = host().data,
                              .piece_size = std::max<Count>(1, rows_per_gpu_),
                              .in_pieces = rows_on_gpus_,
                              .size = spec_.rows,
                              .dtype = spec_.dtype};
  if (peers_)
    array.pieces = peers_->pieces();
  else if (rows_on_gpus_ > 0)
    array.pieces[0] = own_gpu().data;
  return array;
}

void ChunkTensor::load(const void* rows, ThreadPool& pool) {
  constexpr Count kPieceBytes = Count{16} << 20;
  const Count row_bytes = spec_.cols * static_cast<Count>(size_of(spec_.dtype));
  static_cast<void>(tensor());
  if (row_bytes == 0) return;
  pool.parallel_for(spec_.rows, std::max<Count>(1, kPieceBytes / row_bytes), [&](Count begin, Count end) {
    tensor_->write_rows(begin, end - begin, static_cast<const std::byte*>(rows) + begin * row_bytes);
  });
}

void ChunkTensor::check(const IdSpan& ids) const {
  static_cast<void>(tensor());
  if (device_.is_cuda()) return;
  ids.visit([&](const auto* typed) {
    for (Count i = 0; i < ids.size; ++i) {
      if (typed[i] >= 0 && typed[i] < spec_.rows) continue;
      throw std::out_of_range(
          fmt::format("index {} is {}, which is no row of {}", i, static_cast<NodeId>(typed[i]), spec_.rows));
    }
  });
}

void ChunkTensor::index(const IdSpan& ids, const Out& out, const cuda::Stream& stream,
                        ThreadPool& pool) const {
  const tensor::ChunkTensor& rows = tensor();
  check(ids);
  if (ids.size == 0 || spec_.cols == 0) return;
  rows.gather({.data = ids.data, .size = ids.size, .wide = ids.wide},
              tensor::RowsOut{.data = out.data, .dtype = out.dtype}, stream, pool);
}

void ChunkTensor::close(const comm::Machine& machine) {
  if (!tensor_) return;
  if (peers_) peers_->close();
  tensor_->close(machine);
  tensor_.reset();
}

}  // namespace strata::dgs
