// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <string>

namespace strata::comm {

/// This rank's number by the launcher's variables; 0 without a launcher. MPI need not run yet.
int rank_of_launcher();

/// Number of ranks that the launcher started by its own variables; 0 if they do not have it.
int ranks_of_launcher();

/// Throws InputError if MPI has found one rank where the launcher says that it started several: the mpirun of
/// another MPI, or an srun without a PMI that this MPI knows. Each rank would do all the work by itself.
void refuse_lone_rank(int ranks_of_mpi);

/// What to print on this rank if MPI cannot be initialized: a remedy where srun has started the ranks. Empty
/// on the other ranks, and where nothing can be said.
std::string words_on_failed_start();

}  // namespace strata::comm
