// SPDX-License-Identifier: Apache-2.0
#include "tuning/device_mix.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "strata/batches/routes.hpp"
#include "strata/comm/machine.hpp"
#include "strata/plan/placement.hpp"
#include "strata/util/error.hpp"
#include "tuning/sm_split.hpp"

namespace strata::train {
namespace {

std::vector<int> on_cpu(const comm::Topology& topology) {
  return comm::ranks_on(topology, Device::Kind::cpu);
}
std::vector<int> on_gpus(const comm::Topology& topology) {
  return comm::ranks_on(topology, Device::Kind::cuda);
}

/// "rank 1 (host a) computes on the cpu"
std::string who_computes(const comm::Topology& topology) {
  const std::vector<int> ranks = on_cpu(topology);
  return fmt::format("{} {} on the cpu", comm::names_of_ranks(ranks, topology),
                     ranks.size() == 1 ? "computes" : "compute");
}

/// Whether some rows must lie on GPUs. An order in which GPUs are filled asks for nothing where there are
/// none.
bool asks_for_gpu_rows(const plan::PlacementRequest& request) {
  using Mode = plan::PlacementRequest::Mode;
  return request.mode == Mode::replicate || request.mode == Mode::stripe ||
         std::ranges::any_of(request.shares, [](const auto& shares) {
           return shares.percent.sum_above(tensor::Stratum::host) > 0;
         });
}

/// Checks options that only GPUs can follow.
void check_gpu_options(const TrainConfig& config) {
  const auto refuse = [](const std::string& option) {
    throw InputError(fmt::format("{} has no effect: no rank computes on a GPU", option),
                     "Leave it out, or run where there is a GPU (--device cuda says why there is none).");
  };
  if (config.precision == Precision::tf32) refuse("--precision tf32");
  if (config.gpu_memory_bytes > 0) refuse("--gpu-memory");
  if (config.host_gather != tensor::HostPath::automatic)
    refuse(fmt::format("--host-gather {}", enum_name(config.host_gather)));
  if (config.sampler_device == comm::TopologyOptions::Compute::cuda) refuse("--sampler-device cuda");
  if (config.cuda_graph == CudaGraphs::on) refuse("--cuda-graph on");
  if (gives_sm_split(config)) refuse("--sm-split " + config.sm_split);
  if (asks_for_gpu_rows(plan::parse_placement(config.placement))) refuse("--placement " + config.placement);
}

}  // namespace

bool is_mixed(const comm::Topology& topology) {
  return !on_cpu(topology).empty() && !on_gpus(topology).empty();
}

std::string device_name(const comm::Topology& topology) {
  if (is_mixed(topology)) return "mixed";
  return on_gpus(topology).empty() ? "cpu" : "cuda";
}

bool gives_sm_split(const TrainConfig& config) {
  return parse_sm_split(config.sm_split).kind == SmSplitRequest::Kind::given;
}

bool measures_loader_threads(const TrainConfig& config, const comm::Topology& topology) {
  return config.pipeline && !on_cpu(topology).empty();
}

bool measures_sm_splits(const TrainConfig& config, const comm::Topology& topology) {
  return config.pipeline && on_cpu(topology).empty();
}

void check_device_options(const TrainConfig& config, const comm::Topology& topology) {
  if (on_gpus(topology).empty()) check_gpu_options(config);
  batches::check_routes(topology, route_request(config));
  if (!is_mixed(topology)) return;
  const auto refuse = [&](const std::string& option) {
    throw InputError(
        fmt::format("{}: {}", option, who_computes(topology)),
        "Leave the option out, or give every rank a GPU (see CUDA_VISIBLE_DEVICES and nvidia-smi "
        "there).");
  };
  if (config.sampler_device == comm::TopologyOptions::Compute::cuda) refuse("--sampler-device cuda");
  if (config.cuda_graph == CudaGraphs::on) refuse("--cuda-graph on");
  if (gives_sm_split(config)) refuse("--sm-split " + config.sm_split);
}

std::string mix_warning(const comm::Topology& topology) {
  if (!is_mixed(topology)) return "";
  return fmt::format(
      "{}, the other {} on GPUs: the losses are the same, but every step takes as long as on the cpu. "
      "--device cuda refuses such a run, --device cpu leaves the GPUs alone",
      who_computes(topology), on_gpus(topology).size());
}

}  // namespace strata::train
