// SPDX-License-Identifier: Apache-2.0
#include "step/learner.hpp"

#include <ATen/Context.h>
#include <ATen/Parallel.h>
#include <fmt/format.h>

#include <limits>

#include "as_tensor.hpp"
#include "strata/batches/pipeline.hpp"
#include "strata/nn/decoder.hpp"
#include "strata/util/error.hpp"
#include "torch_device.hpp"
#include "tuning/device_mix.hpp"

namespace strata::train {
namespace {

void set_up_torch(const RunContext& context) {
  at::set_num_threads(context.cores);
  at::globalContext().setAllowTF32CuBLAS(context.config.precision == Precision::tf32);
  at::globalContext().setAllowBF16ReductionCuBLAS(false);
  use_own_stream(context.device);
}

void require_f32(const torch::nn::Module& model) {
  for (const auto& item : model.named_parameters()) {
    if (item.value().scalar_type() != at::kFloat)
      throw Error(fmt::format("the parameter \"{}\" is {}, not f32", item.key(),
                              c10::toString(item.value().scalar_type())),
                  "Make the model's parameters f32.");
  }
}

nn::ScheduleOptions schedule_of(const RunContext& context, Count num_seeds) {
  const TrainConfig& config = context.config;
  const Count steps = batches::SeedSchedule::num_steps(num_seeds, context.global_batch);
  const Count updates_per_epoch = (steps + config.accumulate - 1) / config.accumulate;
  return {.kind = config.lr_schedule.kind,
          .warmup_steps = config.warmup_steps,
          .total_steps = updates_per_epoch * config.epochs,
          .step_size = config.lr_schedule.step_size,
          .gamma = config.lr_schedule.gamma};
}

std::unique_ptr<nn::Optimizer> make_optimizer_of(const RunContext& context, Count num_seeds,
                                                 const FlatParameters& parameters) {
  const TrainConfig& config = context.config;
  const nn::OptimizerOptions options{.kind = config.optimizer,
                                     .learning_rate = config.learning_rate,
                                     .weight_decay = config.weight_decay,
                                     .schedule = schedule_of(context, num_seeds),
                                     .clip_norm = config.clip_grad,
                                     .skip_not_finite = config.on_nan == OnNan::skip,
                                     .on_host = is_mixed(context.topology)};
  return nn::make_optimizer(options, parameters.values(), parameters.tail().narrow(0, 0, 1));
}

/// Adds the decoder that the config names to a model whose outputs it reads.
void add_decoder(const RunContext& context, const ModelShape& shape, nn::BlockModel& model) {
  const TrainConfig& config = context.config;
  const bool of_targets = config.task == TaskKind::edge;
  const nn::DecoderKind automatic = of_targets ? nn::DecoderKind::mlp : nn::DecoderKind::dot;
  const nn::DecoderKind kind =
      config.decoder.kind == nn::DecoderKind::automatic ? automatic : config.decoder.kind;
  const auto relations = static_cast<std::int64_t>(link_relations(config, shape.types).size());
  model.register_module("decoder", nn::make_decoder({.kind = kind,
                                                     .num_relations = relations,
                                                     .cols = model.output_cols(model.num_layers() - 1),
                                                     .margin = config.decoder.value,
                                                     .l1 = config.decoder.l1,
                                                     .p_norm = config.decoder.value,
                                                     .hidden = config.hidden,
                                                     .out_cols = context.task.decoder_cols(),
                                                     .side_by_side = of_targets,
                                                     .seed = config.seed}));
}

}  // namespace

std::shared_ptr<nn::BlockModel> make_model(const RunContext& context, const ModelShape& shape,
                                           const ModelFactory& make) {
  set_up_torch(context);
  const TrainConfig& config = context.config;
  const nn::ModelOptions options{.kind = config.model,
                                 .aggregate = config.aggregate,
                                 .in_cols = shape.in_cols,
                                 .hidden = config.hidden,
                                 .out_cols = shape.out_cols,
                                 .num_layers = config.num_layers(),
                                 .heads = config.heads,
                                 .residual = config.residual,
                                 .attention_dropout = config.attention_dropout,
                                 .dropout = config.dropout,
                                 .input_dropout = config.input_dropout,
                                 .bf16 = config.precision == Precision::bf16,
                                 .seed = config.seed,
                                 .types = shape.types,
                                 .num_bases = config.bases};
  std::shared_ptr<nn::BlockModel> model = make(options);
  if (context.task.of_links()) add_decoder(context, shape, *model);
  require_f32(*model);
  model->to(torch_device(context.device));
  return model;
}

Learner::Learner(const RunContext& context, const store::MachineGraph& graph, Count num_seeds,
                 const ModelFactory& make)
    : model(make_model(context,
                       {.in_cols = input_cols(context.config, graph.manifest()),
                        .out_cols = context.task.output_cols(graph.manifest()),
                        .types = graph.manifest().types},
                       make)),
      parameters(*model, torch_device(context.device)),
      loss(context.task.make_loss(graph, context.ranks())),
      optimizer(make_optimizer_of(context, num_seeds, parameters)),
      rows(make_learned_rows(context, graph.manifest(), schedule_of(context, num_seeds))) {}

std::vector<nn::NamedTensor> Learner::weights() const {
  std::vector<nn::NamedTensor> weights = nn::weights_of(*model);
  if (!rows) return weights;
  for (nn::NamedTensor& learned : rows->weights()) weights.push_back(std::move(learned));
  return weights;
}

at::Tensor table_in_place(const nn::BlockModel& model, const store::MachineGraph& graph,
                          const RunContext& context) {
  if (!context.device.is_cuda() || context.topology.num_machines() > 1 || !model.traits().reads_table)
    return {};
  if (context.config.learned_rows > 0) return {};  // rows are put together for each batch
  if (graph.arrival() != nullptr) return {};       // gathers wait for rows that are not in place
  const tensor::ChunkTensor& features = graph.features();
  if (features.spec().dtype != DType::f32 ||
      graph.view().num_nodes > std::numeric_limits<std::int32_t>::max())
    return {};
  for (const tensor::StratumView& view : features.views()) {
    if (view.stratum == tensor::Stratum::replicated && view.rows == features.spec().rows)
      return as_tensor(features.spec(), view);
  }
  return {};
}

sampling::SamplerOptions block_options(const nn::BlockModel& model, const RunContext& context,
                                       const graph::GraphTypes& types, const at::Tensor& table) {
  const TrainConfig& config = context.config;
  sampling::SamplerOptions options = context.neighbor_choice(types);
  options.edge_ids = types.several() && model.traits().needs_types;
  options.in_degrees = model.traits().needs_in_degrees;
  options.transpose = model.traits().needs_transpose;
  const bool learns_rows = config.learned_rows > 0;
  options.input_transpose = model.traits().needs_input_transpose || learns_rows;
  options.strided = model.traits().takes_strided && !learns_rows;
  options.compact_inputs = !table.defined();
  options.input_original_ids = learns_rows || config.input_dropout > 0 || config.attention_dropout > 0;
  return options;
}

}  // namespace strata::train
