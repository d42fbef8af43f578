// SPDX-License-Identifier: Apache-2.0
#include "mailbox.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <utility>

namespace strata::torch_ranks {
namespace {

constexpr std::size_t kNumberBytes = sizeof(std::uint64_t);

std::string key(const std::string& group, int from, int to) {
  return fmt::format("mail/{}/{}/{}", group, from, to);
}

}  // namespace

StoreMailbox::StoreMailbox(Run::Connection store, const Between& between, std::size_t bytes)
    : store_(std::move(store)),
      bytes_(bytes),
      numbers_(between.peers.size()),
      outgoing_(between.peers.size()),
      incoming_(between.peers.size()) {
  for (const int peer : between.peers) {
    send_keys_.push_back(key(between.group, between.rank, peer));
    receive_keys_.push_back(key(between.group, peer, between.rank));
  }
  write(send_keys_, std::vector<Bytes>(send_keys_.size(), Bytes(kNumberBytes + bytes_)));
  thread_ = std::thread([this] { serve(); });
}

StoreMailbox::~StoreMailbox() {
  {
    const std::lock_guard lock(mutex_);
    ends_ = true;
  }
  wanted_.notify_all();
  thread_.join();
}

bool StoreMailbox::post(std::size_t p, std::span<const std::byte> message) {
  const std::lock_guard lock(mutex_);
  if (outgoing_[p]) return false;
  Bytes value(kNumberBytes + bytes_);
  ++numbers_[p];
  std::memcpy(value.data(), &numbers_[p], kNumberBytes);
  std::memcpy(value.data() + kNumberBytes, message.data(), bytes_);
  outgoing_[p] = std::move(value);
  round_wanted_ = true;
  wanted_.notify_all();
  return true;
}

std::optional<std::size_t> StoreMailbox::take(std::span<std::byte> message) {
  const std::lock_guard lock(mutex_);
  if (error_) std::rethrow_exception(error_);
  const auto found = std::ranges::find(incoming_, true, &Incoming::fresh);
  if (found == incoming_.end()) {
    round_wanted_ = !incoming_.empty();
    wanted_.notify_all();
    return std::nullopt;
  }
  found->fresh = false;
  std::memcpy(message.data(), found->message.data(), bytes_);
  return found - incoming_.begin();
}

bool StoreMailbox::has_left(std::size_t p) {
  const std::lock_guard lock(mutex_);
  if (error_) std::rethrow_exception(error_);
  return !outgoing_[p];
}

void StoreMailbox::serve() {
  std::unique_lock lock(mutex_);
  for (;;) {
    wanted_.wait(lock, [this] { return round_wanted_ || ends_; });
    if (ends_) return;
    round_wanted_ = false;
    std::vector<std::string> keys;
    std::vector<Bytes> values;
    std::vector<std::size_t> written;
    for (std::size_t p = 0; p < outgoing_.size(); ++p) {
      if (!outgoing_[p]) continue;
      keys.push_back(send_keys_[p]);
      values.push_back(*outgoing_[p]);
      written.push_back(p);
    }
    lock.unlock();
    try {
      write(std::move(keys), std::move(values));
      read();
      lock.lock();
      for (const std::size_t p : written) outgoing_[p].reset();
    } catch (const std::exception&) {
      if (!lock.owns_lock()) lock.lock();
      error_ = std::current_exception();
      return;
    }
  }
}

void StoreMailbox::write(std::vector<std::string> keys, std::vector<Bytes> values) {
  if (!keys.empty()) store_->multiSet(keys, values);
}

void StoreMailbox::read() {
  if (receive_keys_.empty()) return;
  const std::vector<Bytes> values = store_->multiGet(receive_keys_);
  const std::lock_guard lock(mutex_);
  for (std::size_t p = 0; p < values.size(); ++p) {
    std::uint64_t number = 0;
    std::memcpy(&number, values[p].data(), kNumberBytes);
    if (number == incoming_[p].number) continue;
    incoming_[p] = {
        .number = number, .fresh = true, .message = Bytes(values[p].begin() + kNumberBytes, values[p].end())};
  }
}

}  // namespace strata::torch_ranks
