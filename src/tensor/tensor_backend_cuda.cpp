// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include "gpu_strata.hpp"
#include "host_backend.hpp"
#include "strata/cuda/buffer.hpp"
#include "strata/util/error.hpp"
#include "tensor_backend.hpp"

namespace strata::tensor {
namespace {

/// Kernels of the rank's GPU reach all strata. The cpu of the rank reaches the tensor, too, if all rows lie
/// on the host.
class GpuBackend final : public TensorBackend {
 public:
  GpuBackend(Device device, const TensorSpec& spec, const comm::Resources& resources)
      : device_(device), spec_(spec), host_(device, spec), gpu_(device, spec, resources) {}

  void allocate(const comm::Machine& machine, Placement& placement) override {
    gpu_.allocate(machine, placement);
    move_missing_to_host(machine, spec_, gpu_.missing(), placement);
  }
  void adopt(const Layout& layout, std::byte* host_rows, RowStorage* /*storage*/) override {
    if (layout.rows(Stratum::storage) > 0)
      throw InputError(fmt::format("\"{}\" has rows in storage, which GPUs cannot read", spec_.name));
    layout_ = layout;
    host_.adopt(layout, host_rows, nullptr);
    gpu_.adopt(layout, host_rows);
  }
  void configure(GatherSettings& settings) override { gpu_.configure(settings); }
  std::vector<StratumView> views() const override {
    std::vector<StratumView> views = gpu_.views();
    for (const StratumView& view : host_.views()) views.push_back(view);
    return views;
  }

  void write_rows(Count first, Count count, const std::byte* rows) override;
  void read_rows(Count first, Count count, std::byte* rows) const override;
  void gather(const RowIds& ids, const RowsOut& out, const cuda::Stream& stream,
              ThreadPool& pool) const override;
  void decode(const CodedRows& coded, float* out, const cuda::Stream& stream,
              ThreadPool& pool) const override;
  void count_strata(const RowIds& ids, Count* counts, const cuda::Stream& stream) const override;
  void scatter(const RowIds& ids, const RowsIn& in, const cuda::Stream& stream, ThreadPool& pool) override;

  void check_ids(bool on) override {
    host_.check_ids(on);
    gpu_.check_ids(on);
  }
  void verify(const cuda::Stream& stream) const override;
  void close(const comm::Machine& machine) override { gpu_.close(machine); }

 private:
  /// Whether the stream is the GPU's. Throws Error for another GPU.
  bool is_for_gpu(const cuda::Stream& stream) const {
    if (!stream.device().is_cuda()) return false;
    if (stream.device() != device_) host_.refuse(stream);
    return true;
  }
  std::size_t offset_of(const Layout::Run& run, Count first) const {
    return at(run.first - first) * spec_.row_bytes();
  }

  Device device_;
  TensorSpec spec_;
  Layout layout_;
  HostBackend host_;
  GpuStrata gpu_;
};

void GpuBackend::write_rows(Count first, Count count, const std::byte* rows) {
  const bool from_gpu = cuda::is_device_memory(rows);
  layout_.for_each_run(first, count, [&](const Layout::Run& run) {
    const std::byte* const from = rows + offset_of(run, first);
    if (run.location.stratum == Stratum::host && !from_gpu) return host_.write_run(run, from);
    gpu_.write(run, from);
  });
  gpu_.finish_copies();
}

void GpuBackend::read_rows(Count first, Count count, std::byte* rows) const {
  layout_.for_each_run(first, count, [&](const Layout::Run& run) {
    std::byte* const to = rows + offset_of(run, first);
    if (run.location.stratum == Stratum::host) return host_.read_run(run, to);
    gpu_.read(run, to);
  });
  gpu_.finish_copies();
}

void GpuBackend::gather(const RowIds& ids, const RowsOut& out, const cuda::Stream& stream,
                        ThreadPool& pool) const {
  if (!is_for_gpu(stream)) return host_.gather(ids, out, stream, pool);
  gpu_.gather(ids, out, stream);
}

void GpuBackend::decode(const CodedRows& coded, float* out, const cuda::Stream& stream,
                        ThreadPool& pool) const {
  if (!is_for_gpu(stream)) return host_.decode(coded, out, stream, pool);
  gpu_.decode(coded, out, stream);
}

void GpuBackend::count_strata(const RowIds& ids, Count* counts, const cuda::Stream& stream) const {
  if (!is_for_gpu(stream)) return host_.count_strata(ids, counts, stream);
  gpu_.count_strata(ids, counts, stream);
}

void GpuBackend::scatter(const RowIds& ids, const RowsIn& in, const cuda::Stream& stream, ThreadPool& pool) {
  if (!is_for_gpu(stream)) return host_.scatter(ids, in, stream, pool);
  if (!gpu_.can_scatter()) {
    throw Error(fmt::format("\"{}\" has replicated rows, but was not made for scatters", spec_.name),
                "Set TensorSpec::scatters.");
  }
  gpu_.scatter(ids, in, stream);
}

void GpuBackend::verify(const cuda::Stream& stream) const {
  const BadId bad = gpu_.take_bad_id(stream);
  if (bad.found == 0) return;
  throw Error(fmt::format("id {} at position {} is not a row of \"{}\" of {} rows", bad.id, bad.position,
                          spec_.name, spec_.rows));
}

}  // namespace

std::unique_ptr<TensorBackend> make_backend(Device device, const TensorSpec& spec,
                                            const comm::Resources& resources) {
  if (device.is_cuda()) return std::make_unique<GpuBackend>(device, spec, resources);
  return std::make_unique<HostBackend>(device, spec);
}

}  // namespace strata::tensor
