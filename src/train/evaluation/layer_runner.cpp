// SPDX-License-Identifier: Apache-2.0
#include "evaluation/layer_runner.hpp"

#include <ATen/ops/empty.h>

#include <optional>

#include "step/learned_rows.hpp"
#include "strata/cuda/stream.hpp"
#include "torch_device.hpp"

namespace strata::train {
namespace {

constexpr Count kFloatBytes = sizeof(float);
constexpr Count kIdBytes = 40;  // per input row: global and original id, degree, edge, the fetcher's copies

/// Memory for the chunk that a layer is applied to. On the cpu more memory is not faster, because the nodes
/// of a chunk share few rows; a GPU needs many rows at once.
Count default_chunk_bytes(Device device) { return device.is_cuda() ? Count{1} << 30 : Count{32} << 20; }

/// Bytes for the sum of a node's neighbors' rows, and its output before and after the activation.
Count result_bytes(const LayerPass& pass) {
  return (pass.table->spec().cols + 2 * pass.model->output_cols(pass.layer)) * kFloatBytes;
}

}  // namespace

bool reads_projected(const nn::BlockModel& model, int layer) {
  const std::int64_t cols = model.cols(layer).projected;
  return layer > 0 && cols > 0 && cols <= model.output_cols(layer - 1);
}

LayerRunner::LayerRunner(const EvaluationContext& context, const comm::Communicator& communicator)
    : context_(context),
      communicator_(communicator),
      device_(context.ranks.device()),
      chunk_bytes_(context.chunk_bytes > 0 ? context.chunk_bytes : default_chunk_bytes(device_)) {}

bool LayerRunner::apply(const LayerPass& pass, StopPoll& poll, const Consume& consume) {
  const bool done =
      in_place(pass) ? apply_in_place(pass, poll, consume) : apply_gathered(pass, poll, consume);
  context_.ranks.machine->barrier();
  return done;
}

bool LayerRunner::apply(const LayerPass& pass, const std::vector<NodeChunk>& chunks, const Read& read,
                        StopPoll& poll, const Consume& consume) {
  const cuda::Stream stream = current_stream(device_);
  at::Tensor state;  // of the list that comes in pieces
  for (const NodeChunk& chunk : chunks) {
    if (poll.agreed()) return false;
    nn::ExactInput input = read(chunk, stream);
    context_.alive();
    if (chunk.count == 0) continue;
    if (chunk.piece) input.piece = {.before = state, .last = chunk.piece->last};
    const at::Tensor result = pass.model->evaluate(pass.layer, input);
    if (chunk.piece && !chunk.piece->last) {
      state = result;
      stream.synchronize();  // because the buffers that it reads may be replaced next
      continue;
    }
    state.reset();
    consume(chunk, kept_rows(pass, result, stream));
  }
  return true;
}

void LayerRunner::release_buffers() {
  input_ = {};
  ranks_ = {};
  kept_.reset();
}

NeighborLists LayerRunner::lists(const LayerPass& pass) const {
  return NeighborLists({.graph = &context_.graph->whole_host_view(),
                        .device = device_,
                        .in_degrees = pass.model->traits().needs_in_degrees,
                        .by_weight = pass.by_weight,
                        .pool = context_.pool});
}

/// Makes as many chunks as the rank with the most has, because every step is collective; the additional ones
/// are empty.
std::vector<NodeChunk> LayerRunner::chunks(const LayerPass& pass, const ChunkCost& cost) const {
  const bool splits_lists =
      cost.edge_bytes > 0 && pass.model->traits().takes_pieces && pass.learned == nullptr;
  std::vector<NodeChunk> pieces =
      pass.nodes.cut(context_.ranks.machine->rank(), context_.ranks.machine->size(), cost,
                     {.nodes = kMaxChunkNodes, .bytes = chunk_bytes_, .splits_lists = splits_lists});
  std::int64_t count = std::ssize(pieces);
  communicator_.all_reduce(std::span(&count, 1), comm::Communicator::Op::max);
  pieces.resize(at(count));
  return pieces;
}

/// Whether the cpu finds all rows of the layer's input in one table, in the order of the ids.
bool LayerRunner::in_place(const LayerPass& pass) const {
  const tensor::TensorSpec& spec = pass.table->spec();
  return pass.learned == nullptr && !device_.is_cuda() && !distributed() &&
         !context_.graph->whole_host_view().indices.wide && spec.dtype == DType::f32 && spec.scale == 1 &&
         pass.table->host_data() != nullptr && pass.model->traits().takes_dst_apart &&
         !reads_projected(*pass.model, pass.layer) && pass.table_nodes.set() == nullptr &&
         pass.nodes.set() == nullptr;
}

/// Applies a layer without copies of rows or edges, because the graph itself is the block.
bool LayerRunner::apply_in_place(const LayerPass& pass, StopPoll& poll, const Consume& consume) {
  const store::GraphView& view = context_.graph->whole_host_view();
  const at::Tensor table = wrap_rows(reinterpret_cast<const float*>(pass.table->host_data()), view.num_local,
                                     pass.table->spec().cols, device_);
  NeighborLists lists = this->lists(pass);
  std::vector<Count> indptr;  // of a chunk, from 0
  std::vector<NodeId> nodes;
  const auto read = [&](const NodeChunk& chunk, const cuda::Stream&) -> nn::ExactInput {
    const Count* ends = view.indptr + chunk.first_row;
    indptr.assign(ends, ends + chunk.count + 1);
    for (Count& end : indptr) end -= ends[0];
    pass.nodes.list(chunk, nodes);
    return {.rows = table,
            .block = {.device = device_,
                      .num_dst = chunk.count,
                      .num_src = view.num_local,
                      .num_edges = indptr.back(),
                      .indptr = indptr.data(),
                      .indices = static_cast<const std::int32_t*>(view.indices.data) + ends[0],
                      .edge_weights = lists.shares(nodes)},
            .own = table.narrow(0, chunk.first_row, chunk.count)};
  };
  return apply(pass, chunks(pass, {.node_bytes = result_bytes(pass), .edge_bytes = 0}), read, poll, consume);
}

bool LayerRunner::apply_gathered(const LayerPass& pass, StopPoll& poll, const Consume& consume) {
  const Count cols = pass.table->spec().cols, mapped = pass.model->cols(pass.layer).mapped,
              learned = pass.learned != nullptr ? 2 * pass.learned->cols() : 0,
              row_bytes = (cols + mapped + learned) * kFloatBytes + kIdBytes;
  const std::vector<NodeId> offsets = pass.table_nodes.machine_offsets();
  batches::RowFetcher fetcher(*pass.table, device_, row_exchange(offsets), *context_.pool);
  std::optional<RankLookup> lookup;
  if (pass.table_nodes.set() != nullptr) lookup.emplace(*pass.table_nodes.set(), device_);
  NeighborLists lists = this->lists(pass);
  const cuda::Memory memory = cuda::memory_on(device_);
  std::vector<NodeId> seeds;
  const auto read = [&](const NodeChunk& chunk, const cuda::Stream& stream) -> nn::ExactInput {
    seeds.clear();
    if (!chunk.piece) pass.nodes.list(chunk, seeds);
    const sampling::MiniBatch batch = pass.sampler->sample(seeds, {.seed = context_.seed}, 0, stream);
    sampling::Block block = batch.blocks.front();
    if (chunk.piece)
      block = lists.piece(chunk.first, chunk.piece->begin, chunk.piece->end);
    else
      block.edge_weights = lists.shares(seeds);
    const Count rows = block.num_src;
    const NodeId* ids = block.src_nodes;
    if (lookup) {
      lookup->find(ids, rows, ranks_.reserve(memory, rows, "input nodes of an evaluated chunk", device_),
                   stream, *context_.pool);
      ids = ranks_.data();
    }
    fetcher.fetch({.ids = ids, .count = rows},
                  input_.reserve(memory, rows * cols, "input rows of an evaluated chunk", device_), stream);
    if (rows == 0) return {};
    const at::Tensor input = wrap_rows(input_.data(), rows, cols, device_);
    return {.rows = pass.learned != nullptr ? pass.learned->input(input, block) : input,
            .projected = reads_projected(*pass.model, pass.layer),
            .block = block};
  };
  const ChunkCost cost{.node_bytes = row_bytes + result_bytes(pass), .edge_bytes = row_bytes};
  return apply(pass, chunks(pass, cost), read, poll, consume);
}

batches::RowExchangeContext LayerRunner::row_exchange(std::span<const NodeId> machine_offsets) const {
  if (!distributed()) return {};
  return {.communicator = &communicator_,
          .topology = context_.ranks.topology,
          .machine_offsets = machine_offsets,
          .machine = context_.ranks.machine->index()};
}

/// A hidden layer's output, or the part that the next layer reads, on the device that computed it; the last
/// layer's output in host memory.
const float* LayerRunner::kept_rows(const LayerPass& pass, const at::Tensor& output,
                                    const cuda::Stream& stream) {
  const int next = pass.layer + 1;
  if (next < pass.model->num_layers())
    kept_ = (reads_projected(*pass.model, next) ? pass.model->project(next, output) : output).contiguous();
  else if (output.is_cuda())
    kept_ = at::empty(output.sizes(), at::TensorOptions().pinned_memory(true)).copy_(output);
  else
    kept_ = output.contiguous();
  stream.synchronize();
  return kept_.const_data_ptr<float>();
}

}  // namespace strata::train
