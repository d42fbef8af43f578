// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <string>

namespace strata::comm {

/// The launcher's word on which rank this is; 0 without a launcher. MPI need not run yet.
int rank_of_launcher();

/// How many ranks the launcher says that it started; 0 if it does not say.
int ranks_of_launcher();

/// Throws InputError if MPI has found one rank where the launcher says that it started several: the mpirun of
/// another MPI, or an srun without a PMI that this MPI knows. Each rank would do all the work by itself.
void refuse_lone_rank(int ranks_of_mpi);

/// What to print on this rank if MPI cannot be initialized: a remedy where srun has started the ranks. Empty
/// on the other ranks, and where nothing can be said.
std::string words_on_failed_start();

}  // namespace strata::comm
