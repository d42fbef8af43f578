// SPDX-License-Identifier: Apache-2.0
#include "session.hpp"

#include <ATen/Context.h>
#include <ATen/Parallel.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <string_view>

#include "loading/presampler.hpp"
#include "loading/sampler_choice.hpp"
#include "strata/comm/resources.hpp"
#include "strata/cuda/device.hpp"
#include "strata/cuda/stream.hpp"
#include "strata/graph/manifest_file.hpp"
#include "strata/graph/synthetic.hpp"
#include "strata/nn/model.hpp"
#include "strata/util/error.hpp"
#include "strata/util/log.hpp"
#include "torch_device.hpp"
#include "tuning/device_mix.hpp"

namespace strata::train {
namespace {

/// Before anything is loaded.
comm::Topology find_topology(const TrainConfig& config, const comm::World& world) {
  comm::Topology topology = comm::discover(world.communicator(), config.topology);
  check_device_options(config, topology);
  if (is_mixed(topology) && world.rank() == 0) spdlog::warn("{}", mix_warning(topology));
  return topology;
}

comm::Watchdog::Options watchdog_options(const TrainConfig& config, const StopListener& stop) {
  comm::Watchdog::Options options;
  options.patience = std::chrono::seconds(config.watchdog_seconds);
  options.stop_requested = [&stop] { return stop.requested(); };
  return options;
}

constexpr std::string_view kSynthetic = "synthetic:";

bool is_synthetic(const std::string& graph) { return graph.starts_with(kSynthetic); }

}  // namespace

Session::Session(const TrainConfig& c, const comm::World& w, StopListener& stop_listener,
                 const ModelFactory& make)
    : config(c),
      world(w),
      stop(stop_listener),
      topology(find_topology(c, w)),
      machine(w.communicator(), topology),
      device(machine.device()),
      watchdog(w, watchdog_options(c, stop_listener)),
      cores(comm::resources_of(machine).cores),
      sample_pool(cores),
      gather_pool(cores),
      global_batch(c.global_batch_size > 0 ? c.global_batch_size : c.batch_size * w.size()),
      graph(load_graph()),
      sample_communicator_(w.communicator().duplicate()),
      gather_communicator_(w.communicator().duplicate()),
      launch_order_(device) {
  alive("preparing to train");
  at::set_num_threads(cores);
  at::globalContext().setAllowTF32CuBLAS(config.precision == Precision::tf32);
  at::globalContext().setAllowBF16ReductionCuBLAS(false);
  use_own_stream(device);
  make_model(make);
  make_loss();
  make_row_exchange();
  make_loader();
  make_optimizer();
  make_evaluators();
  unlabelled = count_unlabelled(graph, machine, world.communicator());
  reducer = comm::make_all_reducer(world.communicator(), topology, device);
  if (row_exchange) reducer = comm::in_order(std::move(reducer), launch_order_);
}

namespace {

/// Refuses before anything large is read.
void check_trainable(const TrainConfig& config, Count feature_cols, Count num_classes, Count num_train,
                     bool multi_label = false) {
  const std::string& graph = config.graph;
  if (feature_cols == 0) {
    throw InputError(fmt::format("{}: the graph has no node features", graph),
                     "Build it from an input with features.");
  }
  if (num_classes < (multi_label ? 1 : 2)) {
    throw InputError(fmt::format("{}: the graph has no labels", graph),
                     "Build it from an input with node labels.");
  }
  if (multi_label && config.loss != LossKind::bce) {
    throw InputError(fmt::format("--loss {} needs one class a node, but nodes of {} may have several",
                                 enum_name(config.loss), graph),
                     "Use --loss bce.");
  }
  if (config.metric == Metric::roc_auc && num_classes != 2 && !multi_label) {
    throw InputError(fmt::format("--metric roc_auc needs two classes; {} has {}", graph, num_classes),
                     "Use --metric accuracy or macro_f1.");
  }
  if (num_train == 0) {
    throw InputError(fmt::format("{}: the graph has no training nodes", graph),
                     "Build it from an input with a training split.");
  }
}

/// The model is made when the graph is there; one of a user may need anything.
bool may_need_in_degrees(const TrainConfig& config) {
  return !config.own_model.empty() ||
         (config.model != nn::ModelKind::sage && config.model != nn::ModelKind::gat);
}

void require_f32(const torch::nn::Module& model) {
  for (const auto& item : model.named_parameters()) {
    if (item.value().scalar_type() != at::kFloat)
      throw Error(fmt::format("the parameter \"{}\" is {}, not f32", item.key(),
                              c10::toString(item.value().scalar_type())),
                  "Make the model's parameters f32.");
  }
}

std::vector<std::int32_t> no_label(const graph::Manifest& manifest) {
  return manifest.multi_label ? unlabelled_set(manifest.num_classes) : std::vector<std::int32_t>{-1};
}

/// Training nodes of each class. Collective.
std::vector<Count> count_classes(const store::MachineGraph& graph, const comm::Machine& machine,
                                 const comm::Communicator& communicator) {
  std::vector<std::int64_t> counts(static_cast<std::size_t>(graph.manifest().num_classes));
  const store::GraphView& view = graph.host_view();
  for (const NodeId v : machine.rank() == 0 ? graph.train_nodes() : std::span<const NodeId>()) {
    if (!view.owns(v)) continue;
    if (!graph.has_label(v - view.first_node)) continue;
    const std::int32_t* label =
        graph.labels().data() + (v - view.first_node) * graph.manifest().label_words();
    if (!graph.manifest().multi_label) {
      ++counts[static_cast<std::size_t>(*label)];
      continue;
    }
    for (std::size_t c = 0; c < counts.size(); ++c) counts[c] += has_class(label, static_cast<Count>(c));
  }
  communicator.all_reduce(std::span(counts));
  return counts;
}

}  // namespace

store::MachineGraph Session::load_graph() {
  // How long it takes depends on the graph and the disk; a lost host is noticed all the same.
  watchdog.take_time("loading the graph");
  store::LoadOptions options{.edge_weights = config.sampler == sampling::Method::weighted,
                             .in_degrees = may_need_in_degrees(config),
                             .row_normalize = config.normalize_features,
                             .placement = placement::parse_placement(config.placement),
                             .batch = {.seeds = seeds_per_rank(), .fanouts = config.fanouts},
                             .host_path = config.host_gather,
                             .host_threads = config.host_threads,
                             .presampling = presampling(),
                             .verify_parts = config.verify_parts,
                             .replication = config.replicate_graph,
                             .halo_bytes = config.halo_cache_bytes};
  if (!is_synthetic(config.graph)) {
    const graph::Manifest manifest = graph::read_manifest(config.graph);
    check_trainable(config, manifest.feature_cols, manifest.num_classes, manifest.num_train,
                    manifest.multi_label);
    set_gpu_budget(manifest.book.num_nodes(), manifest.feature_cols, options);
    return store::MachineGraph::load(config.graph, world.communicator(), topology, machine, options);
  }
  if (topology.num_machines() > 1) {
    throw InputError(
        fmt::format("{} is generated on one machine, but this run has {}", config.graph,
                    topology.num_machines()),
        "Write it once with strata-partition build --input synthetic:... and give the directory, or take "
        "planted:..., of which every machine generates its parts.");
  }
  const std::string_view settings = std::string_view(config.graph).substr(kSynthetic.size());
  const graph::SyntheticSpec spec = graph::parse_synthetic(settings);
  check_trainable(config, spec.features, spec.classes, spec.train);
  set_gpu_budget(spec.nodes, spec.features, options);
  return store::MachineGraph::generate(spec, {}, machine, options, sample_pool);
}

std::string Session::graph_digest() const {
  if (!is_synthetic(config.graph)) return graph::read_graph_digest(config.graph);
  return graph::digest_of(graph::parse_synthetic(std::string_view(config.graph).substr(kSynthetic.size())));
}

sampling::SamplerOptions Session::sampler_options() const {
  return {.fanouts = config.fanouts,
          .method = config.sampler,
          .replace = config.replace,
          .layer_dependent = config.labor_dependent};
}

store::Presampling Session::presampling() {
  if (!device.is_cuda() || config.presample == 0) return {};
  // A few batches tell the heat of all but single rows. A papers100M-shaped graph has two seconds in all.
  constexpr Count kEnough = 64;
  constexpr std::chrono::seconds kTimeLimit{1};
  const bool automatic = config.presample == TrainConfig::kAutomatic;
  store::Presampling presampling =
      make_presampling({.machine = &machine,
                        .pool = &sample_pool,
                        .sampler = sampler_options(),
                        .global_batch = global_batch,
                        .seed = config.seed,
                        .max_batches = automatic ? kEnough : config.presample,
                        .time_limit = automatic ? kTimeLimit : std::chrono::seconds::max()});
  presampling.always = !automatic;
  return presampling;
}

void Session::set_gpu_budget(Count num_nodes, Count feature_cols, store::LoadOptions& options) const {
  if (!device.is_cuda()) return;
  if (config.gpu_memory_bytes > 0) {  // a GPU's; the store divides it among its ranks
    options.gpu_budget_bytes = config.gpu_memory_bytes;
    return;
  }
  constexpr double kUsable = 0.92;  // the driver, NCCL and fragmentation take the rest
  const double free = static_cast<double>(cuda::device_memory(device.index).free_bytes) * kUsable;
  options.gpu_budget_bytes =
      std::max<std::int64_t>(0, static_cast<std::int64_t>(free) - comm::resources_of(machine).gpu_sharers() *
                                                                      training_device_bytes(num_nodes));
  constexpr double kGrowth = 1.25;  // of buffers that turn out too small
  options.bytes_per_input_row = static_cast<std::int64_t>(static_cast<double>(feature_cols) * sizeof(float) *
                                                          kGrowth * BatchLoader::kBuffers);
}

Count Session::seeds_per_rank() const {
  return config.global_batch_size > 0 ? config.global_batch_size / world.size() + 1 : config.batch_size;
}

std::int64_t Session::training_device_bytes(Count num_nodes) const {
  // The upper bounds of a minibatch but for its input rows: every pick of every fanout finds a new node.
  double rows = static_cast<double>(std::min(seeds_per_rank() * topology.num_machines(), num_nodes));
  double activations = 0;
  for (const int fanout : config.fanouts) {
    activations +=
        rows * static_cast<double>(config.hidden) * sizeof(float) * 8;  // forward, gradients and workspaces
    rows = fanout < 0 ? static_cast<double>(num_nodes)
                      : std::min(rows * (fanout + 1), static_cast<double>(num_nodes));
  }
  const double sampling = static_cast<double>(num_nodes) * 5 + rows * 64 * BatchLoader::kBuffers;
  constexpr double kLibraries = 1.5 * (1 << 30);
  return static_cast<std::int64_t>(activations + sampling + kLibraries);
}

void Session::make_model(const ModelFactory& make) {
  nn::ModelOptions options{.kind = config.model,
                           .aggregate = config.aggregate,
                           .in_cols = graph.manifest().feature_cols,
                           .hidden = config.hidden,
                           .out_cols = graph.manifest().num_classes,
                           .num_layers = config.num_layers(),
                           .heads = config.heads,
                           .attention_dropout = config.attention_dropout,
                           .dropout = config.dropout,
                           .input_dropout = config.input_dropout,
                           .bf16 = config.precision == Precision::bf16,
                           .seed = config.seed};
  model = make(options);
  require_f32(*model);
  model->to(torch_device(device));
  parameters = std::make_unique<FlatParameters>(*model, torch_device(device));
}

void Session::make_loss() {
  LossOptions options{.kind = config.loss,
                      .label_smoothing = config.label_smoothing,
                      .class_weights = {},
                      .multi_label = graph.manifest().multi_label};
  if (config.class_weights == kBalanced)
    options.class_weights = balanced_weights(count_classes(graph, machine, world.communicator()));
  else if (!config.class_weights.empty())
    options.class_weights = parse_class_weights(config.class_weights);
  loss = std::make_unique<Loss>(options, graph.manifest().num_classes, torch_device(device));
}

void Session::make_optimizer() {
  const Count updates_per_epoch = (schedule->steps_per_epoch() + config.accumulate - 1) / config.accumulate;
  const OptimizerOptions options{.kind = config.optimizer,
                                 .learning_rate = config.learning_rate,
                                 .weight_decay = config.weight_decay,
                                 .schedule = {.kind = config.lr_schedule,
                                              .warmup_steps = config.warmup_steps,
                                              .total_steps = updates_per_epoch * config.epochs,
                                              .step_size = config.lr_step_size,
                                              .gamma = config.lr_gamma},
                                 .clip_norm = config.clip_grad,
                                 .skip_not_finite = config.on_nan == OnNan::skip,
                                 .on_host = is_mixed(topology)};
  optimizer = train::make_optimizer(options, parameters->values(), parameters->tail().narrow(0, 0, 1));
}

void Session::make_row_exchange() {
  const bool possible = topology.num_machines() > 1 && comm::can_exchange_on_devices(topology, device);
  if (config.row_exchange == RowExchange::nccl && !possible) {
    throw InputError("--row-exchange nccl is not possible here",
                     "It needs several machines, and a GPU for every rank alone; --row-exchange auto goes on "
                     "without.");
  }
  if (possible && config.row_exchange != RowExchange::mpi)
    row_exchange = comm::make_device_exchange(world.communicator(), device);
}

void Session::make_loader() {
  schedule = std::make_unique<SeedSchedule>(SeedSchedule::Options{.train_nodes = graph.train_nodes(),
                                                                  .machine_offsets = graph.machine_offsets(),
                                                                  .machine = machine.index(),
                                                                  .local_rank = machine.rank(),
                                                                  .machine_ranks = machine.size(),
                                                                  .global_batch = global_batch,
                                                                  .seed = config.seed});
  find_table();
  const bool distributed = topology.num_machines() > 1;
  sampling::ExchangeContext sample_exchange;
  feature::RowExchangeContext rows;
  if (distributed && !graph.is_replicated())
    sample_exchange = {&sample_communicator_, &topology, graph.machine_offsets(), graph.halo_lists(),
                       &sample_pool};
  if (distributed)
    rows = {.communicator = &gather_communicator_,
            .topology = &topology,
            .machine_offsets = graph.machine_offsets(),
            .machine = machine.index(),
            .halo = graph.halo_rows(),
            .on_devices = row_exchange.get(),
            .order = row_exchange ? &launch_order_ : nullptr};
  sampling::SamplerOptions options = sampler_options();
  options.max_seeds = schedule->max_seeds();
  options.in_degrees = model->traits().needs_in_degrees;
  options.transpose = true;
  options.input_transpose = model->traits().needs_input_transpose;
  options.strided = model->traits().takes_strided;
  options.compact_inputs = !table;
  options.sorted_inputs = distributed;  // the fetch of other machines' rows asks for them in this order
  options.input_original_ids = config.input_dropout > 0 || config.attention_dropout > 0;
  sampler_ = make_training_sampler({.graph = &graph,
                                    .options = options,
                                    .exchange = sample_exchange,
                                    .num_buffers = BatchLoader::kBuffers,
                                    .pool = &sample_pool,
                                    .device = device,
                                    .requested = config.sampler_device,
                                    .schedule = schedule.get(),
                                    .seed = config.seed,
                                    .log = first_rank()});
  fetcher_ = std::make_unique<feature::RowFetcher>(graph.features(), device, rows, gather_pool);
  const sampling::PaddedShape padding = measure_padding();
  if (!config.trace.empty()) trace = std::make_unique<Trace>();
  graphs = config.cuda_graph != CudaGraphs::off && !padding.entries.empty();
  if (config.cuda_graph == CudaGraphs::on && !graphs) {
    throw InputError("--cuda-graph on is not possible here",
                     "It needs a GPU, one machine, fanouts without -1, and a model that "
                     "tolerates padded batches; --cuda-graph auto goes on without.");
  }
  loader =
      std::make_unique<BatchLoader>(BatchLoader::Options{.device = device,
                                                         .schedule = schedule.get(),
                                                         .sampler = sampler_.get(),
                                                         .fetcher = fetcher_.get(),
                                                         .labels = graph.labels(),
                                                         .no_label = no_label(graph.manifest()),
                                                         .first_node = graph.host_view().first_node,
                                                         .feature_cols = graph.manifest().feature_cols,
                                                         .seed = config.seed,
                                                         .overlap = config.pipeline,
                                                         .trace = trace.get(),
                                                         .order = row_exchange ? &launch_order_ : nullptr,
                                                         .gather = !table,
                                                         .padding = padding});
}

void Session::find_table() {
  if (!device.is_cuda() || topology.num_machines() > 1 || !model->traits().reads_table) return;
  const tensor::ChunkTensor& features = graph.features();
  if (features.spec().dtype != DType::f32 ||
      graph.view().num_nodes > std::numeric_limits<std::int32_t>::max())
    return;
  for (const tensor::StratumView& view : features.views()) {
    if (view.stratum != tensor::Stratum::replicated || view.rows != features.spec().rows) continue;
    table = {.rows = reinterpret_cast<const float*>(view.data),
             .cols = features.spec().cols,
             .pitch = static_cast<std::int64_t>(view.row_pitch / sizeof(float)),
             .first_node = graph.view().first_node};
  }
}

sampling::PaddedShape Session::measure_padding() {
  sampling::PaddedShape shape = sampler_->bounds();
  if (shape.entries.empty() || !model->traits().tolerates_padding) return {};
  // The same batches on every run with these options, so that shapes, and with them roundings, repeat.
  constexpr Count kBatches = 16;
  constexpr double kMargin = 1.04;
  constexpr Count kMultiple = 128;
  const cuda::Stream stream = current_stream(device);
  std::vector<Count> nodes(shape.nodes.size()), edges(shape.entries.size());
  batch_nodes.resize(edges.size());
  batch_edges.resize(edges.size());
  for (Count i = 0; i < kBatches; ++i) {
    const Count step = i * schedule->steps_per_epoch() / kBatches;
    const BatchKey key{.seed = config.seed, .epoch = 0, .step = static_cast<std::uint32_t>(step)};
    const sampling::MiniBatch batch = sampler_->sample(schedule->step(0, step).seeds, key, 0, stream);
    for (std::size_t hop = 0; hop < edges.size(); ++hop) {
      const sampling::Block& block = batch.blocks[edges.size() - 1 - hop];
      nodes[hop + 1] = std::max(nodes[hop + 1], block.num_src);
      edges[hop] = std::max(edges[hop], block.num_edges);
      batch_nodes[hop] += static_cast<double>(block.num_dst) / kBatches;
      batch_edges[hop] += static_cast<double>(block.num_edges) / kBatches;
    }
  }
  const auto with_margin = [&](Count seen, Count bound) {
    const auto wanted = static_cast<Count>(static_cast<double>(seen) * kMargin) + kMultiple;
    return std::min(bound, wanted / kMultiple * kMultiple);
  };
  const sampling::PaddedShape bounds = shape;
  for (std::size_t hop = 0; hop < edges.size(); ++hop) {
    shape.nodes[hop + 1] = std::max(shape.nodes[hop], with_margin(nodes[hop + 1], bounds.nodes[hop + 1]));
    const Count fanout = config.fanouts[hop];
    shape.entries[hop] = model->traits().takes_strided && bounds.entries[hop] == bounds.nodes[hop] * fanout
                             ? shape.nodes[hop] * fanout
                             : with_margin(edges[hop], bounds.entries[hop]);
  }
  sampler_->pad_nodes(shape);
  return shape;
}

EvaluationContext Session::evaluation_context() {
  return {.world = &world.communicator(),
          .topology = &topology,
          .machine = &machine,
          .graph = &graph,
          .pool = &sample_pool,
          .seed = config.seed,
          .sampler = sampler_options(),
          .roc_auc = config.metric == Metric::roc_auc,
          .alive = [this] { alive("evaluating"); },
          .stop_requested = [this] { return stop.requested(); }};
}

void Session::make_evaluators() {
  const bool by_weight = sampler_options().method == sampling::Method::weighted;
  if (by_weight && config.eval_fanouts.empty() && !model->traits().takes_edge_weights) {
    throw InputError("exact evaluation cannot weigh neighbors, because this model's layers count all alike",
                     "Set ModelTraits::takes_edge_weights, or give --eval-fanouts.");
  }
  exact_evaluator = std::make_unique<LayerwiseEvaluator>(evaluation_context());
  if (!config.eval_fanouts.empty()) {
    sampled_evaluator = make_sampled_evaluator(evaluation_context(), config.eval_fanouts, config.batch_size);
  }
}

// Decided once: the best epoch must not depend on what was free when.
Evaluator& Session::evaluator() {
  if (evaluation_kind_ == EvaluationKind::undecided) decide_evaluation();
  if (sampled_evaluator) return *sampled_evaluator;
  return *exact_evaluator;
}

void Session::decide_evaluation() {
  if (sampled_evaluator || !exact_evaluator->fits(*model))
    evaluation_kind_ = EvaluationKind::sampled;
  else
    evaluation_kind_ = EvaluationKind::exact;
  if (sampled_evaluator || evaluation_kind_ == EvaluationKind::exact) return;
  sampled_evaluator = make_sampled_evaluator(evaluation_context(), config.fanouts, config.batch_size);
  if (!first_rank()) return;
  spdlog::warn(
      "the hidden rows of the nodes that the scores need do not fit in memory: evaluation samples {} "
      "neighbors a hop instead. --eval-fanouts chooses them; more machines or a smaller --hidden make it "
      "exact.",
      fmt::join(config.fanouts, ","));
}

void Session::keep_evaluation(EvaluationKind kind) {
  if (kind == EvaluationKind::exact && !exact_evaluator->fits(*model)) {
    throw OutOfMemory(
        "the scores of this run so far are exact, but the hidden rows of the nodes that they need "
        "do not fit in memory here",
        "Resume with more machines or memory, or start anew without --resume.");
  }
  if (kind == EvaluationKind::sampled && !sampled_evaluator)
    sampled_evaluator = make_sampled_evaluator(evaluation_context(), config.fanouts, config.batch_size);
  evaluation_kind_ = kind;
}

ExchangeTotals Session::exchange_totals() const {
  return sum_reports(world.communicator(), sampler_->report(), fetcher_->report());
}

std::array<std::int64_t, tensor::kNumStrata> Session::take_gathered_bytes() {
  const auto rows = fetcher_->rows_by_stratum();
  std::array<std::int64_t, tensor::kNumStrata> bytes;
  const auto row_bytes = static_cast<std::int64_t>(graph.features().spec().row_bytes());
  for (std::size_t s = 0; s < bytes.size(); ++s) bytes[s] = (rows[s] - told_rows_[s]) * row_bytes;
  told_rows_ = rows;
  return bytes;
}

void Session::alive(const char* what) { watchdog.alive(what); }

void Session::close() {
  alive("closing");
  loader.reset();
  if (trace) trace->write(config.trace, world.communicator());
  if (sampled_evaluator) sampled_evaluator->close();
  exact_evaluator->close();
  reducer->close();
  fetcher_.reset();
  sampler_.reset();
  if (row_exchange) row_exchange->close();
  gather_communicator_.close();
  sample_communicator_.close();
  graph.close(machine);
  machine.close();
  watchdog.close();
}

}  // namespace strata::train
