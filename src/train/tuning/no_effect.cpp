// SPDX-License-Identifier: Apache-2.0
#include "tuning/no_effect.hpp"

#include <fmt/format.h>

namespace strata::train {

std::vector<std::string> options_without_effect(const TrainConfig& config, const comm::Topology& topology) {
  std::vector<std::string> lines;
  if (topology.num_machines() > 1) return lines;
  const auto add = [&](bool asked, const std::string& option) {
    if (asked)
      lines.push_back(
          fmt::format("{} has no effect: the run has one machine, which has the whole graph", option));
  };
  add(config.halo_cache_bytes > 0, fmt::format("--halo-cache {}", config.halo_cache_bytes));
  add(config.replicate_graph == plan::Replication::on, "--replicate-graph on");
  add(config.row_exchange_precision != RowPrecision::f32,
      fmt::format("--row-exchange-precision {}", enum_name(config.row_exchange_precision)));
  add(config.exchange == batches::Transport::mpi, "--exchange mpi");
  return lines;
}

std::vector<std::string> options_without_effect(const TrainConfig& config, const graph::Manifest& manifest) {
  std::vector<std::string> lines;
  const bool compressed = manifest.feature_code || config.feature_format != plan::FeatureFormat::stored;
  if (compressed && config.row_exchange_precision != RowPrecision::f32)
    lines.push_back(fmt::format(
        "--row-exchange-precision {} has no effect: compressed features travel as they are stored",
        enum_name(config.row_exchange_precision)));
  const std::int64_t row = plan::feature_row_bytes(manifest, config.feature_format);
  if (config.halo_cache_bytes > 0 && config.halo_cache_bytes < row)
    lines.push_back(fmt::format("--halo-cache {} has no effect: a feature row takes {} bytes",
                                config.halo_cache_bytes, row));
  return lines;
}

}  // namespace strata::train
