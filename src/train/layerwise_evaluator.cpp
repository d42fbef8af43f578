#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <chrono>
#include <numeric>
#include <optional>
#include <set>
#include <vector>

#include "needed_nodes.hpp"
#include "node_chunks.hpp"
#include "prediction_file.hpp"
#include "strata/feature/fetcher.hpp"
#include "strata/nn/model.hpp"
#include "strata/sampling/sampler.hpp"
#include "strata/train/evaluator.hpp"
#include "strata/util/memory.hpp"
#include "torch_device.hpp"

namespace strata::train {
namespace {

constexpr Count kMaxChunkNodes = 65536;
constexpr Count kFloatBytes = sizeof(float);
constexpr Count kIdBytes = 40;  // of an input row: global and original id, degree, edge, the fetcher's copies

/// Memory of the chunk that a layer is applied to. On the cpu more does not make it faster, for few rows are
/// shared by the nodes of a chunk; a GPU wants many rows at once.
Count default_chunk_bytes(Device device) { return device.is_cuda() ? Count{1} << 30 : Count{32} << 20; }

/// Does the layer read rows that were projected when they were computed? It does unless they are longer: a
/// node's row is then projected once, not with every chunk that needs it.
bool reads_projected(const nn::BlockModel& model, int layer) {
  return layer > 0 && model.projected_cols(layer) > 0 &&
         model.projected_cols(layer) <= model.output_cols(layer - 1);
}

/// Columns of the table that hidden layer `layer` reads.
Count read_cols(const nn::BlockModel& model, int layer) {
  return reads_projected(model, layer) ? model.projected_cols(layer) : model.output_cols(layer - 1);
}

enum class Member : std::uint8_t { none, valid, test };

std::vector<Member> membership(const store::MachineGraph& graph) {
  const store::GraphView& view = graph.host_view();
  std::vector<Member> members(static_cast<std::size_t>(view.num_local), Member::none);
  for (const NodeId v : graph.valid_nodes())
    members[static_cast<std::size_t>(v - view.first_node)] = Member::valid;
  for (const NodeId v : graph.test_nodes())
    members[static_cast<std::size_t>(v - view.first_node)] = Member::test;
  return members;
}

}  // namespace

struct LayerwiseEvaluator::State {
  EvaluationContext context;
  comm::Communicator communicator;
  Device device;
  Count chunk_bytes;
  std::vector<Member> members;
  std::optional<NeededNodes> needed;  ///< for the scores; of all evaluations, as the graph stays
  cuda::Array<NodeId> ranks;
  cuda::Array<float> input;
  cuda::Array<float> host_output;
  at::Tensor kept;  ///< what to_host() points into on the cpu

  explicit State(const EvaluationContext& c)
      : context(c),
        communicator(c.world->duplicate()),
        device(c.machine->device()),
        chunk_bytes(c.chunk_bytes > 0 ? c.chunk_bytes : default_chunk_bytes(device)),
        members(membership(*c.graph)) {}

  bool distributed() const { return context.topology->num_machines() > 1; }

  sampling::ExchangeContext sampling_exchange() const {
    if (!distributed() || context.graph->is_replicated()) return {};
    return {.communicator = &communicator,
            .topology = context.topology,
            .machine_offsets = context.graph->machine_offsets(),
            .halo = context.graph->halo_lists(),
            .pool = context.pool};
  }
  feature::RowExchangeContext row_exchange(std::span<const NodeId> machine_offsets) const {
    if (!distributed()) return {};
    return {.communicator = &communicator,
            .topology = context.topology,
            .machine_offsets = machine_offsets,
            .machine = context.machine->index()};
  }

  /// The nodes that layer `layer` is applied to for the scores; of all nodes if `everywhere`. Collective.
  LayerNodes nodes_of(const nn::BlockModel& model, int layer, bool everywhere) {
    if (!everywhere && !needed) needed = find_needed(model.num_layers());
    const NodeSet* set = everywhere ? nullptr : (*needed)[static_cast<std::size_t>(layer)].get();
    return {context.graph->host_view(), set, context.graph->machine_offsets()};
  }
  NeededNodes find_needed(int num_layers) const {
    const store::GraphView& view = context.graph->host_view();
    const auto for_scored = [&](const std::function<void(NodeId)>& visit) {
      for (std::size_t v = 0; v < members.size(); ++v)
        if (is_scored(v)) visit(view.first_node + static_cast<NodeId>(v));
    };
    return find_needed_nodes({.communicator = &communicator,
                              .graph = &view,
                              .rank_of_machine = context.machine->rank(),
                              .ranks_of_machine = context.machine->size(),
                              .num_layers = num_layers,
                              .most = context.most_needed,
                              .pool = context.pool,
                              .for_scored = for_scored});
  }
  bool is_scored(std::size_t v) const {
    return members[v] != Member::none && context.graph->has_label(static_cast<Count>(v));
  }

  /// This rank's chunks of the machine's nodes; as many as the rank with the most, the rest empty, since
  /// every step is collective.
  std::vector<NodeChunk> chunks(const LayerNodes& nodes, const ChunkCost& cost) const {
    std::vector<NodeChunk> pieces = nodes.cut(context.machine->rank(), context.machine->size(), cost,
                                              {.nodes = kMaxChunkNodes, .bytes = chunk_bytes});
    std::vector<std::int64_t> count{static_cast<std::int64_t>(pieces.size())};
    communicator.all_reduce(std::span(count), comm::Communicator::Op::max);
    pieces.resize(static_cast<std::size_t>(count[0]));
    return pieces;
  }

  /// What tables of rows may take of all GPUs of the machine. Collective over it.
  Count gpu_room() const {
    if (!device.is_cuda()) return 0;
    constexpr double kSpared = 0.6;  // the chunks that are computed need some, too
    const auto& ranks = context.topology->machines[static_cast<std::size_t>(context.machine->index())];
    std::set<std::string> gpus;
    for (const int rank : ranks)
      gpus.insert(context.topology->ranks[static_cast<std::size_t>(rank)].gpu_uuid);
    std::int64_t free = cuda::device_memory(device.index).free_bytes;
    context.machine->communicator().all_reduce(std::span(&free, 1), comm::Communicator::Op::min);
    return static_cast<Count>(kSpared * static_cast<double>(free) * static_cast<double>(gpus.size()));
  }

  /// Rows striped over the GPUs as far as these have memory to spare, the rest on the host. Collective over
  /// the machine.
  store::Placement table_placement(Count rows, Count row_bytes) const {
    const Count striped = std::min(rows, gpu_room() / std::max<Count>(1, row_bytes));
    return {.segments = {{.striped = striped, .host = rows - striped}}};
  }

  /// This machine's share of its host's free memory.
  Count host_room() const {
    if (context.host_bytes > 0) return context.host_bytes;
    constexpr double kUsable = 0.9;
    const int all = context.topology->ranks_on_host(context.world->rank());
    return static_cast<Count>(kUsable * static_cast<double>(available_host_bytes()) *
                              context.machine->size() / std::max(1, all));
  }

  /// The most that two neighbouring layers' rows leave to the host.
  bool fits(const nn::BlockModel& model) {
    Count largest = 0, previous = 0;
    for (int layer = 1; layer < model.num_layers(); ++layer) {
      const Count rows = nodes_of(model, layer - 1, false).rows();
      const Count bytes = rows * read_cols(model, layer) * kFloatBytes;
      largest = std::max(largest, previous + bytes);
      previous = bytes;
    }
    std::int64_t enough = largest - gpu_room() <= host_room();
    communicator.all_reduce(std::span(&enough, 1), comm::Communicator::Op::min);
    return enough != 0;
  }

  store::ChunkTensor make_table(int layer, Count rows, Count cols) const {
    return store::ChunkTensor::create(
        *context.machine,
        {.name = "input of layer " + std::to_string(layer) + " of all nodes", .rows = rows, .cols = cols},
        table_placement(rows, cols * kFloatBytes));
  }

  const float* to_host(const at::Tensor& rows, const cuda::Stream& stream) {
    const at::Tensor contiguous = rows.contiguous();
    if (!device.is_cuda()) {
      kept = contiguous;
      return contiguous.const_data_ptr<float>();
    }
    if (host_output.size() < contiguous.numel()) {
      host_output = {};
      host_output =
          cuda::Array<float>(cuda::Memory::pinned, contiguous.numel(), "rows of an evaluated chunk");
    }
    cuda::copy_async(host_output.data(), contiguous.const_data_ptr<float>(), contiguous.nbytes(), stream);
    stream.synchronize();
    return host_output.data();
  }

  struct LayerPass {
    nn::BlockModel* model;
    int layer;
    const store::ChunkTensor* table;
    LayerNodes table_nodes;  ///< whose rows the table holds
    LayerNodes nodes;        ///< that the layer is applied to
    sampling::MiniBatchSampler* sampler;
  };

  /// The sum of a node's neighbours' rows, and its output before and after the activation.
  static Count result_bytes(const LayerPass& pass) {
    return (pass.table->spec().cols + 2 * pass.model->output_cols(pass.layer)) * kFloatBytes;
  }

  /// A hidden layer's output, or what the next layer reads of it, where it was computed; the last layer's in
  /// host memory.
  const float* kept_rows(const LayerPass& pass, const at::Tensor& output, const cuda::Stream& stream) {
    const int next = pass.layer + 1;
    if (next == pass.model->num_layers()) return to_host(output, stream);
    kept = (reads_projected(*pass.model, next) ? pass.model->project(next, output) : output).contiguous();
    stream.synchronize();
    return kept.const_data_ptr<float>();
  }

  /// Does the cpu find all rows of the layer's input in one table, in the order of the ids?
  bool in_place(const LayerPass& pass) const {
    const store::TensorSpec& spec = pass.table->spec();
    return !device.is_cuda() && !distributed() && !context.graph->host_view().indices.wide &&
           spec.dtype == DType::f32 && spec.scale == 1 && pass.table->host_data() != nullptr &&
           pass.model->takes_dst_apart() && !reads_projected(*pass.model, pass.layer) &&
           pass.table_nodes.set() == nullptr && pass.nodes.set() == nullptr;
  }

  /// Applies one layer to its nodes; `consume(chunk, rows)` gets each chunk's kept_rows().
  template <typename Consume>
  void apply_layer(const LayerPass& pass, Consume&& consume) {
    if (in_place(pass))
      apply_in_place(pass, consume);
    else
      apply_gathered(pass, consume);
    context.machine->barrier();
  }

  /// Without any copy of rows or edges: the graph itself is the block.
  template <typename Consume>
  void apply_in_place(const LayerPass& pass, Consume&& consume) {
    const store::GraphView& view = context.graph->host_view();
    const at::Tensor table = wrap_rows(reinterpret_cast<const float*>(pass.table->host_data()),
                                       view.num_local, pass.table->spec().cols, device);
    for (const NodeChunk& chunk : chunks(pass.nodes, {.node_bytes = result_bytes(pass), .edge_bytes = 0})) {
      context.alive();
      if (chunk.count == 0) continue;
      const Count* indptr = view.indptr + chunk.first_row;
      const sampling::Block block{.device = device,
                                  .num_dst = chunk.count,
                                  .num_src = view.num_local,
                                  .num_edges = indptr[chunk.count] - indptr[0],
                                  .indptr = indptr,
                                  .indices = static_cast<const std::int32_t*>(view.indices.data)};
      const at::Tensor output =
          pass.model->forward_apart(pass.layer, table, table.narrow(0, chunk.first_row, chunk.count), block);
      consume(chunk, kept_rows(pass, output, {}));
    }
  }

  template <typename Consume>
  void apply_gathered(const LayerPass& pass, Consume&& consume) {
    const Count cols = pass.table->spec().cols, mapped = pass.model->mapped_cols(pass.layer),
                row_bytes = (cols + mapped) * kFloatBytes + kIdBytes;
    const std::vector<NodeId> offsets = pass.table_nodes.machine_offsets();
    feature::RowFetcher fetcher(*pass.table, device, row_exchange(offsets), *context.pool);
    const cuda::Stream stream = current_stream(device);
    std::optional<RankLookup> lookup;
    if (pass.table_nodes.set() != nullptr) lookup.emplace(*pass.table_nodes.set(), device);
    std::vector<NodeId> seeds;
    for (const NodeChunk& chunk :
         chunks(pass.nodes, {.node_bytes = row_bytes + result_bytes(pass), .edge_bytes = row_bytes})) {
      pass.nodes.list(chunk, seeds);
      const sampling::MiniBatch batch = pass.sampler->sample(seeds, {.seed = context.seed}, 0, stream);
      const Count rows = batch.num_inputs();
      make_room(rows, cols);
      const NodeId* ids = batch.input_nodes();
      if (lookup) {
        lookup->find(ids, rows, ranks.data(), stream, *context.pool);
        ids = ranks.data();
      }
      fetcher.fetch({.ids = ids, .count = rows}, input.data(), stream);
      context.alive();
      if (chunk.count == 0) continue;
      const at::Tensor x = wrap_rows(input.data(), rows, cols, device);
      const sampling::Block& block = batch.blocks.front();
      const at::Tensor output =
          reads_projected(*pass.model, pass.layer)
              ? pass.model->combine(pass.layer, x, block)
              : pass.model->forward_layer(pass.layer, x, block, {.key = {}, .training = false});
      consume(chunk, kept_rows(pass, output, stream));
    }
  }

  /// For the rows of a chunk's input nodes.
  void make_room(Count rows, Count cols) {
    if (input.size() < rows * cols) {
      input = {};
      input = cuda::Array<float>(cuda::memory_on(device), rows * cols, "input rows of an evaluated chunk",
                                 device);
    }
    if (ranks.size() < rows) {
      ranks = {};
      ranks = cuda::Array<NodeId>(cuda::memory_on(device), rows, "input nodes of an evaluated chunk", device);
    }
  }

  Evaluation run(nn::BlockModel& model, PredictionFile* predictions) {
    const auto start = std::chrono::steady_clock::now();
    const at::NoGradGuard no_grad;
    model.eval();
    const int last = model.num_layers() - 1;
    const auto sampler = sampling::make_sampler(
        context.graph->view(),
        {.fanouts = {-1}, .max_seeds = kMaxChunkNodes, .in_degrees = model.needs_in_degrees()},
        sampling_exchange(), 1, *context.pool);

    std::optional<store::ChunkTensor> table;
    const bool everywhere = predictions != nullptr;
    const auto pass_of = [&](int layer) -> LayerPass {
      return {.model = &model,
              .layer = layer,
              .table = table ? &*table : &context.graph->features(),
              .table_nodes = nodes_of(model, std::max(0, layer - 1), everywhere || layer == 0),
              .nodes = nodes_of(model, layer, everywhere),
              .sampler = sampler.get()};
    };
    for (int layer = 0; layer < last; ++layer) {
      const LayerPass pass = pass_of(layer);
      store::ChunkTensor next = make_table(layer + 1, pass.nodes.rows(), read_cols(model, layer + 1));
      apply_layer(pass, [&](const NodeChunk& chunk, const float* rows) {
        next.write_rows(chunk.first_row, chunk.count, rows);
      });
      next.fence(*context.machine, current_stream(device));
      if (table) table->close(*context.machine);
      table = std::move(next);
    }
    const Count classes = model.output_cols(last);
    const bool multi_label = context.graph->manifest().multi_label;
    ScoreBoard valid(classes, multi_label), test(classes, multi_label);
    const LayerPass pass = pass_of(last);
    apply_layer(pass, [&](const NodeChunk& chunk, const float* rows) {
      std::vector<NodeId> nodes;
      pass.nodes.list(chunk, nodes);
      score(nodes, rows, classes, valid, test);
      if (predictions != nullptr) write(nodes, rows, classes, *predictions);
    });
    if (table) table->close(*context.machine);
    model.train();
    release_buffers();
    Evaluation result{.valid = valid.finish(communicator), .test = test.finish(communicator)};
    result.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    return result;
  }

  /// Training needs the memory more than the next evaluation does.
  void release_buffers() {
    input = {};
    ranks = {};
    host_output = {};
    kept.reset();
  }

  void score(const std::vector<NodeId>& nodes, const float* rows, Count classes, ScoreBoard& valid,
             ScoreBoard& test) const {
    const auto width = static_cast<std::size_t>(classes);
    const std::int32_t* labels = context.graph->labels().data();
    const Count words = context.graph->manifest().label_words();
    for (std::size_t i = 0; i < nodes.size(); ++i) {
      const NodeId v = nodes[i] - context.graph->host_view().first_node;
      const Member member = members[static_cast<std::size_t>(v)];
      if (member == Member::none) continue;
      (member == Member::valid ? valid : test).add_label({rows + i * width, width}, labels + v * words);
    }
  }

  void write(const std::vector<NodeId>& nodes, const float* rows, Count classes, PredictionFile& file) const {
    const store::GraphView& view = context.graph->host_view();
    for (const NodeId node : nodes) {
      file.write_row(view.original_ids[node], rows);
      rows += classes;
    }
  }
};

LayerwiseEvaluator::LayerwiseEvaluator(const EvaluationContext& context)
    : state_(std::make_unique<State>(context)) {}
LayerwiseEvaluator::~LayerwiseEvaluator() = default;

bool LayerwiseEvaluator::fits(const nn::BlockModel& model) const { return state_->fits(model); }

Evaluation LayerwiseEvaluator::evaluate(nn::BlockModel& model) { return state_->run(model, nullptr); }

Evaluation LayerwiseEvaluator::predict(nn::BlockModel& model, const std::string& npy_path) {
  PredictionFile file(npy_path, state_->context.graph->host_view().num_nodes,
                      model.output_cols(model.num_layers() - 1), state_->communicator);
  const Evaluation result = state_->run(model, &file);
  file.close();
  return result;
}

void LayerwiseEvaluator::close() { state_->communicator.close(); }

}  // namespace strata::train
