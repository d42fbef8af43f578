// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "gpu_strata.hpp"
#include "host_path/host_workers_cpu.hpp"
#include "strata/cuda/buffer.hpp"
#include "strata/cuda/check.cuh"
#include "strata/cuda/device.hpp"
#include "strata/cuda/stream.hpp"
#include "strata/util/error.hpp"
#include "strata/util/log.hpp"
#include "strata/util/text.hpp"

namespace strata::tensor {
namespace {

/// Reads over NVLink and PCIe are fastest with few threads, which also leaves SMs to training. Measured: the
/// threads of 24 of 132 SMs read 441 GB/s from three peers, those of all SMs 430.
int multiprocessors_for_wires(int all) { return std::max(1, all * 18 / 100); }

}  // namespace

GpuStrata::GpuStrata(Device device, const TensorSpec& spec, const comm::Resources& resources)
    : device_(device),
      resources_(resources),
      spec_(spec),
      multiprocessors_(cuda::num_multiprocessors(device.index)),
      bad_(cuda::Memory::device, 1, "the check of ids", device),
      copier_(device) {
  table_.rows = spec.rows;
  table_.row_bytes = static_cast<Count>(spec.row_bytes());
  table_.row_pitch = static_cast<Count>(spec.row_pitch());
  cuda::fill_async(bad_.data(), 0, sizeof(BadId), copier_);
  if (const auto& books = spec.code.codebooks; books != nullptr) {
    codebooks_.reserve(cuda::Memory::device, std::ssize(*books), "codebooks", device);
    cuda::copy_async(codebooks_.data(), books->data(), books->size() * sizeof(float), copier_);
  }
  copier_.synchronize();
}

void GpuStrata::allocate(const comm::Machine& machine, const Placement& placement) {
  is_alone_ = machine.size() == 1;
  const Layout layout(placement);
  const std::size_t replica_bytes =
      static_cast<std::size_t>(layout.rows(Stratum::replicated)) * spec_.row_pitch();
  if (!spec_.scatters) {
    machine.together([&] {
      replicated_ = cuda::Buffer(cuda::Memory::device, replica_bytes,
                                 fmt::format("the replicated rows of \"{}\"", spec_.name), device_);
    });
  }
  if (spec_.scatters && replica_bytes > 0)
    replicas_ = share(machine, {gpus_of(machine), replica_bytes, "replicated"}, missing_.replicas);
  if (layout.rows(Stratum::striped) == 0) return;
  const GpuMap gpus = gpus_of(machine, placement.idle_gpus);
  const Count blocks = (layout.rows(Stratum::striped) + placement.stripe_rows - 1) / placement.stripe_rows;
  const Count rows_per_gpu = (blocks + gpus.size() - 1) / gpus.size() * placement.stripe_rows;
  table_.stripes = Stripes::of(placement.stripe_rows, gpus.size());
  stripes_ = share(machine, {gpus, static_cast<std::size_t>(rows_per_gpu) * spec_.row_pitch(), "striped"},
                   missing_.stripes);
}

std::unique_ptr<PeerMemory> GpuStrata::share(const comm::Machine& machine, const Shared& what,
                                             bool& missing) {
  mine_ = what.gpus.mine;
  missing = what.gpus.size() > kMaxStripeGpus;
  if (missing) {
    missing_.reason =
        fmt::format("{} GPUs are more than the {} that can be shared", what.gpus.size(), kMaxStripeGpus);
    return nullptr;
  }
  PeerMemory::Result peers = PeerMemory::create(machine, what.gpus, what.bytes_per_gpu,
                                                fmt::format("the {} rows of \"{}\"", what.kind, spec_.name));
  missing = peers.memory == nullptr;
  if (missing) missing_.reason = peers.reason;
  return std::move(peers.memory);
}

void GpuStrata::adopt(const Layout& layout, std::byte* host_rows) {
  const cuda::DeviceGuard guard(device_);
  layout_ = layout;
  table_.replicated = replicas_ ? replicas_->pointers()[static_cast<std::size_t>(mine_)]
                                : static_cast<std::byte*>(replicated_.data());
  table_.host = host_rows;
  if (stripes_) {
    std::ranges::copy(stripes_->pointers(), table_.stripe_data.begin());
  }
  const std::vector<SegmentLayout>& segments = layout.segments();
  table_.num_segments = static_cast<int>(segments.size());
  if (table_.num_segments <= kInlineSegments) {
    std::ranges::copy(segments, table_.inline_segments.begin());
    return;
  }
  const std::size_t bytes = segments.size() * sizeof(SegmentLayout);
  segments_ = cuda::Buffer(cuda::Memory::device, bytes, "segments", device_);
  cuda::copy_async(segments_.data(), segments.data(), bytes, copier_);
  copier_.synchronize();
  table_.device_segments = static_cast<const SegmentLayout*>(segments_.data());
}

void GpuStrata::write(const Layout::Run& run, const std::byte* rows) {
  copy(run, const_cast<std::byte*>(rows), true);  // only read
}

void GpuStrata::read(const Layout::Run& run, std::byte* rows) const { copy(run, rows, false); }

void GpuStrata::copy(const Layout::Run& run, std::byte* rows, bool to_stratum) const {
  const cuda::DeviceGuard guard(device_);
  if (run.location.stratum == Stratum::striped) return copy_stripes(run, rows, to_stratum);
  std::byte* stratum = run.location.stratum == Stratum::host ? table_.host : table_.replicated;
  copy_rows({stratum + run.location.row * table_.row_pitch, rows, run.count, to_stratum});
}

void GpuStrata::copy_rows(const Copy& c) const {
  if (c.count == 0) return;
  const auto pitch = static_cast<std::size_t>(table_.row_pitch),
             width = static_cast<std::size_t>(table_.row_bytes);
  const cuda::PitchedRows stratum{c.stratum, pitch}, dense{c.rows, width};
  cuda::copy_rows_async({.to = c.to_stratum ? stratum : dense,
                         .from = c.to_stratum ? dense : stratum,
                         .row_bytes = width,
                         .rows = static_cast<std::size_t>(c.count)},
                        copier_);
}

// A GPU has every num_gpus-th whole block of the rows, and these are contiguous in its stratum. So one 2-D
// copy per GPU suffices; one copy per block would cost microseconds for a few KiB. Padded rows are copied
// block by block.
void GpuStrata::copy_stripes(const Layout::Run& run, std::byte* rows, bool to_stratum) const {
  const Count stripe = table_.stripes.rows, first = run.location.row, end = first + run.count;
  const Count whole_begin = std::min(end, (first + stripe - 1) / stripe * stripe);
  const Count whole_end = std::max(whole_begin, end / stripe * stripe);
  const auto dense = [&](Count row) { return rows + (row - first) * table_.row_bytes; };
  const auto stratum = [&](Count row) {
    const StripeLocation at = locate_stripe(row, table_.stripes);
    return table_.stripe_data[static_cast<std::size_t>(at.gpu)] + at.row * table_.row_pitch;
  };
  copy_rows({stratum(first), rows, whole_begin - first, to_stratum});
  if (whole_end < end) copy_rows({stratum(whole_end), dense(whole_end), end - whole_end, to_stratum});
  if (table_.row_pitch != table_.row_bytes) {
    for (Count row = whole_begin; row < whole_end; row += stripe)
      copy_rows({stratum(row), dense(row), stripe, to_stratum});
    return;
  }
  const Count num_blocks = (whole_end - whole_begin) / stripe, gpus = table_.stripes.num_gpus;
  const auto block_bytes = static_cast<std::size_t>(stripe * table_.row_bytes);
  for (Count block = 0; block < std::min(num_blocks, gpus); ++block) {
    const Count row = whole_begin + block * stripe;
    const auto height = static_cast<std::size_t>((num_blocks - block + gpus - 1) / gpus);
    const cuda::PitchedRows inside{stratum(row), block_bytes},
        outside{dense(row), block_bytes * static_cast<std::size_t>(gpus)};
    cuda::copy_rows_async({.to = to_stratum ? inside : outside,
                           .from = to_stratum ? outside : inside,
                           .row_bytes = block_bytes,
                           .rows = height},
                          copier_);
  }
}

RowFormat GpuStrata::format_of(DType out, Count out_pitch) const {
  return {.stored = spec_.dtype,
          .out = out,
          .cols = spec_.cols,
          .out_pitch = out_pitch > 0 ? out_pitch : spec_.gathered_cols(out),
          .scale = spec_.scale,
          .code = out == spec_.dtype ? RowCode::Kind::none : spec_.code.kind,
          .codebooks = codebooks_.data()};
}

void GpuStrata::configure(GatherSettings& settings) {
  constexpr Count kLargeBytes = Count{1} << 30;  // smaller tables are translated without misses
  constexpr int kEnoughCores = 4;
  const Count host_bytes = layout_.rows(Stratum::host) * table_.row_pitch;
  if (settings.host_path == HostPath::automatic) {
    const bool worth_it = host_bytes > kLargeBytes && resources_.cores >= kEnoughCores;
    settings.host_path = worth_it ? HostPath::both : HostPath::zero_copy;
  }
  if (settings.threads == 0) settings.threads = default_host_threads(resources_.cores);
  settings_ = settings;
  threaded_.reset();
  if (settings.host_path == HostPath::zero_copy || host_bytes == 0) return;
  HostGather::Options options{.threads = settings.threads,
                              .processors = resources_.own_processors,
                              .share = settings.host_path == HostPath::threads ? 1 : settings.threads_share};
  options.zero_copy.multiprocessors = settings.multiprocessors;
  options.zero_copy.aligned = settings.aligned_reads;
  const cuda::DeviceGuard guard(device_);
  threaded_ = std::make_unique<ThreadedGather>(device_, table_, layout_.rows(Stratum::host), options);
}

LaunchShape GpuStrata::shape() const {
  // If all rows are replicated, row r of the tensor is row r of the stratum.
  const bool local = layout_.rows(Stratum::replicated) == spec_.rows;
  LaunchShape shape{.aligned = settings_.aligned_reads, .local = local};
  if (layout_.rows(Stratum::replicated) == 0)
    shape.multiprocessors = multiprocessors_for_wires(multiprocessors_);
  if (settings_.multiprocessors > 0)
    shape.multiprocessors = std::min(settings_.multiprocessors, multiprocessors_);
  if (stripes_) shape.start = (Count{1} << 20) * mine_ / table_.stripes.num_gpus;
  return shape;
}

void GpuStrata::gather(const RowIds& ids, const RowsOut& out, const cuda::Stream& stream) const {
  const RowGather gather{RowList::of(ids), format_of(out.dtype, out.pitch), out.data, ids.sorted};
  if (threaded_) return threaded_->gather(table_, gather, shape(), stream);
  gather_on_gpu(table_, gather, shape(), stream);
}

void GpuStrata::decode(const CodedRows& coded, float* out, const cuda::Stream& stream) const {
  decode_on_gpu(coded, table_.row_bytes, format_of(DType::f32, spec_.cols), out, stream);
}

void GpuStrata::count_strata(const RowIds& ids, Count* counts, const cuda::Stream& stream) const {
  count_strata_on_gpu(table_, RowList::of(ids), counts, stream);
}

void GpuStrata::scatter(const RowIds& ids, const RowsIn& in, const cuda::Stream& stream) const {
  Replicas replicas;
  if (replicas_) {
    std::ranges::copy(replicas_->pointers(), replicas.data.begin());
    replicas.count = static_cast<int>(replicas_->pointers().size());
  } else if (table_.replicated != nullptr) {
    replicas.data[0] = table_.replicated;
    replicas.count = 1;
  }
  scatter_on_gpu(table_, RowList::of(ids), format_of(spec_.dtype, in.pitch), in.data, replicas,
                 {.multiprocessors = multiprocessors_}, stream);
}

BadId GpuStrata::take_bad_id(const cuda::Stream& stream) const {
  BadId bad;
  cuda::copy_async(&bad, bad_.data(), sizeof(bad), stream);
  cuda::fill_async(bad_.data(), 0, sizeof(bad), stream);
  stream.synchronize();
  return bad;
}

std::vector<StratumView> GpuStrata::views() const {
  std::vector<StratumView> views;
  const std::size_t pitch = spec_.row_pitch();
  if (layout_.rows(Stratum::replicated) > 0)
    views.push_back(
        {Stratum::replicated, device_, table_.replicated, layout_.rows(Stratum::replicated), pitch});
  if (stripes_) {
    const StripeLocation end = locate_stripe(layout_.rows(Stratum::striped), table_.stripes);
    const Count stripe = table_.stripes.rows, whole_rounds = end.row / stripe * stripe;
    const Count rows = mine_ < end.gpu ? whole_rounds + stripe : mine_ == end.gpu ? end.row : whole_rounds;
    views.push_back(
        {Stratum::striped, device_, stripes_->pointers()[static_cast<std::size_t>(mine_)], rows, pitch});
  }
  return views;
}

ArrayStrata GpuStrata::array_strata() const {
  ArrayStrata strata{.replicated = table_.replicated, .stripes = table_.stripes};
  std::ranges::copy(table_.stripe_data, strata.stripe_data.begin());
  return strata;
}

void GpuStrata::close(const comm::Machine& machine) {
  threaded_.reset();
  for (std::unique_ptr<PeerMemory>* peers : {&stripes_, &replicas_}) {
    if (*peers) (*peers)->close(machine);
    peers->reset();
  }
}

void move_missing_to_host(const comm::Machine& machine, const TensorSpec& spec,
                          const GpuStrata::Missing& missing, Placement& placement) {
  Count moved = 0;
  for (Segment& s : placement.segments) {
    if (missing.stripes) moved += s.move(Stratum::striped, Stratum::host);
    if (missing.replicas) moved += s.move(Stratum::replicated, Stratum::host);
  }
  if (moved == 0 || machine.rank() > 0) return;
  spdlog::info("{}: {} rows on GPUs go to host memory: {}", spec.name, format_count(moved), missing.reason);
}

}  // namespace strata::tensor
