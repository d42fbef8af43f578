// SPDX-License-Identifier: Apache-2.0
#include <dlfcn.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <span>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include "backends/mpi_plugin.hpp"
#include "strata/comm/launcher.hpp"
#include "strata/util/error.hpp"
#include "strata/util/system.hpp"

namespace strata::comm {
namespace {

namespace fs = std::filesystem;

/// A family of MPI libraries that have one binary interface.
struct Family {
  Mpi mpi;
  const char* plugin;
  std::array<const char*, 2> libraries;  ///< names that its library has, the usual one first
};

// Debian calls MPICH's library by another name than MPICH, Intel MPI and MVAPICH do (https://www.mpich.org/abi).
constexpr std::array kFamilies{
    Family{Mpi::open_mpi, "libstrata_openmpi.so", {"libmpi.so.40", "libmpi.so.40"}},
    Family{Mpi::mpich, "libstrata_mpich.so", {"libmpi.so.12", "libmpich.so.12"}}};

/// The parent of a process; 0 if it is not known.
pid_t parent_of(pid_t process) {
  std::ifstream status(fmt::format("/proc/{}/status", process));
  constexpr std::string_view kParent = "PPid:";
  for (std::string line; std::getline(status, line);)
    if (line.starts_with(kParent)) return std::atoi(line.c_str() + kParent.size());
  return 0;
}

/// The library folders beside the programs that this process descends from: one of them is mpirun, whose
/// library is the one that can talk to it.
std::vector<fs::path> folders_of_launcher() {
  constexpr int kGenerations = 6;
  std::vector<fs::path> folders;
  pid_t process = getppid();
  for (int i = 0; i < kGenerations && process > 1; ++i, process = parent_of(process)) {
    std::error_code failed;
    const fs::path program = fs::read_symlink(fmt::format("/proc/{}/exe", process), failed);
    if (failed) continue;
    for (const char* folder : {"lib", "lib64"})
      folders.push_back(program.parent_path().parent_path() / folder);
  }
  return folders;
}

/// Loads a family's library for all that comes later, as MPI's own components expect.
bool load_library(const Family& family, std::vector<std::string>& errors) {
  std::vector<std::string> places;
  if (ranks_of_launcher() > 0)
    for (const fs::path& folder : folders_of_launcher())
      for (const char* library : family.libraries)
        if (const fs::path place = folder / library; fs::exists(place)) places.push_back(place);
  places.insert(places.end(), family.libraries.begin(), family.libraries.end());
  for (const std::string& place : places) {
    if (dlopen(place.c_str(), RTLD_NOW | RTLD_GLOBAL) != nullptr) return true;
    const std::string error = dlerror();
    if (std::ranges::find(errors, error) == errors.end()) errors.push_back(error);
  }
  return false;
}

const MpiPlugin* load_plugin(const Family& family, std::vector<std::string>& errors) {
  void* plugin = dlopen((library_folder() / family.plugin).c_str(), RTLD_NOW | RTLD_LOCAL);
  const void* table = plugin == nullptr ? nullptr : dlsym(plugin, kMpiPlugin);
  if (table == nullptr) errors.emplace_back(dlerror());
  return static_cast<const MpiPlugin*>(table);
}

struct Search {
  const MpiPlugin* plugin = nullptr;
  std::vector<std::string> errors;
};

Search search_mpi() {
  Search search;
  for (const Mpi mpi : mpi_of_launcher()) {
    const Family& family = *std::ranges::find(kFamilies, mpi, &Family::mpi);
    if (!fs::exists(library_folder() / family.plugin)) {
      search.errors.push_back(fmt::format("{} is not part of this installation", family.plugin));
    } else if (load_library(family, search.errors)) {
      search.plugin = load_plugin(family, search.errors);
    }
    if (search.plugin != nullptr) break;
  }
  return search;
}

const Search& searched_mpi() {
  static const Search search = search_mpi();
  return search;
}

}  // namespace

const MpiPlugin* find_mpi() { return searched_mpi().plugin; }

std::shared_ptr<Backend> mpi_backend(int* argc, char*** argv) {
  if (const MpiPlugin* mpi = find_mpi()) return mpi->backend(argc, argv);
  throw InputError(
      fmt::format("MPI started {} ranks ({}), and its library cannot be loaded: {}", ranks_of_launcher(),
                  size_by_launcher(), fmt::join(searched_mpi().errors, "; ")),
      "Strata loads the library of the MPI that starts it, Open MPI 4.1 or 5, or MPICH 4 and its like: load its "
      "module, or add its folder to LD_LIBRARY_PATH; STRATA_MPI=openmpi or mpich chooses one. Without MPI, start "
      "the ranks of one host with `strata-run -n N` or torchrun.");
}

}  // namespace strata::comm
