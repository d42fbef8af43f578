// SPDX-License-Identifier: Apache-2.0
#include "strata/comm/communicator.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <utility>

#include "collectives/transfers.hpp"
#include "state.hpp"
#include "strata/util/error.hpp"

namespace strata::comm {
namespace {

template <typename T>
void reduce_in_pieces(std::span<T> values, Backend::Type type, Communicator::Op op, const GroupState& state) {
  const std::size_t piece = at(state.piece_bytes) / sizeof(T);
  for (std::size_t begin = 0; begin < values.size(); begin += piece) {
    const std::size_t count = std::min(piece, values.size() - begin);
    state.backend->all_reduce(values.data() + begin, static_cast<Count>(count), type, op);
  }
}

void check_counts(const char* name, std::span<const Count> counts, const GroupState& state) {
  if (counts.size() != at(state.size)) {
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
  for (std::size_t r = 0; r < sizes.size(); ++r) blobs[r].resize(at(sizes[r]));
  return blobs;
}

}  // namespace

Communicator::Communicator(std::unique_ptr<State> state) : state_(std::move(state)) {}
Communicator::Communicator(Communicator&&) noexcept = default;
Communicator& Communicator::operator=(Communicator&&) noexcept = default;
// closing is collective, so an unclosed group stays until the end
Communicator::~Communicator() = default;

int Communicator::rank() const { return state_->rank; }
int Communicator::size() const { return state_->size; }

Communicator Communicator::duplicate() const {
  const GroupState& state = Internals::of(*this);
  return Internals::adopt(state.backend->duplicate(), state.piece_bytes);
}

Communicator Communicator::split(int color, int key) const {
  const GroupState& state = Internals::of(*this);
  return Internals::adopt(state.backend->split(color, key), state.piece_bytes);
}

void Communicator::close() {
  if (state_ == nullptr || state_->backend == nullptr) return;
  std::exchange(state_->backend, nullptr)->close();
}

void Communicator::barrier() const { Internals::of(*this).backend->barrier(); }

void Communicator::broadcast(void* data, Count bytes, int root) const {
  const GroupState& state = Internals::of(*this);
  for (Count begin = 0; begin < bytes; begin += state.piece_bytes)
    state.backend->broadcast(static_cast<char*>(data) + begin, std::min(state.piece_bytes, bytes - begin),
                             root);
}

void Communicator::broadcast(std::string& text, int root) const {
  auto length = static_cast<Count>(text.size());
  broadcast(&length, sizeof(length), root);
  text.resize(at(length));
  broadcast(text.data(), length, root);
}

std::vector<std::string> Communicator::all_gather(const std::string& blob) const {
  const GroupState& state = Internals::of(*this);
  const Count mine = static_cast<Count>(blob.size());
  const std::vector<Count> announced(at(state.size), mine);
  std::vector<std::string> blobs = strings_of(exchange_counts(announced));
  blobs[at(state.rank)] = blob;
  Transfers transfers(state);
  for (int step = 1; step < state.size; ++step) {
    const int from = (state.rank + state.size - step) % state.size, to = (state.rank + step) % state.size;
    std::string& target = blobs[at(from)];
    transfers.receive(target.data(), static_cast<Count>(target.size()), from);
    transfers.send(blob.data(), mine, to);
  }
  transfers.wait();
  return blobs;
}

std::vector<std::string> Communicator::gather(const std::string& blob, int root) const {
  const GroupState& state = Internals::of(*this);
  const bool is_root = state.rank == root;
  const Count mine = static_cast<Count>(blob.size());
  std::vector<Count> announced(at(state.size));
  announced.at(at(root)) = mine;
  const std::vector<Count> sizes = exchange_counts(announced);
  std::vector<std::string> blobs;
  if (is_root) blobs = strings_of(sizes);
  Transfers transfers(state);
  if (!is_root) transfers.send(blob.data(), mine, root);
  for (int r = 0; r < static_cast<int>(blobs.size()); ++r) {
    std::string& target = blobs[at(r)];
    if (r == root)
      target = blob;
    else
      transfers.receive(target.data(), static_cast<Count>(target.size()), r);
  }
  transfers.wait();
  return blobs;
}

void Communicator::all_reduce(std::span<float> values, Op op) const {
  reduce_in_pieces(values, Backend::Type::f32, op, Internals::of(*this));
}
void Communicator::all_reduce(std::span<double> values, Op op) const {
  reduce_in_pieces(values, Backend::Type::f64, op, Internals::of(*this));
}
void Communicator::all_reduce(std::span<std::int64_t> values, Op op) const {
  reduce_in_pieces(values, Backend::Type::i64, op, Internals::of(*this));
}

void Communicator::all_to_all(const void* send_data, std::span<const Count> send_bytes, void* recv_data,
                              std::span<const Count> recv_bytes) const {
  const GroupState& state = Internals::of(*this);
  check_counts("all_to_all sends", send_bytes, state);
  check_counts("all_to_all receives", recv_bytes, state);
  const std::vector<Count> send_begin = offsets(send_bytes), recv_begin = offsets(recv_bytes);
  const char* outgoing = static_cast<const char*>(send_data);
  char* incoming = static_cast<char*>(recv_data);
  const std::size_t size = at(state.size), self = at(state.rank);
  Transfers transfers(state);
  // Every rank starts with itself and then with a different peer, so that no rank gets all messages at once.
  for (std::size_t step = 0; step < size; ++step) {
    const std::size_t from = (self + size - step) % size, to = (self + step) % size;
    transfers.receive(incoming + recv_begin[from], recv_bytes[from], static_cast<int>(from));
    transfers.send(outgoing + send_begin[to], send_bytes[to], static_cast<int>(to));
  }
  transfers.wait();
}

std::vector<Count> Communicator::exchange_counts(std::span<const Count> send) const {
  const GroupState& state = Internals::of(*this);
  check_counts("exchange_counts", send, state);
  std::vector<Count> received(send.size());
  state.backend->exchange(send, received);
  return received;
}

}  // namespace strata::comm
