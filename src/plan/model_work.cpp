// SPDX-License-Identifier: Apache-2.0
#include <vector>

#include "strata/plan/forecast.hpp"

namespace strata::plan {
namespace {

/// A layer of the model on a batch: its columns, the rows that it writes and those that it reads.
struct LayerShape {
  double in = 0, out = 0;
  double outputs = 0, sources = 0, picks = 0;
  bool is_first = false;  ///< it reads features, which need no gradient
};

std::vector<LayerShape> layers_of(const RunShape& run, const graph::Manifest& manifest,
                                  const BatchProfile& profile) {
  std::vector<LayerShape> shapes;
  const std::size_t layers = profile.hops.size();
  for (std::size_t layer = 0; layer < layers; ++layer) {
    const std::size_t hop = layers - 1 - layer;
    shapes.push_back({.in = static_cast<double>(layer == 0 ? manifest.feature_cols : run.hidden),
                      .out = static_cast<double>(layer + 1 == layers ? manifest.num_classes : run.hidden),
                      .outputs = profile.hops[hop].nodes,
                      .sources = hop + 1 < layers ? profile.hops[hop + 1].nodes : profile.inputs,
                      .picks = profile.hops[hop].picks,
                      .is_first = layer == 0});
  }
  return shapes;
}

/// Multiplications per row of a layer's output, and per row of its input.
struct LayerWork {
  double per_output = 0, per_input = 0;
};

LayerWork work_of_layer(const LayerArithmetic& layer, double in, double out) {
  return {.per_output = layer.output_in_out * in * out + layer.output_out_out * out * out,
          .per_input = layer.input_in_out * in * out};
}

}  // namespace

StepWork work_of(const RunShape& run, const graph::Manifest& manifest, const BatchProfile& profile) {
  StepWork work;
  for (const LayerShape& layer : layers_of(run, manifest, profile)) {
    const LayerWork rows = work_of_layer(run.layer, layer.in, layer.out);
    const double passes = layer.is_first ? 2 : 3;  // forward, for the weights, and for the input
    work.flops += 2 * passes * (layer.outputs * rows.per_output + layer.sources * rows.per_input);
    work.aggregated_bytes += (passes - 1) * layer.picks * layer.in * sizeof(float);
  }
  return work;
}

double parameters_of(const RunShape& run, const graph::Manifest& manifest) {
  double sum = 0;
  const BatchProfile no_rows{.hops = std::vector<BatchProfile::Hop>(run.fanouts.size())};
  for (const LayerShape& layer : layers_of(run, manifest, no_rows)) {
    const LayerWork work = work_of_layer(run.layer, layer.in, layer.out);
    sum += work.per_output + work.per_input + layer.out;
  }
  return sum;
}

double activation_bytes(const RunShape& run, const graph::Manifest& manifest, const BatchProfile& profile) {
  constexpr double kPerOutput = 8;  // values per column: forward, gradients and workspaces
  const double per_source = 2 * run.layer.input_in_out;  // projected rows and their gradients
  double values = 0;
  for (const LayerShape& layer : layers_of(run, manifest, profile)) {
    values += layer.outputs * (layer.in + kPerOutput * layer.out) + per_source * layer.sources * layer.out +
              (layer.is_first ? 0 : layer.sources * layer.in);
  }
  return values * sizeof(float);
}

}  // namespace strata::plan
