// SPDX-License-Identifier: Apache-2.0
#include "learned/owner_exchange.hpp"

#include <algorithm>
#include <numeric>

#include "rows/local_rows.hpp"

namespace strata::batches {
namespace {

/// Communicators of NCCL that may work at the same time on a GPU: loaders have some, torch has its own.
constexpr int kCommunicators = 8;

std::unique_ptr<comm::DeviceExchange> make_wire(const comm::Communicator& communicator, Device device,
                                                bool is_direct) {
  if (!is_direct) return comm::make_mpi_exchange(communicator, device);
  return comm::make_device_exchange(communicator, device, comm::blocks_that_fit(device, kCommunicators));
}

}  // namespace

NodeId RowOwners::first_of(int rank) const {
  return bounds[at(std::ranges::find(ranks, rank) - ranks.begin())];
}

NodeId RowOwners::end_of(int rank) const {
  return bounds[at(std::ranges::find(ranks, rank) - ranks.begin() + 1)];
}

OwnerExchange::OwnerExchange(const comm::Ranks& ranks, RowOwners owners)
    : owners_(std::move(owners)),
      device_(ranks.device()),
      communicator_(ranks.world->duplicate()),
      is_direct_(comm::can_exchange_on_devices(*ranks.topology, ranks.device())),
      wire_(make_wire(communicator_, ranks.device(), is_direct_)) {}

OwnerExchange::Arrived OwnerExchange::exchange(const ListedRows& listed, const cuda::Stream& stream) {
  std::vector<Count> firsts(owners_.ranks.size()), counts(owners_.ranks.size());  // by rank
  for (std::size_t owner = 0; owner < owners_.ranks.size(); ++owner) {
    firsts[at(owners_.ranks[owner])] = listed.offsets[owner];
    counts[at(owners_.ranks[owner])] = listed.offsets[owner + 1] - listed.offsets[owner];
  }
  const std::vector<Count> arriving = communicator_.exchange_counts(counts);
  const Count total = std::reduce(arriving.begin(), arriving.end());
  rows_.reserve(cuda::memory_on(device_), total + kWireSlack, "rows from other ranks", device_);
  values_.reserve(cuda::memory_on(device_), total * listed.row_bytes + kWireSlack, "rows from other ranks",
                  device_);

  std::vector<comm::DeviceExchange::Outgoing> sends;
  std::vector<comm::DeviceExchange::Incoming> receives;
  const auto add = [&](const std::byte* from, std::byte* to, Count bytes_per_row) {
    Count first = 0;
    for (int rank = 0; rank < communicator_.size(); ++rank) {
      const std::byte* const source = from + firsts[at(rank)] * bytes_per_row;
      std::byte* const target = to + first * bytes_per_row;
      first += arriving[at(rank)];
      if (rank == communicator_.rank()) {
        cuda::copy_async(target, source, at(counts[at(rank)] * bytes_per_row), stream);
      } else {
        sends.push_back({rank, source, counts[at(rank)] * bytes_per_row});
        receives.push_back({rank, target, arriving[at(rank)] * bytes_per_row});
      }
    }
  };
  add(reinterpret_cast<const std::byte*>(listed.rows), reinterpret_cast<std::byte*>(rows_.data()),
      sizeof(NodeId));
  add(listed.values, values_.data(), listed.row_bytes);
  wire_->exchange(sends, receives, stream);
  return {rows_.data(), values_.data(), total};
}

void write_rows(const GivenRows& given, const OwnedTable& owned, const cuda::Stream& stream,
                ThreadPool& pool) {
  const auto last_of = [&](const NodeId* rows, Count count, const std::byte* values) {
    const RowGroups groups = owned.grouper.group(rows, count, owned.owners.end(), stream);
    return owned.grouper.list_last(groups, values, given.row_bytes, owned.owners.bounds, stream);
  };
  ListedRows listed = last_of(given.rows, given.count, given.values);
  if (owned.exchange != nullptr) {
    const OwnerExchange::Arrived arrived = owned.exchange->exchange(listed, stream);
    listed = last_of(arrived.rows, arrived.count, arrived.values);
  }
  owned.table.scatter({.data = listed.rows, .size = listed.count(), .first = owned.first_row},
                      {.data = listed.values}, stream, pool);
}

void OwnerExchange::close() {
  wire_->close();
  communicator_.close();
}

}  // namespace strata::batches
