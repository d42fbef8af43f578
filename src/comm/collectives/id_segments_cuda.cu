// SPDX-License-Identifier: Apache-2.0
#include "strata/comm/id_segments.hpp"
#include "strata/cuda/check.cuh"
#include "strata/cuda/copy.hpp"
#include "strata/cuda/device.hpp"
#include "strata/cuda/launch.cuh"

namespace strata::comm {
namespace {

constexpr const char* kWhat = "ids for other machines";

struct MachineMap {
  const Count* offsets;  // [machines + 1]
  Count num_machines;
  int here;

  /// The segment for a node; -1 if it is of this machine, or none.
  __device__ int segment_of(NodeId node) const {
    if (node < 0) return -1;
    const auto machine = static_cast<int>(cuda::list_of(offsets, num_machines, node));
    return machine == here ? -1 : machine - (machine > here ? 1 : 0);
  }
};

// The lanes of a warp whose ids go to one segment take their places there together. out.last begins with -1.
template <typename Id>
__global__ void pack_ids(typename IdSegments<Id>::Source source, MachineMap machines,
                         typename IdSegments<Id>::Packed out, Count cap,
                         typename IdSegments<Id>::Tally tally) {
  const Count size = source.count == nullptr ? source.bound : *source.count;
  if (tally.ids != nullptr && cuda::first_item<Count>() == 0) *tally.ids += size;
  const Count whole_warps = (size + cuda::kWarp - 1) / cuda::kWarp * cuda::kWarp;
  std::uint32_t num_own = 0;
  for (Count i = cuda::first_item<Count>(); i < whole_warps; i += cuda::item_stride<Count>()) {
    const NodeId node = i < size ? source.ids[i] : -1;
    const int segment = machines.segment_of(node);
    const unsigned peers = __match_any_sync(cuda::kAllLanes, segment);
    const unsigned leader = static_cast<unsigned>(__ffs(static_cast<int>(peers))) - 1u;
    unsigned long long first = 0;
    if (segment >= 0 && cuda::lane_index() == leader) {
      first = 1 + atomicAdd(reinterpret_cast<unsigned long long*>(out.last + segment),
                            static_cast<unsigned long long>(__popc(peers)));
    }
    first = __shfl_sync(cuda::kAllLanes, first, static_cast<int>(leader));
    if (segment < 0) continue;
    ++num_own;
    const Count place = static_cast<Count>(first) + __popc(peers & cuda::lanes_below());
    if (place >= cap) {
      *tally.overflow = 1;
      continue;
    }
    out.asked[segment * cap + place] = static_cast<Id>(node);
    out.positions[segment * cap + place] =
        source.positions == nullptr ? static_cast<std::int32_t>(i) : source.positions[i];
  }
  cuda::add_to_total(tally.remote, num_own);
}

}  // namespace

template <typename Id>
IdSegments<Id>::IdSegments(const SegmentPeers& peers, DeviceExchange& wire, Device device)
    : peers_(peers),
      wire_(wire),
      device_(device),
      machine_offsets_(cuda::Memory::device, std::ssize(peers.machine_offsets), kWhat, device) {
  const cuda::Stream stream(device);
  cuda::copy_async(machine_offsets_.data(), peers.machine_offsets.data(), peers.machine_offsets.size_bytes(),
                   stream);
  stream.synchronize();
}

template <typename Id>
void IdSegments<Id>::pack(const Source& source, Count cap, const Tally& tally, const cuda::Stream& stream) {
  const cuda::DeviceGuard guard(device_);
  cap_ = cap;
  packed_.reserve(cuda::Memory::device, packed_bytes(), kWhat, device_);
  served_.reserve(cuda::Memory::device, num_served(), kWhat, device_);
  cuda::fill_async(packed_.data(), -1, static_cast<std::size_t>(packed_bytes()), stream);
  pack_ids<Id><<<cuda::blocks_for(source.bound), cuda::kThreads, 0, stream.get()>>>(
      source, MachineMap{machine_offsets_.data(), num_servers() + 1, peers_.machine}, packed(), cap, tally);
  cuda::check_launch("pack_ids");
}

template <typename Id>
Count IdSegments<Id>::num_last() const {
  return (num_servers() + 1) / 2 * 2;  // so that the ids begin at a multiple of 16 bytes
}

template <typename Id>
Count IdSegments<Id>::packed_bytes() const {
  return num_last() * static_cast<Count>(sizeof(Count)) +
         num_asked() * static_cast<Count>(sizeof(Id) + sizeof(std::int32_t));
}

template <typename Id>
IdSegments<Id>::Packed IdSegments<Id>::packed() const {
  auto* const last = reinterpret_cast<Count*>(packed_.data());
  auto* const asked = reinterpret_cast<Id*>(last + num_last());
  return {last, asked, reinterpret_cast<std::int32_t*>(asked + num_asked())};
}

template <typename Id>
void IdSegments<Id>::request(const cuda::Stream& stream) {
  std::vector<DeviceExchange::Outgoing> sends;
  std::vector<DeviceExchange::Incoming> receives;
  const Count bytes = cap_ * static_cast<Count>(sizeof(Id));
  for (Count s = 0; s < num_servers(); ++s)
    sends.push_back({peers_.servers[static_cast<std::size_t>(s)], packed().asked + s * cap_, bytes});
  for (Count c = 0; c < num_clients(); ++c)
    receives.push_back({peers_.clients[static_cast<std::size_t>(c)], served_.data() + c * cap_, bytes});
  wire_.exchange(sends, receives, stream);
}

template <typename Id>
void IdSegments<Id>::answer(std::span<const Answer> answers, const cuda::Stream& stream) {
  std::vector<DeviceExchange::Outgoing> sends;
  std::vector<DeviceExchange::Incoming> receives;
  for (const Answer& answer : answers) {
    const Count bytes = cap_ * answer.bytes_per_id;
    for (Count c = 0; c < num_clients(); ++c)
      sends.push_back({peers_.clients[static_cast<std::size_t>(c)],
                       static_cast<const std::byte*>(answer.from) + c * bytes, bytes});
    for (Count s = 0; s < num_servers(); ++s)
      receives.push_back({peers_.servers[static_cast<std::size_t>(s)],
                          static_cast<std::byte*>(answer.to) + s * bytes, bytes});
  }
  wire_.exchange(sends, receives, stream);
}

template <typename Id>
Count IdSegments<Id>::bytes_sent(Count bytes_per_id) const {
  return num_asked() * static_cast<Count>(sizeof(Id)) + num_served() * bytes_per_id;
}

template <typename Id>
Count IdSegments<Id>::bytes_received(Count bytes_per_id) const {
  return num_served() * static_cast<Count>(sizeof(Id)) + num_asked() * bytes_per_id;
}

template class IdSegments<std::int32_t>;
template class IdSegments<std::int64_t>;

}  // namespace strata::comm
