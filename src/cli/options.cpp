#include "strata/cli/options.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <charconv>
#include <vector>

#include "strata/util/error.hpp"
#include "strata/util/format.hpp"

namespace strata::cli {
namespace {

using train::TrainConfig;

/// What CLI11 fills besides the configuration itself.
struct RawOptions {
  std::string gpu_memory;
  std::string pipeline = "on";
  bool tf32 = false;
  std::string presample = "auto";
  std::string halo_cache = "auto";
};

template <NamedEnum Enum>
void add_choice(CLI::App& app, const char* name, Enum& field, const char* help) {
  app.add_option_function<std::string>(
         name, [&field, name](const std::string& text) { field = enum_value<Enum>(text, name); }, help)
      ->type_name(fmt::format("{{{}}}", fmt::join(enum_choices<Enum>(), ",")))
      ->default_str(std::string(enum_name(field)));
}

void add_data_options(CLI::App& app, TrainConfig& c) {
  app.option_defaults()->group("Data and output");
  app.add_option("--graph", c.graph,
                 "Partition directory, synthetic:KEY=VALUE,... (one machine, no files), or "
                 "planted:parts=N,within=0.9,KEY=VALUE,... (communities, which machines generate)");
  app.add_option("--output", c.output,
                 "Folder for model.safetensors, checkpoint.safetensors, metrics.jsonl, train.log");
  app.add_flag("--resume", c.resume, "Continue from the checkpoint in --output");
  app.add_option("--predictions", c.predictions,
                 "Write the best model's logits of all nodes to this .npy file");
  app.add_flag("--normalize-features", c.normalize_features,
               "Scale each feature row to a sum of absolute values of 1");
}

void add_model_options(CLI::App& app, TrainConfig& c) {
  app.option_defaults()->group("Model");
  add_choice(app, "--model", c.model, "Layers of the model");
  add_choice(app, "--aggregate", c.aggregate, "Of the neighbours' rows, by sage");
  app.add_option("--hidden", c.hidden, "Width of the hidden layers; of gat: of all heads together");
  app.add_option("--heads", c.heads,
                 "Attention heads of gat: side by side in hidden layers, their mean in the last");
  app.add_option("--fanouts", c.fanouts,
                 "Neighbours sampled a hop, one a layer, FIRST HOP FIRST (from the seeds outwards, as PyG "
                 "lists them; DGL lists them the other way round); -1: all neighbours")
      ->delimiter(',');
  add_choice(app, "--sampler", c.sampler,
             "How neighbours are chosen: uniform; weighted (in proportion to the graph's edge weights, "
             "which it must have); labor (LABOR-0: the fanout on average, and the same neighbours for "
             "nodes that share them, so that batches have fewer input nodes)");
  app.add_flag("--replace", c.replace, "Sample with replacement (uniform and weighted)");
  app.add_flag("--labor-dependent", c.labor_dependent,
               "All layers of a LABOR batch share their random numbers: fewer input nodes still");
  add_choice(app, "--sampler-device", c.sampler_device,
             "What samples for a GPU that trains: cuda; cpu (threads of the rank, for structure larger than "
             "what the GPU should read over PCIe); auto (the GPU where its memory has neighbour lists, else "
             "what is measured to be faster). The same numbers in any case");
  app.add_option("--dropout", c.dropout, "After each hidden layer");
  app.add_option("--input-dropout", c.input_dropout, "Of the input features");
  app.add_option("--attention-dropout", c.attention_dropout, "Of gat's attention weights");
}

void add_training_options(CLI::App& app, TrainConfig& c, RawOptions& raw) {
  app.option_defaults()->group("Training");
  app.add_option("--batch-size", c.batch_size, "Seed nodes a rank and step");
  app.add_option("--global-batch-size", c.global_batch_size,
                 "Seed nodes a step over all ranks; 0: --batch-size times ranks");
  app.add_option("--epochs", c.epochs, "Passes over the training nodes");
  app.add_option("--lr", c.learning_rate, "Learning rate");
  app.add_option("--weight-decay", c.weight_decay, "L2 for adam and sgd, decoupled for adamw");
  add_choice(app, "--optimizer", c.optimizer, "Optimizer");
  add_choice(app, "--lr-schedule", c.lr_schedule,
             "Learning rate after the warm-up: constant, cosine (falls to 0 at the end of the run) or step");
  app.add_option("--warmup-steps", c.warmup_steps, "Updates over which the learning rate grows to --lr");
  app.add_option("--lr-step-size", c.lr_step_size, "Updates after which the schedule step lowers the rate");
  app.add_option("--lr-gamma", c.lr_gamma, "What the schedule step multiplies it by");
  app.add_option("--clip-grad", c.clip_grad, "Scale the gradient down to this Euclidean norm; 0: never");
  add_choice(app, "--loss", c.loss, "cross-entropy, or bce: each class against all others");
  app.add_option("--label-smoothing", c.label_smoothing, "Share of a target that is spread over all classes");
  app.add_option("--class-weights", c.class_weights,
                 "Weights of the classes in the loss: w0,w1,..., or balanced (the same part for each class)");
  app.add_option("--accumulate", c.accumulate,
                 "Batches whose gradients make one update: the mean over all their seeds");
  add_choice(app, "--on-nan", c.on_nan,
             "A loss that is not finite: stop, and name its step, ranks and seeds; or skip that update");
  app.add_option("--seed", c.seed, "Of the weights, the sampling and the dropout")
      ->check(CLI::NonNegativeNumber);
  app.add_option("--checkpoint-every", c.checkpoint_every,
                 "Epochs between checkpoints; 0: only when stopped by a signal");
  add_choice(app, "--cuda-graph", c.cuda_graph,
             "Replay sampling and training of a step as CUDA graphs: auto (where shapes can be padded: a "
             "GPU, one machine, no fanout of -1), on (or end with what stands against it), off (the same "
             "numbers)");
  app.add_option("--pipeline", raw.pipeline,
                 "Overlap sampling and gathering with training (on), or not (off: the same numbers)")
      ->check(CLI::IsMember({"on", "off"}));
  app.add_option(
      "--sm-split", c.sm_split,
      "Which of a GPU's SMs sampling and gathering run on, and which training: auto (measured over "
      "the first steps), off (all for both), or LOAD,TRAIN in percent, which may overlap (10,90 or "
      "20,100). The same numbers in any case");
  add_choice(app, "--precision", c.precision,
             "Of training: f32, tf32 (matrix products on GPUs), or bf16 (activations and matrix products; "
             "weights, sums and evaluation stay f32)");
  app.add_flag("--tf32", raw.tf32, "The same as --precision tf32");
}

void add_evaluation_options(CLI::App& app, TrainConfig& c) {
  app.option_defaults()->group("Evaluation");
  app.add_option("--eval-every", c.eval_every, "Epochs between evaluations; 0: only at the end");
  app.add_option("--eval-fanouts", c.eval_fanouts,
                 "Sampled evaluation with these fanouts (default: exact, layer by layer)")
      ->delimiter(',')
      ->default_str("");
  add_choice(app, "--metric", c.metric, "Validation metric that chooses the best model");
  app.add_option("--patience", c.patience, "Evaluations without a gain before the run ends; 0: never");
}

void add_machine_options(CLI::App& app, TrainConfig& c, RawOptions& raw) {
  app.option_defaults()->group("Machines and devices");
  add_choice(app, "--device", c.topology.compute, "What ranks compute on; auto: a GPU where there is one");
  app.add_option("--ranks-per-machine", c.topology.ranks_per_machine,
                 "Make virtual machines of so many ranks that share nothing; 0: a machine is a host");
  app.add_option("--gpu-memory", raw.gpu_memory,
                 "Of each GPU for the graph, e.g. 60GiB (default: what training leaves)");
  app.add_option(
      "--placement", c.placement,
      "Where the graph lies: auto (planned from heat and measured rates), host, replicate (on every "
      "GPU), stripe (features over the GPUs), or TENSOR=R/S/H,... in percent of its rows "
      "(features=10/40/50)");
  app.add_option(
      "--presample", raw.presample,
      "Batches a rank that are sampled on the CPU while loading, to plan the placement by what they "
      "read: auto (as many as a second allows, where a GPU cannot hold the whole graph), off, or a "
      "number");
  add_choice(
      app, "--host-gather", c.host_gather,
      "How GPUs read feature rows in host memory: zero-copy, threads (CPU threads gather them), both, "
      "copy (gathered on the CPU, then copied: for comparison), auto (both for more than 1 GiB where a "
      "rank "
      "has 4 cores)");
  app.add_option(
      "--host-threads", c.host_threads,
      "CPU threads of a rank that gather feature rows for its GPU; 0: three quarters of its cores");
  app.add_option(
      "--loader-threads", c.loader_threads,
      "CPU threads of a rank that sample and gather while the CPU trains; 0: measured in the first "
      "steps. The same numbers");
  add_choice(app, "--replicate-graph", c.replicate_graph,
             "Keep the structure of the whole graph on every machine, so that only features are exchanged: "
             "auto (where it fits), on, off");
  add_choice(
      app, "--row-exchange", c.row_exchange,
      "How feature rows go from machine to machine: nccl (from GPU to GPU, where every rank has one of "
      "its own), mpi, or auto (nccl where it can be); the same numbers");
  app.add_option(
      "--halo-cache", raw.halo_cache,
      "Host memory of a machine for the hottest neighbour lists and feature rows of other machines' "
      "nodes, e.g. 8GiB; 0: none; auto: a tenth of what is free. Never changes a result");
  app.add_option(
      "--watchdog", c.watchdog_seconds,
      "Seconds without progress of a rank, once the graph is loaded, before the run is ended; 0: never");
}

void add_log_options(CLI::App& app, TrainConfig& c) {
  app.option_defaults()->group("Log");
  app.add_option("--trace", c.trace,
                 "Write what each stage of each rank did when to this file, for ui.perfetto.dev");
  app.add_option("--log-every", c.log_every,
                 "Steps between lines with loss and training accuracy; 0: a line an epoch");
  add_choice(app, "--log-level", c.log_level, "Of stderr and train.log");
}

Count parse_presample(const std::string& text) {
  if (text == "auto") return TrainConfig::kAutomatic;
  if (text == "off") return 0;
  Count batches = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), batches);
  if (error == std::errc() && end == text.data() + text.size() && batches > 0) return batches;
  throw InputError(fmt::format("--presample: {} is no number of batches", text),
                   "Give auto, off, or a number such as 64.");
}

/// CLI11 knows the option names only as "--name"; the first argument that is none of them gets a hint.
std::string hint_for(const CLI::App& app, const std::vector<std::string>& unknown) {
  std::vector<std::string> names;
  for (const CLI::Option* option : app.get_options()) {
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
  }
  for (const std::string& word : unknown) {
    const std::string near = closest(word.substr(0, word.find('=')), names);
    if (!near.empty()) return fmt::format("Did you mean {}? strata-train --help lists all options.", near);
  }
  return "strata-train --help lists all options.";
}

}  // namespace

ParsedOptions parse_train_options(int argc, const char* const* argv) {
  TrainConfig config;
  RawOptions raw;
  CLI::App app(
      "Trains a graph neural network on a partitioned graph.\n"
      "  mpirun -n 8 strata-train --graph parts/ --model sage --fanouts 15,10,5",
      "strata-train");
  app.set_version_flag("--version", std::string("strata-train ") + STRATA_VERSION);
  app.set_config("--config", "", "TOML file with the same names as the options; the command line wins")
      ->check(CLI::ExistingFile);
  app.allow_config_extras(CLI::config_extras_mode::error);
  app.option_defaults()->always_capture_default();
  add_data_options(app, config);
  add_model_options(app, config);
  add_training_options(app, config, raw);
  add_evaluation_options(app, config);
  add_machine_options(app, config, raw);
  add_log_options(app, config);
  // A script's defaults come first, a person's changes after them.
  for (CLI::Option* option : app.get_options()) {
    if (option->get_expected_max() == 1) option->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
  }
  app.allow_extras();  // collected so that the refusal can name the nearest option
  try {
    app.parse(argc, argv);
  } catch (const CLI::CallForHelp&) {
    return {.config = std::nullopt, .text = app.help()};
  } catch (const CLI::CallForVersion& version) {
    return {.config = std::nullopt, .text = std::string(version.what()) + "\n"};
  } catch (const CLI::ParseError& e) {
    throw InputError(e.what(), "strata-train --help lists all options.");
  }
  if (const std::vector<std::string> extras = app.remaining(); !extras.empty()) {
    throw InputError(fmt::format("unknown option {}", extras.front()), hint_for(app, extras));
  }
  config.gpu_memory_bytes = raw.gpu_memory.empty() ? 0 : parse_bytes(raw.gpu_memory);
  config.pipeline = raw.pipeline == "on";
  if (raw.tf32 && config.precision == train::Precision::bf16)
    throw InputError("--tf32 contradicts --precision bf16", "Leave --tf32 out.");
  if (raw.tf32) config.precision = train::Precision::tf32;
  config.presample = parse_presample(raw.presample);
  if (raw.halo_cache != "auto") config.halo_cache_bytes = parse_bytes(raw.halo_cache);
  train::validate(config);
  return {.config = config, .text = {}};
}

}  // namespace strata::cli
