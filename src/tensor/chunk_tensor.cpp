// SPDX-License-Identifier: Apache-2.0
#include "strata/tensor/chunk_tensor.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <optional>
#include <utility>

#include "host_backend.hpp"
#include "strata/comm/machine.hpp"
#include "strata/cuda/device.hpp"
#include "strata/cuda/stream.hpp"
#include "strata/tensor/array_copies.hpp"
#include "strata/tensor/host_array.hpp"
#include "strata/util/error.hpp"
#include "strata/util/log.hpp"
#include "strata/util/ranges.hpp"
#include "strata/util/text.hpp"
#include "tensor_backend.hpp"

namespace strata::tensor {
namespace {

bool wants_gpu(const Placement& placement) { return placement.total().on_gpus() > 0; }

void log_once(const comm::Machine& machine, const std::string& line) {
  if (machine.rank() == 0) spdlog::info("{}", line);
}

/// Joins the segments, unless some rows lie below the host.
void move_to_host(Placement& placement) {
  const Segment all = placement.total();
  if (all[Stratum::storage] == 0) placement.segments = {{{Stratum::host, all.rows()}}};
  for (Segment& s : placement.segments)
    for (const Stratum on_gpu : {Stratum::replicated, Stratum::striped}) s.move(on_gpu, Stratum::host);
}

/// The bytes of one element: the value in the type.
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
  std::shared_ptr<RowStorage> storage;
  GatherSettings settings;
  std::unique_ptr<TensorBackend> backend;  // ends before the memory that it reads

  bool on_host() const { return layout.rows(Stratum::host) == spec.rows; }

  void adopt_layout() {
    backend->adopt(layout, host, storage.get());
    backend->configure(settings);
  }

  void check_range(Count first, Count count) const {
    if (first >= 0 && count >= 0 && first + count <= spec.rows) return;
    throw Error(fmt::format("rows {} to {} are not in \"{}\" of {} rows", first, first + count, spec.name,
                            spec.rows));
  }
};

ChunkTensor ChunkTensor::create(const comm::Machine& machine, const TensorSpec& spec,
                                const Placement& placement, std::shared_ptr<RowStorage> storage) {
  validate(spec, placement);
  if (placement.total()[Stratum::storage] > 0 && storage == nullptr)
    throw InputError(
        fmt::format("the placement of \"{}\" has rows in a storage that is not given", spec.name));
  Placement realised = placement;
  if (wants_gpu(realised) && !comm::computes_on_gpus(machine)) {
    log_once(machine,
             fmt::format("{}: all {} rows go to host memory, for not every rank of the machine has a GPU",
                         spec.name, format_count(spec.rows)));
    move_to_host(realised);
  }
  auto state = std::make_unique<State>();
  state->spec = spec;
  state->storage = std::move(storage);
  state->device = machine.device();
  machine.together(
      [&] { state->backend = make_backend(machine.device(), spec, comm::resources_of(machine)); });
  if (wants_gpu(realised)) state->backend->allocate(machine, realised);
  if (!wants_gpu(realised)) move_to_host(realised);
  state->layout = Layout(realised);
  state->placement = std::move(realised);
  const std::size_t host_bytes =
      static_cast<std::size_t>(state->layout.rows(Stratum::host)) * spec.row_pitch();
  state->region.emplace(
      HostRegion::create(machine, host_bytes, fmt::format("the host rows of \"{}\"", spec.name)));
  state->host = state->region->data();
  machine.together([&] { state->adopt_layout(); });
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
  const cuda::DeviceGuard guard(device);
  if (device.is_cuda())
    state->registration = cuda::Registration(rows, static_cast<std::size_t>(spec.rows) * spec.row_pitch());
  state->backend =
      make_backend(device, spec, device.is_cuda() ? comm::Resources::of_process() : comm::Resources{});
  state->adopt_layout();
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
  state_->settings = settings;
  state_->backend->configure(state_->settings);
}

std::vector<StratumView> ChunkTensor::views() const { return state_->backend->views(); }

void ChunkTensor::write_rows(Count first, Count count, const void* rows) {
  state_->check_range(first, count);
  if (state_->spec.row_bytes() > 0)
    state_->backend->write_rows(first, count, static_cast<const std::byte*>(rows));
}

void ChunkTensor::read_rows(Count first, Count count, void* rows) const {
  state_->check_range(first, count);
  if (state_->spec.row_bytes() > 0) state_->backend->read_rows(first, count, static_cast<std::byte*>(rows));
}

void ChunkTensor::fill(const comm::Machine& machine, double value, ThreadPool& pool) {
  if (state_->spec.code)
    throw Error(fmt::format("\"{}\" is compressed: encode rows and write these", state_->spec.name));
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
  state_->backend->gather(ids, out, stream, pool);
}

void ChunkTensor::decode(const CodedRows& coded, float* out, const cuda::Stream& stream,
                         ThreadPool& pool) const {
  if (!state_->spec.code) throw Error(fmt::format("rows of \"{}\" have no code", state_->spec.name));
  state_->backend->decode(coded, out, stream, pool);
}

void ChunkTensor::count_strata(const RowIds& ids, Count* counts, const cuda::Stream& stream) const {
  state_->backend->count_strata(ids, counts, stream);
}

void ChunkTensor::scatter(const RowIds& ids, const RowsIn& in, const cuda::Stream& stream, ThreadPool& pool) {
  state_->backend->scatter(ids, in, stream, pool);
}

void ChunkTensor::fence(const comm::Machine& machine, const cuda::Stream& stream) const {
  stream.synchronize();
  machine.barrier();
}

void ChunkTensor::check_ids(bool on) { state_->backend->check_ids(on); }

void ChunkTensor::verify(const cuda::Stream& stream) const { state_->backend->verify(stream); }

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
  state_->backend->close(machine);
  state_->backend = std::make_unique<HostBackend>(state_->device, state_->spec);
  state_->backend->adopt(state_->layout, nullptr, nullptr);
  machine.barrier();
  state_->region.reset();
  state_->registration = cuda::Registration();
  state_->keep_alive.reset();
  state_->storage.reset();
  state_->host = nullptr;
}

}  // namespace strata::tensor
