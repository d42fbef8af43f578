// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>
#include <vector>

#include "strata/util/types.hpp"

namespace strata::tensor {

/// Finds the share of a job's rows that CPU threads take beside a kernel, from how long both took in a few
/// jobs. A value; knows no clock and no GPU.
///
/// First the share moves to where both would end together, judged by the rates of the job before: threads
/// that took 0.5 of 1,000 rows in 5 ms beside a kernel that took the rest in 10 ms get 2/3. The paths share a
/// link, so that point need not be the best: more and fewer rows for the threads, threads alone and the
/// kernel alone are tried too, in several rounds, for single jobs are noisy. Then the share stays whose job
/// of middle speed was the fastest: one that was held up, or had luck, decides nothing.
class ShareTuner {
 public:
  struct Side {
    Count rows = 0;
    double seconds = 0;  ///< from the start of the job to the side's end
    double rate() const { return rows > 0 && seconds > 0 ? static_cast<double>(rows) / seconds : 0; }
  };
  struct Trial {
    double share = 0;  ///< that the job ran with
    Side threads, kernel;
    double rate() const;  ///< rows a second of the whole job
  };

  double share() const { return share_; }  ///< for the next job
  bool settled() const;
  void add(const Trial& trial);                ///< a finished job; ignored when settled
  const Trial& best() const { return best_; }  ///< the sum of its jobs; empty until settled

 private:
  /// A share and its jobs.
  struct Candidate {
    double share = 0;
    Trial sum = {};
    std::vector<double> rates = {};

    double middle_rate() const;
  };
  void choose_candidates();

  double share_ = 0.5;
  int balancing_ = 0;      // jobs so far
  std::size_t tried_ = 0;  // jobs of candidates
  std::vector<Candidate> candidates_;
  Trial best_;
};

}  // namespace strata::tensor
