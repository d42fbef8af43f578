// SPDX-License-Identifier: Apache-2.0
#include "messages.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "strata/util/error.hpp"

namespace strata::torch_ranks {
namespace {

constexpr int kFrameTag = 1, kRestTag = 2;
constexpr Count kSizeBytes = sizeof(Count), kFrameBytes = 4096, kFirstBytes = kFrameBytes - kSizeBytes;

Count first_bytes(Count bytes) { return std::min(bytes, kFirstBytes); }

}  // namespace

void GlooMessages::send(const void* data, Count bytes, int peer) {
  const Count first = first_bytes(bytes);
  Frame frame = std::make_unique_for_overwrite<std::byte[]>(at(kSizeBytes + first));
  std::memcpy(frame.get(), &bytes, kSizeBytes);
  std::memcpy(frame.get() + kSizeBytes, data, at(first));
  send_part(frame.get(), kSizeBytes + first, peer, kFrameTag);
  sent_frames_.push_back(std::move(frame));
  if (bytes > first) send_part(static_cast<const std::byte*>(data) + first, bytes - first, peer, kRestTag);
}

void GlooMessages::send_part(const void* data, Count bytes, int peer, int tag) {
  std::vector<at::Tensor> part{bytes_at(const_cast<void*>(data), bytes)};  // which gloo only reads
  sends_.push_back(gloo_.send(part, peer, tag));
}

void GlooMessages::receive(void* data, Count bytes, int peer) {
  Frame frame = std::make_unique_for_overwrite<std::byte[]>(kFrameBytes);
  WorkPtr framed = receive_part(frame.get(), kFrameBytes, peer, kFrameTag);
  incoming_.push_back({.data = static_cast<std::byte*>(data),
                       .bytes = bytes,
                       .peer = peer,
                       .frame = std::move(frame),
                       .framed = std::move(framed)});
}

GlooMessages::WorkPtr GlooMessages::receive_part(void* data, Count bytes, int peer, int tag) {
  std::vector<at::Tensor> part{bytes_at(data, bytes)};
  return gloo_.recv(part, peer, tag);
}

void GlooMessages::wait() {
  for (const Incoming& message : incoming_) open(message);
  for (const WorkPtr& rest : rests_) rest->wait(kForever);
  for (const WorkPtr& sent : sends_) sent->wait(kForever);
  rests_.clear();
  incoming_.clear();
  sends_.clear();
  sent_frames_.clear();
}

void GlooMessages::open(const Incoming& message) {
  message.framed->wait(kForever);
  Count bytes = 0;
  std::memcpy(&bytes, message.frame.get(), kSizeBytes);
  if (bytes != message.bytes) {
    throw CommError(fmt::format("rank {} of the communicator sent {} bytes where {} were expected ({})",
                                message.peer, bytes, message.bytes, self_.who()));
  }
  const Count first = first_bytes(bytes);
  std::memcpy(message.data, message.frame.get() + kSizeBytes, at(first));
  if (bytes > first)
    rests_.push_back(receive_part(message.data + first, bytes - first, message.peer, kRestTag));
}

}  // namespace strata::torch_ranks
