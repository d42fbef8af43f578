// SPDX-License-Identifier: Apache-2.0
#include "evaluation/link_evaluator.hpp"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/tensor.h>

#include <algorithm>
#include <chrono>

#include "strata/batches/fetcher.hpp"
#include "strata/batches/links.hpp"
#include "strata/nn/model.hpp"
#include "task/edge_links.hpp"
#include "task/link_scores.hpp"
#include "torch_device.hpp"

namespace strata::train {
namespace {

constexpr Count kRowsAtOnce = 1 << 16;

}  // namespace

LinkEvaluator::LinkEvaluator(const EvaluationContext& context, const TrainConfig& config,
                             LayerwiseEvaluator& exact, std::vector<NodeId> global_ids)
    : context_(context),
      config_(config),
      exact_(exact),
      global_ids_(std::move(global_ids)),
      communicator_(context.ranks.world->duplicate()),
      device_(context.ranks.device()) {}

Evaluation LinkEvaluator::evaluate(nn::BlockModel& model) {
  const auto start = std::chrono::steady_clock::now();
  const comm::Machine& machine = *context_.ranks.machine;
  tensor::ChunkTensor outputs = tensor::ChunkTensor::create(
      machine,
      {.name = "outputs of all nodes",
       .rows = context_.graph->host_view().num_local,
       .cols = model.output_cols(model.num_layers() - 1)},
      {.segments = {{{tensor::Stratum::host, context_.graph->host_view().num_local}}}});
  Evaluation result;
  result.stopped = !exact_.for_outputs(model, [&](const NodeChunk& chunk, const float* rows) {
    outputs.write_rows(chunk.first_row, chunk.count, rows);
  });
  outputs.fence(machine, current_stream(device_));
  if (!result.stopped) {
    result.valid = score(outputs, graph::Split::valid);
    result.test = score(outputs, graph::Split::test);
  }
  outputs.close(machine);
  result.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return result;
}

/// This rank's share of the links of a split: those that the parts hold out, or those that loading did.
std::vector<store::HeldOutEdge> LinkEvaluator::share_of(graph::Split split) const {
  const store::MachineGraph& graph = *context_.graph;
  const store::GraphView& view = graph.host_view();
  std::vector<store::HeldOutEdge> edges;
  const auto held = graph.held_edges(split);
  for (std::size_t e = 3 * at(communicator_.rank()); e < held.size(); e += 3 * at(communicator_.size()))
    edges.push_back({global_ids_[at(held[e])], global_ids_[at(held[e + 1])]});
  for (const store::HeldOutEdge& edge : graph.held_out(split))
    if (is_link(view.original_ids[edge.source], view.original_ids[edge.destination],
                graph.manifest().undirected))
      edges.push_back(edge);
  return edges;
}

Scores LinkEvaluator::score(const tensor::ChunkTensor& outputs, graph::Split split) {
  const at::NoGradGuard no_grad;
  const std::vector<store::HeldOutEdge> edges = share_of(split);
  const Count at_once = std::max<Count>(1, kRowsAtOnce / (2 + config_.eval_negatives));
  std::int64_t rounds = (std::ssize(edges) + at_once - 1) / at_once;
  communicator_.all_reduce(std::span(&rounds, 1), comm::Communicator::Op::max);
  batches::RowExchangeContext exchange;
  if (context_.ranks.on_several_machines())
    exchange = {&communicator_, context_.ranks.topology, context_.graph->machine_offsets(),
                context_.ranks.machine->index()};
  batches::RowFetcher fetcher(outputs, device_, exchange, *context_.pool);
  LinkScoreBoard board(config_.loss);
  for (Count round = 0; round < rounds; ++round) {
    const Count begin = std::min(std::ssize(edges), round * at_once),
                end = std::min(std::ssize(edges), begin + at_once);
    const auto piece = std::span(edges).subspan(at(begin), at(end - begin));
    const at::Tensor scores = scores_of(piece, fetcher, outputs.spec().cols);
    context_.alive();
    const auto* values = scores.const_data_ptr<float>();
    for (std::size_t i = 0; i < piece.size(); ++i, values += 1 + config_.eval_negatives)
      board.add(values[0], {values + 1, at(config_.eval_negatives)});
  }
  return board.finish({.communicator = &communicator_, .pool = context_.pool, .alive = context_.alive});
}

/// Destinations that the key of an edge's ends chooses.
void LinkEvaluator::draw(const store::HeldOutEdge& edge, std::span<NodeId> negatives) const {
  const store::GraphView& view = context_.graph->host_view();
  const std::uint64_t source = node_key({.seed = context_.seed, .epoch = ~std::uint32_t{0}, .step = 0},
                                        RandomUse::negative, 1, view.original_ids[edge.source]);
  std::uint64_t word = mix64(source ^ mix64(static_cast<std::uint64_t>(view.original_ids[edge.destination])));
  const batches::CandidateDraw candidates({0, std::ssize(global_ids_)}, {}, "destinations");
  for (NodeId& negative : negatives) negative = global_ids_[at(candidates(word = mix64(word)))];
}

/// [edges, 1 + negatives] f32 in host memory: the score of each edge, then those of its negatives. Collective.
at::Tensor LinkEvaluator::scores_of(std::span<const store::HeldOutEdge> edges, batches::RowFetcher& outputs,
                                    Count cols) {
  const Count count = std::ssize(edges), pairs = 1 + config_.eval_negatives;
  std::vector<NodeId> ids(at(count * (1 + pairs)));
  for (Count i = 0; i < count; ++i) {
    ids[at(i)] = edges[at(i)].source;
    NodeId* const destinations = ids.data() + count + i * pairs;
    destinations[0] = edges[at(i)].destination;
    draw(edges[at(i)], {destinations + 1, at(config_.eval_negatives)});
  }
  const at::Tensor where = at::tensor(at::ArrayRef<NodeId>(ids), at::kLong).to(torch_device(device_));
  const at::Tensor rows = at::empty({std::ssize(ids), cols}, where.options().dtype(at::kFloat));
  outputs.fetch({.ids = where.const_data_ptr<NodeId>(), .count = std::ssize(ids)},
                rows.mutable_data_ptr<float>(), current_stream(device_));
  const at::Tensor sources = rows.narrow(0, 0, count).unsqueeze(1);
  return rows.slice(0, count).view({count, pairs, cols}).mul(sources).sum(2).cpu().contiguous();
}

}  // namespace strata::train
