// SPDX-License-Identifier: Apache-2.0
#include "load/loop_degrees.hpp"

#include <algorithm>
#include <mutex>
#include <string>
#include <vector>

#include "strata/comm/machine.hpp"
#include "strata/util/ranges.hpp"
#include "strata/util/threads.hpp"

namespace strata::store {
namespace {

constexpr Count kNodesPerTask = 1 << 14;
constexpr Count kWordBits = 64;

struct Looped {
  NodeId node = 0;
  std::int64_t loops = 0;
};

/// Nodes with self-loops among those whose lists this rank looks at.
std::vector<Looped> find_loops(const GraphRegions& regions, Range nodes, ThreadPool& pool) {
  const NodeId first_list = regions.sizes.first_list();
  const Count* const indptr = regions.indptr.data();
  std::mutex mutex;
  std::vector<Looped> found;
  pool.parallel_for(nodes.count, kNodesPerTask, [&](Count begin, Count end) {
    std::vector<Looped> mine;
    regions.indices.visit([&](const auto* indices) {
      for (NodeId v = nodes.first + begin; v < nodes.first + end; ++v) {
        const Count* const list = indptr + (v - first_list);
        const auto loops = std::count(indices + list[0], indices + list[1], v);
        if (loops > 0) mine.push_back({v, loops});
      }
    });
    const std::lock_guard lock(mutex);
    found.insert(found.end(), mine.begin(), mine.end());
  });
  return found;
}

/// Tells all machines of the loops that others found, and takes them out of the degrees here.
void exchange(const std::vector<Looped>& mine, const GraphRegions& regions, const comm::Machine& machine,
              const comm::Communicator& world) {
  const plan::RegionSizes& sizes = regions.sizes;
  const bool writes = machine.rank() == 0;
  const auto take = [&](NodeId node, std::int64_t loops) {
    const bool own = node >= sizes.first_node && node < sizes.first_node + sizes.num_local;
    if (writes && !own) regions.in_degrees.data()[node] -= static_cast<std::int32_t>(loops);
  };
  // A bit for each node, because all may have a loop; hardly one has more.
  std::vector<std::int64_t> bits(at((sizes.num_nodes + kWordBits - 1) / kWordBits));
  std::vector<Looped> several;
  for (const Looped& found : mine) {
    bits[at(found.node / kWordBits)] |=
        static_cast<std::int64_t>(std::uint64_t{1} << (found.node % kWordBits));
    if (found.loops > 1) several.push_back({found.node, found.loops - 1});
  }
  world.all_reduce(std::span(bits), comm::Communicator::Op::bit_or);
  for (NodeId v = 0; v < sizes.num_nodes; ++v)
    if ((static_cast<std::uint64_t>(bits[at(v / kWordBits)]) >> (v % kWordBits) & 1) != 0) take(v, 1);
  const std::string blob(reinterpret_cast<const char*>(several.data()), several.size() * sizeof(Looped));
  for (const std::string& part : world.all_gather(blob)) {
    std::vector<Looped> more(part.size() / sizeof(Looped));
    std::copy_n(part.data(), part.size(), reinterpret_cast<char*>(more.data()));
    for (const Looped& found : more) take(found.node, found.loops);
  }
}

}  // namespace

void leave_loops_out(const GraphRegions& regions, const comm::Machine& machine,
                     const comm::Communicator& world) {
  const plan::RegionSizes& sizes = regions.sizes;
  ThreadPool pool(comm::resources_of(machine).cores);
  const Range nodes = share_of({sizes.first_list(), sizes.num_lists()}, machine.rank(), machine.size());
  const std::vector<Looped> mine = find_loops(regions, nodes, pool);
  for (const Looped& found : mine)
    regions.in_degrees.data()[found.node] -= static_cast<std::int32_t>(found.loops);
  const bool divided = machine.size() < world.size() && !sizes.replicated;
  std::int64_t any = divided && !mine.empty() ? 1 : 0;
  world.all_reduce(std::span(&any, 1), comm::Communicator::Op::max);
  if (any != 0) exchange(mine, regions, machine, world);
  machine.barrier();
}

}  // namespace strata::store
