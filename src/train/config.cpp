// SPDX-License-Identifier: Apache-2.0
#include "strata/train/config.hpp"

#include <fmt/format.h>

#include <cmath>
#include <limits>

#include "strata/plan/placement.hpp"
#include "strata/train/planning.hpp"
#include "strata/util/error.hpp"
#include "task/class_weights.hpp"
#include "tuning/sm_split.hpp"

namespace strata::train {
namespace {

constexpr Count kMaxNegatives = 100'000;
constexpr int kMaxFanout = 1 << 30;                                    // because 1 is added to it
constexpr std::int64_t kMaxWidth = 1 << 20;                            // a square matrix of it has 4 TiB
constexpr Count kMaxSeeds = std::numeric_limits<std::int32_t>::max();  // of a batch: local ids are 32-bit

void require(bool condition, const std::string& message, const std::string& remedy) {
  if (!condition) throw InputError(message, remedy);
}

/// The fanouts of all relations.
std::vector<int> all_fanouts(const TrainConfig& c) {
  std::vector<int> all = c.fanouts;
  for (const RelationFanouts& named : c.relation_fanouts)
    all.insert(all.end(), named.fanouts.begin(), named.fanouts.end());
  return all;
}

void check_fanouts(const std::vector<int>& fanouts, const char* option) {
  for (const int fanout : fanouts) {
    require(fanout >= -1, fmt::format("{}: {} is no fanout", option, fanout),
            "A fanout is a number of neighbors, 0 or more, or -1 for all of them.");
    require(fanout <= kMaxFanout, fmt::format("{}: {} is more than {}", option, fanout, kMaxFanout),
            "Give -1 for all neighbors.");
  }
}

void check_probability(double value, const char* option) {
  require(value >= 0 && value < 1, fmt::format("{}: {} is not in [0, 1)", option, value),
          "Give a probability below 1.");
}

/// Whether f32 can compute with a value.
bool fits_f32(double value) { return std::abs(value) <= std::numeric_limits<float>::max(); }

template <NamedEnum Enum>
void check_choice(Enum value, const char* option) {
  require(!enum_name(value).empty(),
          fmt::format("{}: {} is none of its values", option, static_cast<int>(value)),
          fmt::format("Give {}.", list_choices(enum_choices<Enum>())));
}

/// Refuses values that a caller of the library cast to an enumeration.
void check_choices(const TrainConfig& c) {
  check_choice(c.model, "--model");
  check_choice(c.aggregate, "--aggregate");
  check_choice(c.sampler, "--sampler");
  check_choice(c.sampler_device, "--sampler-device");
  check_choice(c.optimizer, "--optimizer");
  check_choice(c.lr_schedule.kind, "--lr-schedule");
  check_choice(c.task, "--task");
  check_choice(c.exclude, "--exclude");
  check_choice(c.loss.kind, "--loss");
  check_choice(c.decoder.kind, "--decoder");
  check_choice(c.negative_ends, "--negative-ends");
  check_choice(c.learned_optimizer, "--learned-optimizer");
  check_choice(c.on_nan, "--on-nan");
  check_choice(c.topology.compute, "--device");
  check_choice(c.host_gather, "--host-gather");
  check_choice(c.exchange, "--exchange");
  check_choice(c.row_exchange_precision, "--row-exchange-precision");
  check_choice(c.replicate_graph, "--replicate-graph");
  check_choice(c.feature_format, "--feature-format");
  check_choice(c.precision, "--precision");
  check_choice(c.cuda_graph, "--cuda-graph");
  check_choice(c.metric, "--metric");
  check_choice(c.log_level, "--log-level");
}

void check_relation_fanouts(const TrainConfig& c) {
  for (const RelationFanouts& named : c.relation_fanouts) {
    check_fanouts(named.fanouts, "--relation-fanouts");
    require(named.fanouts.size() == c.fanouts.size(),
            fmt::format("--relation-fanouts: {} has {} entries, --fanouts {}", named.relation,
                        named.fanouts.size(), c.fanouts.size()),
            "Both need one fanout per layer; 0 takes no neighbors over a relation.");
  }
}

void check_heads(const TrainConfig& c) {
  const std::size_t layers = c.fanouts.size();
  require(c.heads.size() == 1 || c.heads.size() == layers,
          fmt::format("--heads has {} entries, but the model has {} layers", c.heads.size(), layers),
          "Give one number for all layers, or one per layer as --fanouts.");
  for (std::size_t layer = 0; layer < c.heads.size(); ++layer) {
    const int heads = c.heads[layer];
    const bool hidden = c.heads.size() == 1 || layer + 1 < layers;
    require(heads > 0 && heads <= kMaxWidth, fmt::format("--heads: {} is not in 1 to {}", heads, kMaxWidth),
            "Give a number such as 4, or one per layer such as 8,8,1.");
    require(!nn::has_heads(c.model) || !hidden || c.hidden % heads == 0,
            fmt::format("--hidden: {} cannot be divided among {} heads", c.hidden, heads),
            "Give a multiple of --heads.");
  }
}

/// Checks the exchange: messages from GPU to GPU have one size for all batches, so fanouts must bound it.
void check_exchange(const TrainConfig& c) {
  if (c.exchange != batches::Transport::nccl) return;
  const auto refuse_if = [](bool contradicts, const std::string& option, const std::string& why) {
    require(!contradicts, fmt::format("--exchange nccl contradicts {}: {}", option, why),
            "Leave one of the two out; --exchange auto takes nccl where it is possible.");
  };
  refuse_if(c.sampling_method() == sampling::Method::labor, "--sampler labor",
            "how many neighbors LABOR takes of a node has no bound");
  for (const int fanout : all_fanouts(c))
    refuse_if(fanout < 0, fmt::format("the fanout {} of --fanouts", fanout),
              "how many neighbors a node has is not known before it is asked for");
  refuse_if(c.sampler_device == comm::TopologyOptions::Compute::cpu, "--sampler-device cpu",
            "neighbors go from GPU to GPU only where GPUs sample");
}

void check_cuda_graph(const TrainConfig& c) {
  if (c.cuda_graph != CudaGraphs::on) return;
  for (const int fanout : all_fanouts(c))
    require(
        fanout >= 0, fmt::format("--cuda-graph on contradicts the fanout {} of --fanouts", fanout),
        "Recorded steps have one size, and the neighbors of a node have not: give fanouts of 0 or more, or "
        "leave --cuda-graph out.");
}

/// Refuses options that somebody asked for, on a command line or by another value than the default, and that
/// would have no effect.
void check_effects(const TrainConfig& c) {
  const auto has_effect = [&](bool effective, const char* name, bool differs, const std::string& needs) {
    const auto& given = c.provenance.given_by;
    const auto found = given.find(name);
    const bool asked = differs || (found != given.end() && found->second == Provenance::kCommandLine);
    require(effective || !asked, fmt::format("--{} has no effect without {}", name, needs),
            fmt::format("Leave --{} out, or give {}.", name, needs));
  };
  has_effect(c.graph.synthetic() == nullptr && !c.make_graph, "start-early", c.start_early,
             "part files: the features of other graphs are made, not read");
  const bool own = !c.own_model.empty(), gat = own || c.model == nn::ModelKind::gat,
             attends = own || nn::has_heads(c.model);
  const bool links = c.task == TaskKind::link, numbers = !links && is_regression(c.loss);
  const bool entropies = !links && (c.loss == LossKind::cross_entropy || c.loss == LossKind::bce);
  has_effect(entropies, "label-smoothing", c.label_smoothing != 0, "--loss cross-entropy or bce");
  has_effect(c.task == TaskKind::node && !numbers, "class-weights", !c.class_weights.empty(),
             "--task node and --loss cross-entropy, bce or focal");
  const TrainConfig defaults;
  has_effect(c.of_links(), "relation", !c.relation.empty(), "--task link or edge");
  has_effect(c.of_links(), "decoder", c.decoder.kind != nn::DecoderKind::automatic, "--task link or edge");
  has_effect(c.task == TaskKind::edge, "targets", !c.targets.empty(), "--task edge");
  has_effect(links, "negatives", c.negatives != defaults.negatives, "--task link");
  has_effect(links, "negative-ends", c.negative_ends != defaults.negative_ends, "--task link");
  has_effect(links, "link-weights", c.link_weights, "--task link");
  has_effect(c.of_links(), "exclude", c.exclude != defaults.exclude, "--task link or edge");
  has_effect(c.of_links(), "edge-split", c.edge_split != defaults.edge_split, "--task link or edge");
  has_effect(links, "eval-negatives", c.eval_negatives != defaults.eval_negatives, "--task link");
  has_effect(numbers, "scale-targets", !c.scale_targets, "--loss mse, mae, huber or quantile");
  has_effect(attends, "heads", c.heads != defaults.heads, "--model gat, rgat or hgt");
  has_effect(own || c.model == nn::ModelKind::rgcn, "bases", c.bases != 0, "--model rgcn");
  const bool learns = c.learned_rows > 0;
  has_effect(learns, "learned-optimizer", c.learned_optimizer != defaults.learned_optimizer,
             "--learned-rows");
  has_effect(learns, "learned-lr", c.learned_lr != defaults.learned_lr, "--learned-rows");
  has_effect(gat, "residual", c.residual, "--model gat");
  has_effect(attends, "attention-dropout", c.attention_dropout != 0, "--model gat, rgat or hgt");
}

void check_metric(const TrainConfig& c) {
  if (c.metric == Metric::automatic) return;
  const bool of_links = c.metric == Metric::mrr || c.metric == Metric::hits_10 || c.metric == Metric::roc_auc,
             of_numbers = c.metric >= Metric::rmse && c.metric <= Metric::r2,
             of_classes = c.metric >= Metric::accuracy && c.metric <= Metric::roc_auc;
  const bool links = c.task == TaskKind::link, numbers = !links && is_regression(c.loss);
  require(links     ? of_links
          : numbers ? of_numbers
                    : of_classes,
          fmt::format("--metric {} is no score of --task {} --loss {}", enum_name(c.metric),
                      enum_name(c.task), enum_name(c.loss.kind)),
          links ? "Give --metric mrr, hits_10 or roc_auc."
          : numbers
              ? "Give --metric rmse, mae or r2."
              : "Give --metric accuracy, macro_f1 or roc_auc; --loss mse, mae or huber; or --task link.");
}

void check_loss(const TrainConfig& c) {
  const std::string name(enum_name(c.loss.kind));
  require(c.task != TaskKind::link || ranks_links(c.loss), fmt::format("--loss {} is none of links", name),
          "Give --loss bce, bpr, margin, contrastive or adversarial.");
  const bool of_links_alone = c.loss >= LossKind::bpr && c.loss <= LossKind::adversarial;
  require(c.task == TaskKind::link || !of_links_alone, fmt::format("--loss {} is one of links", name),
          "Give --task link, or another loss.");
  const bool positive = std::isfinite(c.loss.value) && c.loss.value > 0;
  const bool has_value = LossChoice::default_value(c.loss) != 0;
  require(has_value ? positive : c.loss.value == 0,
          fmt::format("--loss {}:{}: not a number that it takes", name, c.loss.value),
          has_value ? fmt::format("Give --loss {}:{}.", name, LossChoice::default_value(c.loss))
                    : fmt::format("Give --loss {}.", name));
  require(c.loss != LossKind::quantile || c.loss.value < 1,
          fmt::format("--loss quantile:{}: not between 0 and 1", c.loss.value), "Give --loss quantile:0.5.");
}

void check_decoder(const TrainConfig& c) {
  require(c.decoder.value > 0 && std::isfinite(c.decoder.value),
          fmt::format("--decoder {}:{}: not a positive number", enum_name(c.decoder.kind), c.decoder.value),
          "Give a number such as rotate:9 or transe:2.");
  require(c.task != TaskKind::edge || c.decoder.kind == nn::DecoderKind::automatic ||
              c.decoder.kind == nn::DecoderKind::mlp,
          fmt::format("--task edge learns targets by an mlp, not by --decoder {}", enum_name(c.decoder.kind)),
          "Leave --decoder out.");
}

void check_links(const TrainConfig& c) {
  check_loss(c);
  require(c.of_links() || c.model != nn::ModelKind::none,
          "--model none has no layers that predict anything of nodes", "Give --task link, or another model.");
  if (!c.of_links()) return;
  edge_split_of(c);
  check_decoder(c);
  const std::string task = fmt::format("--task {}", enum_name(c.task));
  require(c.negatives >= 1 && c.negatives <= kMaxNegatives && c.eval_negatives >= 0 &&
              c.eval_negatives <= kMaxNegatives,
          fmt::format("--negatives and --eval-negatives are 1 to {}", kMaxNegatives),
          "Give numbers such as 1 and 100; --eval-negatives all takes all nodes.");
  require(!c.inductive, task + " contradicts --inductive",
          "Edges are split for links, not nodes; leave --inductive out.");
  require(c.eval_fanouts.empty(), task + " contradicts --eval-fanouts",
          "Edges are scored exactly; leave --eval-fanouts out.");
}

}  // namespace

void validate(const TrainConfig& c) {
  require(c.graph.dataset() == nullptr, fmt::format("--graph {} is a dataset, not parts", c.graph.text()),
          fmt::format("Build it first: strata-partition build --input {} --parts 1 --output parts; then give "
                      "--graph parts.",
                      c.graph.text()));
  validate_plan(c);
}

void validate_plan(const TrainConfig& c) {
  check_choices(c);
  require(!c.graph.empty(), "--graph is missing", "Give a partition directory, or synthetic:KEY=VALUE,...");
  require(!c.fanouts.empty(), "--fanouts is empty", "Give one fanout per layer, first hop first: 15,10,5.");
  check_fanouts(c.fanouts, "--fanouts");
  check_relation_fanouts(c);
  check_fanouts(c.eval_fanouts, "--eval-fanouts");
  require(c.eval_fanouts.empty() || c.eval_fanouts.size() == c.fanouts.size(),
          fmt::format("--eval-fanouts has {} entries, --fanouts {}", c.eval_fanouts.size(), c.fanouts.size()),
          "Both need one fanout per layer.");
  require(!c.overwrite || !c.resume, "--overwrite contradicts --resume",
          "Either replace the run, or continue it.");
  require(!c.replace || c.sampling_method() != sampling::Method::labor,
          "--replace contradicts --sampler labor", "LABOR samples without replacement; leave --replace out.");
  require(c.bases >= 0, fmt::format("--bases: {} is negative", c.bases),
          "Give a number below that of the relations, or 0 for none.");
  require(c.hidden > 0, fmt::format("--hidden: {} is not positive", c.hidden), "Give a width such as 256.");
  require(c.hidden <= kMaxWidth, fmt::format("--hidden: {} is more than {}", c.hidden, kMaxWidth),
          "Give a width such as 256.");
  require(c.learned_rows >= 0 && c.learned_rows <= kMaxWidth,
          fmt::format("--learned-rows: {} is not in 0 to {}", c.learned_rows, kMaxWidth),
          "Give a number of columns such as 64, or 0 to learn no rows.");
  require(fits_f32(c.learned_lr) && c.learned_lr > 0,
          fmt::format("--learned-lr: {} is no learning rate", c.learned_lr),
          "Give a finite positive number such as 0.01.");
  require(c.batch_size > 0, fmt::format("--batch-size: {} is not positive", c.batch_size),
          "Give a number such as 1024.");
  require(c.batch_size <= kMaxSeeds && c.global_batch_size <= kMaxSeeds,
          fmt::format("--batch-size and --global-batch-size are at most {}", kMaxSeeds),
          "The training nodes of the graph are as many as a batch can need.");
  require(c.global_batch_size >= 0, fmt::format("--global-batch-size: {} is negative", c.global_batch_size),
          "Give a number such as 8192, or leave it out.");
  require(c.epochs > 0, fmt::format("--epochs: {} is not positive", c.epochs), "Give at least 1.");
  require(fits_f32(c.learning_rate) && c.learning_rate > 0,
          fmt::format("--lr: {} is no learning rate", c.learning_rate),
          "Give a finite positive number such as 0.003.");
  require(fits_f32(c.weight_decay) && c.weight_decay >= 0,
          fmt::format("--weight-decay: {} is no decay", c.weight_decay), "Give a finite number, 0 or more.");
  require(c.warmup_steps >= 0, fmt::format("--warmup-steps: {} is negative", c.warmup_steps),
          "Give 0 or more.");
  require(c.lr_schedule.step_size > 0,
          fmt::format("--lr-schedule: {} updates per step are not positive", c.lr_schedule.step_size),
          "Give a number of updates and a factor, such as step:1000:0.1.");
  require(c.lr_schedule.gamma > 0 && c.lr_schedule.gamma <= 1,
          fmt::format("--lr-schedule: the factor {} is not in (0, 1]", c.lr_schedule.gamma),
          "Give a number of updates and a factor, such as step:1000:0.1.");
  require(std::isfinite(c.clip_grad) && c.clip_grad >= 0,
          fmt::format("--clip-grad: {} is no norm", c.clip_grad),
          "Give a norm such as 1, or 0 for no limit.");
  require(c.label_smoothing >= 0 && c.label_smoothing < 1,
          fmt::format("--label-smoothing: {} is not in [0, 1)", c.label_smoothing),
          "Give a share such as 0.1.");
  if (!c.class_weights.empty() && c.class_weights != kBalanced) parse_class_weights(c.class_weights);
  require(c.accumulate > 0 && c.accumulate <= kMaxSeeds,
          fmt::format("--accumulate: {} is not in 1 to {}", c.accumulate, kMaxSeeds),
          "Give a number such as 4.");
  check_probability(c.dropout, "--dropout");
  check_probability(c.input_dropout, "--input-dropout");
  check_probability(c.attention_dropout, "--attention-dropout");
  check_heads(c);
  require(
      c.aggregate == nn::Aggregate::mean || c.model == nn::ModelKind::sage,
      fmt::format("--aggregate {} is for SAGE only, not for {}", enum_name(c.aggregate), enum_name(c.model)),
      "Leave --aggregate out, or choose --model sage.");
  require(c.eval_every >= 0 && c.patience >= 0 && c.checkpoint_every >= 0 && c.log_every >= 0 &&
              c.watchdog_seconds >= 0,
          "--eval-every, --patience, --checkpoint-every, --log-every and --watchdog take no negative "
          "numbers",
          "Use 0 to turn one off.");
  require(c.patience == 0 || c.eval_every > 0, "--patience needs evaluations, but --eval-every is 0",
          "Set --eval-every 1.");
  plan::parse_placement(c.placement);
  require(parse_sm_split(c.sm_split).kind != SmSplitRequest::Kind::given || c.pipeline,
          fmt::format("--sm-split {} contradicts --pipeline off", c.sm_split),
          "One stage runs at a time and has all SMs; leave one of the two out.");
  require(c.gpu_memory_bytes >= 0, fmt::format("--gpu-memory: {} is negative", c.gpu_memory_bytes),
          "Give an amount of memory, or 0 for what training leaves.");
  require(c.halo_cache_bytes >= 0 || c.halo_cache_bytes == plan::kAutomatic,
          fmt::format("--halo-cache: {} is negative", c.halo_cache_bytes),
          "Give an amount of memory, 0 for none, or auto.");
  require(c.topology.ranks_per_machine >= 0, "--ranks-per-machine is negative",
          "Give 0 to treat each host as one machine.");
  check_exchange(c);
  check_cuda_graph(c);
  check_metric(c);
  check_links(c);
  check_effects(c);
}

batches::RouteRequest route_request(const TrainConfig& c) {
  return {.exchange = c.exchange,
          .padded = c.own_model.empty(),
          .bounded = c.sampler_device != comm::TopologyOptions::Compute::cpu &&
                     batches::bounds_requests({.fanouts = all_fanouts(c), .method = c.sampling_method()})};
}

Metric chosen_metric(const TrainConfig& c) {
  if (c.metric != Metric::automatic) return c.metric;
  if (c.task == TaskKind::link) return Metric::mrr;
  return is_regression(c.loss) ? Metric::rmse : Metric::accuracy;
}

graph::EdgeSplit edge_split_of(const TrainConfig& c) {
  const std::size_t comma = c.edge_split.find(',');
  graph::EdgeSplit split{.seed = c.seed};
  if (comma != std::string::npos) {
    split.valid = options::read_real("--edge-split", std::string_view(c.edge_split).substr(0, comma));
    split.test = options::read_real("--edge-split", std::string_view(c.edge_split).substr(comma + 1));
  }
  require(comma != std::string::npos && split.valid >= 0 && split.test >= 0 && split.valid + split.test < 1,
          fmt::format("--edge-split: \"{}\" are no shares for validation and test", c.edge_split),
          "Give two shares that leave edges to train on, such as 0.1,0.1.");
  return split;
}

TrainConfig settled(const TrainConfig& config) {
  TrainConfig c = config;
  c.metric = chosen_metric(config);
  if (c.own_model.empty() && c.model == nn::ModelKind::none) {
    c.fanouts = {0};
    c.relation_fanouts.clear();
  }
  return c;
}

std::string model_name(const TrainConfig& c) {
  return c.own_model.empty() ? std::string(enum_name(c.model)) : c.own_model;
}

}  // namespace strata::train
