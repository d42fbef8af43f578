// SPDX-License-Identifier: Apache-2.0
#include "strata/batches/embedding.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <span>
#include <utility>

#include "learned/owner_exchange.hpp"
#include "learned/row_groups.hpp"
#include "rows/place_rows.hpp"
#include "strata/batches/fetcher.hpp"
#include "strata/comm/machine.hpp"
#include "strata/cuda/buffer.hpp"
#include "strata/cuda/device.hpp"
#include "strata/tensor/chunk_tensor.hpp"
#include "strata/util/error.hpp"
#include "strata/util/random.hpp"
#include "strata/util/ranges.hpp"

namespace strata::batches {
namespace {

using tensor::ChunkTensor;
using tensor::Placement;
using tensor::Stratum;

constexpr std::uint32_t kLayer = 255;  // of the keys of first weights: no layer of a model

std::vector<Embedding::Part> parts_of(const EmbeddingOptions& options) {
  const Count cols = options.cols;
  switch (options.optimizer) {
    case RowOptimizer::sgd:
      return {{"weight", cols}};
    case RowOptimizer::rowwise_adagrad:
      return {{"weight", cols}, {"sum", 1}};
    case RowOptimizer::adagrad:
      return {{"weight", cols}, {"sum", cols}};
    case RowOptimizer::adam:
      return {{"weight", cols}, {"exp_avg", cols}, {"exp_avg_sq", cols}};
  }
  return {};
}

void validate(const EmbeddingOptions& options, const comm::Topology& topology) {
  if (options.rows < 0 || options.cols < 1)
    throw InputError(
        fmt::format("\"{}\" of {} rows and {} columns", options.name, options.rows, options.cols),
        "Give 0 rows or more, and at least one column.");
  const auto& offsets = options.machine_offsets;
  if (offsets.empty()) return;
  if (std::ssize(offsets) != topology.num_machines() + 1 || offsets.front() != 0 ||
      offsets.back() != options.rows || !std::ranges::is_sorted(offsets))
    throw InputError(
        fmt::format("the machines' rows of \"{}\" do not cover {} rows", options.name, options.rows));
}

/// The rows of each machine, dealt among its ranks.
std::vector<DealtRows::OfMachine> deal(const EmbeddingOptions& options, const comm::Topology& topology) {
  std::vector<DealtRows::OfMachine> machines;
  const auto world = static_cast<int>(topology.ranks.size());
  NodeId first_row = 0;
  int ranks_before = 0;
  for (std::size_t m = 0; m < topology.machines.size(); ++m) {
    const int ranks = static_cast<int>(topology.machines[m].size());
    const auto bound = [&](int rank) {
      return rank == world ? options.rows : share_of({0, options.rows}, rank, world).first;
    };
    const auto& offsets = options.machine_offsets;
    DealtRows::OfMachine machine{.first_id = offsets.empty() ? bound(ranks_before) : offsets[m],
                                 .end_id = offsets.empty() ? bound(ranks_before + ranks) : offsets[m + 1],
                                 .first_row = first_row,
                                 .ranks = ranks,
                                 .rows_per_rank = 0};
    const Count ids = machine.end_id - machine.first_id;
    constexpr Count kBlock = DealtRows::kBlock;
    const Count blocks = (ids + kBlock - 1) / kBlock;
    machine.rows_per_rank = ranks == 1 ? ids : (blocks + ranks - 1) / ranks * kBlock;
    first_row += machine.rows_per_rank * ranks;
    ranks_before += ranks;
    machines.push_back(machine);
  }
  return machines;
}

RowOwners owners_of(const std::vector<DealtRows::OfMachine>& machines, const comm::Topology& topology) {
  RowOwners owners{{0}, {}};
  for (std::size_t m = 0; m < machines.size(); ++m) {
    for (const int rank : topology.machines[m]) {
      owners.ranks.push_back(rank);
      owners.bounds.push_back(owners.bounds.back() + machines[m].rows_per_rank);
    }
  }
  return owners;
}

/// The id of a row; -1: none.
NodeId id_of(const DealtRows::OfMachine& machine, NodeId row) {
  const Count r = row - machine.first_row, local = r % std::max<Count>(1, machine.rows_per_rank);
  const Count block =
      local / DealtRows::kBlock * machine.ranks + r / std::max<Count>(1, machine.rows_per_rank);
  const NodeId id =
      machine.first_id + (machine.ranks == 1 ? r : block * DealtRows::kBlock + r % DealtRows::kBlock);
  return id < machine.end_id ? id : -1;
}

/// Keyed numbers in [-bound, bound].
struct FirstWeights {
  std::uint64_t seed;
  double bound;

  void write(NodeId id, std::span<float> out) const {
    for (std::size_t begin = 0; begin < out.size(); begin += 4) {
      const auto step = static_cast<std::uint32_t>(begin / 4);
      const Philox4 words = keyed_words({.seed = seed, .step = step}, RandomUse::init, kLayer, id);
      for (std::size_t col = begin; col < std::min(out.size(), begin + 4); ++col) {
        const double unit = static_cast<double>(words.word[col - begin]) * 0x1.0p-32;
        out[col] = static_cast<float>((2 * unit - 1) * bound);
      }
    }
  }
};

}  // namespace

struct Embedding::State {
  std::shared_ptr<Runtime> runtime;
  EmbeddingOptions options;
  std::vector<Part> parts;
  std::vector<DealtRows::OfMachine> machines;
  cuda::Array<DealtRows::OfMachine> device_machines;
  RowOwners owners;
  std::vector<NodeId> first_rows;  // [machines + 1]
  bool striped = false;
  std::vector<ChunkTensor> tensors;  // by part
  std::unique_ptr<RowGrouper> grouper;
  std::optional<OwnerExchange> exchange;  // with several ranks
  std::vector<RowFetcher> fetchers;       // by part, on several machines
  cuda::Array<NodeId> rows;               // of the ids of a call, on the device
  cuda::Array<float> gathered;            // in ascending order, on a GPU that reads host rows
  OwnRows own;
  Count updates = 0;

  const comm::Machine& machine() const { return runtime->machine(); }
  const DealtRows::OfMachine& of_machine() const { return machines[at(machine().index())]; }
  Device device() const { return runtime->device(); }
  NodeId first_row() const { return first_rows[at(machine().index())]; }
  int rank() const { return runtime->communicator().rank(); }
  Range own_rows() const { return {own.first, owners.end_of(rank()) - own.first}; }

  void allocate();
  Placement placement() const;
  bool can_stripe() const;
  float* own_data(const ChunkTensor& tensor, Count cols) const;
  const NodeId* rows_of(const NodeId* ids, Count count, const cuda::Stream& stream);
  void gather_ascending(const ChunkTensor& tensor, const NodeId* of, Count count, float* out,
                        const cuda::Stream& stream);
  void clear(float* rows, Count cols) const;
  void fill(ChunkTensor& tensor, const std::optional<FirstWeights>& values) const;
  void fence(const cuda::Stream& stream) const {
    if (runtime->communicator().size() == 1) return;
    stream.synchronize();
    machine().barrier();
  }
};

/// Whether every rank of the machine has a GPU of its own. Collective over the machine.
bool Embedding::State::can_stripe() const {
  return comm::computes_on_gpus(machine()) && tensor::gpus_of(machine()).size() == machine().size();
}

Placement Embedding::State::placement() const {
  const Count rows = of_machine().rows_per_rank * of_machine().ranks;
  if (!striped) return Placement::on_host(rows);
  // One rank's GPU is no stripe: gathers then use all of its SMs, not those that are enough for wires.
  if (machine().size() == 1) return Placement::replicated(rows);
  return Placement::contiguous(rows, of_machine().rows_per_rank, machine().size());
}

void Embedding::State::allocate() {
  const bool possible = can_stripe() && options.placement != RowPlacement::host;
  if (options.placement == RowPlacement::striped && !possible)
    throw InputError(
        fmt::format("\"{}\" cannot be striped: not every rank of the machine has a GPU of its own",
                    options.name),
        "Choose host, or auto.");
  striped = possible;
  if (possible && options.placement == RowPlacement::automatic) {
    Count bytes_per_row = 0;
    for (const Part& part : parts) bytes_per_row += part.cols * static_cast<Count>(sizeof(float));
    striped = of_machine().rows_per_rank * bytes_per_row <= comm::free_gpu_bytes_per_rank(machine()) / 2;
  }
  const Placement placed = placement();
  for (const Part& part : parts) {
    const tensor::TensorSpec spec{.name = fmt::format("{} of {}", part.name, options.name),
                                  .rows = placed.total().rows(),
                                  .cols = part.cols,
                                  .dtype = DType::f32};
    tensors.push_back(ChunkTensor::create(machine(), spec, placed));
    // Threads of the CPU would not see in time what GPUs write to host rows.
    tensors.back().configure({.host_path = tensor::HostPath::zero_copy});
  }
  striped = tensors.front().placement().total().on_gpus() > 0 || (striped && placed.total().rows() == 0);
  own = {.first = owners.first_of(rank()), .cols = options.cols};
  own.weights = own_data(tensors[0], options.cols);
  for (std::size_t i = 1; i < tensors.size(); ++i) own.state[i - 1] = own_data(tensors[i], parts[i].cols);
}

/// The rows of this rank: its stripe, or its share of the machine's host rows.
float* Embedding::State::own_data(const ChunkTensor& tensor, Count cols) const {
  for (const tensor::StratumView& view : tensor.views()) {
    auto* const data = reinterpret_cast<float*>(view.data);
    return view.stratum == Stratum::host ? data + (owners.first_of(rank()) - first_row()) * cols : data;
  }
  return nullptr;
}

/// The rows of ids, which are the ids themselves if one rank has all of them.
const NodeId* Embedding::State::rows_of(const NodeId* ids, Count count, const cuda::Stream& stream) {
  if (count > std::numeric_limits<std::int32_t>::max())
    throw InputError(fmt::format("{} ids at once", count), "Give less than 2^31.");
  if (runtime->communicator().size() == 1) return ids;
  const DealtRows dealt{device_machines.data(), static_cast<int>(machines.size())};
  rows.reserve(cuda::memory_on(device()), count, "rows of ids", device());
  grouper->map(ids, count, dealt, rows.data(), stream);
  return rows.data();
}

/// Gathers host rows in the order in which they lie, because a GPU translates addresses of large tables slowly:
/// 300,000 rows at random of 13 GB come at 16 GB/s of 54, while an update in ascending order reads them at 39.
void Embedding::State::gather_ascending(const ChunkTensor& tensor, const NodeId* of, Count count, float* out,
                                        const cuda::Stream& stream) {
  const RowGroups groups = grouper->group(of, count, owners.end(), stream);
  const Count cols = tensor.spec().cols;
  float* const sorted = gathered.reserve(cuda::Memory::device, count * cols, "gathered rows", device());
  tensor.gather({.data = groups.rows, .size = count, .sorted = true}, sorted, stream, runtime->caller_pool());
  place_rows({.rows = sorted, .positions = groups.order, .count = count, .cols = cols}, out, stream,
             runtime->caller_pool());
}

/// Sets this rank's rows, which lie on its device, to 0.
void Embedding::State::clear(float* data, Count cols) const {
  const cuda::Stream stream(device());
  cuda::fill_async(data, 0, at(own_rows().count * cols) * sizeof(float), stream);
  stream.synchronize();
}

/// Sets this rank's rows; to 0 without values.
void Embedding::State::fill(ChunkTensor& tensor, const std::optional<FirstWeights>& values) const {
  constexpr Count kRowsPerPiece = 4096;
  const Count cols = tensor.spec().cols;
  const Range mine = own_rows();
  runtime->caller_pool().parallel_for(mine.count, kRowsPerPiece, [&](Count begin, Count end) {
    std::vector<float> block(at((end - begin) * cols));
    for (Count r = begin; values && r < end; ++r)
      if (const NodeId id = id_of(of_machine(), mine.first + r); id >= 0)
        values->write(id, std::span(block).subspan(at((r - begin) * cols), at(cols)));
    tensor.write_rows(mine.first + begin - first_row(), end - begin, block.data());
  });
}

Embedding::Embedding(std::shared_ptr<Runtime> runtime, const EmbeddingOptions& options)
    : state_(std::make_unique<State>()) {
  State& s = *state_;
  s.runtime = std::move(runtime);
  s.options = options;
  const comm::Topology& topology = s.runtime->topology();
  s.runtime->communicator().together([&] { validate(options, topology); });
  s.parts = parts_of(options);
  s.machines = deal(options, topology);
  s.owners = owners_of(s.machines, topology);
  for (const DealtRows::OfMachine& machine : s.machines) s.first_rows.push_back(machine.first_row);
  s.first_rows.push_back(s.owners.end());
  const cuda::DeviceGuard guard(s.device());
  // Collective over the machine, where it fails on all ranks alike.
  s.runtime->communicator().together([&] { s.allocate(); });
  s.grouper = make_row_grouper(s.device(), s.runtime->caller_pool());
  s.device_machines = cuda::Array<DealtRows::OfMachine>(cuda::memory_on(s.device()), std::ssize(s.machines),
                                                        "rows of machines", s.device());
  const cuda::Stream stream = s.device().is_cuda() ? cuda::Stream(s.device()) : cuda::Stream();
  cuda::copy_async(s.device_machines.data(), s.machines.data(), s.machines.size() * sizeof(s.machines[0]),
                   stream);
  stream.synchronize();
  if (s.runtime->communicator().size() > 1) s.exchange.emplace(s.runtime->ranks(), s.owners);
  if (topology.num_machines() > 1) {
    for (const ChunkTensor& tensor : s.tensors)
      s.fetchers.emplace_back(
          tensor, s.device(),
          RowExchangeContext{.communicator = &s.exchange->communicator(),
                             .topology = &topology,
                             .machine_offsets = s.first_rows,
                             .machine = s.machine().index(),
                             .on_devices = s.exchange->is_direct() ? &s.exchange->wire() : nullptr},
          s.runtime->caller_pool());
  }
}

Embedding::~Embedding() = default;

const EmbeddingOptions& Embedding::options() const { return state_->options; }
bool Embedding::is_striped() const { return state_->striped; }
const std::vector<Embedding::Part>& Embedding::parts() const { return state_->parts; }
Count Embedding::updates() const { return state_->updates; }
void Embedding::set_updates(Count updates) { state_->updates = updates; }

void Embedding::initialize(std::uint64_t seed, double bound) {
  State& s = *state_;
  const cuda::DeviceGuard guard(s.device());
  for (std::size_t part = 0; part < s.tensors.size(); ++part) {
    const bool zeros = part > 0 || bound == 0;
    if (zeros && s.striped)
      s.clear(part == 0 ? s.own.weights : s.own.state[part - 1], s.parts[part].cols);
    else
      s.fill(s.tensors[part], zeros ? std::nullopt : std::optional(FirstWeights{seed, bound}));
  }
  s.updates = 0;
  s.machine().barrier();
}

void Embedding::gather(int part, const NodeId* ids, Count count, float* out, const cuda::Stream& stream) {
  State& s = *state_;
  const cuda::DeviceGuard guard(s.device());
  const NodeId* const rows = s.rows_of(ids, count, stream);
  if (!s.fetchers.empty()) return s.fetchers[at(part)].fetch({.ids = rows, .count = count}, out, stream);
  if (s.device().is_cuda() && !s.striped && count > 0)
    return s.gather_ascending(s.tensors[at(part)], rows, count, out, stream);
  s.tensors[at(part)].gather({.data = rows, .size = count}, out, stream, s.runtime->caller_pool());
}

void Embedding::write(int part, const NodeId* ids, Count count, const float* rows,
                      const cuda::Stream& stream) {
  State& s = *state_;
  const cuda::DeviceGuard guard(s.device());
  write_rows({.rows = s.rows_of(ids, count, stream),
              .count = count,
              .values = reinterpret_cast<const std::byte*>(rows),
              .row_bytes = s.parts[at(part)].cols * static_cast<Count>(sizeof(float))},
             {.table = s.tensors[at(part)],
              .first_row = s.first_row(),
              .owners = s.owners,
              .grouper = *s.grouper,
              .exchange = s.exchange ? &*s.exchange : nullptr},
             stream, s.runtime->caller_pool());
  s.fence(stream);
}

void Embedding::update(const NodeId* ids, Count count, const float* gradients, const RowUpdate& scalars,
                       const cuda::Stream& stream) {
  State& s = *state_;
  const cuda::DeviceGuard guard(s.device());
  const cuda::NvtxRange range("update embedding");
  const RowStep step = RowStep::of(scalars, s.options.optimizer, ++s.updates);
  const auto sum = [&](const NodeId* rows, Count size, const float* from) {
    return s.grouper->sum(s.grouper->group(rows, size, s.owners.end(), stream), from, s.options.cols, stream);
  };
  GradientSums sums = sum(s.rows_of(ids, count, stream), count, gradients);
  if (s.exchange) {
    const ListedRows listed = s.grouper->list_sums(sums, s.owners.bounds, stream);
    const OwnerExchange::Arrived arrived = s.exchange->exchange(listed, stream);
    sums = sum(arrived.rows, arrived.count, reinterpret_cast<const float*>(arrived.values));
  }
  s.grouper->update(sums, s.own, s.options.optimizer, step, stream);
  s.fence(stream);
}

void Embedding::close() {
  State& s = *state_;
  const cuda::DeviceGuard guard(s.device());
  s.fetchers.clear();
  if (s.exchange) s.exchange->close();
  s.exchange.reset();
  for (ChunkTensor& tensor : s.tensors) tensor.close(s.machine());
  s.tensors.clear();
}

}  // namespace strata::batches
