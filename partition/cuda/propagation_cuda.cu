// SPDX-License-Identifier: Apache-2.0
#include <numeric>
#include <optional>

#include "cuda/propagation_cuda.cuh"
#include "cuda/settlement.cuh"
#include "cuda/walk.cuh"

namespace strata::partition {
namespace {

/// Decides for a node after the nodes before it in its chunk, as far as those are known. Passes repeat for
/// nodes with an earlier neighbor that has decided anew; the result is that of one after another.
struct ChooseWork {
  LabelState state;
  const std::int32_t* stamp;  ///< the pass that shall look at a node again
  std::int32_t pass;
  bool all;
  Count num_nodes, chunk_size;
  int round;
  std::int32_t *found, *favorite;

  __device__ bool wants(Count v) const { return all || stamp[v] == pass; }
  template <typename Group>
  __device__ Count visit(Group group, const NodeList& list, const ListsView& view, DeviceSums& table) const {
    const Count v = list.node, first = v - v % chunk_size;
    const std::int32_t group_of_v = state.within == nullptr ? 0 : state.within[v];
    table.reset(group, min(list.degree, num_nodes));
    for (Count i = group.rank(); i < list.degree; i += Group::kSize) {
      const std::int32_t u = view.ids[list.place + i];
      if (state.within != nullptr && state.within[u] != group_of_v) continue;
      const bool before = u >= first && u < v;
      table.add(before ? state.next[u] : state.label[u], view.weight(list.place + i),
                static_cast<std::int32_t>(i));
    }
    group.sync();
    const std::int32_t own = state.label[v];
    const std::uint32_t salt =
        mix32(static_cast<std::uint32_t>(v) + 0x9E3779B9u * static_cast<std::uint32_t>(round + 1));
    Candidate best = Candidate::none(), liked = best;
    table.visit(group, [&](std::int32_t cluster, Count sum, std::int32_t place) {
      if (cluster != own) {
        const Candidate like{sum, ~static_cast<std::uint32_t>(place), cluster};
        if (like.better_than(liked)) liked = like;
      }
      const Candidate mine{sum, mix32(static_cast<std::uint32_t>(cluster) ^ salt), cluster};
      if (!mine.better_than(best)) return;
      if (cluster == own || state.has_room(v, state.load_of(cluster))) best = mine;
    });
    best = best_of(group, best);
    liked = best_of(group, liked);
    if (group.rank() == 0) {
      found[v] = best.key < 0 ? own : best.key;
      favorite[v] = liked.key;
    }
    return 0;
  }
};

/// Marks later neighbors in the chunk of a node that has decided anew.
struct SpreadWork {
  const std::int32_t* found;
  std::int32_t *next, *stamp;
  std::int32_t next_pass;
  Count chunk_size;
  int* again;

  __device__ bool wants(Count v) const { return found[v] != next[v]; }
  template <typename Group>
  __device__ Count visit(Group group, const NodeList& list, const ListsView& view, DeviceSums&) const {
    const Count v = list.node, last = v - v % chunk_size + chunk_size;
    for (Count i = group.rank(); i < list.degree; i += Group::kSize) {
      const std::int32_t u = view.ids[list.place + i];
      if (u <= v || u >= last) continue;
      stamp[u] = next_pass;
      *again = 1;
    }
    if (group.rank() == 0) next[v] = found[v];
    return 0;
  }
};

class PropagationCuda {
 public:
  PropagationCuda(const LevelGraph& graph, const ClusterOptions& options, std::int64_t list_bytes)
      : graph_{graph},
        options_{options},
        label_{graph.num_nodes},
        next_{graph.num_nodes},
        found_{graph.num_nodes},
        favorite_{graph.num_nodes},
        stamp_{graph.num_nodes},
        load_{graph.num_nodes * graph.num_constraints},
        again_{1},
        chunks_{graph.num_nodes, 0},
        settlement_{graph.num_nodes, graph.num_constraints, chunks_.size(), chunks_.most_nodes(),
                    stream_.get()} {
    const cudaStream_t stream = stream_.get();
    std::vector<std::int32_t> own(static_cast<std::size_t>(graph.num_nodes));
    std::iota(own.begin(), own.end(), 0);
    label_.write(own.data(), graph.num_nodes, stream);
    next_.write(own.data(), graph.num_nodes, stream);
    favorite_.fill(0xFF, stream);  // -1
    stamp_.fill(0, stream);
    if (graph.node_weights.empty()) {
      const std::vector<Count> ones(static_cast<std::size_t>(load_.size()), 1);
      load_.write(ones.data(), load_.size(), stream);
    } else {
      load_.write(graph.node_weights.data(), load_.size(), stream);
      weights_ = DeviceArray<Count>{graph.node_weights, stream};
    }
    if (options.within != nullptr) within_ = DeviceArray<std::int32_t>{*options.within, stream};
    lists_.emplace(graph, list_bytes, stream);
    walker_.emplace(graph, *lists_, graph.num_nodes, stream);
  }

  Labels run() {
    for (int round = 0; round < options_.rounds; ++round) {
      const Chunks chunks{graph_.num_nodes, key_of_round(options_, round)};
      chunks.each_wave([&](std::span<const Chunks::Range> wave) {
        lists_->each_group(wave, [&](const ListsView& view) { choose(view, round); });
        settlement_.settle(state(), wave);
      });
      if (has_settled(graph_, settlement_.take_moves())) break;
    }
    return {label_.read_all(stream_.get()), favorite_.read_all(stream_.get()), load_.read_all(stream_.get())};
  }

 private:
  LabelState state() const {
    LabelState state{.label = label_.data(),
                     .next = next_.data(),
                     .load = load_.data(),
                     .weights = weights_.data(),
                     .within = within_.data(),
                     .constraints = graph_.num_constraints,
                     .limits = {}};
    std::copy(options_.limits.begin(), options_.limits.end(), state.limits);
    return state;
  }

  void choose(const ListsView& view, int round) {
    bool all = true;
    do {
      ++pass_;
      walker_->walk(view, ChooseWork{state(), stamp_.data(), pass_, all, graph_.num_nodes, chunks_.size(),
                                     round, found_.data(), favorite_.data()});
      again_.fill(0, stream_.get());
      walker_->walk(view, SpreadWork{found_.data(), next_.data(), stamp_.data(), pass_ + 1, chunks_.size(),
                                     again_.data()});
      all = false;
    } while (again_.read_one(stream_.get()) != 0);
  }

  const LevelGraph& graph_;
  const ClusterOptions& options_;
  DeviceStream stream_;
  DeviceArray<std::int32_t> label_, next_, found_, favorite_, stamp_, within_;
  DeviceArray<Count> load_, weights_;
  DeviceArray<int> again_;
  Chunks chunks_;  // their size only
  Settlement settlement_;
  std::optional<DeviceLists> lists_;  // when the rest of the memory is known
  std::optional<Walker> walker_;
  std::int32_t pass_ = 0;
};

}  // namespace

Labels propagate_cuda(const LevelGraph& graph, const ClusterOptions& options, std::int64_t list_bytes) {
  return PropagationCuda{graph, options, list_bytes}.run();
}

}  // namespace strata::partition
