// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "strata/comm/machine.hpp"
#include "strata/nn/model_kind.hpp"
#include "strata/sampling/sampler.hpp"
#include "strata/store/load_options.hpp"
#include "strata/tensor/chunk_tensor.hpp"
#include "strata/train/choices.hpp"
#include "strata/util/log_level.hpp"
#include "strata/util/types.hpp"

namespace strata::train {

/// All that a user can ask of a training run; filled by the command line or by a caller of the library.
struct TrainConfig {
  std::string graph;           ///< partition directory, or "synthetic:..."
  std::string output = "run";  ///< folder for model, checkpoint, metrics and log

  nn::ModelKind model = nn::ModelKind::sage;
  /// The name of a model that train() is given a maker for; empty: `model` is meant.
  std::string own_model;
  nn::Aggregate aggregate = nn::Aggregate::mean;  ///< of sage
  std::int64_t hidden = 256;
  std::int64_t heads = 4;  ///< of gat
  /// From the seeds outwards; -1: all neighbors. As many layers as fanouts.
  std::vector<int> fanouts = {15, 10, 5};
  sampling::Method sampler = sampling::Method::uniform;
  bool replace = false;          ///< uniform and weighted: with replacement
  bool labor_dependent = false;  ///< labor: layers share their random numbers
  using Compute = comm::TopologyOptions::Compute;
  /// Where a GPU's batches are sampled; automatic: the faster one.
  Compute sampler_device = Compute::automatic;
  double dropout = 0.5;
  double input_dropout = 0.0;
  double attention_dropout = 0.0;  ///< of gat

  Count batch_size = 1024;      ///< seeds a rank and step
  Count global_batch_size = 0;  ///< seeds a step over all ranks; 0: batch_size times ranks
  int epochs = 10;
  double learning_rate = 0.003;
  double weight_decay = 0.0;
  OptimizerKind optimizer = OptimizerKind::adam;
  ScheduleKind lr_schedule = ScheduleKind::constant;
  Count warmup_steps = 0;     ///< updates over which the learning rate grows to its height
  Count lr_step_size = 1000;  ///< of the schedule step, in updates
  double lr_gamma = 0.1;      ///< of the schedule step
  double clip_grad = 0.0;     ///< largest Euclidean norm of the gradient; 0: any
  LossKind loss = LossKind::cross_entropy;
  double label_smoothing = 0.0;
  std::string class_weights;   ///< one number a class with commas, or "balanced"; empty: all 1
  Count accumulate = 1;        ///< batches whose gradients make one update
  OnNan on_nan = OnNan::stop;  ///< what follows a loss that is not finite
  std::uint64_t seed = 0;

  comm::TopologyOptions topology;
  std::int64_t gpu_memory_bytes = 0;  ///< a GPU, for the graph; 0: what is free less what training needs
  std::string placement = "auto";     ///< of the graph in memory; see placement::parse_placement
  tensor::HostPath host_gather = tensor::HostPath::automatic;  ///< how GPUs read rows in host memory
  int host_threads = 0;    ///< CPU threads of a rank for it; 0: three quarters of its cores
  int loader_threads = 0;  ///< of a CPU, to sample and gather while it trains; 0: measured
  RowExchange row_exchange = RowExchange::automatic;  ///< how feature rows go from machine to machine
  store::Replication replicate_graph = store::Replication::automatic;  ///< its structure, on every machine
  std::int64_t halo_cache_bytes = store::LoadOptions::kAutomatic;      ///< a machine; 0: none
  static constexpr Count kAutomatic = -1;
  Count presample = kAutomatic;          ///< batches a rank that show what of the graph is hot; 0: none
  Precision precision = Precision::f32;  ///< of training
  bool pipeline = true;                  ///< stages of different steps overlap; off gives the same numbers
  CudaGraphs cuda_graph = CudaGraphs::automatic;  ///< replay steps of padded shape
  /// SMs of a GPU for loading and for training: auto (measured), off (all for both), or LOAD,TRAIN in
  /// percent.
  std::string sm_split = "auto";
  bool normalize_features = false;
  bool verify_parts = true;  ///< see store::LoadOptions

  int eval_every = 1;                ///< epochs; 0: only at the end
  std::vector<int> eval_fanouts;     ///< empty: exact, layer by layer over all nodes
  Metric metric = Metric::accuracy;  ///< what "best" means
  int patience = 0;                  ///< evaluations without improvement before the run ends; 0: never
  int checkpoint_every = 1;          ///< epochs; 0: only when stopped
  bool resume = false;
  std::string predictions;  ///< .npy for the logits of all nodes; empty: none

  std::string trace;  ///< file for what the stages did when; empty: none
  int log_every = 0;  ///< steps; 0: a line an epoch only
  LogLevel log_level = LogLevel::info;
  int watchdog_seconds = 300;  ///< without progress of a rank after loading before the run is ended; 0: never

  int num_layers() const { return static_cast<int>(fanouts.size()); }
};

/// Throws InputError for what cannot be or contradicts itself, with the remedy. Looks at no file. train()
/// calls it.
void validate(const TrainConfig& config);

/// "sage", or the name of the caller's own model.
std::string model_name(const TrainConfig& config);

/// What must be equal for a resumed run to be the same run, as one line of JSON.
std::string resume_signature(const TrainConfig& config, int num_ranks);

}  // namespace strata::train
