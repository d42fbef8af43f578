#include "array_copies.hpp"
#include "shares.hpp"
#include "strata/comm/resources.hpp"

namespace strata::store {
namespace {

/// Of a block of stripes: long enough for most lists to lie on one GPU.
constexpr Count kStripeElements = 4096;

}  // namespace

ArrayCopies::ArrayCopies(const comm::Machine& machine, const HostElements& array, Placement placement)
    : placement_(std::move(placement)) {
  placement_.stripe_rows = kStripeElements;
  const TensorSpec spec{.name = array.name, .rows = array.size, .dtype = array.dtype};
  validate(spec, placement_);
  machine.together(
      [&] { copies_ = std::make_unique<GpuStrata>(machine.device(), spec, comm::resources_of(machine)); });
  copies_->allocate(machine, placement_);
  move_lacking_to_host(machine, spec, copies_->lacks(), placement_);
  const Layout layout(placement_);
  machine.together([&] {
    copies_->adopt(layout, nullptr);
    fill(machine, array, layout);
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
  });
  machine.barrier();  // stripes are read once all ranks have written their shares
}

void ArrayCopies::fill(const comm::Machine& machine, const HostElements& array, const Layout& layout) {
  const auto width = static_cast<Count>(size_of(array.dtype));
  const auto* elements = static_cast<const std::byte*>(array.data);
  layout.for_each_run(0, array.size, [&](const Layout::Run& run) {
    if (run.location.stratum == Stratum::host) return;
    const Range all{run.first, run.count};
    const Range own =
        run.location.stratum == Stratum::replicated ? all : share_of(all, machine.rank(), machine.size());
    layout.for_each_run(own.first, own.count, [&](const Layout::Run& part) {
      copies_->write(part, elements + part.first * width);
    });
  });
  copies_->finish_copies();
}

}  // namespace strata::store
