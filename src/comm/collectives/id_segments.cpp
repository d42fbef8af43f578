// SPDX-License-Identifier: Apache-2.0
#include "collectives/pack_ids.hpp"
#include "strata/comm/device_exchange.hpp"
#include "strata/cuda/buffer.hpp"
#include "strata/cuda/device.hpp"
#include "strata/util/ranges.hpp"

namespace strata::comm {
namespace {

constexpr const char* kWhat = "ids for other machines";

template <typename Id>
void pack_on_cpu(const PackTask<Id>& task) {
  const auto& [source, offsets, num_machines, here, out, cap, tally] = task;
  const Count size = source.count == nullptr ? source.bound : *source.count;
  if (tally.ids != nullptr) *tally.ids += size;
  RangeFinder machine_of({offsets, at(num_machines) + 1});
  for (Count i = 0; i < size; ++i) {
    const NodeId node = source.ids[i];
    const int machine = node < 0 ? here : machine_of(node);
    if (machine == here) continue;
    ++*tally.remote;
    const int segment = machine - (machine > here ? 1 : 0);
    const Count place = ++out.last[segment];
    if (place >= cap) {
      *tally.overflow = 1;
      continue;
    }
    out.asked[segment * cap + place] = static_cast<Id>(node);
    out.positions[segment * cap + place] =
        source.positions == nullptr ? static_cast<std::int32_t>(i) : source.positions[i];
  }
}

}  // namespace

template <typename Id>
IdSegments<Id>::IdSegments(const SegmentPeers& peers, DeviceExchange& wire, Device device)
    : peers_(peers),
      wire_(wire),
      device_(device),
      machine_offsets_(cuda::memory_on(device), std::ssize(peers.machine_offsets), kWhat, device) {
  const cuda::Stream stream(device);
  cuda::copy_async(machine_offsets_.data(), peers.machine_offsets.data(), peers.machine_offsets.size_bytes(),
                   stream);
  stream.synchronize();
}

template <typename Id>
void IdSegments<Id>::pack(const Source& source, Count cap, const Tally& tally, const cuda::Stream& stream) {
  const cuda::DeviceGuard guard(device_);
  cap_ = cap;
  packed_.reserve(cuda::memory_on(device_), packed_bytes(), kWhat, device_);
  served_.reserve(cuda::memory_on(device_), num_served(), kWhat, device_);
  cuda::fill_async(packed_.data(), -1, at(packed_bytes()), stream);
  const PackTask<Id> task{.source = source,
                          .machine_offsets = machine_offsets_.data(),
                          .num_machines = num_servers() + 1,
                          .here = peers_.machine,
                          .out = packed(),
                          .cap = cap,
                          .tally = tally};
#if STRATA_WITH_CUDA
  if (device_.is_cuda()) return pack_on_gpu(task, stream);
#endif
  pack_on_cpu(task);
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
    sends.push_back({peers_.servers[at(s)], packed().asked + s * cap_, bytes});
  for (Count c = 0; c < num_clients(); ++c)
    receives.push_back({peers_.clients[at(c)], served_.data() + c * cap_, bytes});
  wire_.exchange(sends, receives, stream);
}

template <typename Id>
void IdSegments<Id>::answer(std::span<const Answer> answers, const cuda::Stream& stream) {
  std::vector<DeviceExchange::Outgoing> sends;
  std::vector<DeviceExchange::Incoming> receives;
  for (const Answer& answer : answers) {
    const Count bytes = answer.bytes_per_segment;
    for (Count c = 0; c < num_clients(); ++c)
      sends.push_back({peers_.clients[at(c)], static_cast<const std::byte*>(answer.from) + c * bytes, bytes});
    for (Count s = 0; s < num_servers(); ++s)
      receives.push_back({peers_.servers[at(s)], static_cast<std::byte*>(answer.to) + s * bytes, bytes});
  }
  wire_.exchange(sends, receives, stream);
}

template <typename Id>
Count IdSegments<Id>::bytes_sent(Count bytes_per_segment) const {
  return num_asked() * static_cast<Count>(sizeof(Id)) + num_clients() * bytes_per_segment;
}

template <typename Id>
Count IdSegments<Id>::bytes_received(Count bytes_per_segment) const {
  return num_served() * static_cast<Count>(sizeof(Id)) + num_servers() * bytes_per_segment;
}

template class IdSegments<std::int32_t>;
template class IdSegments<std::int64_t>;

}  // namespace strata::comm
