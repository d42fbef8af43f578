// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <vector>

#include "strata/plan/forecast.hpp"

namespace strata::plan {
namespace {

/// A layer of the model on a batch: its columns, the rows that it writes and those that it reads.
struct LayerShape {
  double in = 0, out = 0;
  double outputs = 0, sources = 0, sublists = 0, picks = 0;
  bool is_first = false;  ///< it reads features only, which need no gradient
};

std::vector<LayerShape> layers_of(const RunShape& run, const graph::Manifest& manifest,
                                  const BatchProfile& profile) {
  std::vector<LayerShape> shapes;
  const std::size_t layers = profile.hops.size();
  for (std::size_t layer = 0; layer < layers; ++layer) {
    const std::size_t hop = layers - 1 - layer;
    shapes.push_back({.in = static_cast<double>(layer == 0 ? std::max(manifest.feature_cols, run.learned_cols)
                                                           : run.hidden),
                      .out = static_cast<double>(layer + 1 == layers ? manifest.outputs() : run.hidden),
                      .outputs = profile.hops[hop].nodes,
                      .sources = hop + 1 < layers ? profile.hops[hop + 1].nodes : profile.inputs,
                      .sublists = profile.hops[hop].sublists,
                      .picks = profile.hops[hop].picks,
                      .is_first = layer == 0 && run.learned_cols == 0});
  }
  return shapes;
}

/// Multiplications of a layer's forward pass.
double products_of(const LayerArithmetic& layer, const LayerShape& s) {
  return (layer.output_in_out * s.outputs + layer.input_in_out * s.sources +
          layer.sublist_in_out * s.sublists + layer.pick_in_out * s.picks) *
             s.in * s.out +
         layer.output_out_out * s.outputs * s.out * s.out;
}

}  // namespace

StepWork work_of(const RunShape& run, const graph::Manifest& manifest, const BatchProfile& profile) {
  StepWork work;
  for (const LayerShape& layer : layers_of(run, manifest, profile)) {
    const double passes = layer.is_first ? 2 : 3;  // forward, for the weights, and for the input
    work.flops += 2 * passes * products_of(run.layer, layer);
    work.aggregated_bytes += (passes - 1) * layer.picks * layer.in * sizeof(float);
  }
  return work;
}

double parameters_of(const RunShape& run, const graph::Manifest& manifest) {
  double sum = 0;
  const BatchProfile no_rows{.hops = std::vector<BatchProfile::Hop>(run.fanouts.size())};
  for (const LayerShape& layer : layers_of(run, manifest, no_rows))
    sum += run.layer.matrices_in_out * layer.in * layer.out +
           run.layer.matrices_out_out * layer.out * layer.out + layer.out;
  return sum;
}

double activation_bytes(const RunShape& run, const graph::Manifest& manifest, const BatchProfile& profile) {
  constexpr double kPerOutput = 8;        // values per column: forward, gradients and workspaces
  const LayerArithmetic& of = run.layer;  // what is projected has rows, results and their gradients
  double values = 0;
  for (const LayerShape& layer : layers_of(run, manifest, profile)) {
    values += layer.outputs * (layer.in + kPerOutput * layer.out) +
              2 * of.input_in_out * layer.sources * layer.out +
              (layer.is_first ? 0 : layer.sources * layer.in);
    if (of.sublist_in_out > 0) values += layer.sublists * (layer.in + 2 * of.sublist_in_out * layer.out);
    if (of.pick_in_out > 0) values += layer.picks * (layer.in + 2 * of.pick_in_out * layer.out);
  }
  return values * sizeof(float);
}

}  // namespace strata::plan
