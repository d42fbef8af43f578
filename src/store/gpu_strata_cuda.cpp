#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "agreement.hpp"
#include "gpu_strata.hpp"
#include "strata/cuda/check.cuh"

namespace strata::store {

GpuStrata::GpuStrata(Device device, const TensorSpec& spec)
    : device_(device), row_bytes_(spec.row_bytes()), writer_(device) {
  table_.row_bytes = static_cast<Count>(row_bytes_);
  shape_ = {
      .dtype = spec.dtype, .cols = spec.cols, .num_multiprocessors = cuda::num_multiprocessors(device.index)};
}

void GpuStrata::allocate(const comm::Machine& machine, const std::string& name, const Placement& placement) {
  const Layout layout(placement);
  agree(machine.communicator(), [&] {
    replicated_ =
        cuda::Buffer(cuda::Memory::device, static_cast<std::size_t>(layout.replicated_rows()) * row_bytes_,
                     fmt::format("the replicated rows of \"{}\"", name), device_);
  });
  if (layout.striped_rows() == 0) return;
  const GpuMap gpus = gpus_of(machine);
  if (gpus.size() > kMaxStripeGpus) {
    why_no_stripes_ =
        fmt::format("{} GPUs are more than the {} that stripes go to", gpus.size(), kMaxStripeGpus);
    return;
  }
  const Count blocks = (layout.striped_rows() + placement.stripe_rows - 1) / placement.stripe_rows;
  const Count blocks_a_gpu = (blocks + gpus.size() - 1) / gpus.size();
  const std::size_t bytes = static_cast<std::size_t>(blocks_a_gpu * placement.stripe_rows) * row_bytes_;
  PeerMemory::Result peers = PeerMemory::create(machine, gpus, bytes, name);
  peers_ = std::move(peers.memory);
  why_no_stripes_ = std::move(peers.reason);
  table_.stripe_shift = stripe_shift(placement);
}

void GpuStrata::adopt(const Layout& layout, const std::byte* host_rows) {
  const cuda::DeviceGuard guard(device_);
  table_.replicated = static_cast<const std::byte*>(replicated_.data());
  table_.host = host_rows;
  if (peers_) {
    std::ranges::copy(peers_->pointers(), table_.stripes.begin());
    table_.num_gpus = static_cast<int>(peers_->pointers().size());
  }
  const std::vector<SegmentLayout>& segments = layout.segments();
  table_.num_segments = static_cast<int>(segments.size());
  if (table_.num_segments <= kInlineSegments) {
    std::ranges::copy(segments, table_.inline_segments.begin());
    return;
  }
  const std::size_t bytes = segments.size() * sizeof(SegmentLayout);
  segments_ = cuda::Buffer(cuda::Memory::device, bytes, "segments", device_);
  cuda::copy_async(segments_.data(), segments.data(), bytes, writer_);
  writer_.synchronize();
  table_.device_segments = static_cast<const SegmentLayout*>(segments_.data());
}

void GpuStrata::write(const Layout::Run& run, const std::byte* rows) {
  const cuda::DeviceGuard guard(device_);
  if (run.location.stratum == Stratum::striped) return write_stripes(run.location.row, run.count, rows);
  cuda::copy_async(
      static_cast<std::byte*>(replicated_.data()) + static_cast<std::size_t>(run.location.row) * row_bytes_,
      rows, static_cast<std::size_t>(run.count) * row_bytes_, writer_);
}

void GpuStrata::write_part_of_block(Count first, Count count, const std::byte* rows) {
  if (count == 0) return;
  const StripeLocation at = locate_stripe(first, table_.stripe_shift, table_.num_gpus);
  std::byte* target =
      peers_->pointers()[static_cast<std::size_t>(at.gpu)] + static_cast<std::size_t>(at.row) * row_bytes_;
  cuda::copy_async(target, rows, static_cast<std::size_t>(count) * row_bytes_, writer_);
}

// The whole blocks of a GPU are every num_gpus-th in the source and neighbours in the target: one 2-D copy a
// GPU, where a copy a block would cost microseconds for some KiB.
void GpuStrata::write_stripes(Count first, Count count, const std::byte* rows) {
  const Count stripe = Count{1} << table_.stripe_shift, end = first + count;
  const Count whole_begin = std::min(end, (first + stripe - 1) / stripe * stripe);
  const Count whole_end = std::max(whole_begin, end / stripe * stripe);
  const auto source = [&](Count row) { return rows + static_cast<std::size_t>(row - first) * row_bytes_; };
  write_part_of_block(first, whole_begin - first, rows);
  write_part_of_block(whole_end, end - whole_end, source(whole_end));
  const Count num_blocks = (whole_end - whole_begin) / stripe;
  const std::size_t block_bytes = static_cast<std::size_t>(stripe) * row_bytes_;
  for (Count block = 0; block < std::min<Count>(num_blocks, table_.num_gpus); ++block) {
    const Count row = whole_begin + block * stripe;
    const Count height = (num_blocks - block + table_.num_gpus - 1) / table_.num_gpus;
    const StripeLocation at = locate_stripe(row, table_.stripe_shift, table_.num_gpus);
    std::byte* target =
        peers_->pointers()[static_cast<std::size_t>(at.gpu)] + static_cast<std::size_t>(at.row) * row_bytes_;
    cuda::check(cudaMemcpy2DAsync(target, block_bytes, source(row),
                                  block_bytes * static_cast<std::size_t>(table_.num_gpus), block_bytes,
                                  static_cast<std::size_t>(height), cudaMemcpyDefault, writer_.get()),
                "cudaMemcpy2DAsync");
  }
}

void GpuStrata::gather(const RowIds& ids, float* out, const cuda::Stream& stream) const {
  gather_on_gpu(table_, shape_, ids, out, stream);
}

void GpuStrata::close(const comm::Machine& machine) {
  if (peers_) peers_->close(machine);
  peers_.reset();
}

}  // namespace strata::store
