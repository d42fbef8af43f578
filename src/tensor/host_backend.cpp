// SPDX-License-Identifier: Apache-2.0
#include "host_backend.hpp"

#include <fmt/format.h>

#include <cstring>
#include <utility>

#include "strata/util/error.hpp"

namespace strata::tensor {
namespace {

/// Calls copy(address in the stratum, offset of dense rows, bytes) for a run of host rows.
template <typename CopyBytes>
void for_each_piece(const HostRows& host, const Layout::Run& run, CopyBytes&& copy) {
  const std::size_t bytes = host.spec->row_bytes(), pitch = host.spec->row_pitch();
  std::byte* const stratum = host.data + at(run.location.row) * pitch;
  const auto count = at(run.count);
  if (pitch == bytes) return copy(stratum, std::size_t{0}, count * bytes);
  for (std::size_t r = 0; r < count; ++r) copy(stratum + r * pitch, r * bytes, bytes);
}

}  // namespace

void HostBackend::allocate(const comm::Machine& /*machine*/, Placement& placement) {
  for (Segment& s : placement.segments)
    for (const Stratum on_gpu : {Stratum::replicated, Stratum::striped}) s.move(on_gpu, Stratum::host);
}

void HostBackend::adopt(const Layout& layout, std::byte* host_rows, RowStorage* storage) {
  layout_ = layout;
  rows_ = host_rows;
  storage_ = storage;
}

std::vector<StratumView> HostBackend::views() const {
  if (layout_.rows(Stratum::host) == 0) return {};
  return {{Stratum::host, Device(), rows_, layout_.rows(Stratum::host), spec_.row_pitch()}};
}

void HostBackend::write_run(const Layout::Run& run, const std::byte* rows) const {
  if (run.location.stratum == Stratum::storage) return storage_->write(run.location.row, run.count, rows);
  for_each_piece(this->rows(), run, [&](std::byte* stratum, std::size_t offset, std::size_t bytes) {
    std::memcpy(stratum, rows + offset, bytes);
  });
}

void HostBackend::read_run(const Layout::Run& run, std::byte* rows) const {
  if (run.location.stratum == Stratum::storage) return storage_->read(run.location.row, run.count, rows);
  for_each_piece(this->rows(), run, [&](const std::byte* stratum, std::size_t offset, std::size_t bytes) {
    std::memcpy(rows + offset, stratum, bytes);
  });
}

void HostBackend::write_rows(Count first, Count count, const std::byte* rows) {
  layout_.for_each_run(first, count, [&](const Layout::Run& run) {
    write_run(run, rows + at(run.first - first) * spec_.row_bytes());
  });
}

void HostBackend::read_rows(Count first, Count count, std::byte* rows) const {
  layout_.for_each_run(first, count, [&](const Layout::Run& run) {
    read_run(run, rows + at(run.first - first) * spec_.row_bytes());
  });
}

void HostBackend::refuse(const cuda::Stream& stream) const {
  throw Error(fmt::format("\"{}\" cannot be used by {}: this rank loaded it for {}", spec_.name,
                          stream.device().str(), device_.str()));
}

void HostBackend::need_cpu(const cuda::Stream& stream) const {
  if (stream.device().is_cuda()) refuse(stream);
  if (layout_.on_gpus() > 0)
    throw Error(fmt::format("\"{}\" has rows in GPU memory, which the cpu cannot reach", spec_.name));
}

void HostBackend::gather(const RowIds& ids, const RowsOut& out, const cuda::Stream& stream,
                         ThreadPool& pool) const {
  need_cpu(stream);
  gather_on_cpu(rows(), ids, out, checked_, pool);
}

void HostBackend::decode(const CodedRows& coded, float* out, const cuda::Stream& stream,
                         ThreadPool& pool) const {
  if (stream.device().is_cuda()) refuse(stream);
  decode_on_cpu(spec_.code, coded, out, pool);
}

void HostBackend::count_strata(const RowIds& ids, Count* counts, const cuda::Stream& stream) const {
  need_cpu(stream);
  count_on_cpu(rows(), ids, counts);
}

void HostBackend::scatter(const RowIds& ids, const RowsIn& in, const cuda::Stream& stream, ThreadPool& pool) {
  need_cpu(stream);
  scatter_on_cpu(rows(), ids, in, checked_, pool);
}

}  // namespace strata::tensor
