// SPDX-License-Identifier: Apache-2.0
#include <thrust/iterator/counting_iterator.h>

#include <cub/device/device_select.cuh>

#include "cuda/jet_steps_cuda.cuh"

namespace strata::partition {
namespace {

/// Adds up the weight of edges to other parts, from both sides.
struct CutWork {
  const std::int32_t* part;

  __device__ bool wants(Count) const { return true; }
  template <typename Group>
  __device__ Count visit(Group group, const NodeList& list, const ListsView& view, DeviceSums&) const {
    const std::int32_t own = part[list.node];
    Count sum = 0;
    for (Count i = group.rank(); i < list.degree; i += Group::kSize)
      if (part[view.ids[list.place + i]] != own) sum += view.weight(list.place + i);
    return sum;
  }
};

/// Finds the best move of every node near which something has changed.
struct LookWork {
  const std::int32_t* part;
  int num_parts;
  std::uint8_t* stale;
  std::int32_t* target;
  Count *gain, *held;

  __device__ bool wants(Count v) const { return stale[v] != 0; }
  template <typename Group>
  __device__ Count visit(Group group, const NodeList& list, const ListsView& view, DeviceSums& table) const {
    const Count v = list.node;
    const std::int32_t own = part[v];
    table.reset(group, min(list.degree, static_cast<Count>(num_parts)));
    for (Count i = group.rank(); i < list.degree; i += Group::kSize)
      table.add(part[view.ids[list.place + i]], view.weight(list.place + i), 0);
    group.sync();
    Candidate best = Candidate::none();
    Count to_own = 0;
    table.visit(group, [&](std::int32_t key, Count sum, std::int32_t) {
      if (key == own) {
        to_own = sum;
        return;
      }
      const std::uint32_t coin =
          mix32(static_cast<std::uint32_t>(key) + mix32(static_cast<std::uint32_t>(v)));
      const Candidate mine{sum, coin, key};
      if (mine.better_than(best)) best = mine;
    });
    best = best_of(group, best);
    to_own = add_up(group, to_own);
    if (group.rank() == 0) {
      stale[v] = 0;
      target[v] = best.key;
      held[v] = to_own;
      gain[v] = best.sum - to_own;
    }
    return 0;
  }
};

struct CollectWork {
  JetRound round;
  const std::int32_t* target;
  const Count *gain, *held;
  std::uint8_t *chosen, *candidate;

  /// Whether a node takes part: those chosen last rest, as do half of all when a round has not helped.
  __device__ bool takes_part(Count v) const {
    if (chosen[v] != 0) return false;
    const std::uint32_t coin =
        mix32(static_cast<std::uint32_t>(v) ^ mix32(static_cast<std::uint32_t>(round.number)));
    return !round.damped || (coin & 1) != 0;
  }
  __device__ void operator()(Count v) const {
    const bool worth =
        target[v] >= 0 &&
        (gain[v] >= 0 || static_cast<double>(-gain[v]) < round.temperature * static_cast<double>(held[v]));
    candidate[v] = worth && takes_part(v) ? 1 : 0;
    chosen[v] = 0;
  }
};

/// Chooses the candidates that gain if the candidates before them have moved.
struct FilterWork {
  const std::int32_t *part, *target;
  const Count* gain;
  const std::uint8_t* candidate;
  std::uint8_t* chosen;

  __device__ bool wants(Count v) const { return candidate[v] != 0; }
  __device__ bool goes_before(Count u, Count v) const {
    return gain[u] > gain[v] || (gain[u] == gain[v] && u < v);
  }
  template <typename Group>
  __device__ Count visit(Group group, const NodeList& list, const ListsView& view, DeviceSums&) const {
    const Count v = list.node;
    const std::int32_t from = part[v], to = target[v];
    Count sum = 0;
    for (Count i = group.rank(); i < list.degree; i += Group::kSize) {
      const std::int32_t u = view.ids[list.place + i];
      const std::int32_t there = candidate[u] != 0 && goes_before(u, v) ? target[u] : part[u];
      if (there == to) sum += view.weight(list.place + i);
      if (there == from) sum -= view.weight(list.place + i);
    }
    sum = add_up(group, sum);
    if (group.rank() == 0 && sum > 0) chosen[v] = 1;
    return 0;
  }
};

struct MoveWork {
  const std::int32_t *nodes, *target;
  std::int32_t *to, *part;

  __device__ void operator()(Count i) const { part[nodes[i]] = to[i] = target[nodes[i]]; }
};

struct PlaceWork {
  const std::int32_t *nodes, *to;
  std::int32_t* part;

  __device__ void operator()(Count i) const { part[nodes[i]] = to[i]; }
};

/// Adds up, from both sides, by how much the cut has grown, and notes whose best move may be another one now.
struct AccountWork {
  const std::int32_t *part, *old;
  std::uint8_t* stale;
  Count* num_moved;

  __device__ bool wants(Count v) const { return part[v] != old[v]; }
  template <typename Group>
  __device__ Count visit(Group group, const NodeList& list, const ListsView& view, DeviceSums&) const {
    const std::int32_t now = part[list.node], before = old[list.node];
    Count sum = 0;
    for (Count i = group.rank(); i < list.degree; i += Group::kSize) {
      const std::int32_t u = view.ids[list.place + i];
      stale[u] = 1;
      const Count share = part[u] == old[u] ? 2 : 1;  // else the neighbor counts the rest
      const int more = (now != part[u]) - (before != old[u]);
      sum += more * share * view.weight(list.place + i);
    }
    if (group.rank() == 0) {
      stale[list.node] = 1;
      add_count(num_moved, 1);
    }
    return sum;
  }
};

}  // namespace

JetStepsCuda::JetStepsCuda(const LevelGraph& graph, const std::vector<std::int32_t>& part_of, int num_parts,
                           std::int64_t list_bytes)
    : part_of_{part_of},
      num_nodes_{graph.num_nodes},
      num_parts_{num_parts},
      part_{part_of, stream_.get()},
      old_{part_of, stream_.get()},
      target_{num_nodes_},
      nodes_{num_nodes_},
      to_{num_nodes_},
      gain_{num_nodes_},
      held_{num_nodes_},
      stale_{num_nodes_},
      candidate_{num_nodes_},
      chosen_{num_nodes_},
      num_moved_{1},
      num_chosen_{1},
      lists_{graph, list_bytes, stream_.get()},
      walker_{graph, lists_, num_parts, stream_.get()} {
  stale_.fill(1, stream_.get());
  unlock();
}

Count JetStepsCuda::cut() {
  walker_.walk_all(CutWork{part_.data()});
  return walker_.take_total() / 2;
}

void JetStepsCuda::unlock() { chosen_.fill(0, stream_.get()); }

JetMoves JetStepsCuda::choose(const JetRound& round) {
  walker_.walk_all(
      LookWork{part_.data(), num_parts_, stale_.data(), target_.data(), gain_.data(), held_.data()});
  for_each(num_nodes_,
           CollectWork{round, target_.data(), gain_.data(), held_.data(), chosen_.data(), candidate_.data()},
           stream_.get());
  walker_.walk_all(FilterWork{part_.data(), target_.data(), gain_.data(), candidate_.data(), chosen_.data()});
  const Count count = select_chosen();
  for_each(count, MoveWork{nodes_.data(), target_.data(), to_.data(), part_.data()}, stream_.get());
  JetMoves moves{std::vector<std::int32_t>(static_cast<std::size_t>(count)),
                 std::vector<std::int32_t>(static_cast<std::size_t>(count))};
  nodes_.read(moves.nodes.data(), count, stream_.get());
  to_.read(moves.to.data(), count, stream_.get());
  return moves;
}

/// Fills nodes_ with those that are chosen, ascending, and returns how many they are.
Count JetStepsCuda::select_chosen() {
  const thrust::counting_iterator<std::int32_t> all{0};
  const auto select = [&](void* space, std::size_t& bytes) {
    cuda::check(cub::DeviceSelect::Flagged(space, bytes, all, chosen_.data(), nodes_.data(),
                                           num_chosen_.data(), static_cast<int>(num_nodes_), stream_.get()),
                "cub::DeviceSelect::Flagged");
  };
  std::size_t bytes = 0;
  select(nullptr, bytes);
  if (select_space_.size() < static_cast<Count>(bytes))
    select_space_ = DeviceArray<std::byte>{static_cast<Count>(bytes)};
  select(select_space_.data(), bytes);
  return num_chosen_.read_one(stream_.get());
}

void JetStepsCuda::place(const std::vector<std::int32_t>& nodes) {
  std::vector<std::int32_t> to(nodes.size());
  for (std::size_t i = 0; i < nodes.size(); ++i) to[i] = part_of_[static_cast<std::size_t>(nodes[i])];
  // A node may be named repeatedly, so there may be more than fit.
  Count count = 0;
  for (Count first = 0; first < std::ssize(nodes); first += count) {
    count = std::min(std::ssize(nodes) - first, num_nodes_);
    nodes_.write(nodes.data() + first, count, stream_.get());
    to_.write(to.data() + first, count, stream_.get());
    for_each(count, PlaceWork{nodes_.data(), to_.data(), part_.data()}, stream_.get());
  }
}

JetChange JetStepsCuda::account(std::vector<std::int32_t>) {
  num_moved_.fill(0, stream_.get());
  walker_.walk_all(AccountWork{part_.data(), old_.data(), stale_.data(), num_moved_.data()});
  const Count twice = walker_.take_total();
  cuda::check(
      cudaMemcpyAsync(old_.data(), part_.data(), static_cast<std::size_t>(num_nodes_) * sizeof(std::int32_t),
                      cudaMemcpyDeviceToDevice, stream_.get()),
      "cudaMemcpyAsync");
  return {.moved = num_moved_.read_one(stream_.get()), .cut = twice / 2};
}

}  // namespace strata::partition
