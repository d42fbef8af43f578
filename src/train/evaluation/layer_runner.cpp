// SPDX-License-Identifier: Apache-2.0
#include "evaluation/layer_runner.hpp"

#include <algorithm>

#include "strata/cuda/buffer.hpp"
#include "strata/cuda/copy.hpp"
#include "strata/cuda/stream.hpp"
#include "strata/nn/model.hpp"
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
  return layer > 0 && model.projected_cols(layer) > 0 &&
         model.projected_cols(layer) <= model.output_cols(layer - 1);
}

LayerRunner::LayerRunner(const EvaluationContext& context, const comm::Communicator& communicator)
    : context_(context),
      communicator_(communicator),
      device_(context.ranks.device()),
      chunk_bytes_(context.chunk_bytes > 0 ? context.chunk_bytes : default_chunk_bytes(device_)) {}

bool LayerRunner::apply(const LayerPass& pass, StopPoll& poll, const Consume& consume) {
  const bool done =
      in_place(pass) ? apply_in_place(pass, poll, consume) : apply_gathered(pass, poll, consume);
  hub_.reset();
  context_.ranks.machine->barrier();
  return done;
}

void LayerRunner::release_buffers() {
  input_ = {};
  ranks_ = {};
  host_output_ = {};
  shares_ = {};
  kept_.reset();
}

/// Makes as many chunks as the rank with the most has, because every step is collective; the additional ones
/// are empty.
std::vector<NodeChunk> LayerRunner::chunks(const LayerPass& pass, const ChunkCost& cost) const {
  const bool splits_lists = cost.edge_bytes > 0 && pass.model->traits().takes_pieces;
  std::vector<NodeChunk> pieces =
      pass.nodes.cut(context_.ranks.machine->rank(), context_.ranks.machine->size(), cost,
                     {.nodes = kMaxChunkNodes, .bytes = chunk_bytes_, .splits_lists = splits_lists});
  std::int64_t count = std::ssize(pieces);
  communicator_.all_reduce(std::span(&count, 1), comm::Communicator::Op::max);
  pieces.resize(static_cast<std::size_t>(count));
  return pieces;
}

/// Whether the cpu finds all rows of the layer's input in one table, in the order of the ids.
bool LayerRunner::in_place(const LayerPass& pass) const {
  const tensor::TensorSpec& spec = pass.table->spec();
  return !device_.is_cuda() && !distributed() && !context_.graph->whole_host_view().indices.wide &&
         spec.dtype == DType::f32 && spec.scale == 1 && pass.table->host_data() != nullptr &&
         pass.model->traits().takes_dst_apart && !reads_projected(*pass.model, pass.layer) &&
         pass.table_nodes.set() == nullptr && pass.nodes.set() == nullptr;
}

/// Applies a layer without copies of rows or edges, because the graph itself is the block.
bool LayerRunner::apply_in_place(const LayerPass& pass, StopPoll& poll, const Consume& consume) {
  const store::GraphView& view = context_.graph->whole_host_view();
  const at::Tensor table = wrap_rows(reinterpret_cast<const float*>(pass.table->host_data()), view.num_local,
                                     pass.table->spec().cols, device_);
  std::vector<Count> indptr;  // of a chunk, from 0
  std::vector<NodeId> nodes;
  for (const NodeChunk& chunk : chunks(pass, {.node_bytes = result_bytes(pass), .edge_bytes = 0})) {
    if (poll.agreed()) return false;
    context_.alive();
    if (chunk.count == 0) continue;
    const Count* ends = view.indptr + chunk.first_row;
    indptr.assign(ends, ends + chunk.count + 1);
    for (Count& end : indptr) end -= ends[0];
    sampling::Block block{.device = device_,
                          .num_dst = chunk.count,
                          .num_src = view.num_local,
                          .num_edges = indptr.back(),
                          .indptr = indptr.data(),
                          .indices = static_cast<const std::int32_t*>(view.indices.data) + ends[0]};
    if (pass.by_weight) {
      pass.nodes.list(chunk, nodes);
      EdgeShares(view).list(nodes, shares_.values, *context_.pool);
      block.edge_weights = shares_.values.data();
    }
    const at::Tensor output =
        pass.model->forward_apart(pass.layer, table, table.narrow(0, chunk.first_row, chunk.count), block);
    consume(chunk, kept_rows(pass, output, {}));
  }
  return true;
}

bool LayerRunner::apply_gathered(const LayerPass& pass, StopPoll& poll, const Consume& consume) {
  const Count cols = pass.table->spec().cols, mapped = pass.model->mapped_cols(pass.layer),
              row_bytes = (cols + mapped) * kFloatBytes + kIdBytes;
  const std::vector<NodeId> offsets = pass.table_nodes.machine_offsets();
  batches::RowFetcher fetcher(*pass.table, device_, row_exchange(offsets), *context_.pool);
  const cuda::Stream stream = current_stream(device_);
  std::optional<RankLookup> lookup;
  if (pass.table_nodes.set() != nullptr) lookup.emplace(*pass.table_nodes.set(), device_);
  ListPiece list_piece({.graph = &context_.graph->whole_host_view(),
                        .device = device_,
                        .in_degrees = pass.model->traits().needs_in_degrees,
                        .by_weight = pass.by_weight});
  std::vector<NodeId> seeds;
  for (const NodeChunk& chunk :
       chunks(pass, {.node_bytes = row_bytes + result_bytes(pass), .edge_bytes = row_bytes})) {
    if (poll.agreed()) return false;
    seeds.clear();
    if (!chunk.piece) pass.nodes.list(chunk, seeds);
    const sampling::MiniBatch batch = pass.sampler->sample(seeds, {.seed = context_.seed}, 0, stream);
    sampling::Block block = batch.blocks.front(), own;
    if (chunk.piece) {
      const auto blocks = list_piece.read(chunk.first, chunk.piece->begin, chunk.piece->end, stream);
      block = blocks.piece;
      own = blocks.own;
    }
    if (pass.by_weight && !chunk.piece) {
      EdgeShares(context_.graph->whole_host_view()).list(seeds, shares_.values, *context_.pool);
      block.edge_weights = shares_.on(device_, "weights of a chunk's edges", stream);
    }
    make_room(block.num_src, cols);
    const NodeId* ids = block.src_nodes;
    if (lookup) {
      lookup->find(ids, block.num_src, ranks_.data(), stream, *context_.pool);
      ids = ranks_.data();
    }
    fetcher.fetch({.ids = ids, .count = block.num_src}, input_.data(), stream);
    context_.alive();
    if (chunk.count == 0) continue;
    const at::Tensor x = wrap_rows(input_.data(), block.num_src, cols, device_);
    at::Tensor output;
    if (chunk.piece)
      output = add_piece(pass, *chunk.piece, x, {block, own});
    else if (reads_projected(*pass.model, pass.layer))
      output = pass.model->combine(pass.layer, x, block);
    else
      output = pass.model->forward_layer(pass.layer, x, block, {.key = {}, .training = false});
    if (output.defined()) consume(chunk, kept_rows(pass, output, stream));
  }
  return true;
}

/// Adds a piece; returns the output of the node after the last piece of its list, and an undefined tensor
/// before that.
at::Tensor LayerRunner::add_piece(const LayerPass& pass, const NodeChunk::Piece& piece, const at::Tensor& x,
                                  const ListPiece::Blocks& blocks) {
  const auto with = [&](const at::Tensor& rows, const sampling::Block& block) {
    return nn::NeighborPiece{.x = rows,
                             .projected = reads_projected(*pass.model, pass.layer),
                             .block = block,
                             .num_edges = piece.whole};
  };
  if (piece.is_first()) hub_.reset();
  if (blocks.piece.num_edges > 0) hub_ = pass.model->add_piece(pass.layer, hub_, with(x, blocks.piece));
  at::Tensor output;
  if (piece.is_last())
    output = pass.model->finish_pieces(pass.layer, hub_, with(x.narrow(0, 0, 1), blocks.own));
  current_stream(device_).synchronize();  // because the buffers that it reads may be replaced next
  return output;
}

batches::RowExchangeContext LayerRunner::row_exchange(std::span<const NodeId> machine_offsets) const {
  if (!distributed()) return {};
  return {.communicator = &communicator_,
          .topology = context_.ranks.topology,
          .machine_offsets = machine_offsets,
          .machine = context_.ranks.machine->index()};
}

/// Makes room for the rows of a chunk's input nodes.
void LayerRunner::make_room(Count rows, Count cols) {
  if (input_.size() < rows * cols) {
    input_ = {};
    input_ = cuda::Array<float>(cuda::memory_on(device_), rows * cols, "input rows of an evaluated chunk",
                                device_);
  }
  if (ranks_.size() < rows) {
    ranks_ = {};
    ranks_ =
        cuda::Array<NodeId>(cuda::memory_on(device_), rows, "input nodes of an evaluated chunk", device_);
  }
}

/// A hidden layer's output, or the part that the next layer reads, on the device that computed it; the last
/// layer's output in host memory.
const float* LayerRunner::kept_rows(const LayerPass& pass, const at::Tensor& output,
                                    const cuda::Stream& stream) {
  const int next = pass.layer + 1;
  if (next == pass.model->num_layers()) return to_host(output, stream);
  kept_ = (reads_projected(*pass.model, next) ? pass.model->project(next, output) : output).contiguous();
  stream.synchronize();
  return kept_.const_data_ptr<float>();
}

const float* LayerRunner::to_host(const at::Tensor& rows, const cuda::Stream& stream) {
  const at::Tensor contiguous = rows.contiguous();
  if (!device_.is_cuda()) {
    kept_ = contiguous;
    return contiguous.const_data_ptr<float>();
  }
  if (host_output_.size() < contiguous.numel()) {
    host_output_ = {};
    host_output_ = cuda::Array<float>(cuda::Memory::pinned, contiguous.numel(), "rows of an evaluated chunk");
  }
  cuda::copy_async(host_output_.data(), contiguous.const_data_ptr<float>(), contiguous.nbytes(), stream);
  stream.synchronize();
  return host_output_.data();
}

}  // namespace strata::train
