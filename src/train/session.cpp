// SPDX-License-Identifier: Apache-2.0
#include "session.hpp"

#include <ATen/ops/tensor.h>
#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <utility>

#include "evaluation/link_evaluator.hpp"
#include "load_graph.hpp"
#include "strata/util/error.hpp"
#include "strata/util/log.hpp"
#include "strata/util/text.hpp"
#include "task/edge_links.hpp"
#include "task/edge_targets.hpp"
#include "torch_device.hpp"
#include "tuning/device_mix.hpp"

namespace strata::train {
namespace {

/// Most spans of all ranks together: their text, up to half a gigabyte, passes through the first rank's
/// memory.
constexpr std::size_t kSpansOfTrace = 1 << 22;

batches::PipelineParts pipeline_parts(RunContext& context, const store::MachineGraph& graph) {
  return {.ranks = context.ranks(),
          .graph = &graph,
          .sample_pool = &context.sample_pool,
          .gather_pool = &context.gather_pool};
}

batches::EpochNodes epoch_of(const Session& session) {
  if (session.links == nullptr) return {};
  return {.nodes = session.links->destinations(), .links = session.links.get()};
}

/// Weights of edges, of a mean of 1, on a device.
at::Tensor weights_of(const std::vector<Link>& links, at::Device device) {
  double sum = 0;
  for (const Link& link : links) sum += static_cast<double>(link.weight);
  if (!(sum > 0)) throw InputError("--link-weights: all edges have the weight 0", "Leave it out.");
  const double scale = static_cast<double>(links.size()) / sum;
  std::vector<float> weights;
  for (const Link& link : links) weights.push_back(static_cast<float>(link.weight * scale));
  weights.push_back(0);
  return at::tensor(at::ArrayRef<float>(weights), at::kFloat).to(device);
}

LinkTable link_table_of(const RunContext& context, const std::vector<Link>& links, const LinkTypes& types) {
  const at::Device device = torch_device(context.device);
  std::vector<std::int64_t> relations;
  for (const Link& link : links) relations.push_back(link.relation);
  relations.push_back(0);
  LinkTable table{.relations = at::tensor(at::ArrayRef<std::int64_t>(relations), at::kLong).to(device)};
  if (context.config.link_weights) table.weights = weights_of(links, device);
  const EdgeTargets* const targets = context.task.edge_targets();
  if (targets == nullptr) return table;
  targets->require(links, types);
  std::vector<std::int32_t> words;
  for (const Link& link : links) {
    const std::int32_t* const of_link = targets->of(link, types);
    words.insert(words.end(), of_link, of_link + targets->cols);
  }
  words.insert(words.end(), at(targets->cols), targets->missing());
  table.targets = at::tensor(at::ArrayRef<std::int32_t>(words), at::kInt)
                      .view({std::ssize(links) + 1, targets->cols})
                      .to(device);
  return table;
}

/// Sets the table of the links that it makes seeds of. Collective.
std::unique_ptr<batches::LinkSeeds> make_links(RunContext& context, const store::MachineGraph& graph,
                                               LinkTable& table) {
  if (!context.task.of_links()) return nullptr;
  auto global_ids = std::make_shared<const std::vector<NodeId>>(global_ids_of(graph));
  const LinkTypes types(context.config, graph.manifest());
  const std::vector<Link> links = listed_links(graph, types, context.ranks());
  if (links.empty())
    throw InputError("the graph has no edges to learn from",
                     "Give a graph with edges, or a smaller --edge-split.");
  table = link_table_of(context, links, types);
  if (context.first_rank())
    spdlog::info("{} links to learn; {} of the pairs of nodes are held out", format_count(std::ssize(links)),
                 graph.manifest().holds_edges_out() ? "what the parts hold out"
                                                    : "shares " + context.config.edge_split);
  return std::make_unique<batches::LinkSeeds>(
      batches::LinkGraph{.stored = &graph,
                         .pool = &context.sample_pool,
                         .counts = context.machine.rank() == 0,
                         .global_ids =
                             [global_ids](std::span<const NodeId> ids, NodeId* out) {
                               std::ranges::transform(ids, out,
                                                      [&](NodeId id) { return (*global_ids)[at(id)]; });
                             }},
      context.communicator(), link_options(links, types, context.config, *global_ids));
}

std::unique_ptr<PairLoss> make_pair_loss(const RunContext& context, const LinkTable& table,
                                         Learner& learner) {
  if (!context.task.of_links()) return nullptr;
  auto decoder = shared_decoder_of(*learner.model);
  if (context.task.edge_targets() == nullptr)
    return std::make_unique<LinkLoss>(context.config.loss, std::move(decoder), table);
  return std::make_unique<EdgeLoss>(std::move(learner.loss), std::move(decoder), table);
}

batches::PipelineOptions pipeline_options(const Session& session) {
  const TrainConfig& config = session.context.config;
  const nn::BlockModel& model = *session.learner.model;
  if (config.exchange == batches::Transport::nccl && !model.traits().tolerates_padding)
    throw InputError(fmt::format("--exchange nccl is not possible: {} does not tolerate padded batches",
                                 model_name(config)),
                     "Give --exchange auto, or a model with the trait tolerates_padding.");
  return {.sampler = block_options(model, session.context, session.graph.manifest().types, session.table),
          .sampler_device = config.sampler_device,
          .epoch = epoch_of(session),
          .global_batch = session.context.global_batch,
          .seed = config.seed,
          .overlap = config.pipeline,
          .gather = !session.table.defined() && session.graph.manifest().feature_cols > 0,
          .pad = model.traits().tolerates_padding,
          .exchange = config.exchange,
          .rows_in_bf16 = config.row_exchange_precision == RowPrecision::bf16,
          .may_overlap_launches = !gives_sm_split(config),
          .targets = session.targets,
          .brings_places = session.links != nullptr,
          .trace = session.trace.get()};
}

/// Throws InputError where --cuda-graph on cannot be obeyed.
bool replays(CudaGraphs requested, bool pads) {
  if (requested == CudaGraphs::on && !pads) {
    throw InputError(
        "--cuda-graph on is not possible here",
        "It needs a GPU, of its own for every rank of several machines, fanouts without -1, and a "
        "model that tolerates padded batches; --cuda-graph auto goes on without.");
  }
  return requested != CudaGraphs::off && pads;
}

/// Whether steps of a GPU wait for learned rows in host memory, which no recording can.
bool holds_rows_on_host(const RunContext& context) {
  const bool waits =
      context.config.learned_rows > 0 && context.device.is_cuda() && is_mixed(context.topology);
  if (waits)
    spdlog::info("learned rows lie in host memory beside ranks without a GPU: steps are not recorded");
  return waits;
}

/// Makes a reducer; its launches take their places among the pipeline's.
std::unique_ptr<comm::AllReducer> make_reducer(const RunContext& context, batches::Pipeline& pipeline) {
  auto reducer = comm::make_all_reducer(context.communicator(), context.topology, context.device,
                                        pipeline.most_launch_blocks());
  comm::LaunchOrder* const order = pipeline.launch_order();
  return order == nullptr ? std::move(reducer) : comm::in_order(std::move(reducer), *order);
}

std::unique_ptr<GradientExchange> make_exchange(const RunContext& context, batches::Pipeline& pipeline) {
  if (context.config.learned_rows == 0) return nullptr;
  return std::make_unique<GradientExchange>(context.ranks(), pipeline.launch_order(),
                                            pipeline.most_launch_blocks());
}

store::MachineGraph load(RunContext& context) {
  store::MachineGraph graph = load_graph(context, GraphUse::training, context.config.target);
  context.alive("preparing to train");
  return graph;
}

}  // namespace

Session::Session(RunContext& c, const ModelFactory& make_model)
    : context(c),
      graph(load(c)),
      target(c.task.of_links() ? all_types(graph) : find_target(c.config.target, graph)),
      targets(c.task.targets(graph)),
      links(make_links(c, graph, link_table)),
      learner(c, graph, links ? links->size() : std::ssize(graph.train_nodes()), make_model),
      pair_loss(make_pair_loss(c, link_table, learner)),
      table(c.config.start_early ? at::Tensor() : table_in_place(*learner.model, graph, c)),
      trace(c.config.trace.empty() ? nullptr
                                   : std::make_unique<batches::Trace>(kSpansOfTrace / at(c.world.size()))),
      pipeline(pipeline_parts(c, graph), pipeline_options(*this)),
      graphs(replays(c.config.cuda_graph, pipeline.pads() && !holds_rows_on_host(c))),
      evaluators(c, graph, {.targets = targets, .of = target}, *learner.model, learner.rows.get()),
      missing(count_missing(targets, graph, c.ranks())),
      reducer(make_reducer(c, pipeline)),
      exchange(make_exchange(c, pipeline)) {}

RunFacts Session::facts() const {
  std::vector<std::string> hosts;
  for (const auto& rank : context.topology.ranks) hosts.push_back(rank.host);
  const bool alone = context.topology.num_machines() == 1;
  return {.config = context.config,
          .origin = run_origin(hosts, context.first_rank() ? build_program(context.config) : ""),
          .topology = context.topology,
          .manifest = graph.manifest(),
          .plan = graph.plan(),
          .hottest_rows = graph.hottest_rows(),
          .presampled_batches = graph.presampled_batches(),
          .missing = missing,
          .num_parameters = learner.parameters.values().numel(),
          .global_batch = context.global_batch,
          .steps_per_epoch = pipeline.steps_per_epoch(),
          .batch_sizes = pipeline.batch_sizes(),
          .batches_in_flight = pipeline.batches_in_flight(),
          .link = pipeline.link(),
          .gpu_link = pipeline.gpu_link(),
          .cores = context.cores,
          .reducer = reducer->name(),
          .row_exchange = alone ? std::nullopt : std::optional(pipeline.routes().rows)};
}

ExchangeTotals Session::exchange_totals() const {
  return sum_reports(context.communicator(), pipeline.neighbor_exchange(), pipeline.row_exchange_report());
}

RankTraffic Session::traffic() const {
  return {.neighbors = pipeline.neighbor_exchange(), .rows = pipeline.row_exchange_report()};
}

void Session::close() {
  context.alive("closing");
  pipeline.end();
  if (trace) trace->write(context.config.trace, context.communicator());
  evaluators.close();
  if (exchange) exchange->close();
  reducer->close();
  pipeline.close();
  graph.close(context.machine);
}

}  // namespace strata::train
