// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "launch_cuda.cuh"
#include "strata/util/random.hpp"

/// Uniform choices without replacement by warps, with one lane per pick.
namespace strata::sampling {

inline constexpr int kInFlight = 4;  // picks of a lane whose neighbors are fetched together

/// How the lanes of a warp share the picks of some nodes: one lane per pick.
struct PickLanes {
  unsigned fanout, nodes;  // at once
  unsigned node, pick;     // of this lane
  unsigned peers_below;    // lanes with earlier picks of the same node

  __device__ explicit PickLanes(unsigned fanout_) : fanout(fanout_), nodes(kWarp / fanout_) {
    node = lane_index() / fanout;
    pick = lane_index() - node * fanout;
    peers_below = ((1u << pick) - 1u) << (node * fanout);
  }
  __device__ bool used() const { return node < nodes; }
};

/// What this lane's pick takes in Floyd's subset: its draw, or its bound first + pick if an earlier pick took
/// that. A pick takes its bound exactly if its own draw was taken, so a draw that equals the bound of an
/// earlier pick leads on to that pick. A whole warp calls it; `drawing` says whether the lane has a choice.
__device__ inline Count settle(const PickLanes& lanes, const Subset& subset, bool drawing) {
  const std::uint32_t draw = drawing ? subset.draw(lanes.pick) : 0;
  const unsigned equal = __match_any_sync(kAllLanes, draw);
  const bool taken = drawing && (equal & lanes.peers_below) != 0;
  unsigned at = lanes.pick;
  std::uint32_t draw_there = draw;
  bool taken_there = taken;
  while (true) {
    const bool leads_on =
        drawing && !taken_there && draw_there >= subset.first && draw_there - subset.first < at;
    if (!__any_sync(kAllLanes, leads_on)) break;
    if (leads_on) at = draw_there - subset.first;
    const int owner = static_cast<int>((lanes.node * lanes.fanout + at) % kWarp);
    draw_there = __shfl_sync(kAllLanes, draw, owner);
    taken_there = __shfl_sync(kAllLanes, taken, owner);
  }
  return taken_there ? subset.first + lanes.pick : draw;
}

/// The position that this lane's pick takes in its node's list, of `degree` neighbors. A whole warp calls it.
__device__ inline Count position_of(const PickLanes& lanes, Count degree, std::uint64_t key) {
  const bool choosing = lanes.used() && degree > lanes.fanout;
  if (!__any_sync(kAllLanes, choosing)) return lanes.pick;
  const bool drawing = choosing && Subset::admits(degree, lanes.fanout);
  const Count settled = settle(lanes, Subset(degree, lanes.fanout, key), drawing);
  if (drawing) return settled;
  return choosing ? static_cast<Count>(Shuffle(static_cast<std::uint64_t>(degree), key)(lanes.pick))
                  : lanes.pick;
}

}  // namespace strata::sampling
