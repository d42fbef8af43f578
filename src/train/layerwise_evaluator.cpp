#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <chrono>
#include <numeric>
#include <optional>
#include <vector>

#include "prediction_file.hpp"
#include "strata/feature/fetcher.hpp"
#include "strata/nn/model.hpp"
#include "strata/sampling/sampler.hpp"
#include "strata/train/evaluator.hpp"
#include "torch_device.hpp"

namespace strata::train {
namespace {

struct NodeRange {
  Count first = 0, count = 0;  ///< local ids of the machine
};

/// Cuts [first, last) so that a piece has at most `max_nodes` nodes and, unless one node alone has more,
/// `max_edges` edges.
std::vector<NodeRange> cut(const Count* indptr, Count first, Count last, Count max_nodes, Count max_edges) {
  std::vector<NodeRange> pieces;
  for (Count v = first; v < last; ++v) {
    const bool fits = !pieces.empty() && pieces.back().count < max_nodes &&
                      indptr[v + 1] - indptr[pieces.back().first] <= max_edges;
    if (!fits) pieces.push_back({v, 0});
    ++pieces.back().count;
  }
  return pieces;
}

constexpr Count kMaxChunkNodes = 65536;

/// Edges of a chunk so that its gathered rows stay below the budget however few neighbours its nodes share.
Count max_chunk_edges(Count widest_cols, Device device) {
  const Count budget_bytes = device.is_cuda() ? Count{1} << 30 : Count{128} << 20;
  return std::max<Count>(budget_bytes / (widest_cols * static_cast<Count>(sizeof(float))), 4096);
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
  std::vector<Member> members;
  cuda::Array<float> input;
  cuda::Array<float> host_output;
  at::Tensor kept;  ///< what to_host() points into on the cpu

  explicit State(const EvaluationContext& c)
      : context(c),
        communicator(c.world->duplicate()),
        device(c.machine->device()),
        members(membership(*c.graph)) {}

  bool distributed() const { return context.topology->num_machines() > 1; }

  sampling::ExchangeContext sampling_exchange() const {
    if (!distributed()) return {};
    return {.communicator = &communicator,
            .topology = context.topology,
            .machine_offsets = context.graph->machine_offsets()};
  }
  feature::RowExchangeContext row_exchange() const {
    if (!distributed()) return {};
    return {.communicator = &communicator,
            .topology = context.topology,
            .machine_offsets = context.graph->machine_offsets(),
            .machine = context.machine->index()};
  }

  /// This rank's pieces of the machine's nodes; as many as the rank with the most, the rest empty, since
  /// every step is collective.
  std::vector<NodeRange> chunks(Count max_edges) const {
    const store::GraphView& view = context.graph->host_view();
    const Count ranks = context.machine->size(), rank = context.machine->rank();
    std::vector<NodeRange> pieces = cut(view.indptr, view.num_local * rank / ranks,
                                        view.num_local * (rank + 1) / ranks, kMaxChunkNodes, max_edges);
    std::vector<std::int64_t> count{static_cast<std::int64_t>(pieces.size())};
    communicator.all_reduce(std::span(count), comm::Communicator::Op::max);
    pieces.resize(static_cast<std::size_t>(count[0]));
    return pieces;
  }

  store::ChunkTensor make_hidden(int layer, Count cols) const {
    const Count rows = context.graph->host_view().num_local;
    return store::ChunkTensor::create(
        *context.machine,
        {.name = "layer " + std::to_string(layer) + " of all nodes", .rows = rows, .cols = cols},
        store::Placement::on_host(rows));
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
    const std::vector<NodeRange>* chunks;
    sampling::MiniBatchSampler* sampler;
  };

  /// Applies one layer to all nodes; `consume(range, rows)` gets each chunk's result in host memory.
  template <typename Consume>
  void apply_layer(const LayerPass& pass, Consume&& consume) {
    const Count cols = pass.table->spec().cols;
    feature::RowFetcher fetcher(*pass.table, device, row_exchange(), *context.pool);
    const cuda::Stream stream = current_stream(device);
    std::vector<NodeId> seeds;
    for (const NodeRange& range : *pass.chunks) {
      seeds.resize(static_cast<std::size_t>(range.count));
      std::iota(seeds.begin(), seeds.end(), context.graph->host_view().first_node + range.first);
      const sampling::MiniBatch batch = pass.sampler->sample(seeds, {.seed = context.seed}, 0, stream);
      const Count rows = batch.num_inputs();
      if (input.size() < rows * cols) {
        input = {};
        input = cuda::Array<float>(cuda::memory_on(device), rows * cols, "input rows of an evaluated chunk",
                                   device);
      }
      fetcher.fetch(batch.input_nodes(), rows, input.data(), stream);
      context.alive();
      if (range.count == 0) continue;
      const at::Tensor output =
          pass.model->forward_layer(pass.layer, wrap_rows(input.data(), rows, cols, device),
                                    batch.blocks.front(), {.key = {}, .training = false});
      consume(range, to_host(output, stream));
    }
    context.machine->barrier();
  }

  Evaluation run(nn::BlockModel& model, PredictionFile* predictions) {
    const auto start = std::chrono::steady_clock::now();
    const at::NoGradGuard no_grad;
    model.eval();
    const int last = model.num_layers() - 1;
    Count widest = context.graph->features().spec().cols;
    for (int layer = 0; layer < last; ++layer) widest = std::max<Count>(widest, model.output_cols(layer));
    const std::vector<NodeRange> pieces = chunks(max_chunk_edges(widest, device));
    const auto sampler = sampling::make_sampler(
        context.graph->view(),
        {.fanouts = {-1}, .max_seeds = kMaxChunkNodes, .in_degrees = model.needs_in_degrees()},
        sampling_exchange(), 1, *context.pool);

    std::optional<store::ChunkTensor> table;
    for (int layer = 0; layer < last; ++layer) {
      store::ChunkTensor next = make_hidden(layer, model.output_cols(layer));
      apply_layer({&model, layer, table ? &*table : &context.graph->features(), &pieces, sampler.get()},
                  [&](const NodeRange& range, const float* rows) {
                    next.write_rows(range.first, range.count, rows);
                  });
      if (table) table->close(*context.machine);
      table = std::move(next);
    }
    const Count classes = model.output_cols(last);
    ScoreBoard valid(classes), test(classes);
    apply_layer({&model, last, table ? &*table : &context.graph->features(), &pieces, sampler.get()},
                [&](const NodeRange& range, const float* rows) {
                  score(range, rows, classes, valid, test);
                  if (predictions != nullptr) write(range, rows, classes, *predictions);
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
    host_output = {};
    kept.reset();
  }

  void score(const NodeRange& range, const float* rows, Count classes, ScoreBoard& valid,
             ScoreBoard& test) const {
    const auto labels = context.graph->labels();
    for (Count i = 0; i < range.count; ++i) {
      const auto v = static_cast<std::size_t>(range.first + i);
      if (members[v] == Member::none || labels[v] < 0) continue;
      (members[v] == Member::valid ? valid : test)
          .add({rows + i * classes, static_cast<std::size_t>(classes)}, labels[v]);
    }
  }

  void write(const NodeRange& range, const float* rows, Count classes, PredictionFile& file) const {
    const store::GraphView& view = context.graph->host_view();
    for (Count i = 0; i < range.count; ++i) {
      file.write_row(view.original_ids[view.first_node + range.first + i], rows + i * classes);
    }
  }
};

LayerwiseEvaluator::LayerwiseEvaluator(const EvaluationContext& context)
    : state_(std::make_unique<State>(context)) {}
LayerwiseEvaluator::~LayerwiseEvaluator() = default;

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
