// SPDX-License-Identifier: Apache-2.0
#include "cache/halo_regions.hpp"

#include <algorithm>
#include <atomic>
#include <bit>
#include <cstring>
#include <functional>
#include <mutex>
#include <numeric>
#include <utility>

#include "strata/util/shares.hpp"

namespace strata::store {
namespace {

constexpr Count kBlock = 4096;  // consecutive entries that are read
constexpr Count kNodesPerPiece = 1 << 16;
constexpr std::size_t kClasses = 1 << 12;  // nodes that occur more often are all equally hot; 0: never
constexpr Count kIndexBytes = 16;          // per node of a NodeIndex

using Occurrences = HostArray<std::uint32_t>;

Occurrences count_occurrences(const HaloTask& task) {
  const comm::Machine& machine = task.machine;
  const GraphView graph = task.regions.view();
  auto occurrences = Occurrences::create(machine, graph.num_nodes, "occurrences of other machines' nodes");
  const Range all{graph.indptr[0], graph.indptr[graph.num_local] - graph.indptr[0]};
  const Count stride = std::max<Count>(1, (all.count + task.max_entries - 1) / task.max_entries);
  const Range own = share_of(all, machine.rank(), machine.size());
  graph.indices.visit([&](const auto* ids) {
    task.pool.parallel_for(own.count, kBlock * stride * 64, [&](Count begin, Count end) {
      for (Count first = own.first + begin; first < own.first + end; first += kBlock * stride) {
        const Count last = std::min(first + kBlock, own.first + end);
        for (Count e = first; e < last; ++e) {
          if (graph.owns(ids[e])) continue;
          std::atomic_ref(occurrences.data()[ids[e]]).fetch_add(1, std::memory_order_relaxed);
        }
      }
    });
  });
  machine.barrier();
  return occurrences;
}

struct Candidate {
  NodeId node;
  Count degree;
  std::int64_t bytes;  ///< bytes that it takes to keep the node
  std::uint32_t occurrences;
};

using Visit = std::function<void(const std::vector<Candidate>&)>;

Range own_nodes(const HaloTask& task) {
  return share_of({0, task.regions.sizes.num_nodes}, task.machine.rank(), task.machine.size());
}

std::int64_t list_overhead(const RegionSizes& sizes, int num_ranks) {
  return static_cast<std::int64_t>(sizeof(Count)) + (sizes.wide_nodes() ? 8 : 4) + kIndexBytes * num_ranks;
}

std::int64_t edge_bytes_of(const RegionSizes& sizes) {
  return (sizes.wide_nodes() ? 8 : 4) + (sizes.edge_ids ? 8 : 0) + (sizes.weights ? 4 : 0);
}

/// Calls visit(candidates of a piece of this rank's share) from all threads.
void visit_lists(const HaloTask& task, const Occurrences& occurrences, const Visit& visit) {
  const RegionSizes& sizes = task.regions.sizes;
  const std::int64_t edge_bytes = edge_bytes_of(sizes);
  const std::int64_t overhead = list_overhead(sizes, task.machine.size());
  const GraphView graph = task.regions.view();
  task.loader.visit_indptr(own_nodes(task), [&](NodeId first, std::span<const Count> indptr) {
    std::vector<Candidate> candidates;
    for (std::size_t i = 0; i + 1 < indptr.size(); ++i) {
      const NodeId node = first + static_cast<NodeId>(i);
      const Count degree = indptr[i + 1] - indptr[i];
      if (!graph.owns(node))
        candidates.push_back({node, degree, degree * edge_bytes + overhead, occurrences.data()[node]});
    }
    visit(candidates);
  });
}

void visit_rows(const HaloTask& task, const Occurrences& occurrences, const Visit& visit) {
  const Range own = own_nodes(task);
  const std::int64_t bytes = task.feature_row_bytes + kIndexBytes * task.machine.size();
  const GraphView graph = task.regions.view();
  task.pool.parallel_for(own.count, kNodesPerPiece, [&](Count begin, Count end) {
    std::vector<Candidate> candidates;
    for (NodeId node = own.first + begin; node < own.first + end; ++node)
      if (!graph.owns(node)) candidates.push_back({node, 0, bytes, occurrences.data()[node]});
    visit(candidates);
  });
}

std::size_t class_of(const Candidate& candidate) {
  return std::min<std::size_t>(candidate.occurrences, kClasses - 1);
}

/// All nodes of `first_class` and hotter classes are kept. Of the next colder class, each rank keeps as many
/// as its quota. Nodes that never occur are kept only if all fit: nothing tells the hot ones among them.
struct Cut {
  std::size_t first_class = 0;
  std::int64_t quota = 0;
};

Cut cut_at(std::span<const std::int64_t> bytes_of_class, std::int64_t budget, int num_ranks) {
  for (std::size_t c = kClasses - 1; c >= 1; --c) {
    if (bytes_of_class[c] > budget) return {c + 1, budget / num_ranks};
    budget -= bytes_of_class[c];
  }
  return {.first_class = bytes_of_class[0] > budget ? 1U : 0U};
}

/// This rank's share of the chosen nodes, ascending.
template <typename Walk>
std::vector<Candidate> choose(const HaloTask& task, std::int64_t budget, const Walk& walk) {
  std::mutex mutex;
  std::vector<std::int64_t> bytes_of_class(kClasses);
  task.machine.together([&] {
    walk([&](const std::vector<Candidate>& candidates) {
      const std::lock_guard lock(mutex);
      for (const Candidate& c : candidates) bytes_of_class[class_of(c)] += c.bytes;
    });
  });
  task.machine.communicator().all_reduce(std::span(bytes_of_class));
  const Cut cut = cut_at(bytes_of_class, budget, task.machine.size());
  const std::size_t coldest = cut.quota > 0 ? cut.first_class - 1 : cut.first_class;
  std::vector<Candidate> chosen;
  task.machine.together([&] {
    walk([&](const std::vector<Candidate>& candidates) {
      const std::lock_guard lock(mutex);
      std::ranges::copy_if(candidates, std::back_inserter(chosen),
                           [&](const Candidate& c) { return class_of(c) >= coldest; });
    });
  });
  std::ranges::sort(chosen, {}, &Candidate::node);
  std::int64_t left = cut.quota;
  std::erase_if(chosen, [&](const Candidate& c) {
    if (class_of(c) >= cut.first_class) return false;
    if (c.bytes > left) return true;
    left -= c.bytes;
    return false;
  });
  return chosen;
}

/// The candidates of all ranks, whose shares of the nodes follow each other.
std::vector<Candidate> gather(const comm::Machine& machine, const std::vector<Candidate>& own) {
  const std::string blob(reinterpret_cast<const char*>(own.data()), own.size() * sizeof(Candidate));
  std::vector<Candidate> all;
  for (const std::string& other : machine.communicator().all_gather(blob)) {
    const std::size_t begin = all.size();
    all.resize(begin + other.size() / sizeof(Candidate));
    std::memcpy(static_cast<void*>(all.data() + begin), other.data(), other.size());
  }
  return all;
}

}  // namespace

Count most_lists(const RegionSizes& sizes, std::int64_t list_bytes, int num_ranks) {
  return std::min<Count>(list_bytes / list_overhead(sizes, num_ranks), sizes.num_nodes - sizes.num_local);
}

std::int64_t gpu_bytes_of_lists(const HaloNodes& nodes, const RegionSizes& sizes) {
  const Count edges = std::accumulate(nodes.degrees.begin(), nodes.degrees.end(), Count{0});
  return std::ssize(nodes.lists) * list_overhead(sizes, 1) + edges * edge_bytes_of(sizes);
}

HaloNodes choose_halo(const HaloTask& task) {
  HaloNodes nodes;
  if (task.budget.list_bytes == 0 && task.budget.row_bytes == 0) return nodes;
  const Occurrences occurrences = count_occurrences(task);
  if (task.budget.list_bytes > 0) {
    const auto lists = choose(task, task.budget.list_bytes,
                              [&](const Visit& visit) { visit_lists(task, occurrences, visit); });
    for (const Candidate& c : gather(task.machine, lists)) {
      nodes.lists.push_back(c.node);
      nodes.degrees.push_back(c.degree);
    }
  }
  if (task.budget.row_bytes > 0) {
    auto rows = gather(task.machine, choose(task, task.budget.row_bytes, [&](const Visit& visit) {
                         visit_rows(task, occurrences, visit);
                       }));
    std::ranges::stable_sort(rows, std::greater<>(),
                             [](const Candidate& c) { return std::bit_width(c.occurrences); });
    for (const Candidate& c : rows) {
      nodes.rows.push_back(c.node);
      nodes.row_occurrences.push_back(c.occurrences);
    }
  }
  task.machine.barrier();  // before a rank frees the memory of `occurrences`
  return nodes;
}

HaloRegions read_halo(const HaloTask& task, const HaloNodes& nodes) {
  const comm::Machine& machine = task.machine;
  const RegionSizes& sizes = task.regions.sizes;
  std::vector<Count> offsets(nodes.degrees.size() + 1);
  std::inclusive_scan(nodes.degrees.begin(), nodes.degrees.end(), offsets.begin() + 1);
  const Count num_lists = std::ssize(nodes.lists), num_edges = offsets.back();
  HaloRegions halo{
      .indptr = HostArray<Count>::create(machine, num_lists + 1, "indptr of the halo"),
      .indices = HostIds::create(machine, num_edges, sizes.wide_nodes(), "indices of the halo"),
      .edge_ids = HostArray<EdgeId>::create(machine, sizes.edge_ids ? num_edges : 0, "edge ids of the halo"),
      .weights = HostArray<float>::create(machine, sizes.weights ? num_edges : 0, "edge weights of the halo"),
      .lists = {}};
  machine.together([&] {
    if (machine.rank() == 0) std::ranges::copy(offsets, halo.indptr.data());
    const Range own = share_of({0, num_lists}, machine.rank(), machine.size());
    const std::span wanted(nodes.lists.data() + own.first, static_cast<std::size_t>(own.count));
    task.loader.read_lists(wanted, offsets.data() + own.first,
                           {.indices = &halo.indices,
                            .edge_ids = sizes.edge_ids ? &halo.edge_ids : nullptr,
                            .weights = sizes.weights ? &halo.weights : nullptr});
    task.regions.original_ids.visit([&](auto* ids) {
      for (Count i = own.first; i < own.end(); ++i)
        ids[sizes.num_nodes + i] = ids[nodes.lists[static_cast<std::size_t>(i)]];
    });
    halo.lists.index = NodeIndex(nodes.lists, sizes.num_nodes);
  });
  IdSpan original_ids = task.regions.original_ids.view();
  halo.lists.view = {.device = {},
                     .num_nodes = sizes.num_nodes,
                     .first_node = sizes.num_nodes,
                     .num_local = num_lists,
                     .indptr = halo.indptr.data(),
                     .indices = halo.indices.view(),
                     .edge_ids = {.data = halo.edge_ids.data(), .size = halo.edge_ids.size(), .wide = true},
                     .weights = sizes.weights ? halo.weights.data() : nullptr,
                     .original_ids = original_ids};
  return halo;
}

}  // namespace strata::store
