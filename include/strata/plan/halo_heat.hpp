// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "strata/plan/heat.hpp"
#include "strata/util/types.hpp"

namespace strata::plan {

/// How hot other machines' nodes are. Pure functions.
///
/// Two things tell it: how often a node occurs in this machine's lists, which is known of every node, and how
/// often presampled batches met it, which is what batches do, but of few batches. The first gives an
/// expectation, the second corrects it (HaloHeat).

/// Nodes that occur equally often. The last class has all that occur more often than the others.
inline constexpr std::size_t kHeatClasses = 1 << 12;
constexpr std::size_t heat_class(std::uint32_t occurrences) {
  return occurrences < kHeatClasses ? occurrences : kHeatClasses - 1;
}

/// Sums over the nodes of a class, of how often presampled batches read their rows and visited their lists.
struct HeatClass {
  std::int64_t nodes = 0;
  std::int64_t rows = 0, squared_rows = 0;
  std::int64_t visits = 0, squared_visits = 0;

  void add(std::uint32_t node_rows, std::uint32_t node_visits) {
    const auto r = static_cast<std::int64_t>(node_rows), v = static_cast<std::int64_t>(node_visits);
    ++nodes;
    rows += r, squared_rows += r * r;
    visits += v, squared_visits += v * v;
  }
};

/// What one batch of a rank reads of other machines' nodes.
struct HaloReads {
  double rows = 0;
  std::vector<double> visits;  ///< by hop: lists
  Count batches = 0;           ///< of all ranks of the machine, in which this was counted; 0: it is expected

  double all_visits() const;
};

/// What the structure lets expect: draws of neighbors that fall on other machines' nodes in proportion to
/// their entries in this machine's lists, each time on a node that was not drawn yet.
struct HaloStructure {
  Count own_nodes = 0, other_nodes = 0;
  double mean_degree = 0;
  double remote_share = 0;  ///< of the entries
};
HaloReads expect_reads(const HaloStructure& structure, const BatchShape& batch);

/// How often a batch of a rank is expected to read a node's row, and to visit its list.
///
/// A class of nodes that occur w times is read with the probability p = 1 - exp(-D w), where D is such that
/// these add up to the reads of a batch; a list is visited as often as the sum of this over the hops. Of B
/// presampled batches that met a node c times, a gamma distribution of mean p and shape a then expects
/// p (a + c) / (a + B p). The counts themselves say how far the structure can be trusted: a is the shape for
/// which they spread as they do. Where any node's count is what p says, a is infinite and p stays; where
/// training nodes are in one corner of a graph, a is near 0 and the counts decide.
class HaloHeat {
 public:
  /// `classes` [kHeatClasses]
  HaloHeat(std::span<const HeatClass> classes, HaloReads reads);

  double rows(std::size_t heat_class, std::uint32_t counted) const { return rows_.of(heat_class, counted); }
  double visits(std::size_t heat_class, std::uint32_t counted) const {
    return visits_.of(heat_class, counted);
  }
  const HaloReads& reads() const { return reads_; }
  /// Picks of a visit to a list of this degree, on average over the hops.
  double picks(Count degree, std::span<const int> fanouts) const;

 private:
  struct Posterior {
    std::vector<double> expected;  // by class
    double shape = 0;              // a; 0: the counts tell nothing
    double batches = 0;
    bool infinite = true;

    double of(std::size_t heat_class, std::uint32_t counted) const;
    void trust(std::span<const HeatClass> classes, std::int64_t HeatClass::*sum,
               std::int64_t HeatClass::*squared, Count num_batches);
  };

  HaloReads reads_;
  Posterior rows_, visits_;
};

}  // namespace strata::plan
