// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "strata/comm/machine.hpp"
#include "strata/cuda/buffer.hpp"
#include "strata/cuda/stream.hpp"
#include "strata/util/types.hpp"

namespace strata::comm {

/// Gets a call after each exchange of messages between machines, with its times. Exchanges that work at the
/// same time call it from several threads.
///
///     listener->exchanged({.what = Messages::What::neighbors, .hop = 0, .begin = asked, .end = answered});
class ExchangeListener {
 public:
  using Clock = std::chrono::steady_clock;

  /// The time from the first byte that this rank sends or waits for, to the last.
  struct Messages {
    enum class What : std::uint8_t { neighbors, rows };
    What what;
    int hop = -1;  ///< of neighbors, from the seeds outwards; -1: none
    Clock::time_point begin, end;
  };

  virtual ~ExchangeListener() = default;
  virtual void exchanged(const Messages& messages) = 0;
};

/// Carries bytes one way, from a GPU of one process to a GPU of another, which need not share a machine, by
/// an NCCL communicator of only these two. Both ends make the same transfers in the same order. Two pipes,
/// not one, join GPUs both ways: NCCL runs what a communicator has to do one after the other, so that two
/// ends that both send first would wait for each other.
///
/// No two GPUs wait for each other for ever, whatever else they launch, training's collectives among it, if
/// both ends call transfer() only once the other end is about to, and few pipes of a process transfer at a
/// time:
/// - A transfer is a kernel at each end. It needs nothing but its counterpart, and some SMs: its stream
///   has no other work, and the host waits for its end, so that no stream ever waits for it.
/// - A kernel of a collective, or of another pipe, that waits for its peers leaves SMs over, because each has
///   few blocks: a transfer at most one per eight SMs, and no more than kMostBlocks. So both kernels of a
///   transfer run at last, whatever order the kernels of several communicators were launched in, and end;
///   LaunchOrder need not know of them.
/// - A call of CUDA that waits for all of a device waits for a transfer. Where such a call also held up the
///   counterpart's launch on the other rank, the watch (`while_waiting`) ends both.
///
/// The end of a pipe aborts what is under way. Not thread safe.
class DevicePipe {
 public:
  static constexpr int kMostBlocks = 16;  ///< of a GPU, that a transfer occupies

  enum class End : std::uint8_t { sends, receives };
  struct Setup {
    std::string id;  ///< of make_device_pipe_id(), the same on both ends
    End end = End::sends;
    Device device;
    std::string who;  ///< this rank, for messages
    /// Called repeatedly while a call waits; if it throws, the call ends with that.
    std::function<void()> while_waiting = [] {};
  };
  /// A part of a message; both ends give the same sizes.
  struct Part {
    void* data = nullptr;  ///< on this end's device, ready now; the sender's is only read
    std::size_t bytes = 0;
  };

  virtual ~DevicePipe() = default;
  /// Returns when this end is done with its parts. Throws CommError if the other end fails; the pipe is then
  /// of no more use.
  virtual void transfer(std::span<const Part> parts) = 0;
};

/// Throws CommError where there is no NCCL.
std::string make_device_pipe_id();
/// Waits for the other end to do the same. Throws CommError, as for two ends on the same GPU.
std::unique_ptr<DevicePipe> open_device_pipe(const DevicePipe::Setup& setup);

/// Moves bytes between the devices of all ranks, with a communicator of its own.
///
/// Calls are collective over all ranks, which make them in the same order; over NCCL, beside all other
/// launches with NCCL (LaunchOrder). Results are complete when `stream` reaches this point. Over NCCL the
/// host waits for nothing. Threads take turns.
class DeviceExchange {
 public:
  virtual ~DeviceExchange() = default;

  /// What one rank sends to another, or receives from it. `data` lies on this rank's device.
  template <typename Byte>
  struct Message {
    int rank = 0;  ///< the other one
    Byte* data = nullptr;
    Count bytes = 0;
  };
  using Outgoing = Message<const void>;
  using Incoming = Message<void>;

  /// Sends and receives some messages at once. Messages from one rank to another arrive in the order in which
  /// both list them; those of 0 bytes are not sent. A rank without messages takes part, too.
  virtual void exchange(std::span<const Outgoing> sends, std::span<const Incoming> receives,
                        const cuda::Stream& stream) = 0;
  /// values[i] = the largest values[i] of all ranks.
  virtual void max(Count* values, Count count, const cuda::Stream& stream) = 0;

  /// Sends send_bytes[r] bytes to every rank r and receives recv_bytes[r] bytes from it. Both buffers are in
  /// order of rank without gaps.
  void all_to_all(const void* send, std::span<const Count> send_bytes, void* recv,
                  std::span<const Count> recv_bytes, const cuda::Stream& stream);

  /// Whether a cuda::Graph can record calls, after one like them went before. Replays count as calls. Owners
  /// of such graphs end before close().
  virtual bool can_be_recorded() const = 0;

  virtual void close() = 0;  ///< collective
};

/// Whether the GPUs of this run can exchange over NCCL: there are several ranks, and each has a GPU of its
/// own.
bool can_exchange_on_devices(const Topology& topology, Device device);

/// Exchanges over NCCL. REQUIRES: can_exchange_on_devices(). Collective over `world`. Recorded calls are
/// fastest with NCCL_GRAPH_MIXING_SUPPORT=0 in the environment, which needs launches in the order of
/// LaunchOrder. A launch occupies at most `most_blocks` blocks of the GPU; 0: as many as NCCL likes.
std::unique_ptr<DeviceExchange> make_device_exchange(const Communicator& world, Device device,
                                                     int most_blocks = 0);
/// Exchanges over the ranks' own messages, through pinned host memory: for ranks that share a GPU, and for
/// the CPU. The host waits for the stream and for the other ranks. Collective over `world`.
std::unique_ptr<DeviceExchange> make_mpi_exchange(const Communicator& world, Device device);

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
/// client. Answers have a fixed number of bytes per segment, and travel back in the same order.
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

  /// What is known of the ids of each segment: `from` for those that this rank serves, `to` for those that it
  /// asked for.
  struct Answer {
    const void* from = nullptr;  ///< [num_clients()]
    void* to = nullptr;          ///< [num_servers()]
    Count bytes_per_segment = 0;
  };
  void answer(std::span<const Answer> answers, const cuda::Stream& stream);

  /// Bytes that one round sends, for the ids and for answers of `bytes_per_segment` bytes each.
  Count bytes_sent(Count bytes_per_segment) const;
  Count bytes_received(Count bytes_per_segment) const;

  Count num_servers() const { return std::ssize(peers_.servers); }
  Count num_clients() const { return std::ssize(peers_.clients); }

 private:
  Packed packed() const;
  Count num_last() const;
  Count packed_bytes() const;

  SegmentPeers peers_;
  DeviceExchange& wire_;
  Device device_;
  Count cap_ = 0;
  cuda::Array<Count> machine_offsets_;  // this and all below: device memory
  cuda::Array<std::byte> packed_;
  cuda::Array<Id> served_;
};

/// The cost of messages between machines.
struct LinkFacts {
  double round_seconds = 0;  ///< of an exchange of a number: through host memory with all ranks, from GPU to
                             ///< GPU with those that a rank asks for nodes
  /// Bytes that a rank sends to other machines while it receives as many, as all ranks do.
  double bytes_per_second = 0;
};

/// Measures some exchanges and takes the median of the slowest rank: the same on all ranks. Ranks exchange
/// bytes with those that they ask for nodes (Topology::rail). All zero on one machine. Takes about the time
/// of 30 rounds and 10 MiB. Collective over `ranks`, which are all ranks of the topology.
LinkFacts measure_link(const Communicator& ranks, const Topology& topology);
/// The same for messages from device to device, of exchanges that follow each other without the host. Takes
/// about the time of 120 rounds and 200 MiB. REQUIRES: no other launches with NCCL are under way.
LinkFacts measure_link(DeviceExchange& wire, const Communicator& ranks, const Topology& topology,
                       Device device);

}  // namespace strata::comm
