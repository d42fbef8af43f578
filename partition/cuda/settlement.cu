// SPDX-License-Identifier: Apache-2.0
#include <cub/device/device_radix_sort.cuh>

#include "cuda/settlement.cuh"

namespace strata::partition {
namespace {

constexpr std::uint32_t kNowhere = 0xFFFFFFFFu;

/// The nodes of a wave by turn.
struct Turns {
  const DevicePiece* chunks;
  Count chunk_size;

  /// The node of a turn; -1: no node has it.
  __device__ Count node(Count turn) const {
    const DevicePiece& chunk = chunks[turn / chunk_size];
    const Count v = chunk.first + turn % chunk_size;
    return v < chunk.last ? v : -1;
  }
  /// The node of a turn if it wants to move, or -1.
  __device__ Count mover(Count turn, const LabelState& state) const {
    const Count v = node(turn);
    return v >= 0 && state.next[v] != state.label[v] ? v : -1;
  }
};

struct InflowWork {
  LabelState state;
  Turns turns;
  Count* inflow;

  __device__ void operator()(Count turn) const {
    const Count v = turns.mover(turn, state);
    if (v < 0) return;
    for (int c = 0; c < state.constraints; ++c)
      add_count(&inflow[static_cast<Count>(state.next[v]) * state.constraints + c], state.weight(v, c));
  }
};

/// Accepts all moves for now, and lists those from and to clusters that may not have room for all. Turn t
/// gives event 2 t for an arriving node, and 2 t + 1 for a leaving one.
struct ContestWork {
  LabelState state;
  Turns turns;
  const Count* inflow;
  std::int32_t* accepted;
  std::uint32_t *clusters, *events;
  int* any;

  __device__ bool is_contested(std::int32_t cluster) const {
    const Count first = static_cast<Count>(cluster) * state.constraints;
    for (int c = 0; c < state.constraints; ++c)
      if (state.load[first + c] + inflow[first + c] > state.limits[c]) return true;
    return false;
  }
  __device__ void operator()(Count turn) const {
    const Count v = turns.mover(turn, state);
    accepted[turn] = v >= 0 ? 1 : 0;
    const bool comes = v >= 0 && is_contested(state.next[v]), goes = v >= 0 && is_contested(state.label[v]);
    clusters[2 * turn] = comes ? static_cast<std::uint32_t>(state.next[v]) : kNowhere;
    clusters[2 * turn + 1] = goes ? static_cast<std::uint32_t>(state.label[v]) : kNowhere;
    events[2 * turn] = static_cast<std::uint32_t>(2 * turn);
    events[2 * turn + 1] = static_cast<std::uint32_t>(2 * turn + 1);
    if (comes) *any = 1;
  }
};

/// One thread per contested cluster: the one at the first of its events.
struct ReplayWork {
  LabelState state;
  Turns turns;
  const std::uint32_t *clusters, *events;
  Count num_events;
  volatile std::int32_t* accepted;
  int* changed;

  __device__ void operator()(Count first) const {
    const std::uint32_t cluster = clusters[first];
    if (cluster == kNowhere || (first > 0 && clusters[first - 1] == cluster)) return;
    Count load[kMostConstraints];
    for (int c = 0; c < state.constraints; ++c)
      load[c] = state.load_of(static_cast<std::int32_t>(cluster))[c];
    for (Count e = first; e < num_events && clusters[e] == cluster; ++e) {
      const Count turn = events[e] / 2, v = turns.node(turn);
      const bool goes = events[e] % 2 != 0;
      bool moves = accepted[turn] != 0;
      if (!goes) {
        const bool fits = state.has_room(v, load);
        if (fits != moves) {
          accepted[turn] = fits ? 1 : 0;
          *changed = 1;
        }
        moves = fits;
      }
      if (!moves) continue;
      for (int c = 0; c < state.constraints; ++c) load[c] += goes ? -state.weight(v, c) : state.weight(v, c);
    }
  }
};

struct ApplyWork {
  LabelState state;
  Turns turns;
  const std::int32_t* accepted;
  Count *inflow, *moves;

  __device__ void operator()(Count turn) const {
    const Count v = turns.mover(turn, state);
    if (v < 0) return;
    const Count from = static_cast<Count>(state.label[v]) * state.constraints;
    const Count to = static_cast<Count>(state.next[v]) * state.constraints;
    for (int c = 0; c < state.constraints; ++c) inflow[to + c] = 0;
    if (accepted[turn] == 0) {
      state.next[v] = state.label[v];
      return;
    }
    for (int c = 0; c < state.constraints; ++c) {
      add_count(&state.load[from + c], -state.weight(v, c));
      add_count(&state.load[to + c], state.weight(v, c));
    }
    state.label[v] = state.next[v];
    add_count(moves, 1);
  }
};

}  // namespace

Settlement::Settlement(Count num_nodes, int constraints, Count chunk_size, Count most_nodes,
                       cudaStream_t stream)
    : chunk_size_{chunk_size},
      stream_{stream},
      wave_{(most_nodes + chunk_size - 1) / chunk_size},
      inflow_{num_nodes * constraints},
      moves_{1},
      accepted_{most_nodes},
      clusters_{2 * most_nodes},
      events_{2 * most_nodes},
      sorted_clusters_{2 * most_nodes},
      sorted_events_{2 * most_nodes},
      flag_{1} {
  inflow_.fill(0, stream);
  moves_.fill(0, stream);
}

void Settlement::settle(const LabelState& state, std::span<const Chunks::Range> wave) {
  std::vector<DevicePiece> chunks;
  for (const Chunks::Range& range : wave) chunks.push_back({range.begin, range.end, 0});
  wave_.write(chunks.data(), std::ssize(chunks), stream_);
  const Turns turns{wave_.data(), chunk_size_};
  const Count count = std::ssize(wave) * chunk_size_;
  flag_.fill(0, stream_);
  for_each(count, InflowWork{state, turns, inflow_.data()}, stream_);
  for_each(count,
           ContestWork{state, turns, inflow_.data(), accepted_.data(), clusters_.data(), events_.data(),
                       flag_.data()},
           stream_);
  if (flag_.read_one(stream_) != 0) replay_contested(state, count);
  for_each(count, ApplyWork{state, turns, accepted_.data(), inflow_.data(), moves_.data()}, stream_);
}

void Settlement::replay_contested(const LabelState& state, Count turns) {
  const auto sort = [&](void* space, std::size_t& bytes) {
    cuda::check(cub::DeviceRadixSort::SortPairs(space, bytes, clusters_.data(), sorted_clusters_.data(),
                                                events_.data(), sorted_events_.data(),
                                                static_cast<int>(2 * turns), 0, 32, stream_),
                "cub::DeviceRadixSort::SortPairs");
  };
  std::size_t bytes = 0;
  sort(nullptr, bytes);
  if (sort_space_.size() < static_cast<Count>(bytes))
    sort_space_ = DeviceArray<std::byte>{static_cast<Count>(bytes)};
  sort(sort_space_.data(), bytes);  // stable: a cluster's events stay in the order of turns
  do {
    flag_.fill(0, stream_);
    for_each(2 * turns,
             ReplayWork{state,
                        {wave_.data(), chunk_size_},
                        sorted_clusters_.data(),
                        sorted_events_.data(),
                        2 * turns,
                        accepted_.data(),
                        flag_.data()},
             stream_);
  } while (flag_.read_one(stream_) != 0);
}

Count Settlement::take_moves() {
  const Count moves = moves_.read_one(stream_);
  moves_.fill(0, stream_);
  return moves;
}

}  // namespace strata::partition
