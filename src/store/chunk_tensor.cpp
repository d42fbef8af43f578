#include "strata/store/chunk_tensor.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "agreement.hpp"
#include "gather.hpp"
#include "layout.hpp"
#include "strata/util/error.hpp"
#include "strata/util/format.hpp"
#include "strata/util/log.hpp"
#if STRATA_WITH_CUDA
#include "gpu_strata.hpp"
#endif

namespace strata::store {
namespace {

bool wants_gpu(const Placement& placement) {
  return std::ranges::any_of(placement.segments,
                             [](const Segment& s) { return s.replicated + s.striped > 0; });
}

bool every_rank_has_gpu(const comm::Machine& machine) {
  std::int64_t gpus = machine.device().is_cuda() ? 1 : 0;
  machine.communicator().all_reduce(std::span(&gpus, 1), comm::Communicator::Op::min);
  return gpus == 1;
}

void log_once(const comm::Machine& machine, const std::string& line) {
  if (machine.rank() == 0) spdlog::info("{}", line);
}

void move_all_to_host(Placement& placement, Count rows) { placement.segments = {{.host = rows}}; }

#if STRATA_WITH_CUDA
void move_stripes_to_host(Placement& placement) {
  for (Segment& s : placement.segments) s.host += std::exchange(s.striped, 0);
}
#endif

}  // namespace

struct ChunkTensor::State {
  TensorSpec spec;
  Placement placement;
  Layout layout;
  Device device;
  HostRegion host;
#if STRATA_WITH_CUDA
  std::unique_ptr<GpuStrata> gpu;  // null if this rank computes on the cpu
#endif

  bool on_host() const { return layout.host_rows() == spec.rows; }
};

ChunkTensor ChunkTensor::create(const comm::Machine& machine, const TensorSpec& spec,
                                const Placement& placement) {
  validate(spec, placement);
  Placement realised = placement;
  if (wants_gpu(realised) && !every_rank_has_gpu(machine)) {
    log_once(machine,
             fmt::format("{}: all {} rows go to host memory, for not every rank of the machine has a GPU",
                         spec.name, format_count(spec.rows)));
    move_all_to_host(realised, spec.rows);
  }
#if STRATA_WITH_CUDA
  std::unique_ptr<GpuStrata> gpu;
  agree(machine.communicator(), [&] {
    if (machine.device().is_cuda()) gpu = std::make_unique<GpuStrata>(machine.device(), spec);
  });
  if (wants_gpu(realised)) {
    gpu->allocate(machine, spec.name, realised);
    if (const Count striped = Layout(realised).striped_rows(); striped > 0 && !gpu->has_stripes()) {
      log_once(machine, fmt::format("{}: {} striped rows go to host memory: {}", spec.name,
                                    format_count(striped), gpu->why_no_stripes()));
      move_stripes_to_host(realised);
    }
  }
#endif
  if (!wants_gpu(realised)) move_all_to_host(realised, spec.rows);
  Layout layout(realised);
  const std::size_t host_bytes = static_cast<std::size_t>(layout.host_rows()) * spec.row_bytes();
  HostRegion host =
      HostRegion::create(machine, host_bytes, fmt::format("the host rows of \"{}\"", spec.name));
#if STRATA_WITH_CUDA
  agree(machine.communicator(), [&] {
    if (gpu) gpu->adopt(layout, host.data());
  });
#endif
  auto state = std::make_unique<State>(State {
    spec, std::move(realised), std::move(layout), machine.device(), std::move(host)
#if STRATA_WITH_CUDA
                                                                        ,
        std::move(gpu)
#endif
  });
  return ChunkTensor(std::move(state));
}

ChunkTensor::ChunkTensor(std::unique_ptr<State> state) : state_(std::move(state)) {}
ChunkTensor::ChunkTensor(ChunkTensor&&) noexcept = default;
ChunkTensor& ChunkTensor::operator=(ChunkTensor&&) noexcept = default;
ChunkTensor::~ChunkTensor() = default;

const TensorSpec& ChunkTensor::spec() const { return state_->spec; }
const Placement& ChunkTensor::placement() const { return state_->placement; }

void ChunkTensor::write_rows(Count first, Count count, const void* rows) {
  const std::size_t row_bytes = state_->spec.row_bytes();
  if (first < 0 || count < 0 || first + count > state_->spec.rows) {
    throw Error(fmt::format("rows {} to {} are not in \"{}\" of {} rows", first, first + count,
                            state_->spec.name, state_->spec.rows));
  }
  if (row_bytes == 0) return;
  state_->layout.for_each_run(first, count, [&](const Layout::Run& run) {
    const auto* source =
        static_cast<const std::byte*>(rows) + static_cast<std::size_t>(run.first - first) * row_bytes;
    if (run.location.stratum == Stratum::host) {
      std::memcpy(state_->host.data() + static_cast<std::size_t>(run.location.row) * row_bytes, source,
                  static_cast<std::size_t>(run.count) * row_bytes);
      return;
    }
#if STRATA_WITH_CUDA
    state_->gpu->write(run, source);
#endif
  });
#if STRATA_WITH_CUDA
  if (state_->gpu) state_->gpu->finish_writes();
#endif
}

void ChunkTensor::gather(const RowIds& ids, float* out, [[maybe_unused]] const cuda::Stream& stream,
                         ThreadPool& pool) const {
#if STRATA_WITH_CUDA
  if (stream.device().is_cuda()) {
    if (!state_->gpu || !(stream.device() == state_->device)) {
      throw Error(fmt::format("\"{}\" cannot be read by {}: this rank loaded it for {}", state_->spec.name,
                              stream.device().str(), state_->device.str()));
    }
    return state_->gpu->gather(ids, out, stream);
  }
#endif
  if (!state_->on_host()) {
    throw Error(fmt::format("\"{}\" has rows in GPU memory, which the cpu cannot gather", state_->spec.name));
  }
  gather_on_cpu({.spec = &state_->spec, .data = state_->host.data()}, ids, out, pool);
}

std::byte* ChunkTensor::host_data() const { return state_->on_host() ? state_->host.data() : nullptr; }

void ChunkTensor::close(const comm::Machine& machine) {
#if STRATA_WITH_CUDA
  if (state_->gpu) state_->gpu->close(machine);
  state_->gpu.reset();
#endif
  machine.barrier();
  state_->host = HostRegion::create(machine, 0, state_->spec.name);
}

}  // namespace strata::store
