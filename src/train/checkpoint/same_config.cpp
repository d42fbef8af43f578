// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/same_config.hpp"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "strata/util/error.hpp"

namespace strata::train {
namespace {

using nlohmann::json;

/// The name of a generated graph. Each host may have a copy of its own of a graph on disk, so such names may
/// differ.
std::string generated_graph(const graph::Source& graph) {
  return graph.is_generated() ? graph.text() : "a directory";
}

json model_options(const TrainConfig& c) {
  return {{"model", model_name(c)},
          {"aggregate", enum_name(c.aggregate)},
          {"hidden", c.hidden},
          {"heads", c.heads},
          {"fanouts", c.fanouts},
          {"sampler", enum_name(c.sampler)},
          {"replace", c.replace},
          {"labor-dependent", c.labor_dependent},
          {"sampler-device", enum_name(c.sampler_device)},
          {"dropout", c.dropout},
          {"input-dropout", c.input_dropout},
          {"attention-dropout", c.attention_dropout}};
}

json training_options(const TrainConfig& c) {
  return {{"batch-size", c.batch_size},
          {"global-batch-size", c.global_batch_size},
          {"epochs", c.epochs},
          {"lr", c.learning_rate},
          {"weight-decay", c.weight_decay},
          {"optimizer", enum_name(c.optimizer)},
          {"lr-schedule", enum_name(c.lr_schedule)},
          {"warmup-steps", c.warmup_steps},
          {"lr-step-size", c.lr_step_size},
          {"lr-gamma", c.lr_gamma},
          {"clip-grad", c.clip_grad},
          {"loss", enum_name(c.loss)},
          {"label-smoothing", c.label_smoothing},
          {"class-weights", c.class_weights},
          {"accumulate", c.accumulate},
          {"on-nan", enum_name(c.on_nan)},
          {"seed", c.seed},
          {"checkpoint-every", c.checkpoint_every},
          {"cuda-graph", enum_name(c.cuda_graph)},
          {"pipeline", c.pipeline},
          {"sm-split", c.sm_split},
          {"precision", enum_name(c.precision)}};
}

json other_options(const TrainConfig& c) {
  return {{"graph", generated_graph(c.graph)},
          {"resume", c.resume},
          {"predictions", c.predictions.empty() ? "none" : "a file"},
          {"normalize-features", c.normalize_features},
          {"eval-every", c.eval_every},
          {"eval-fanouts", c.eval_fanouts},
          {"metric", enum_name(c.metric)},
          {"patience", c.patience},
          {"device", enum_name(c.topology.compute)},
          {"ranks-per-machine", c.topology.ranks_per_machine},
          {"placement", c.placement},
          {"presample", c.presample},
          {"host-gather", enum_name(c.host_gather)},
          {"loader-threads", c.loader_threads},
          {"replicate-graph", enum_name(c.replicate_graph)},
          {"neighbor-exchange", enum_name(c.neighbor_exchange)},
          {"row-exchange", enum_name(c.row_exchange)},
          {"halo-cache", c.halo_cache_bytes},
          {"watchdog", c.watchdog_seconds},
          {"trace", c.trace.empty() ? "none" : "a file"},
          {"log-every", c.log_every}};
}

json shared_options(const TrainConfig& config) {
  json options = model_options(config);
  options.update(training_options(config));
  options.update(other_options(config));
  return options;
}

/// "--hidden 64 instead of 128, ...".
std::string differences(const json& mine, const json& first) {
  std::string text;
  for (const auto& [name, value] : mine.items()) {
    if (value == first.at(name)) continue;
    text += fmt::format("{}--{} {} instead of {}", text.empty() ? "" : ", ", name, value.dump(),
                        first.at(name).dump());
  }
  return text;
}

}  // namespace

void require_same_config(const TrainConfig& config, const comm::Communicator& communicator) {
  const json mine = shared_options(config);
  std::string first = communicator.rank() == 0 ? mine.dump() : "";
  communicator.broadcast(first, 0);
  communicator.together([&] {
    const std::string different = differences(mine, json::parse(first));
    if (different.empty()) return;
    throw InputError(fmt::format("this rank was given other options than rank 0: {}", different),
                     "Give all ranks the same options, and all hosts the same configuration file.");
  });
}

}  // namespace strata::train
