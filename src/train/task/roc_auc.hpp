// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <functional>
#include <vector>

#include "strata/comm/communicator.hpp"
#include "strata/util/threads.hpp"
#include "strata/util/types.hpp"

namespace strata::train {

/// The scores of this rank's nodes for one class.
struct ClassScores {
  std::vector<float> positives;  ///< of nodes that have the class
  std::vector<float> negatives;  ///< of the others
};

/// The resources of areas_under_curves() on a rank.
struct CurveWork {
  const comm::Communicator* communicator = nullptr;
  ThreadPool* pool = nullptr;
  std::function<void()> alive;  ///< called after every piece of work
  /// Most scores of another rank in memory at once; the same on all ranks.
  Count piece_scores = Count{1} << 20;
};

/// The exact area under the ROC curve of each class, over the nodes of all ranks: the share of pairs of a
/// positive and a negative node that are in the right order, where ties count half. NaN for a class without
/// pairs or with a score that is NaN.
///
/// Every rank sorts its own scores. The ranks then broadcast their scores of the side with fewer nodes in
/// pieces, one rank after the other, and all ranks count at the same time how many of their own scores of the
/// other side lie below. So no rank holds more than its own scores and one piece. Sorts `classes`.
/// Collective; the result is the same on every rank.
std::vector<double> areas_under_curves(std::vector<ClassScores>& classes, const CurveWork& work);

}  // namespace strata::train
