// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "strata/comm/device_exchange.hpp"
#include "strata/cuda/buffer.hpp"
#include "strata/cuda/stream.hpp"

namespace strata::comm {

/// The ranks that exchange requests for nodes: the one of each other machine that serves this rank, and those
/// that this one serves (Topology::rail).
struct SegmentPeers {
  int machine = 0;                          ///< this rank's
  std::span<const NodeId> machine_offsets;  ///< [machines + 1] global ids by machine
  std::vector<int> servers;                 ///< world ranks by machine, without this one's
  std::vector<int> clients;                 ///< world ranks, ascending

  static SegmentPeers of(const Topology& topology, std::span<const NodeId> machine_offsets, int world_rank);
};

/// A cap, rounded up so that every segment begins at a multiple of 16 bytes, whatever even number of bytes an
/// answer has. Elsewhere NCCL copies byte by byte.
constexpr Count rounded_cap(Count cap) {
  constexpr Count kMultiple = 8;
  return (cap + kMultiple - 1) / kMultiple * kMultiple;
}

/// The cap for what comes after a batch that did not fit `cap`. Every rank learns of such a batch and grows
/// alike.
constexpr Count grown_cap(Count cap) { return rounded_cap(cap + cap / 10 + 64); }

/// Asks other machines about nodes, from GPU to GPU and in messages of fixed size: the host sees no id and
/// waits for nothing, so that the work can be recorded. An owner of its device memory. On a CPU all of it is
/// in host memory, and done when a call returns.
///
/// A rank packs the ids that belong to other machines into segments, one per machine, each with room for
/// `cap` ids; the rest of a segment is -1. It sends each to the machine's server, and gets one from each
/// client. Answers have a fixed number of bytes per id, and travel back in the same order.
///
///     machines {0..9}, {10..19}, {20..29}; cap 3; rank on machine 0 packs {4, 12, 25, 17, 8}:
///     asked {12, 17, -1 | 25, -1, -1}   positions {1, 3, -1 | 2, -1, -1}
///
/// The order within a segment changes from run to run, so use answers only by position. All calls are
/// asynchronous on `stream`; request() and answer() are collective over all ranks, with the same cap.
template <typename Id>
class IdSegments {
 public:
  /// `wire` must outlive the segments.
  IdSegments(const SegmentPeers& peers, DeviceExchange& wire, Device device);

  /// Ids on the device; -1 names none.
  struct Source {
    const NodeId* ids = nullptr;
    const Count* count = nullptr;             ///< on the device; null: the bound
    Count bound = 0;                          ///< at least the count
    const std::int32_t* positions = nullptr;  ///< of the ids; null: their indices
  };
  /// Numbers on the device that packing changes.
  struct Tally {
    Count* ids = nullptr;       ///< the number of ids is added; null: not wanted
    Count* remote = nullptr;    ///< the number of ids of other machines is added
    Count* overflow = nullptr;  ///< becomes 1 if a machine's ids do not fit its segment; the rest is left out
  };
  void pack(const Source& source, Count cap, const Tally& tally, const cuda::Stream& stream);
  /// What pack() writes, in one array, so that one call clears it.
  struct Packed {
    Count* last;              ///< [servers] the last index in use of each segment, or beyond the cap; padded
    Id* asked;                ///< [num_asked()]
    std::int32_t* positions;  ///< [num_asked()]
  };
  void request(const cuda::Stream& stream);  ///< sends the packed ids, and receives those of the clients

  Count num_asked() const { return num_servers() * cap_; }   ///< with padding
  Count num_served() const { return num_clients() * cap_; }  ///< with padding
  /// [num_asked()] where the packed ids came from; -1: padding.
  const std::int32_t* positions() const { return packed().positions; }
  /// [num_served()] ids that the clients ask for; -1: padding.
  const Id* served() const { return served_.data(); }

  /// What is known of each id: `from` for the ids that this rank serves, `to` for those that it asked for.
  struct Answer {
    const void* from = nullptr;  ///< [num_served()]
    void* to = nullptr;          ///< [num_asked()]
    Count bytes_per_id = 0;
  };
  void answer(std::span<const Answer> answers, const cuda::Stream& stream);

  /// Bytes that one round of `cap` ids sends, for the ids and for answers of `bytes_per_id` bytes each.
  Count bytes_sent(Count bytes_per_id) const;
  Count bytes_received(Count bytes_per_id) const;

 private:
  Packed packed() const;
  Count num_last() const;
  Count packed_bytes() const;
  Count num_servers() const { return std::ssize(peers_.servers); }
  Count num_clients() const { return std::ssize(peers_.clients); }

  SegmentPeers peers_;
  DeviceExchange& wire_;
  Device device_;
  Count cap_ = 0;
  cuda::Array<Count> machine_offsets_;  // this and all below: device memory
  cuda::Array<std::byte> packed_;
  cuda::Array<Id> served_;
};

}  // namespace strata::comm
