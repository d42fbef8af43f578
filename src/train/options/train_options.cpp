// SPDX-License-Identifier: Apache-2.0
#include "strata/train/train_options.hpp"

#include <fmt/format.h>

#include <filesystem>

#include "strata/util/error.hpp"

namespace strata::train {
namespace {

using options::OptionTable;

void add_data_options(OptionTable& table, TrainSettings& settings) {
  TrainConfig& c = settings.config;
  table.group("Data and output", "data");
  table
      .add("graph", c.graph,
           "Partition directory, synthetic:KEY=VALUE,... (one machine, no files), or "
           "planted:parts=N,within=0.9,KEY=VALUE,... (communities, which machines generate)")
      .common();
  table
      .add("output", c.output,
           "Folder for the model, checkpoint, metrics, log and options of the run (default: "
           "runs/MODEL-DATE-NUMBER, to which runs/last is a link)")
      .common()
      .per_host()
      .per_run();
  table.add("overwrite", c.overwrite, "Replace the run that --output has").per_host().per_run();
  table
      .add_as<options::FlagOrText>("resume", settings.resume,
                                   "Continue the run in this folder, or in --output, with its options; those "
                                   "given again must be equal, "
                                   "except --epochs and where and how it runs")
      .common()
      .per_run();
  table
      .add("init-from", c.init_from,
           "Begin with the weights of this run (its folder, or a model.safetensors) instead of random ones")
      .fixed();
  table
      .add("predictions", c.predictions,
           "Write the best model's logits of all nodes to this file: .npy or .csv")
      .common();
  table
      .add("normalize-features", c.normalize_features,
           "Scale each feature row to a sum of absolute values of 1")
      .fixed();
  table
      .add("feature-format", c.feature_format,
           "What feature rows are in memory and between machines: stored (as the parts have them), i8 or i4 "
           "(compressed while loading to 1 or 1/2 byte per feature and a scale per row; decompressed by the "
           "gather)")
      .fixed();
  table
      .add_as<options::Switch>(
          "verify-parts", c.verify_parts,
          "Compare all that is read of part files with the hashes of their build (on), or take it "
          "as it is (off)")
      .per_host();
  table.add("start-early", c.start_early,
            "Begin to train when structure, labels and the hottest feature rows are read; the other rows are "
            "read meanwhile, and first those that a batch needs. The same numbers");
}

void add_model_options(OptionTable& table, TrainConfig& c) {
  table.group("Model", "model");
  table.add("model", c.model, "Layers of the model").common().fixed();
  table.add("aggregate", c.aggregate, "Of the neighbors' rows, by sage").fixed();
  table.add("hidden", c.hidden, "Width of the hidden layers; of gat: of all heads together").common().fixed();
  table
      .add_as<options::IntegerOrIntegers>(
          "heads", c.heads,
          "Attention heads of gat, of all layers (4) or of each, input layer first (8,8,1): side by side in "
          "hidden layers, their mean in the last")
      .fixed();
  table
      .add("residual", c.residual,
           "Residual connections of gat: a linear map of a node's own row is added to the output of each "
           "layer")
      .fixed();
  table
      .add("fanouts", c.fanouts,
           "Neighbors sampled a hop, one a layer, FIRST HOP FIRST (from the seeds outwards, as PyG "
           "lists them; DGL lists them the other way round); -1: all neighbors")
      .common()
      .fixed();
  table
      .add("sampler", c.sampler,
           "How neighbors are chosen: uniform; weighted (in proportion to the graph's edge weights, "
           "which it must have); labor (LABOR-0: the fanout on average, and the same neighbors for "
           "nodes that share them, so that batches have fewer input nodes)")
      .common()
      .fixed();
  table
      .add(
          "inductive", c.inductive,
          "Train on the subgraph of the training nodes: no edge from or to another node is seen in training. "
          "Evaluation and predictions use the whole graph")
      .fixed();
  table.add("replace", c.replace, "Sample with replacement (uniform and weighted)").fixed();
  table
      .add("labor-dependent", c.labor_dependent,
           "All layers of a LABOR batch share their random numbers: fewer input nodes still")
      .fixed();
  table.add("sampler-device", c.sampler_device,
            "What samples for a GPU that trains: cuda; cpu (threads of the rank, for structure larger than "
            "what the GPU should read over PCIe); auto (the GPU where its memory has neighbor lists, else "
            "what is measured to be faster). The same numbers in any case");
  table.add("dropout", c.dropout, "After each hidden layer").common().fixed();
  table.add("input-dropout", c.input_dropout, "Of the input features").fixed();
  table.add("attention-dropout", c.attention_dropout, "Of gat's attention weights").fixed();
}

void add_training_options(OptionTable& table, TrainSettings& settings) {
  TrainConfig& c = settings.config;
  table.group("Training", "training");
  table.add("batch-size", c.batch_size, "Seed nodes a rank and step").common();
  table.add("global-batch-size", c.global_batch_size,
            "Seed nodes a step over all ranks; 0: --batch-size times ranks");
  table.add("epochs", c.epochs, "Passes over the training nodes").common();
  table.add("lr", c.learning_rate, "Learning rate").common().fixed();
  table.add("weight-decay", c.weight_decay, "L2 for adam and sgd, decoupled for adamw").fixed();
  table.add("optimizer", c.optimizer, "Optimizer").common().fixed();
  table
      .add("lr-schedule", c.lr_schedule,
           "Learning rate after the warm-up: constant, cosine (falls to 0 at the end of the run) or step")
      .fixed();
  table.add("warmup-steps", c.warmup_steps, "Updates over which the learning rate grows to --lr").fixed();
  table.add("lr-step-size", c.lr_step_size, "Updates after which the schedule step lowers the rate").fixed();
  table.add("lr-gamma", c.lr_gamma, "What the schedule step multiplies it by").fixed();
  table.add("clip-grad", c.clip_grad, "Scale the gradient down to this Euclidean norm; 0: never").fixed();
  table.add("loss", c.loss, "cross-entropy, or bce: each class against all others").fixed();
  table.add("label-smoothing", c.label_smoothing, "Share of a target that is spread over all classes")
      .fixed();
  table
      .add("class-weights", c.class_weights,
           "Weights of the classes in the loss: w0,w1,..., or balanced (the same part for each class)")
      .fixed();
  table
      .add("accumulate", c.accumulate,
           "Batches whose gradients make one update: the mean over all their seeds")
      .fixed();
  table
      .add("on-nan", c.on_nan,
           "A loss that is not finite: stop, and name its step, ranks and seeds; or skip that update")
      .fixed();
  table.add("seed", c.seed, "Random seed for weights, sampling and dropout").common().fixed();
  table.add(
      "seeds", settings.seeds,
      "Train once with each of these seeds, in the folders seed-N of --output, and tell mean and spread");
  table.add("checkpoint-every", c.checkpoint_every,
            "Epochs between checkpoints; 0: only when stopped by a signal");
  table.add("cuda-graph", c.cuda_graph,
            "Replay sampling and training of a step as CUDA graphs: auto (where shapes can be padded: a "
            "GPU, no fanout of -1, on several machines a neighbor exchange over NCCL), on (or end with what "
            "stands against it), off (the same numbers)");
  table.add_as<options::Switch>(
      "pipeline", c.pipeline,
      "Overlap sampling and gathering with training (on), or not (off: the same numbers)");
  table.add("sm-split", c.sm_split,
            "Which of a GPU's SMs sampling and gathering run on, and which training: auto (measured over "
            "the first steps), off (all for both), or LOAD,TRAIN in percent, which may overlap (10,90 or "
            "20,100). The same numbers in any case");
  table
      .add("precision", c.precision,
           "Of training: f32, tf32 (matrix products on GPUs), or bf16 (activations and matrix products; "
           "weights, sums and evaluation stay f32)")
      .common()
      .fixed();
  table.add("tf32", settings.tf32, "The same as --precision tf32").shorthand();
}

void add_evaluation_options(OptionTable& table, TrainConfig& c) {
  table.group("Evaluation", "evaluation");
  table.add("eval-every", c.eval_every, "Epochs between evaluations; 0: only at the end").common();
  table
      .add("eval-fanouts", c.eval_fanouts,
           "Sampled evaluation with these fanouts (default: exact, layer by layer)")
      .fixed();
  table.add("metric", c.metric, "Validation metric that chooses the best model").common().fixed();
  table.add("patience", c.patience, "Evaluations without a gain before the run ends; 0: never").common();
}

void add_machine_options(OptionTable& table, TrainSettings& settings) {
  TrainConfig& c = settings.config;
  table.group("Machines and devices", "machines");
  table
      .add_as<options::FlagOrText>(
          "plan-only", settings.plan,
          "Train nothing: tell what memory the run would take on each GPU and host, where rows would lie, "
          "how "
          "long a step would take and what limits it; --plan-only json for one line of JSON")
      .common()
      .per_run();
  table
      .add("cluster", settings.cluster,
           "Plan for these machines instead of the present ones: machines=16,gpus=8,link=400Gbit/s, "
           "latency=10us,gpu-memory=140GiB,host-memory=1TiB,... (docs/clusters.md has all keys)")
      .per_run();
  table.add("device", c.topology.compute, "What ranks compute on; auto: a GPU where there is one").common();
  table.add("ranks-per-machine", c.topology.ranks_per_machine,
            "Make virtual machines of so many ranks that share nothing; 0: a machine is a host");
  table
      .add_as<options::Bytes>("gpu-memory", c.gpu_memory_bytes,
                              "Of each GPU for the graph, e.g. 60GiB (default: what training leaves)")
      .common()
      .per_host();
  table.add("placement", c.placement,
            "Where the graph lies: auto (planned from heat and measured rates), host, replicate (on every "
            "GPU), stripe (features over the GPUs), in-order (features, then indices, then indptr, as far as "
            "there is "
            "room), or TENSOR=R/S/H,... in percent of its rows "
            "(features=10/40/50)");
  table.add_as<options::CountOrAuto>("presample", c.presample,
                                     "Batches a rank that are sampled on the CPU while loading, to plan by "
                                     "what they read where the graph lies and what "
                                     "several machines keep of each other's nodes: auto (as many as a second "
                                     "allows, where a GPU cannot hold the whole "
                                     "graph; on several machines up to 16), off, or a number");
  table.add("host-gather", c.host_gather,
            "How GPUs read feature rows in host memory: zero-copy, threads (CPU threads gather them), both, "
            "copy (gathered on the CPU, then copied: for comparison), auto (both for more than 1 GiB where a "
            "rank has 4 cores)");
  table
      .add("host-threads", c.host_threads,
           "CPU threads of a rank that gather feature rows for its GPU; 0: three quarters of its cores")
      .per_host();
  table.add("loader-threads", c.loader_threads,
            "CPU threads of a rank that sample and gather while the CPU trains; 0: measured in the first "
            "steps. The same numbers");
  table.add("replicate-graph", c.replicate_graph,
            "Keep the structure of the whole graph on every machine, so that only features are exchanged: "
            "auto (where it fits), on, off");
  table.add(
      "neighbor-exchange", c.neighbor_exchange,
      "How requests for other machines' neighbors and rows travel: nccl (from GPU to GPU, where every "
      "rank has one of its own; not for fanouts of -1 and LABOR), mpi (through the host), or auto (nccl "
      "where it can be); the same numbers");
  table.add("row-exchange", c.row_exchange,
            "How feature rows go from machine to machine: nccl (from GPU to GPU, where every rank has one of "
            "its own), mpi, or auto (nccl where it can be); the same numbers");
  table
      .add("row-exchange-precision", c.row_exchange_precision,
           "What feature rows are between machines: f32, or bf16, which halves their bytes and rounds the "
           "rows "
           "of other machines' nodes; they are f32 again where they are read")
      .fixed();
  table.add_as<options::RangeOrAuto<2, TrainConfig::kMostInFlight>>(
      "batches-in-flight", c.batches_in_flight,
      "Batches that are sampled, gathered or trained at the same time, 2 to 8: auto (3; on several machines "
      "as many as hide the measured latency of the network), or a number. The same numbers in any case");
  table.add_as<options::BytesOrAuto>(
      "halo-cache", c.halo_cache_bytes,
      "Memory of a machine for those neighbor lists and feature rows of other machines' nodes that save most "
      "of the exchange, e.g. 8GiB; 0: none; auto: as much of a tenth of what is free as measured rates say "
      "pays, or none. Never changes a result");
  table.add(
      "watchdog", c.watchdog_seconds,
      "Seconds without progress of a rank, once the graph is loaded, before the run is ended; 0: never");
}

void add_log_options(OptionTable& table, TrainConfig& c) {
  table.group("Log", "log");
  table.add("trace", c.trace,
            "Write what each stage of each rank did when to this file, for ui.perfetto.dev; of long runs the "
            "first 4 million spans");
  table
      .add("report", c.report,
           "Draw the finished run on one page, report.html in its folder (strata-report; needs Python)")
      .common();
  table.add("log-every", c.log_every,
            "Steps between lines with loss and training accuracy; 0: a line an epoch");
  table.add("log-level", c.log_level, "Of the terminal and train.log; off: silent").per_host();
  table.add("verbose", c.verbose, "Tell more: the stages of each epoch, where the graph lies")
      .common()
      .per_host();
  table
      .add("progress", c.progress,
           "How work is shown while it lasts: bar (on a terminal), lines (one every ten seconds), off, or "
           "auto")
      .per_host();
  table.add("color", c.color, "Colors of the terminal; auto heeds NO_COLOR").per_host();
}

}  // namespace

TrainSettings settings_of(const TrainConfig& config) {
  return {.config = config,
          .tf32 = config.precision == Precision::tf32,
          .resume = {.on = config.resume, .text = {}},
          .plan = {},
          .cluster = {},
          .seeds = {}};
}

OptionTable train_options(TrainSettings& settings) {
  OptionTable table;
  add_data_options(table, settings);
  add_model_options(table, settings.config);
  add_training_options(table, settings);
  add_evaluation_options(table, settings.config);
  add_machine_options(table, settings);
  add_log_options(table, settings.config);
  return table;
}

void settle_tf32(TrainSettings& settings, const std::function<bool(std::string_view)>& is_given,
                 std::string_view dashes) {
  if (!is_given("tf32")) return;
  Precision& precision = settings.config.precision;
  if (!settings.tf32) {
    if (!is_given("precision") && precision == Precision::tf32) precision = Precision::f32;
    return;
  }
  if (is_given("precision") && precision != Precision::tf32) {
    throw InputError(fmt::format("{0}tf32 contradicts {0}precision {1}", dashes, enum_name(precision)),
                     fmt::format("Leave {}tf32 out.", dashes));
  }
  precision = Precision::tf32;
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
