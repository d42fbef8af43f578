// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "planning/batch_profile.hpp"
#include "strata/batches/routes.hpp"
#include "strata/train/config.hpp"

namespace strata::train {

inline constexpr batches::Routes kThroughHosts{};
inline constexpr batches::Routes kFromGpuToGpu{.rows = batches::Transport::nccl,
                                               .requests = batches::Transport::nccl,
                                               .neighbors = batches::Transport::nccl};

/// 20,000 nodes with rows of 32 floats, mean degree 10, in 4 parts.
inline TrainConfig planted_config() {
  TrainConfig config;
  config.graph =
      "planted:parts=4,within=0.8,nodes=20000,edges=200000,features=32,classes=8,train=8000,seed=2";
  config.fanouts = {5, 3};
  config.hidden = 64;
  config.batch_size = 100;
  return config;
}

/// Of a rank of several machines: 100 lists and 1,000 rows are remote.
inline BatchProfile two_hops() {
  BatchProfile profile;
  profile.hops = {{.nodes = 10, .picks = 50},
                  {.nodes = 500, .picks = 1500, .remote_nodes = 100, .remote_picks = 300}};
  profile.inputs = 3000;
  profile.remote_inputs = 1000;
  return profile;
}

}  // namespace strata::train
