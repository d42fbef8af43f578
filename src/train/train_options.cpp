// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <filesystem>

#include "option_values.hpp"
#include "strata/train/config.hpp"
#include "strata/util/error.hpp"

namespace strata::train {
namespace {

using options::OptionTable;

void add_data_options(OptionTable& table, TrainSettings& settings) {
  TrainConfig& c = settings.config;
  table.group("Data and output", "data");
  table
      .add_as<GraphSource>(
          "graph", c.graph,
          "Partition directory that strata-partition build wrote; or synthetic:KEY=VALUE,... (generated on "
          "one machine), or planted:parts=N,within=0.9,KEY=VALUE,... (communities, generated on any number "
          "of machines)")
      .common();
  table
      .add("target", c.target,
           "Type of the nodes to train on, score and predict, in a graph of several types (default: that of "
           "the training nodes)")
      .fixed();
  table
      .add(
          "task", c.task,
          "What is learned: node (classes or numbers of nodes), link (which edges there are: a decoder scores "
          "pairs by the model's outputs for their ends), or edge (classes or numbers of edges)")
      .common()
      .fixed();
  table
      .add(
          "relation", c.relation,
          "With --task link and edge, the relations whose edges are learned, in a graph of several: their names, "
          "separated by commas, as SOURCE__NAME__DESTINATION where several are called so (default: all, without "
          "reverses rev_NAME)")
      .fixed();
  table
      .add(
          "targets", c.targets,
          "With --task edge, a .npy file with what is learned: classes (integers) or numbers (floats), a row per edge "
          "in the order of the input; of several relations, those of the first come first")
      .fixed();
  table
      .add(
          "edge-split", c.edge_split,
          "With --task link and edge, the shares of pairs of nodes whose edges are held out for validation and for tests, "
          "chosen by --seed, unless strata-partition --edge-split held some out. No batch and no evaluation sees "
          "these edges")
      .fixed();
  table
      .add("output", c.output,
           "Folder for the model, checkpoint, metrics, log and options of the run (default: "
           "runs/MODEL-DATE-NUMBER, with a link to it in runs/last)")
      .common()
      .per_host()
      .per_run();
  table.add("overwrite", c.overwrite, "Replace the run that is in the --output folder").per_host().per_run();
  table
      .add_as<options::FlagOrText>(
          "resume", settings.resume,
          "Continue the run in this folder (without a value: in --output) with its options. Those given "
          "again must have the same values, except --epochs and options that set where and how the run "
          "computes")
      .common()
      .per_run();
  table
      .add("init-from", c.init_from,
           "Start from the weights of this run (its folder, or a model.safetensors) instead of random ones")
      .fixed();
  table.add(
      "start-early", c.start_early,
      "Start training when the structure, the labels and the hottest feature rows are loaded. The other "
      "rows load in the background, those that a batch needs first. Results are the same");
}

void add_model_options(OptionTable& table, TrainConfig& c) {
  table.group("Model", "model");
  table.add("model", c.model, "Type of the model's layers").common().fixed();
  table.add("aggregate", c.aggregate, "How sage combines the rows of the neighbors").fixed();
  table.add("hidden", c.hidden, "Width of the hidden layers; for gat, of all heads together")
      .common()
      .fixed();
  table
      .add_as<options::IntegerOrIntegers>(
          "heads", c.heads,
          "Attention heads of gat, rgat and hgt: one number for all layers (4), or one per layer, input layer first "
          "(8,8,1). Hidden layers concatenate their heads, the last layer averages them")
      .fixed();
  table
      .add(
          "residual", c.residual,
          "Add residual connections to gat: a linear map of a node's own row is added to each layer's output")
      .fixed();
  table
      .add_as<DecoderText>(
          "decoder", c.decoder,
          "How the outputs of both ends, and weights of the relation, score an edge: dot, distmult, complex, rotate "
          "(with a margin, and :l1 for the sum of complex lengths), transe (with its norm), or mlp; auto: dot of links, "
          "mlp of the targets of edges")
      .fixed();
  table
      .add("fanouts", c.fanouts,
           "Neighbors to sample per hop; one number per layer, FIRST HOP FIRST (from the seeds outwards, as "
           "PyG lists them; DGL lists them the other way round); -1: all neighbors")
      .common()
      .fixed();
  table
      .add_as<FanoutsByRelation>(
          "relation-fanouts", c.relation_fanouts,
          "Fanouts of some relations of a graph of several types, instead of --fanouts: "
          "\"cites=15,10;writes=5,5\". A relation is named by its name or, if several have it, as "
          "paper__cites__paper; 0: no neighbors over it")
      .fixed();
  table
      .add("bases", c.bases,
           "Matrices of which rgcn combines the weights of all relations; 0: each relation has its own")
      .fixed();
  table
      .add(
          "learned-rows", c.learned_rows,
          "Columns of the input rows that are learned for the nodes without features, one per node: of types "
          "that have none, or of all nodes of a graph without features; 0: learn no rows")
      .fixed();
  table
      .add(
          "learned-optimizer", c.learned_optimizer,
          "How learned rows are updated, each in the steps that read it: adam (lazy; each row counts its own "
          "steps) or adagrad (with one sum of squares per row)")
      .fixed();
  table
      .add("learned-lr", c.learned_lr,
           "Learning rate of learned rows, which --lr-schedule changes as it does --lr")
      .fixed();
  table
      .add("sampler", c.sampler,
           "How neighbors are chosen: uniform; weighted (in proportion to edge weights, which the graph must "
           "have); labor (LABOR-0: the fanout on average, and nodes share their neighbors, so that batches "
           "have fewer input nodes); labor-dependent (LABOR with the same random numbers in all layers: even "
           "fewer input nodes)")
      .common()
      .fixed();
  table
      .add("inductive", c.inductive,
           "Train on the subgraph of the training nodes: training sees no edge from or to another node. "
           "Evaluation and predictions use the whole graph")
      .fixed();
  table.add("replace", c.replace, "Sample neighbors with replacement (uniform and weighted)").fixed();
  table.add("dropout", c.dropout, "Probability of dropping a value after each hidden layer").common().fixed();
  table.add("input-dropout", c.input_dropout, "Probability of dropping an input feature").fixed();
  table
      .add("attention-dropout", c.attention_dropout,
           "Probability of dropping an attention weight of gat, rgat or hgt")
      .fixed();
}

void add_training_options(OptionTable& table, TrainConfig& c) {
  table.group("Training", "training");
  table.add("batch-size", c.batch_size, "Seed nodes per rank and step").common();
  table.add("global-batch-size", c.global_batch_size,
            "Seed nodes per step, all ranks together; 0: --batch-size times the number of ranks");
  table.add("epochs", c.epochs, "Passes over the training nodes").common();
  table.add("lr", c.learning_rate, "Learning rate").common().fixed();
  table
      .add("weight-decay", c.weight_decay,
           "Weight decay: an L2 penalty for adam and sgd, decoupled from the gradient for adamw")
      .fixed();
  table.add("optimizer", c.optimizer, "Method that updates the weights").common().fixed();
  table
      .add_as<ScheduleChoice>(
          "lr-schedule", c.lr_schedule,
          "Learning rate after the warm-up: constant; cosine (falls to 0 at the end of the "
          "run); step, which multiplies it by FACTOR (0.1) every UPDATES (1000) updates, "
          "such as step:500:0.3")
      .fixed();
  table.add("warmup-steps", c.warmup_steps, "Updates during which the learning rate rises linearly to --lr")
      .fixed();
  table
      .add("clip-grad", c.clip_grad,
           "Largest Euclidean norm of the gradient: a larger one is scaled down to it; 0: no limit")
      .fixed();
  table
      .add_as<LossText>(
          "loss", c.loss,
          "Loss function of classes: cross-entropy, bce (binary cross-entropy of each class against all others) or "
          "focal (cross-entropy times (1 - p)^FLOAT); of regression, for graphs with targets: mse (squared error), mae "
          "(magnitude of the error), huber (squared up to one standard deviation, then its magnitude) or quantile; of "
          "links: bce or cross-entropy (of a link and its negatives), bpr (each link above its negatives), margin (by "
          "FLOAT), contrastive (the link among its negatives, at this temperature) or adversarial (hard negatives "
          "count more, by this temperature)")
      .fixed();
  table
      .add_as<options::Switch>(
          "scale-targets", c.scale_targets,
          "Learn targets of regression scaled to mean 0 and standard deviation 1 of the training nodes (on), or "
          "as they are (off). Scores and predictions have their own units in both")
      .fixed();
  table
      .add("label-smoothing", c.label_smoothing,
           "Share of each target that is spread evenly over all classes")
      .fixed();
  table
      .add(
          "class-weights", c.class_weights,
          "Weights of the classes in the loss: one number per class (w0,w1,...), or balanced (the same total "
          "weight for every class); default: 1 for every class")
      .fixed();
  table
      .add("accumulate", c.accumulate,
           "Batches per update: the gradient is the mean over the seeds of all of them")
      .fixed();
  table
      .add("negatives", c.negatives,
           "Negatives per link: pairs of its source and a random node, which the model is to score lower")
      .fixed();
  table
      .add(
          "negative-ends", c.negative_ends,
          "The ends of links that negatives stand for, in training and in evaluation: destination, or both (as many "
          "random sources, too)")
      .fixed();
  table
      .add("link-weights", c.link_weights,
           "Let the loss of a link count by the weight of its edge, in proportion to the mean weight")
      .fixed();
  table
      .add("exclude", c.exclude,
           "Edges that the batches of a step of edges do not see, so that none is read off itself: self (the "
           "edges of all ranks), reverse (and those from their destinations to their sources), off")
      .fixed();
  table.add("seed", c.seed, "Random seed for weights, sampling and dropout").common().fixed();
  table.add("checkpoint-every", c.checkpoint_every,
            "Epochs between checkpoints; 0: write one only when a signal stops the run");
  table.add(
      "cuda-graph", c.cuda_graph,
      "Record sampling and training of a step as CUDA graphs and replay them: auto (where batches can be "
      "padded to one shape: on GPUs, without a fanout of -1, and on several machines if neighbors travel "
      "over NCCL), on (report what prevents it and stop), off. Results are the same");
  table.add(
      "sm-split", c.sm_split,
      "How a GPU's multiprocessors (SMs) are shared: auto (measured during the first steps), off (loading "
      "and training use all of them), or LOAD,TRAIN in percent, which may overlap (10,90 or 20,100). "
      "Results are the same");
  table
      .add("precision", c.precision,
           "Precision of training: f32, tf32 (for matrix products on GPUs), or bf16 (for activations and "
           "matrix products; weights, sums and evaluation stay f32)")
      .common()
      .fixed();
}

void add_evaluation_options(OptionTable& table, TrainConfig& c) {
  table.group("Evaluation", "evaluation");
  table.add("eval-every", c.eval_every, "Epochs between evaluations; 0: evaluate only at the end").common();
  table
      .add("eval-fanouts", c.eval_fanouts,
           "Evaluate on sampled neighbors with these fanouts (default: exactly, on all neighbors)")
      .fixed();
  table
      .add("metric", c.metric,
           "Validation score that decides which model is best; auto: accuracy, rmse of regression, or mrr of "
           "links")
      .fixed();
  table
      .add_as<NumberOrAll>(
          "eval-negatives", c.eval_negatives,
          "Random nodes against which a held-out link is ranked, the same in every evaluation; or all nodes of the "
          "type. Those with which the link's other end has an edge do not count")
      .fixed();
  table.add("patience", c.patience, "Evaluations without improvement before the run ends; 0: never end early")
      .common();
}

void add_machine_options(OptionTable& table, TrainConfig& c) {
  table.group("Machines and devices", "machines");
  table
      .add("device", c.topology.compute,
           "Device that ranks compute on; auto: a GPU where there is one, else the CPU")
      .common();
  table.add("ranks-per-machine", c.topology.ranks_per_machine,
            "Ranks per virtual machine; virtual machines share no memory. 0: each host is one machine");
  table
      .add_as<options::Bytes>(
          "gpu-memory", c.gpu_memory_bytes,
          "GPU memory per device that the graph may use, e.g. 60GiB (default: what training leaves free)")
      .common()
      .per_host();
  table.add(
      "placement", c.placement,
      "Which memory holds the graph: auto (planned from heat and measured rates), host, replicate (every "
      "GPU), stripe (features are spread over the GPUs), in-order (GPUs get features, then indices, then "
      "indptr, as far as there is room), or TENSOR=R/S/H,..., the percentages of its rows that are "
      "replicated, striped and in host memory (features=10/40/50)");
  table.add("host-gather", c.host_gather,
            "How GPUs read feature rows in host memory: zero-copy, threads (CPU threads gather them), both, "
            "auto (both for more than 1 GiB where a rank has 4 cores)");
  table.add(
      "replicate-graph", c.replicate_graph,
      "Keep the structure of the whole graph on every machine, so that only features are exchanged: auto "
      "(where it fits), on, off");
  table.add(
      "exchange", c.exchange,
      "How neighbors and feature rows travel between machines: nccl (from GPU to GPU; every rank needs "
      "one of its own), mpi (through host memory), or auto (nccl where it is possible). Results are the "
      "same");
  table
      .add(
          "row-exchange-precision", c.row_exchange_precision,
          "Precision of feature rows between machines: f32, or bf16, which halves their bytes and rounds the "
          "rows of other machines' nodes")
      .fixed();
  table.add_as<options::BytesOrAuto>(
      "halo-cache", c.halo_cache_bytes,
      "Memory per machine for neighbor lists and feature rows of other machines' nodes, e.g. 8GiB; 0: none; "
      "auto: a tenth of what is free. Results are the same");
  table.add(
      "watchdog", c.watchdog_seconds,
      "Seconds that a rank may make no progress, once the graph is loaded, before the run is aborted; 0: "
      "no limit");
}

void add_log_options(OptionTable& table, TrainConfig& c) {
  table.group("Log", "log");
  table.add(
      "trace", c.trace,
      "File for a timeline of all stages on all ranks (their first 4 million spans), for ui.perfetto.dev");
  table.add("log-every", c.log_every,
            "Steps between log lines with the loss and the training accuracy; 0: one line per epoch");
  table
      .add("log-level", c.log_level,
           "Lowest level of messages on the terminal and in train.log; debug adds the stages of each epoch, "
           "off is silent")
      .per_host();
  table
      .add("progress", c.progress,
           "How progress is shown: bar (on a terminal), lines (one every ten seconds), off, or auto")
      .per_host();
}

void add_expert_options(OptionTable& table, TrainSettings& settings) {
  TrainConfig& c = settings.config;
  table.group("For experts", "expert");
  table
      .add("feature-format", c.feature_format,
           "Format of feature rows in memory and between machines: stored (as in the parts), i8, e4m3 "
           "or i4 (compressed while loading to 1 or 1/2 byte per feature and a scale per row; gathers "
           "decompress them)")
      .fixed();
  table.add(
      "sampler-device", c.sampler_device,
      "Device that samples batches for a GPU: cuda; cpu (threads of the rank, for a structure larger than "
      "the GPU should read over PCIe); auto (cuda if GPU memory has neighbor lists, else what is measured "
      "to be faster). Results are the same");
  table.add_as<options::Switch>(
      "pipeline", c.pipeline,
      "Overlap sampling and gathering with training (on), or do one after the other "
      "(off). Results are the same");
  table.add("seeds", settings.seeds,
            "Train once with each of these seeds, in the folders seed-N of --output, and report the mean and "
            "the standard deviation of the scores");
  table
      .add("on-nan", c.on_nan,
           "What happens if a loss is not finite: stop (and report the step, ranks and seeds), or skip that "
           "update")
      .fixed();
}

}  // namespace

TrainSettings settings_of(const TrainConfig& config) {
  return {.config = config, .resume = {.on = config.resume, .text = {}}, .seeds = {}};
}

OptionTable train_options(TrainSettings& settings) {
  OptionTable table;
  add_data_options(table, settings);
  add_model_options(table, settings.config);
  add_training_options(table, settings.config);
  add_evaluation_options(table, settings.config);
  add_machine_options(table, settings.config);
  add_log_options(table, settings.config);
  add_expert_options(table, settings);
  return table;
}

void settle_resume(TrainSettings& settings, const std::function<bool(std::string_view)>& is_given,
                   std::string_view dashes) {
  if (!is_given("resume")) return;
  TrainConfig& config = settings.config;
  config.resume = settings.resume.on;
  const std::string& folder = settings.resume.text;
  if (folder.empty()) return;
  if (is_given("output") && std::filesystem::path(config.output) != folder) {
    throw InputError(fmt::format("{0}resume {1} contradicts {0}output {2}", dashes, folder, config.output),
                     fmt::format("A run goes on in its own folder: leave {}output out.", dashes));
  }
  config.output = folder;
}

}  // namespace strata::train
