// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <memory>
#include <string>

#include "strata/comm/backend.hpp"

namespace strata::comm {

/// What one MPI library offers, in a plug-in that was compiled with its headers: values such as MPI_COMM_WORLD
/// differ between Open MPI and MPICH, and so one binary cannot serve both. All may be called before MPI runs.
struct MpiPlugin {
  std::shared_ptr<Backend> (*backend)(int* argc, char*** argv);  ///< see mpi_backend()
  std::string (*library_version)();                              ///< "Open MPI v4.1.4"
  bool (*is_cuda_aware)();
};

/// mpi_backend() over the MPI library that a plug-in was compiled for; within it.
std::shared_ptr<Backend> open_mpi_world(int* argc, char*** argv);

/// The symbol of a plug-in's table.
inline constexpr const char* kMpiPlugin = "strata_mpi_plugin";

/// What the launcher says of the number of ranks: "PMI_SIZE=3"; empty if it says nothing.
std::string size_by_launcher();

/// The plug-in for the MPI that started this process, or for the one that is installed, with its library; null
/// if there is none. The first call loads both. Thread safe.
const MpiPlugin* find_mpi();

}  // namespace strata::comm
