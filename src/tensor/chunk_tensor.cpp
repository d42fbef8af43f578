// SPDX-License-Identifier: Apache-2.0
#include "strata/tensor/chunk_tensor.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <optional>
#include <utility>

#include "gather.hpp"
#include "strata/comm/resources.hpp"
#include "strata/cuda/buffer.hpp"
#include "strata/cuda/device.hpp"
#include "strata/cuda/registration.hpp"
#include "strata/cuda/stream.hpp"
#include "strata/tensor/host_region.hpp"
#include "strata/tensor/layout.hpp"
#include "strata/util/error.hpp"
#include "strata/util/format.hpp"
#include "strata/util/log.hpp"
#include "strata/util/shares.hpp"
#if STRATA_WITH_CUDA
#include "gpu_strata.hpp"
#endif

namespace strata::tensor {
namespace {

bool wants_gpu(const Placement& placement) {
  return std::ranges::any_of(placement.segments,
                             [](const Segment& s) { return s.replicated + s.striped > 0; });
}

void log_once(const comm::Machine& machine, const std::string& line) {
  if (machine.rank() == 0) spdlog::info("{}", line);
}

void move_all_to_host(Placement& placement, Count rows) { placement.segments = {{.host = rows}}; }

/// One element of the value, in the type.
std::vector<std::byte> element_of(DType dtype, double value) {
  std::vector<std::byte> bytes(size_of(dtype));
  const auto put = [&](auto typed) { std::memcpy(bytes.data(), &typed, sizeof(typed)); };
  switch (dtype) {
    case DType::f32:
      put(static_cast<float>(value));
      break;
    case DType::f16:
      put(f32_to_f16(static_cast<float>(value)));
      break;
    case DType::bf16:
      put(f32_to_bf16(static_cast<float>(value)));
      break;
    case DType::f64:
      put(value);
      break;
    case DType::i8:
      put(static_cast<std::int8_t>(value));
      break;
    case DType::u8:
      put(static_cast<std::uint8_t>(value));
      break;
    case DType::i32:
      put(static_cast<std::int32_t>(value));
      break;
    case DType::i64:
      put(static_cast<std::int64_t>(value));
      break;
  }
  return bytes;
}

}  // namespace

struct ChunkTensor::State {
  TensorSpec spec;
  Placement placement;
  Layout layout;
  Device device;
  std::optional<HostRegion> region;        // of a created tensor
  std::shared_ptr<const void> keep_alive;  // of a wrapped one
  cuda::Registration registration;         // likewise; ends before the memory
  std::byte* host = nullptr;
  GatherSettings settings;
  bool checked = false;
#if STRATA_WITH_CUDA
  std::unique_ptr<GpuStrata> gpu;  // null if this rank computes on the cpu
#endif

  bool on_host() const { return layout.host_rows() == spec.rows; }
  HostRows host_rows() const { return {.spec = &spec, .data = host}; }

  void check_range(Count first, Count count) const {
    if (first >= 0 && count >= 0 && first + count <= spec.rows) return;
    throw Error(fmt::format("rows {} to {} are not in \"{}\" of {} rows", first, first + count, spec.name,
                            spec.rows));
  }

  /// Calls copy(address in host memory, dense row, bytes) for host rows.
  template <typename CopyBytes>
  void for_host_run(const Layout::Run& run, std::byte* rows, CopyBytes&& copy) const {
    const std::size_t bytes = spec.row_bytes(), pitch = spec.row_pitch();
    std::byte* target = host + static_cast<std::size_t>(run.location.row) * pitch;
    if (pitch == bytes) return copy(target, rows, static_cast<std::size_t>(run.count) * bytes);
    for (Count r = 0; r < run.count; ++r)
      copy(target + static_cast<std::size_t>(r) * pitch, rows + static_cast<std::size_t>(r) * bytes, bytes);
  }

  void need_this_device(const cuda::Stream& stream) const {
#if STRATA_WITH_CUDA
    if (gpu && stream.device() == device) return;
#endif
    throw Error(fmt::format("\"{}\" cannot be used by {}: this rank loaded it for {}", spec.name,
                            stream.device().str(), device.str()));
  }
  void need_host_rows() const {
    if (!on_host())
      throw Error(fmt::format("\"{}\" has rows in GPU memory, which the cpu cannot reach", spec.name));
  }
};

ChunkTensor ChunkTensor::create(const comm::Machine& machine, const TensorSpec& spec,
                                const Placement& placement) {
  validate(spec, placement);
  Placement realised = placement;
  if (wants_gpu(realised) && !comm::computes_on_gpus(machine)) {
    log_once(machine,
             fmt::format("{}: all {} rows go to host memory, for not every rank of the machine has a GPU",
                         spec.name, format_count(spec.rows)));
    move_all_to_host(realised, spec.rows);
  }
  auto state = std::make_unique<State>();
  state->spec = spec;
  state->device = machine.device();
#if STRATA_WITH_CUDA
  machine.together([&] {
    if (machine.device().is_cuda())
      state->gpu = std::make_unique<GpuStrata>(machine.device(), spec, comm::resources_of(machine));
  });
  if (wants_gpu(realised)) {
    state->gpu->allocate(machine, realised);
    move_missing_to_host(machine, spec, state->gpu->missing(), realised);
  }
#endif
  if (!wants_gpu(realised)) move_all_to_host(realised, spec.rows);
  state->layout = Layout(realised);
  state->placement = std::move(realised);
  const std::size_t host_bytes = static_cast<std::size_t>(state->layout.host_rows()) * spec.row_pitch();
  state->region.emplace(
      HostRegion::create(machine, host_bytes, fmt::format("the host rows of \"{}\"", spec.name)));
  state->host = state->region->data();
#if STRATA_WITH_CUDA
  machine.together([&] {
    if (!state->gpu) return;
    state->gpu->adopt(state->layout, state->host);
    state->gpu->configure(state->settings);
  });
#endif
  return ChunkTensor(std::move(state));
}

ChunkTensor ChunkTensor::wrap(Device device, const TensorSpec& spec, void* rows,
                              std::shared_ptr<const void> keep_alive) {
  auto state = std::make_unique<State>();
  state->spec = spec;
  state->placement = Placement::on_host(spec.rows);
  validate(spec, state->placement);
  state->layout = Layout(state->placement);
  state->device = device;
  state->keep_alive = std::move(keep_alive);
  state->host = static_cast<std::byte*>(rows);
#if STRATA_WITH_CUDA
  if (device.is_cuda()) {
    const cuda::DeviceGuard guard(device);
    state->registration = cuda::Registration(rows, static_cast<std::size_t>(spec.rows) * spec.row_pitch());
    state->gpu = std::make_unique<GpuStrata>(device, spec, comm::Resources::of_process());
    state->gpu->adopt(state->layout, state->host);
    state->gpu->configure(state->settings);
  }
#endif
  return ChunkTensor(std::move(state));
}

ChunkTensor::ChunkTensor(std::unique_ptr<State> state) : state_(std::move(state)) {}
ChunkTensor::ChunkTensor(ChunkTensor&&) noexcept = default;
ChunkTensor& ChunkTensor::operator=(ChunkTensor&&) noexcept = default;
ChunkTensor::~ChunkTensor() = default;

const TensorSpec& ChunkTensor::spec() const { return state_->spec; }
const Placement& ChunkTensor::placement() const { return state_->placement; }
const GatherSettings& ChunkTensor::settings() const { return state_->settings; }

void ChunkTensor::configure(const GatherSettings& settings) {
  if (settings.threads < 0 || settings.multiprocessors < 0 || settings.threads_share < 0 ||
      settings.threads_share > 1) {
    throw InputError(fmt::format(
        "gathers of \"{}\": {} threads, {} multiprocessors and a share of {} are not all in range",
        state_->spec.name, settings.threads, settings.multiprocessors, settings.threads_share));
  }
  if (settings.host_path == HostPath::copy && !state_->on_host()) {
    throw InputError(fmt::format("\"{}\" has rows on GPUs, but is to be gathered on the CPU and copied",
                                 state_->spec.name),
                     "Leave all rows on the host (--placement features=0/0/100), or gather in another way.");
  }
  state_->settings = settings;
#if STRATA_WITH_CUDA
  if (state_->gpu) state_->gpu->configure(state_->settings);
#endif
}

std::vector<StratumView> ChunkTensor::views() const {
  std::vector<StratumView> views;
#if STRATA_WITH_CUDA
  if (state_->gpu) views = state_->gpu->views();
#endif
  if (state_->layout.host_rows() > 0)
    views.push_back(
        {Stratum::host, Device(), state_->host, state_->layout.host_rows(), state_->spec.row_pitch()});
  return views;
}

void ChunkTensor::write_rows(Count first, Count count, const void* rows) {
  state_->check_range(first, count);
  if (state_->spec.row_bytes() == 0) return;
#if STRATA_WITH_CUDA
  const bool from_gpu = state_->gpu && cuda::is_device_memory(rows);
#else
  constexpr bool from_gpu = false;
#endif
  // Only read from, whatever its type says.
  auto* source = static_cast<std::byte*>(const_cast<void*>(rows));
  state_->layout.for_each_run(first, count, [&](const Layout::Run& run) {
    std::byte* from = source + static_cast<std::size_t>(run.first - first) * state_->spec.row_bytes();
    if (run.location.stratum == Stratum::host && !from_gpu) {
      return state_->for_host_run(
          run, from, [](void* to, const void* row, std::size_t bytes) { std::memcpy(to, row, bytes); });
    }
#if STRATA_WITH_CUDA
    state_->gpu->write(run, from);
#endif
  });
#if STRATA_WITH_CUDA
  if (state_->gpu) state_->gpu->finish_copies();
#endif
}

void ChunkTensor::read_rows(Count first, Count count, void* rows) const {
  state_->check_range(first, count);
  if (state_->spec.row_bytes() == 0) return;
  state_->layout.for_each_run(first, count, [&](const Layout::Run& run) {
    std::byte* to = static_cast<std::byte*>(rows) +
                    static_cast<std::size_t>(run.first - first) * state_->spec.row_bytes();
    if (run.location.stratum == Stratum::host) {
      return state_->for_host_run(
          run, to, [](const void* from, void* row, std::size_t bytes) { std::memcpy(row, from, bytes); });
    }
#if STRATA_WITH_CUDA
    state_->gpu->read(run, to);
#endif
  });
#if STRATA_WITH_CUDA
  if (state_->gpu) state_->gpu->finish_copies();
#endif
}

void ChunkTensor::fill(const comm::Machine& machine, double value, ThreadPool& pool) {
  const std::vector<std::byte> element = element_of(state_->spec.dtype, value);
  const std::size_t row_bytes = state_->spec.row_bytes();
  if (row_bytes > 0) {
    constexpr std::size_t kBlockBytes = std::size_t{1} << 20;
    const auto block_rows = static_cast<Count>(std::max<std::size_t>(1, kBlockBytes / row_bytes));
    std::vector<std::byte> block(static_cast<std::size_t>(block_rows) * row_bytes);
    for (std::size_t at = 0; at < block.size(); at += element.size())
      std::ranges::copy(element, block.begin() + static_cast<std::ptrdiff_t>(at));
    const auto write = [&](Count begin, Count end) { write_rows(begin, end - begin, block.data()); };
    state_->layout.for_each_run(0, state_->spec.rows, [&](const Layout::Run& run) {
      const Range all{run.first, run.count};
      const Range own =
          run.location.stratum == Stratum::replicated ? all : share_of(all, machine.rank(), machine.size());
      pool.parallel_for(own.count, block_rows,
                        [&](Count begin, Count end) { write(own.first + begin, own.first + end); });
    });
  }
  machine.barrier();
}

void ChunkTensor::gather(const RowIds& ids, const RowsOut& out, const cuda::Stream& stream,
                         ThreadPool& pool) const {
  if (!can_gather(state_->spec.dtype, out.dtype)) {
    throw Error(fmt::format("rows of \"{}\" are {} and cannot be gathered as {}", state_->spec.name,
                            name_of(state_->spec.dtype), name_of(out.dtype)));
  }
  if (stream.device().is_cuda()) {
    state_->need_this_device(stream);
#if STRATA_WITH_CUDA
    if (state_->settings.host_path == HostPath::copy)
      return state_->gpu->gather_by_copy(state_->host_rows(), ids, out, stream, pool);
    state_->gpu->gather(ids, out, stream);
#endif
    return;
  }
  state_->need_host_rows();
  gather_on_cpu(state_->host_rows(), ids, out, state_->checked, pool);
}

void ChunkTensor::count_strata(const RowIds& ids, Count* counts, const cuda::Stream& stream) const {
  if (stream.device().is_cuda()) {
    state_->need_this_device(stream);
#if STRATA_WITH_CUDA
    state_->gpu->count_strata(ids, counts, stream);
#endif
    return;
  }
  state_->need_host_rows();
  counts[static_cast<int>(Stratum::host)] += count_on_cpu(ids, state_->spec.rows);
}

void ChunkTensor::scatter(const RowIds& ids, const RowsIn& in, const cuda::Stream& stream, ThreadPool& pool) {
  if (stream.device().is_cuda()) {
    state_->need_this_device(stream);
    if (state_->layout.replicated_rows() > 0 && !state_->spec.scatters) {
      throw Error(fmt::format("\"{}\" has replicated rows, but was not made for scatters", state_->spec.name),
                  "Set TensorSpec::scatters.");
    }
#if STRATA_WITH_CUDA
    state_->gpu->scatter(ids, in, stream);
#endif
    return;
  }
  state_->need_host_rows();
  scatter_on_cpu(state_->host_rows(), ids, in, state_->checked, pool);
}

void ChunkTensor::fence(const comm::Machine& machine, const cuda::Stream& stream) const {
  stream.synchronize();
  machine.barrier();
}

void ChunkTensor::check_ids(bool on) {
  state_->checked = on;
#if STRATA_WITH_CUDA
  if (state_->gpu) state_->gpu->check_ids(on);
#endif
}

void ChunkTensor::verify([[maybe_unused]] const cuda::Stream& stream) const {
#if STRATA_WITH_CUDA
  if (!state_->gpu) return;
  const BadId bad = state_->gpu->take_bad_id(stream);
  if (bad.found == 0) return;
  throw Error(fmt::format("id {} at position {} is not a row of \"{}\" of {} rows", bad.id, bad.position,
                          state_->spec.name, state_->spec.rows));
#endif
}

std::byte* ChunkTensor::host_data() const {
  return state_->on_host() && state_->spec.row_pitch() == state_->spec.row_bytes() ? state_->host : nullptr;
}

void ChunkTensor::fill_host_rows(Count first, std::span<std::byte> staging,
                                 const std::function<void(std::byte*)>& fill) {
  const std::size_t row_bytes = state_->spec.row_bytes();
  state_->check_range(first, static_cast<Count>(staging.size() / std::max<std::size_t>(1, row_bytes)));
  const std::size_t offset = static_cast<std::size_t>(first) * row_bytes;
  if (!state_->region) return fill(host_data() + offset);
  state_->region->fill(offset, staging, fill);
}

void ChunkTensor::close(const comm::Machine& machine) {
#if STRATA_WITH_CUDA
  if (state_->gpu) state_->gpu->close(machine);
  state_->gpu.reset();
#endif
  machine.barrier();
  state_->region.reset();
  state_->registration = cuda::Registration();
  state_->keep_alive.reset();
  state_->host = nullptr;
}

}  // namespace strata::tensor
