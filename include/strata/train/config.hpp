// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "strata/batches/routes.hpp"
#include "strata/comm/machine.hpp"
#include "strata/graph/edge_split.hpp"
#include "strata/graph/graph.hpp"
#include "strata/graph/source.hpp"
#include "strata/nn/kinds.hpp"
#include "strata/sampling/sampler.hpp"
#include "strata/store/machine_graph.hpp"
#include "strata/tensor/chunk_tensor.hpp"
#include "strata/util/log.hpp"
#include "strata/util/options.hpp"
#include "strata/util/text.hpp"
#include "strata/util/types.hpp"

/// The choices of a training run, by the names that users know.
namespace strata::train {

using nn::OptimizerKind;
using nn::ScheduleKind;
/// The change of the learning rate after the warm-up.
struct LrSchedule {
  ScheduleKind kind = ScheduleKind::constant;
  Count step_size = 1000;  ///< for `step`: updates between two changes
  double gamma = 0.1;      ///< for `step`: the factor of each change
};
/// The method of sampling, and for LABOR whether layers share their random numbers.
enum class SamplerKind : std::uint8_t { uniform, weighted, labor, labor_dependent };
/// What is learned.
enum class TaskKind : std::uint8_t { node, link, edge };
/// The edges that a step of links leaves out of its batches: the links themselves, and those from their
/// destinations to their sources.
enum class Exclusion : std::uint8_t { off, self, reverse };
/// The ends of links that negatives stand for.
enum class NegativeEnds : std::uint8_t { destination, both };
enum class LossKind : std::uint8_t {
  cross_entropy,
  bce,    ///< every class against the others; a link and its negatives
  focal,  ///< of classes
  bpr,    ///< this and those below are of links; see LinkLoss
  margin,
  contrastive,
  adversarial,
  mse,  ///< this and those below are of regression; see TargetLoss
  mae,
  huber,
  quantile,
};
/// A loss, with the number that some have: the margin, a temperature, focal's exponent, a quantile.
struct LossChoice {
  LossKind kind = LossKind::cross_entropy;
  double value = 0;

  LossChoice() = default;
  LossChoice(LossKind k) : kind(k), value(default_value(k)) {}
  LossChoice(LossKind k, double v) : kind(k), value(v) {}
  operator LossKind() const { return kind; }
  /// 0: the loss has no number.
  static double default_value(LossKind kind) {
    switch (kind) {
      case LossKind::focal:
        return 2;
      case LossKind::margin:
      case LossKind::contrastive:
      case LossKind::adversarial:
        return 1;
      case LossKind::quantile:
        return 0.5;
      default:
        return 0;
    }
  }
};
inline bool is_regression(LossKind loss) { return loss >= LossKind::mse; }
/// Whether links are told from their negatives by it.
inline bool ranks_links(LossKind loss) { return loss != LossKind::focal && !is_regression(loss); }
/// A decoder, with its options.
struct DecoderChoice {
  nn::DecoderKind kind = nn::DecoderKind::automatic;
  double value = 1;  ///< the margin of rotate, the norm of transe
  bool l1 = false;   ///< of rotate: the sum of the lengths of complex numbers
};
/// See Scores; automatic: accuracy of classes, rmse of regression, mrr of links.
enum class Metric : std::uint8_t { automatic, accuracy, macro_f1, roc_auc, rmse, mae, r2, mrr, hits_10 };
/// The optimizer of learned rows, which updates only those of a step's batches.
enum class RowOptimizer : std::uint8_t {
  adam,     ///< lazy: each row counts its own steps
  adagrad,  ///< by row: one sum of squares per row
};
enum class OnNan : std::uint8_t {
  stop,
  skip,  ///< skip that update
};
enum class Precision : std::uint8_t {
  f32,
  tf32,  ///< matrix products on GPUs
  bf16,  ///< activations and matrix products; see nn::ModelOptions
};
/// Precision of feature rows on their way between machines; they are f32 where they are read.
enum class RowPrecision : std::uint8_t { f32, bf16 };
enum class CudaGraphs : std::uint8_t {
  automatic,  ///< if they are possible
  on,         ///< required: else the run is refused
  off,
};

}  // namespace strata::train

namespace strata {

template <>
inline constexpr auto enum_names<train::SamplerKind> =
    std::to_array<EnumName<train::SamplerKind>>({{train::SamplerKind::uniform, "uniform"},
                                                 {train::SamplerKind::weighted, "weighted"},
                                                 {train::SamplerKind::labor, "labor"},
                                                 {train::SamplerKind::labor_dependent, "labor-dependent"}});

template <>
inline constexpr auto enum_names<train::LossKind> =
    std::to_array<EnumName<train::LossKind>>({{train::LossKind::cross_entropy, "cross-entropy"},
                                              {train::LossKind::bce, "bce"},
                                              {train::LossKind::focal, "focal"},
                                              {train::LossKind::bpr, "bpr"},
                                              {train::LossKind::margin, "margin"},
                                              {train::LossKind::contrastive, "contrastive"},
                                              {train::LossKind::adversarial, "adversarial"},
                                              {train::LossKind::mse, "mse"},
                                              {train::LossKind::mae, "mae"},
                                              {train::LossKind::huber, "huber"},
                                              {train::LossKind::quantile, "quantile"}});

template <>
inline constexpr auto enum_names<train::RowOptimizer> = std::to_array<EnumName<train::RowOptimizer>>(
    {{train::RowOptimizer::adam, "adam"}, {train::RowOptimizer::adagrad, "adagrad"}});

template <>
inline constexpr auto enum_names<train::Metric> =
    std::to_array<EnumName<train::Metric>>({{train::Metric::automatic, "auto"},
                                            {train::Metric::accuracy, "accuracy"},
                                            {train::Metric::macro_f1, "macro_f1"},
                                            {train::Metric::roc_auc, "roc_auc"},
                                            {train::Metric::rmse, "rmse"},
                                            {train::Metric::mae, "mae"},
                                            {train::Metric::r2, "r2"},
                                            {train::Metric::mrr, "mrr"},
                                            {train::Metric::hits_10, "hits_10"}});

template <>
inline constexpr auto enum_names<train::TaskKind> = std::to_array<EnumName<train::TaskKind>>(
    {{train::TaskKind::node, "node"}, {train::TaskKind::link, "link"}, {train::TaskKind::edge, "edge"}});

template <>
inline constexpr auto enum_names<train::NegativeEnds> = std::to_array<EnumName<train::NegativeEnds>>(
    {{train::NegativeEnds::destination, "destination"}, {train::NegativeEnds::both, "both"}});

template <>
inline constexpr auto enum_names<train::Exclusion> =
    std::to_array<EnumName<train::Exclusion>>({{train::Exclusion::off, "off"},
                                               {train::Exclusion::self, "self"},
                                               {train::Exclusion::reverse, "reverse"}});

template <>
inline constexpr auto enum_names<train::OnNan> =
    std::to_array<EnumName<train::OnNan>>({{train::OnNan::stop, "stop"}, {train::OnNan::skip, "skip"}});

template <>
inline constexpr auto enum_names<train::Precision> = std::to_array<EnumName<train::Precision>>(
    {{train::Precision::f32, "f32"}, {train::Precision::tf32, "tf32"}, {train::Precision::bf16, "bf16"}});

template <>
inline constexpr auto enum_names<train::RowPrecision> = std::to_array<EnumName<train::RowPrecision>>(
    {{train::RowPrecision::f32, "f32"}, {train::RowPrecision::bf16, "bf16"}});

template <>
inline constexpr auto enum_names<train::CudaGraphs> = std::to_array<EnumName<train::CudaGraphs>>(
    {{train::CudaGraphs::automatic, "auto"}, {train::CudaGraphs::on, "on"}, {train::CudaGraphs::off, "off"}});

}  // namespace strata

namespace strata::train {

/// The origin of the values of a configuration, for the records of a run.
struct Provenance {
  static constexpr const char* kCommandLine = "command line";
  std::string command_line;  ///< empty for callers of the library
  /// "hidden" -> "command line", or the place in a file, "job.toml:3:1". Other options have their defaults,
  /// or what a caller of the library gave them.
  std::map<std::string, std::string> given_by;
};

/// The fanouts of one relation, from the seeds outwards.
struct RelationFanouts {
  std::string relation;  ///< "cites", or "paper__cites__paper"
  std::vector<int> fanouts;
};

/// All that a user can ask of a training run. The command line fills it, or a caller of the library.
struct TrainConfig {
  graph::Source graph;  ///< partition directory, "synthetic:..." or "planted:..."
  /// Makes the graph, on the first rank alone, in a run on one machine that has it in memory; `graph` is then
  /// "memory:WORDS". Empty: `graph` names it.
  std::function<std::unique_ptr<graph::Graph>()> make_graph;
  /// The type of the nodes that are trained on, scored and predicted; empty: that of the training nodes.
  std::string target;
  /// Folder for model, checkpoint, metrics, log and options; empty: runs/MODEL-DATE-NUMBER, with the link
  /// runs/last to it.
  std::string output;
  bool overwrite = false;  ///< replaces a run in `output`
  /// Run folder or model file whose weights training begins with; empty: random ones.
  std::string init_from;

  nn::ModelKind model = nn::ModelKind::sage;
  /// The name of the caller's own model, for which train() gets a maker; empty: use `model`.
  std::string own_model;
  nn::Aggregate aggregate = nn::Aggregate::mean;  ///< how sage combines neighbors' rows
  std::int64_t hidden = 256;
  std::vector<int> heads = {4};  ///< of gat, rgat and hgt: of all layers, or one number per layer
  bool residual = false;         ///< of gat: residual connections
  int bases = 0;                 ///< of rgcn; see nn::ModelOptions::num_bases
  /// Columns of the rows that are learned for nodes of types without features; 0: the model sees zeros.
  std::int64_t learned_rows = 0;
  RowOptimizer learned_optimizer = RowOptimizer::adam;
  double learned_lr = 0.01;
  /// Fanouts from the seeds outwards; -1: all neighbors. The model has one layer per fanout.
  std::vector<int> fanouts = {15, 10, 5};
  std::vector<RelationFanouts> relation_fanouts;  ///< of these relations instead of `fanouts`
  SamplerKind sampler = SamplerKind::uniform;
  /// Training sees only the edges among training nodes; evaluation and predictions see all.
  bool inductive = false;
  bool replace = false;  ///< uniform and weighted: with replacement
  using Compute = comm::TopologyOptions::Compute;
  /// The device that samples the batches of a GPU. Automatic: the faster one.
  Compute sampler_device = Compute::automatic;
  double dropout = 0.5;
  double input_dropout = 0.0;
  double attention_dropout = 0.0;  ///< of gat, rgat and hgt

  Count batch_size = 1024;      ///< seeds per rank and step
  Count global_batch_size = 0;  ///< seeds per step over all ranks; 0: batch_size times the number of ranks
  int epochs = 10;
  double learning_rate = 0.003;
  double weight_decay = 0.0;
  OptimizerKind optimizer = OptimizerKind::adam;
  LrSchedule lr_schedule;
  Count warmup_steps = 0;  ///< updates over which the learning rate grows to its full value
  double clip_grad = 0.0;  ///< largest Euclidean norm of the gradient; 0: no limit
  TaskKind task = TaskKind::node;
  /// Names of the relations whose edges are links, separated by commas; empty: all but reverses.
  std::string relation;
  DecoderChoice decoder;
  std::string targets;  ///< of edges: a .npy file
  Count negatives = 1;  ///< of a link in training
  NegativeEnds negative_ends = NegativeEnds::destination;
  bool link_weights = false;               ///< the losses of links count by the weights of their edges
  Exclusion exclude = Exclusion::reverse;  ///< of links
  std::string edge_split = "0.1,0.1";      ///< of links: shares for validation and test
  LossChoice loss;
  bool scale_targets = true;  ///< of regression: to mean 0 and standard deviation 1
  double label_smoothing = 0.0;
  std::string class_weights;   ///< one number per class, separated by commas, or "balanced"; empty: all 1
  Count accumulate = 1;        ///< batches whose gradients make one update
  OnNan on_nan = OnNan::stop;  ///< what to do if a loss is not finite
  std::uint64_t seed = 0;

  comm::TopologyOptions topology;
  std::int64_t gpu_memory_bytes = 0;  ///< per GPU, for the graph; 0: what is free minus what training needs
  std::string placement = "auto";     ///< of the graph in memory; see plan::parse_placement
  tensor::HostPath host_gather = tensor::HostPath::automatic;  ///< how GPUs read rows in host memory
  /// How neighbors and feature rows travel between machines.
  batches::Transport exchange = batches::Transport::automatic;
  RowPrecision row_exchange_precision = RowPrecision::f32;
  /// Whether every machine keeps the whole structure.
  plan::Replication replicate_graph = plan::Replication::automatic;
  std::int64_t halo_cache_bytes = plan::kAutomatic;  ///< per machine; 0: none
  Precision precision = Precision::f32;              ///< of training
  bool pipeline = true;  ///< stages of different steps overlap; off gives the same numbers
  CudaGraphs cuda_graph = CudaGraphs::automatic;  ///< replay steps of padded shape
  /// The SMs of a GPU for loading and for training: auto (measured), off (all SMs for both), or LOAD,TRAIN in
  /// percent.
  std::string sm_split = "auto";
  plan::FeatureFormat feature_format = plan::FeatureFormat::stored;  ///< of feature rows in memory
  /// Training begins while feature rows are still read; see store::LoadOptions::late_features.
  bool start_early = false;

  int eval_every = 1;                 ///< epochs; 0: only at the end
  std::vector<int> eval_fanouts;      ///< empty: exact, layer by layer over all nodes
  Metric metric = Metric::automatic;  ///< what "best" means
  Count eval_negatives = 100;         ///< of a link in evaluation; 0: all nodes that its end could be
  int patience = 0;                   ///< evaluations without improvement before the run ends; 0: never
  int checkpoint_every = 1;           ///< epochs; 0: only when stopped
  bool resume = false;

  std::string trace;  ///< file that records what the stages did and when; empty: none
  int log_every = 0;  ///< steps; 0: only one line per epoch
  LogLevel log_level = LogLevel::info;
  ProgressStyle progress = ProgressStyle::automatic;
  /// Seconds without progress of a rank, after loading, that end the run; 0: never.
  int watchdog_seconds = 300;

  Provenance provenance;

  int num_layers() const { return static_cast<int>(fanouts.size()); }
  bool of_links() const { return task != TaskKind::node; }  ///< whether seeds are edges
  sampling::Method sampling_method() const {
    return sampler == SamplerKind::uniform    ? sampling::Method::uniform
           : sampler == SamplerKind::weighted ? sampling::Method::weighted
                                              : sampling::Method::labor;
  }
  /// Whether the layers of a batch share their random numbers.
  bool is_layer_dependent() const { return sampler == SamplerKind::labor_dependent; }
};

/// Throws InputError with the remedy for what is impossible or contradictory. Opens no file. train() calls
/// it.
void validate(const TrainConfig& config);

/// The split of --edge-split, keyed by the seed, of all relations. Throws InputError.
graph::EdgeSplit edge_split_of(const TrainConfig& config);

/// The config with what its choices mean: a model without layers samples no neighbors.
TrainConfig settled(const TrainConfig& config);

/// The metric, with what `automatic` means for the config's loss.
Metric chosen_metric(const TrainConfig& config);

/// The routes that a run with this config requests, as far as known before the graph and the model exist: a
/// user's model may not tolerate padding.
batches::RouteRequest route_request(const TrainConfig& config);

/// "sage", or the name of the caller's own model.
std::string model_name(const TrainConfig& config);

/// The options that must be equal for a resumed run to be the same run, by their names, as one line of JSON.
std::string resume_signature(const TrainConfig& config, int num_ranks);

/// The variables that the options of strata-train and strata-plan set.
struct TrainSettings {
  TrainConfig config;
  options::FlagOrText::Value resume;  ///< --resume [RUN]
  std::vector<std::uint64_t> seeds;   ///< --seeds: one run for each; empty: one with config.seed
};

/// The settings with the values of this config.
TrainSettings settings_of(const TrainConfig& config);

/// The options of strata-train, bound to `settings`.
options::OptionTable train_options(TrainSettings& settings);

/// Translates --resume RUN, which names the output folder, too, after the options of one source (command line
/// or file) were read. `is_given` returns whether the source has an option; `dashes` stand before its name:
/// "--" or "". Throws InputError for a contradiction.
void settle_resume(TrainSettings& settings, const std::function<bool(std::string_view name)>& is_given,
                   std::string_view dashes);

/// Advice for the user of a failed run, with the launcher and the number of ranks of that run: "strata-doctor
/// may find more: mpirun -n 4 strata-doctor --graph parts". `graph` may be empty.
std::string doctor_advice(int ranks, const graph::Source& graph);

}  // namespace strata::train
