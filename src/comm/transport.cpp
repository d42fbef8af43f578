// SPDX-License-Identifier: Apache-2.0
#include <fstream>
#include <set>
#include <string_view>
#include <utility>

#include "backends/mpi_plugin.hpp"
#include "strata/comm/launcher.hpp"

namespace strata::comm {
namespace {

/// "btl/tcp" of ".../mca_btl_tcp.so"; empty if the line names no component that moves messages.
std::string component_of(std::string_view line) {
  constexpr std::string_view kEnd = ".so";
  for (const std::string_view kind : {"pml", "mtl", "btl"}) {
    const std::string start = std::string("mca_").append(kind).append("_");
    const std::size_t found = line.find(start);
    if (found == std::string_view::npos) continue;
    const std::string_view rest = line.substr(found + start.size());
    return std::string(kind).append("/").append(rest.substr(0, rest.find(kEnd)));
  }
  return {};
}

/// Lists the loaded components; Open MPI unloads those that it has not chosen.
std::vector<std::string> loaded_components() {
  std::set<std::string> found;
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) {
    if (std::string component = component_of(line); !component.empty()) found.insert(std::move(component));
  }
  return {found.begin(), found.end()};
}

}  // namespace

TransportFacts transport_facts() {
  const MpiPlugin* mpi = find_mpi();
  return {.components = loaded_components(), .cuda_aware = mpi != nullptr && mpi->is_cuda_aware()};
}

}  // namespace strata::comm
