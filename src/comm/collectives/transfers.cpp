// SPDX-License-Identifier: Apache-2.0
#include "collectives/transfers.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "strata/util/error.hpp"

namespace strata::comm {

void Transfers::send(const void* data, Count bytes, int peer) {
  if (bytes > 0 && peer == state_.rank) return own_sends_.push_back({data, bytes});
  for (Count begin = 0; begin < bytes; begin += state_.piece_bytes)
    messages_->send(static_cast<const char*>(data) + begin, std::min(state_.piece_bytes, bytes - begin),
                    peer);
}

void Transfers::receive(void* data, Count bytes, int peer) {
  if (bytes > 0 && peer == state_.rank) return own_receives_.push_back({data, bytes});
  for (Count begin = 0; begin < bytes; begin += state_.piece_bytes)
    messages_->receive(static_cast<char*>(data) + begin, std::min(state_.piece_bytes, bytes - begin), peer);
}

void Transfers::wait() {
  copy_own();
  messages_->wait();
}

void Transfers::copy_own() {
  for (std::size_t i = 0; i < std::max(own_sends_.size(), own_receives_.size()); ++i) {
    const Count sent = i < own_sends_.size() ? own_sends_[i].bytes : 0;
    const Count expected = i < own_receives_.size() ? own_receives_[i].bytes : 0;
    if (sent != expected) {
      throw CommError(fmt::format("{} bytes to itself, {} from itself ({})", sent, expected, state_.who()));
    }
    std::memcpy(own_receives_[i].data, own_sends_[i].data, at(sent));
  }
  own_sends_.clear();
  own_receives_.clear();
}

}  // namespace strata::comm
