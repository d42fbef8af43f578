// SPDX-License-Identifier: Apache-2.0
#include "strata/comm/communicator.hpp"

#include <fmt/format.h>
#include <mpi.h>

#include <algorithm>
#include <cstring>
#include <numeric>
#include <utility>

#include "collectives/transfers.hpp"
#include "mpi_state.hpp"
#include "strata/util/error.hpp"

namespace strata::comm {
namespace {

MPI_Op native(Communicator::Op op) {
  switch (op) {
    case Communicator::Op::sum:
      return MPI_SUM;
    case Communicator::Op::min:
      return MPI_MIN;
    case Communicator::Op::max:
      return MPI_MAX;
    case Communicator::Op::bit_or:
      return MPI_BOR;
  }
  return MPI_OP_NULL;
}

template <typename T>
void reduce_in_pieces(std::span<T> values, MPI_Datatype type, Communicator::Op op, const MpiState& state) {
  const std::size_t piece = static_cast<std::size_t>(state.piece_bytes) / sizeof(T);
  for (std::size_t begin = 0; begin < values.size(); begin += piece) {
    const int count = static_cast<int>(std::min(piece, values.size() - begin));
    check(MPI_Allreduce(MPI_IN_PLACE, values.data() + begin, count, type, native(op), state.handle),
          "MPI_Allreduce", state);
  }
}

void check_counts(const char* name, std::span<const Count> counts, const MpiState& state) {
  if (counts.size() != static_cast<std::size_t>(state.size)) {
    throw CommError(
        fmt::format("{}: {} counts for {} ranks ({})", name, counts.size(), state.size, state.who()));
  }
  for (const Count count : counts) {
    if (count < 0) throw CommError(fmt::format("{}: a negative count, {} ({})", name, count, state.who()));
  }
}

std::vector<Count> offsets(std::span<const Count> counts) {
  std::vector<Count> begin(counts.size());
  std::exclusive_scan(counts.begin(), counts.end(), begin.begin(), Count{0});
  return begin;
}

std::vector<std::string> strings_of(std::span<const Count> sizes) {
  std::vector<std::string> blobs(sizes.size());
  for (std::size_t r = 0; r < sizes.size(); ++r) blobs[r].resize(static_cast<std::size_t>(sizes[r]));
  return blobs;
}

}  // namespace

Communicator::Communicator(std::unique_ptr<State> state) : state_(std::move(state)) {}
Communicator::Communicator(Communicator&&) noexcept = default;
Communicator& Communicator::operator=(Communicator&&) noexcept = default;
// MPI_Comm_free is collective, so an unclosed handle stays until the end
Communicator::~Communicator() = default;

int Communicator::rank() const { return state_->rank; }
int Communicator::size() const { return state_->size; }

Communicator Communicator::duplicate() const {
  const MpiState& state = Internals::of(*this);
  MPI_Comm handle = MPI_COMM_NULL;
  check(MPI_Comm_dup(state.handle, &handle), "MPI_Comm_dup", state);
  return Internals::adopt(handle, state);
}

Communicator Communicator::split(int color, int key) const {
  const MpiState& state = Internals::of(*this);
  MPI_Comm handle = MPI_COMM_NULL;
  check(MPI_Comm_split(state.handle, color, key, &handle), "MPI_Comm_split", state);
  return Internals::adopt(handle, state);
}

void Communicator::close() {
  if (!state_ || state_->handle == MPI_COMM_NULL) return;
  MPI_Comm handle = std::exchange(state_->handle, MPI_COMM_NULL);
  if (state_->owned) check(MPI_Comm_free(&handle), "MPI_Comm_free", *state_);
}

void Communicator::barrier() const {
  const MpiState& state = Internals::of(*this);
  check(MPI_Barrier(state.handle), "MPI_Barrier", state);
}

void Communicator::broadcast(void* data, Count bytes, int root) const {
  const MpiState& state = Internals::of(*this);
  for (Count begin = 0; begin < bytes; begin += state.piece_bytes) {
    const int piece = static_cast<int>(std::min(state.piece_bytes, bytes - begin));
    check(MPI_Bcast(static_cast<char*>(data) + begin, piece, MPI_BYTE, root, state.handle), "MPI_Bcast",
          state);
  }
}

void Communicator::broadcast(std::string& text, int root) const {
  auto length = static_cast<Count>(text.size());
  broadcast(&length, sizeof(length), root);
  text.resize(static_cast<std::size_t>(length));
  broadcast(text.data(), length, root);
}

std::vector<std::string> Communicator::all_gather(const std::string& blob) const {
  const MpiState& state = Internals::of(*this);
  const Count mine = static_cast<Count>(blob.size());
  std::vector<Count> sizes(static_cast<std::size_t>(state.size));
  check(MPI_Allgather(&mine, 1, MPI_INT64_T, sizes.data(), 1, MPI_INT64_T, state.handle), "MPI_Allgather",
        state);
  std::vector<std::string> blobs = strings_of(sizes);
  blobs[static_cast<std::size_t>(state.rank)] = blob;
  Transfers transfers(state);
  for (int step = 1; step < state.size; ++step) {
    const int from = (state.rank + state.size - step) % state.size, to = (state.rank + step) % state.size;
    std::string& target = blobs[static_cast<std::size_t>(from)];
    transfers.receive(target.data(), static_cast<Count>(target.size()), from);
    transfers.send(blob.data(), mine, to);
  }
  transfers.wait();
  return blobs;
}

std::vector<std::string> Communicator::gather(const std::string& blob, int root) const {
  const MpiState& state = Internals::of(*this);
  const bool is_root = state.rank == root;
  const Count mine = static_cast<Count>(blob.size());
  std::vector<Count> sizes(is_root ? static_cast<std::size_t>(state.size) : 0);
  check(MPI_Gather(&mine, 1, MPI_INT64_T, sizes.data(), 1, MPI_INT64_T, root, state.handle), "MPI_Gather",
        state);
  std::vector<std::string> blobs = strings_of(sizes);
  Transfers transfers(state);
  if (!is_root) transfers.send(blob.data(), mine, root);
  for (int r = 0; r < static_cast<int>(blobs.size()); ++r) {
    std::string& target = blobs[static_cast<std::size_t>(r)];
    if (r == root)
      target = blob;
    else
      transfers.receive(target.data(), static_cast<Count>(target.size()), r);
  }
  transfers.wait();
  return blobs;
}

void Communicator::all_reduce(std::span<float> values, Op op) const {
  reduce_in_pieces(values, MPI_FLOAT, op, Internals::of(*this));
}
void Communicator::all_reduce(std::span<double> values, Op op) const {
  reduce_in_pieces(values, MPI_DOUBLE, op, Internals::of(*this));
}
void Communicator::all_reduce(std::span<std::int64_t> values, Op op) const {
  reduce_in_pieces(values, MPI_INT64_T, op, Internals::of(*this));
}

void Communicator::all_to_all(const void* send_data, std::span<const Count> send_bytes, void* recv_data,
                              std::span<const Count> recv_bytes) const {
  const MpiState& state = Internals::of(*this);
  check_counts("all_to_all sends", send_bytes, state);
  check_counts("all_to_all receives", recv_bytes, state);
  const std::vector<Count> send_begin = offsets(send_bytes), recv_begin = offsets(recv_bytes);
  const char* outgoing = static_cast<const char*>(send_data);
  char* incoming = static_cast<char*>(recv_data);
  const std::size_t size = static_cast<std::size_t>(state.size), self = static_cast<std::size_t>(state.rank);
  if (send_bytes[self] != recv_bytes[self]) {
    throw CommError(fmt::format("all_to_all: {} bytes to itself, {} from itself ({})", send_bytes[self],
                                recv_bytes[self], state.who()));
  }
  Transfers transfers(state);
  // Every rank starts with a different peer, so that no rank gets all messages at once.
  for (std::size_t step = 1; step < size; ++step) {
    const std::size_t from = (self + size - step) % size, to = (self + step) % size;
    transfers.receive(incoming + recv_begin[from], recv_bytes[from], static_cast<int>(from));
    transfers.send(outgoing + send_begin[to], send_bytes[to], static_cast<int>(to));
  }
  if (send_bytes[self] > 0) {
    std::memcpy(incoming + recv_begin[self], outgoing + send_begin[self],
                static_cast<std::size_t>(send_bytes[self]));
  }
  transfers.wait();
}

std::vector<Count> Communicator::exchange_counts(std::span<const Count> send) const {
  const MpiState& state = Internals::of(*this);
  check_counts("exchange_counts", send, state);
  std::vector<Count> received(send.size());
  check(MPI_Alltoall(send.data(), 1, MPI_INT64_T, received.data(), 1, MPI_INT64_T, state.handle),
        "MPI_Alltoall", state);
  return received;
}

}  // namespace strata::comm
