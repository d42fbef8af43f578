// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <string>
#include <vector>

namespace strata::comm {

/// This rank's number by the launcher's variables; 0 without a launcher. The ranks need not have met.
int rank_of_launcher();

/// A family of MPI libraries with one binary interface.
enum class Mpi : std::uint8_t {
  open_mpi,  ///< Open MPI 4.1 and 5
  mpich,     ///< MPICH 4 and its like: Intel MPI, MVAPICH, Cray MPICH
};

/// The families that can talk to what started this process, the likeliest first: by the variable STRATA_MPI
/// ("openmpi", "mpich"), else by the launcher's own. Throws InputError if STRATA_MPI names no family.
std::vector<Mpi> mpi_of_launcher();

/// Number of ranks that the launcher started by its own variables; 0 if they do not have it.
int ranks_of_launcher();

/// Throws InputError if MPI has found one rank where the launcher says that it started several: the mpirun of
/// another MPI, or an srun without a PMI that this MPI, `library`, knows. Each rank would do all the work by
/// itself.
void refuse_lone_rank(int ranks_of_mpi, const char* library);

/// What to print on this rank if MPI cannot be initialized: a remedy where srun has started the ranks. Empty
/// on the other ranks, and where nothing can be said.
std::string words_on_failed_start();

/// {"Open MPI v4.1.4", "NCCL 2.28.9"}: the libraries that this process has loaded. MPI need not run yet.
std::vector<std::string> library_versions();

/// What carries the messages of this process over MPI.
struct TransportFacts {
  /// "btl/tcp", "btl/vader", "pml/ob1": components of Open MPI that are loaded. Empty if they are not known,
  /// for example because they are part of the library.
  std::vector<std::string> components;
  bool cuda_aware = false;  ///< MPI takes addresses in the memory of GPUs
};

/// The facts of this process. REQUIRES: MPI runs.
TransportFacts transport_facts();

}  // namespace strata::comm
