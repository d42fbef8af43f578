// SPDX-License-Identifier: Apache-2.0
#include "gpu_strata.hpp"
#include "strata/comm/machine.hpp"
#include "strata/cuda/buffer.hpp"
#include "strata/cuda/stream.hpp"
#include "strata/tensor/array_copies.hpp"
#include "strata/util/ranges.hpp"

namespace strata::tensor {
namespace {

/// Elements per block of stripes: enough that most neighbor lists lie on one GPU.
constexpr Count kStripeElements = 4096;

}  // namespace

ArrayCopies::ArrayCopies(const comm::Machine& machine, const TensorSpec& array, Placement placement)
    : placement_(std::move(placement)),
      size_(array.rows),
      element_bytes_(static_cast<Count>(size_of(array.dtype))) {
  placement_.stripe_rows = kStripeElements;
  validate(array, placement_);
  machine.together(
      [&] { copies_ = std::make_unique<GpuStrata>(machine.device(), array, comm::resources_of(machine)); });
  copies_->allocate(machine, placement_);
  move_missing_to_host(machine, array, copies_->missing(), placement_);
  machine.together([&] { adopt(machine); });
}

ArrayCopies::ArrayCopies(ArrayCopies&&) noexcept = default;
ArrayCopies& ArrayCopies::operator=(ArrayCopies&&) noexcept = default;
ArrayCopies::~ArrayCopies() = default;

void ArrayCopies::adopt(const comm::Machine& machine) {
  const Layout layout(placement_);
  copies_->adopt(layout, nullptr);
  const std::vector<SegmentLayout>& segments = layout.segments();
  strata_ = copies_->array_strata();
  strata_.num_segments = static_cast<int>(segments.size());
  strata_.only = segments.front();
  if (segments.size() == 1) return;
  const cuda::Stream stream(machine.device());
  const std::size_t bytes = segments.size() * sizeof(SegmentLayout);
  segments_ = cuda::Buffer(cuda::Memory::device, bytes, "segments", machine.device());
  cuda::copy_async(segments_.data(), segments.data(), bytes, stream);
  stream.synchronize();
  strata_.segments = static_cast<const SegmentLayout*>(segments_.data());
}

void ArrayCopies::fill(const comm::Machine& machine, const void* elements) {
  machine.together([&] { write_share(machine, static_cast<const std::byte*>(elements)); });
  machine.barrier();  // stripes may be read when all ranks have written their shares
}

void ArrayCopies::write_share(const comm::Machine& machine, const std::byte* elements) const {
  const Layout layout(placement_);
  layout.for_each_run(0, size_, [&](const Layout::Run& run) {
    if (run.location.stratum == Stratum::host) return;
    const Range all{run.first, run.count};
    const Range own =
        run.location.stratum == Stratum::replicated ? all : share_of(all, machine.rank(), machine.size());
    layout.for_each_run(own.first, own.count, [&](const Layout::Run& part) {
      copies_->write(part, elements + part.first * element_bytes_);
    });
  });
  copies_->finish_copies();
}

void ArrayCopies::close(const comm::Machine& machine) { copies_->close(machine); }

}  // namespace strata::tensor
