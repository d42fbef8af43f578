// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>
#include <vector>

#include "strata/util/types.hpp"

namespace strata::tensor {

/// Finds the share of a job's rows that CPU threads should take beside a kernel, from the times of both in a
/// few jobs. A value; it knows no clock and no GPU.
///
/// First the share moves to where both would end together at the rates of the previous job: if threads took
/// 0.5 of 1,000 rows in 5 ms beside a kernel that took the rest in 10 ms, they get 2/3. The paths share a
/// link, so this need not be the best share. More and fewer rows for the threads, only threads and only the
/// kernel are therefore tried, too, in several rounds because single jobs are noisy. Then the share with the
/// best median stays, so that a single slow or fast job decides nothing.
class ShareTuner {
 public:
  struct Side {
    Count rows = 0;
    double seconds = 0;  ///< from the start of the job to the side's end
    double rate() const { return rows > 0 && seconds > 0 ? static_cast<double>(rows) / seconds : 0; }
  };
  struct Trial {
    double share = 0;  ///< the share of the job
    Side threads, kernel;
    double rate() const;  ///< rows per second of the whole job
  };

  double share() const { return share_; }  ///< for the next job
  bool settled() const;
  void add(const Trial& trial);                ///< a finished job; ignored when settled
  const Trial& best() const { return best_; }  ///< sum of the jobs with the best share; empty until settled

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
