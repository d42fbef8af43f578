// SPDX-License-Identifier: Apache-2.0
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <chrono>
#include <optional>
#include <vector>

#include "evaluation/evaluator.hpp"
#include "evaluation/layer_runner.hpp"
#include "evaluation/needed_nodes.hpp"
#include "evaluation/prediction_file.hpp"
#include "strata/comm/machine.hpp"
#include "strata/nn/model.hpp"
#include "strata/sampling/sampler.hpp"
#include "torch_device.hpp"

namespace strata::train {
namespace {

constexpr Count kValueBytes = sizeof(float);

/// Columns of the table that hidden layer `layer` reads.
Count read_cols(const nn::BlockModel& model, int layer) {
  return reads_projected(model, layer) ? model.cols(layer).projected : model.output_cols(layer - 1);
}

enum class Member : std::uint8_t { none, valid, test };

std::vector<Member> membership(const store::MachineGraph& graph) {
  const store::GraphView& view = graph.whole_host_view();
  std::vector<Member> members(at(view.num_local), Member::none);
  for (const NodeId v : graph.valid_nodes()) members[at(v - view.first_node)] = Member::valid;
  for (const NodeId v : graph.test_nodes()) members[at(v - view.first_node)] = Member::test;
  return members;
}

}  // namespace

struct LayerwiseEvaluator::State {
  EvaluationContext context;
  comm::Communicator communicator;
  Device device;
  std::vector<Member> members;
  /// The nodes needed for the scores, and for predictions of some nodes; the same for all evaluations, because
  /// the graph does not change.
  std::optional<NeededNodes> scored, predicted;
  LayerRunner runner;

  explicit State(const EvaluationContext& c)
      : context(c),
        communicator(c.ranks.world->duplicate()),
        device(c.ranks.device()),
        members(membership(*c.graph)),
        runner(context, communicator) {}

  bool distributed() const { return context.ranks.on_several_machines(); }

  sampling::ExchangeContext sampling_exchange() const {
    if (!distributed() || context.graph->is_replicated()) return {};
    return {.communicator = &communicator,
            .topology = context.ranks.topology,
            .machine_offsets = context.graph->machine_offsets(),
            .halo = context.graph->halo_lists(),
            .pool = context.pool};
  }
  /// Whether predict() writes all nodes.
  bool predicts_all() const {
    return context.target_ids.count == 0 ||
           context.target_ids.count == context.graph->whole_host_view().num_nodes;
  }
  bool is_predicted(NodeId original_id) const {
    return predicts_all() ||
           (original_id >= context.target_ids.first && original_id < context.target_ids.end());
  }

  LayerNodes all_nodes() const {
    return {context.graph->whole_host_view(), nullptr, context.graph->machine_offsets()};
  }
  /// The nodes that layer `layer` is applied to. Collective.
  LayerNodes nodes_of(const nn::BlockModel& model, int layer, Nodes nodes) {
    const bool scores = nodes == Nodes::scored;
    if (!scores && predicts_all()) return all_nodes();
    std::optional<NeededNodes>& needed = scores ? scored : predicted;
    if (!needed) needed = find_needed(model.num_layers(), nodes);
    return {context.graph->whole_host_view(), (*needed)[at(layer)].get(), context.graph->machine_offsets()};
  }
  NeededNodes find_needed(int num_layers, Nodes nodes) const {
    const store::GraphView& view = context.graph->whole_host_view();
    const auto for_scored = [&](const std::function<void(NodeId)>& visit) {
      for (std::size_t v = 0; v < members.size(); ++v) {
        const NodeId node = view.first_node + static_cast<NodeId>(v);
        if (is_scored(v) || (nodes == Nodes::predicted && is_predicted(view.original_ids[node]))) visit(node);
      }
    };
    return find_needed_nodes({.communicator = &communicator,
                              .graph = &view,
                              .rank_of_machine = context.ranks.machine->rank(),
                              .ranks_of_machine = context.ranks.machine->size(),
                              .num_layers = num_layers,
                              .most = context.most_needed,
                              .pool = context.pool,
                              .for_scored = for_scored});
  }
  bool is_scored(std::size_t v) const {
    return members[v] != Member::none && context.targets && context.targets.has(static_cast<Count>(v));
  }

  /// Bytes that tables of rows may take on all GPUs of the machine. Collective over the machine.
  Count gpu_room() const {
    constexpr double kSpared = 0.6;  // because the chunks that are computed need memory, too
    return static_cast<Count>(kSpared *
                              static_cast<double>(comm::free_gpu_bytes_per_rank(*context.ranks.machine)) *
                              context.ranks.machine->size());
  }

  /// Stripes rows over the GPUs as far as these have spare memory; the others lie on the host. Collective
  /// over the machine.
  tensor::Placement table_placement(Count rows, Count row_bytes) const {
    const Count striped = std::min(rows, gpu_room() / std::max<Count>(1, row_bytes));
    return {.segments = {{{tensor::Stratum::striped, striped}, {tensor::Stratum::host, rows - striped}}}};
  }

  /// This machine's share of its host's free memory. Collective over the machine.
  Count host_room() const {
    if (context.host_bytes > 0) return context.host_bytes;
    constexpr double kUsable = 0.9;
    return static_cast<Count>(
        kUsable * static_cast<double>(comm::free_host_memory(*context.ranks.machine).share_bytes));
  }

  /// Whether the rows of every two consecutive layers fit into what GPUs and host have free.
  bool fits(const nn::BlockModel& model, Nodes nodes) {
    Count largest = 0, previous = 0;
    for (int layer = 1; layer < model.num_layers(); ++layer) {
      const Count rows = nodes_of(model, layer - 1, nodes).rows();
      const Count bytes = rows * read_cols(model, layer) * kValueBytes;
      largest = std::max(largest, previous + bytes);
      previous = bytes;
    }
    const Count on_gpus = gpu_room(), on_host = host_room();
    std::int64_t enough = largest - on_gpus <= on_host;
    communicator.all_reduce(std::span(&enough, 1), comm::Communicator::Op::min);
    return enough != 0;
  }

  tensor::ChunkTensor make_table(int layer, Count rows, Count cols) const {
    return tensor::ChunkTensor::create(
        *context.ranks.machine,
        {.name = "input of layer " + std::to_string(layer) + " of all nodes", .rows = rows, .cols = cols},
        table_placement(rows, cols * kValueBytes));
  }

  /// Whether training chooses by weight the neighbors whose rows the layer reads.
  bool by_weight(int layer, int num_layers) const {
    const sampling::SamplerOptions& options = context.sampler;
    if (options.method != sampling::Method::weighted) return false;
    const auto hop = at(num_layers - 1 - layer);
    return hop >= options.fanouts.size() || options.fanouts[hop] >= 0;
  }

  using Consume = std::function<void(const LayerPass&, const NodeChunk&, const float* rows)>;
  /// Applies all layers, and gives `consume` the outputs of the nodes that are needed. Returns false if it was
  /// stopped.
  bool apply_layers(nn::BlockModel& model, Nodes needed, const Consume& consume) {
    const at::NoGradGuard no_grad;
    model.eval();
    const int last = model.num_layers() - 1;
    const auto sampler = sampling::make_sampler(
        context.graph->whole_view(),
        {.fanouts = {model.traits().reads_neighbors ? -1 : 0},
         .max_seeds = LayerRunner::kMaxChunkNodes,
         .edge_ids = context.graph->manifest().types.several() && model.traits().needs_types,
         .in_degrees = model.traits().needs_in_degrees},
        sampling_exchange(), 1, *context.pool);

    std::optional<tensor::ChunkTensor> table;
    const auto pass_of = [&](int layer) -> LayerPass {
      return {.model = &model,
              .layer = layer,
              .table = table ? &*table : &context.graph->features(),
              .table_nodes = layer == 0 ? all_nodes() : nodes_of(model, layer - 1, needed),
              .nodes = nodes_of(model, layer, needed),
              .sampler = sampler.get(),
              .learned = layer == 0 ? context.learned : nullptr,
              .by_weight = by_weight(layer, model.num_layers())};
    };
    StopPoll poll(communicator, context.stop_requested);
    bool going = true;
    for (int layer = 0; layer < last && going; ++layer) {
      const LayerPass pass = pass_of(layer);
      tensor::ChunkTensor next = make_table(layer + 1, pass.nodes.rows(), read_cols(model, layer + 1));
      going = runner.apply(pass, poll, [&](const NodeChunk& chunk, const float* rows) {
        next.write_rows(chunk.first_row, chunk.count, rows);
      });
      next.fence(*context.ranks.machine, current_stream(device));
      if (table) table->close(*context.ranks.machine);
      table = std::move(next);
    }
    if (going) {
      const LayerPass pass = pass_of(last);
      going = runner.apply(pass, poll,
                           [&](const NodeChunk& chunk, const float* rows) { consume(pass, chunk, rows); });
    }
    if (table) table->close(*context.ranks.machine);
    model.train();
    runner.release_buffers();  // because training needs the memory
    return going;
  }

  Evaluation run(nn::BlockModel& model, PredictionFile* predictions) {
    const auto start = std::chrono::steady_clock::now();
    const Count outputs = model.output_cols(model.num_layers() - 1);
    const auto new_board = [&] { return context.task->make_board(context.graph->manifest(), outputs); };
    const std::unique_ptr<ScoreBoard> valid = new_board(), test = new_board();
    const Nodes needed = predictions == nullptr ? Nodes::scored : Nodes::predicted;
    const bool going =
        apply_layers(model, needed, [&](const LayerPass& pass, const NodeChunk& chunk, const float* rows) {
          std::vector<NodeId> nodes;
          pass.nodes.list(chunk, nodes);
          if (valid) score(nodes, rows, outputs, *valid, *test);
          if (predictions != nullptr) write(nodes, rows, outputs, *predictions);
        });
    Evaluation result;
    result.stopped = !going;
    if (going && valid) {
      const ScoreWork work{.communicator = &communicator, .pool = context.pool, .alive = context.alive};
      result.valid = valid->finish(work);
      result.test = test->finish(work);
      result.test_details = test->details();
    }
    result.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    return result;
  }

  void score(const std::vector<NodeId>& nodes, const float* rows, Count outputs, ScoreBoard& valid,
             ScoreBoard& test) const {
    const auto width = at(outputs);
    if (!context.targets) return;
    for (std::size_t i = 0; i < nodes.size(); ++i) {
      const NodeId v = nodes[i] - context.graph->whole_host_view().first_node;
      const Member member = members[at(v)];
      if (member == Member::none) continue;
      (member == Member::valid ? valid : test).add({rows + i * width, width}, context.targets.of(v));
    }
  }

  void write(const std::vector<NodeId>& nodes, const float* rows, Count outputs, PredictionFile& file) const {
    const store::GraphView& view = context.graph->whole_host_view();
    std::vector<float> prediction(at(outputs));
    for (const NodeId node : nodes) {
      const NodeId id = view.original_ids[node];
      if (is_predicted(id)) {
        std::copy_n(rows, outputs, prediction.begin());
        if (!context.task->of_links()) context.task->to_prediction(prediction, context.graph->manifest());
        file.write_row(predicts_all() ? id : id - context.target_ids.first, prediction.data());
      }
      rows += outputs;
    }
  }
};

LayerwiseEvaluator::LayerwiseEvaluator(const EvaluationContext& context)
    : state_(std::make_unique<State>(context)) {}
LayerwiseEvaluator::~LayerwiseEvaluator() = default;

bool LayerwiseEvaluator::fits(const nn::BlockModel& model, Nodes nodes) const {
  return state_->fits(model, nodes);
}

Evaluation LayerwiseEvaluator::evaluate(nn::BlockModel& model) { return state_->run(model, nullptr); }

Evaluation LayerwiseEvaluator::predict(nn::BlockModel& model, const std::string& npy_path) {
  const EvaluationContext& context = state_->context;
  PredictionFile file(
      npy_path,
      state_->predicts_all() ? context.graph->whole_host_view().num_nodes : context.target_ids.count,
      model.output_cols(model.num_layers() - 1), state_->communicator);
  const Evaluation result = state_->run(model, &file);
  if (!result.stopped) file.close();
  return result;
}

bool LayerwiseEvaluator::for_outputs(
    nn::BlockModel& model, const std::function<void(const NodeChunk& chunk, const float* rows)>& consume) {
  return state_->apply_layers(
      model, Nodes::predicted,
      [&](const LayerPass&, const NodeChunk& chunk, const float* rows) { consume(chunk, rows); });
}

void LayerwiseEvaluator::close() { state_->communicator.close(); }

}  // namespace strata::train
