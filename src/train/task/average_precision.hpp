// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "strata/comm/communicator.hpp"
#include "task/roc_auc.hpp"

namespace strata::train {

/// The average precision over all ranks: the sum over thresholds of the precision times the share of positives that the
/// threshold adds, as in scikit-learn. NaN without positives, or with a score that is NaN. Sorts `scores`. Every rank
/// holds all positives' scores for a while. Collective; the result is the same on every rank.
double average_precision(ClassScores& scores, const comm::Communicator& communicator);

}  // namespace strata::train
