// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "strata/plan/heat.hpp"

namespace strata::plan {
namespace {

/// Nodes that never occur are reached by lists of other machines: less often than those that occur once.
double weight_of(std::size_t heat_class) { return static_cast<double>(heat_class) + 0.5; }

double expected_sum(std::span<const HeatClass> classes, double draws) {
  double sum = 0;
  for (std::size_t c = 0; c < classes.size(); ++c)
    sum += static_cast<double>(classes[c].nodes) * -std::expm1(-draws * weight_of(c));
  return sum;
}

/// Adds the probabilities that sum up to `reads`.
void add_probabilities(std::span<const HeatClass> classes, double reads, std::vector<double>& expected) {
  if (reads <= 0) return;
  double low = 1e-30, high = 1e3;
  constexpr int kSteps = 200;
  for (int step = 0; step < kSteps; ++step) {
    const double middle = std::sqrt(low * high);
    (expected_sum(classes, middle) < reads ? low : high) = middle;
  }
  for (std::size_t c = 0; c < classes.size(); ++c) expected[c] += -std::expm1(-high * weight_of(c));
}

}  // namespace

double HaloReads::all_visits() const { return std::accumulate(visits.begin(), visits.end(), 0.0); }

HaloReads expect_reads(const HaloStructure& structure, const BatchShape& batch) {
  const auto own_nodes = static_cast<double>(structure.own_nodes),
             other_nodes = static_cast<double>(structure.other_nodes);
  double own = std::min(own_nodes, static_cast<double>(batch.seeds)), remote = 0;
  HaloReads reads;
  for (const int fanout : batch.fanouts) {
    reads.visits.push_back(remote);
    const double picks =
        fanout < 0 ? structure.mean_degree : std::min(structure.mean_degree, static_cast<double>(fanout));
    const double draws = (own + remote) * picks;
    own = std::min(own_nodes, own + draws * (1 - structure.remote_share));
    remote = std::min(other_nodes, remote + draws * structure.remote_share);
  }
  reads.rows = remote;
  return reads;
}

HaloHeat::HaloHeat(std::span<const HeatClass> classes, HaloReads reads) : reads_(std::move(reads)) {
  rows_.expected.resize(classes.size());
  visits_.expected.resize(classes.size());
  add_probabilities(classes, reads_.rows, rows_.expected);
  for (const double visits : reads_.visits) add_probabilities(classes, visits, visits_.expected);
  rows_.trust(classes, &HeatClass::rows, &HeatClass::squared_rows, reads_.batches);
  visits_.trust(classes, &HeatClass::visits, &HeatClass::squared_visits, reads_.batches);
}

double HaloHeat::picks(Count degree, std::span<const int> fanouts) const {
  double picks = 0;
  for (std::size_t hop = 0; hop < fanouts.size(); ++hop) {
    const Count taken = fanouts[hop] < 0 ? degree : std::min<Count>(degree, fanouts[hop]);
    picks += reads_.visits[hop] * static_cast<double>(taken);
  }
  const double visits = reads_.all_visits();
  return visits > 0 ? picks / visits : 0;
}

double HaloHeat::Posterior::of(std::size_t heat_class, std::uint32_t counted) const {
  const double p = expected[heat_class];
  if (infinite || p <= 0) return p;
  return p * (shape + static_cast<double>(counted)) / (shape + batches * p);
}

/// Sets the shape by moments: the spread of the counts beyond that of as many draws with probability p.
void HaloHeat::Posterior::trust(std::span<const HeatClass> classes, std::int64_t HeatClass::*sum,
                                std::int64_t HeatClass::*squared, Count num_batches) {
  batches = static_cast<double>(num_batches);
  if (num_batches == 0) return;
  double squares = 0, spread = 0;
  for (std::size_t c = 0; c < classes.size(); ++c) {
    const auto nodes = static_cast<double>(classes[c].nodes);
    const double mean = batches * expected[c];
    squares += nodes * mean * mean;
    spread += static_cast<double>(classes[c].*squared) - 2 * mean * static_cast<double>(classes[c].*sum) +
              nodes * mean * mean - nodes * mean * (1 - std::min(1.0, expected[c]));
  }
  infinite = spread <= 0;
  if (!infinite) shape = squares / spread;
}

}  // namespace strata::plan
