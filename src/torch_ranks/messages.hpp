// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>
#include <memory>
#include <vector>

#include "c10d.hpp"
#include "strata/comm/backend.hpp"

namespace strata::torch_ranks {

/// Messages between ranks of a gloo group. gloo ends a process that gets more bytes than it expects, so the
/// first bytes of a message travel behind its size in a frame for which there is always room, and the rest
/// follows once the receiver knows that it fits.
class GlooMessages final : public comm::Backend::Messages {
 public:
  GlooMessages(Gloo& gloo, const comm::Backend::Member& self) : gloo_(gloo), self_(self) {}

  void send(const void* data, Count bytes, int peer) override;
  void receive(void* data, Count bytes, int peer) override;
  void wait() override;

 private:
  using Frame = std::unique_ptr<std::byte[]>;
  using WorkPtr = c10::intrusive_ptr<c10d::Work>;
  struct Incoming {
    std::byte* data;
    Count bytes;
    int peer;
    Frame frame;
    WorkPtr framed;
  };
  void send_part(const void* data, Count bytes, int peer, int tag);
  WorkPtr receive_part(void* data, Count bytes, int peer, int tag);
  void open(const Incoming& message);

  Gloo& gloo_;
  const comm::Backend::Member& self_;
  std::vector<Frame> sent_frames_;
  std::vector<WorkPtr> sends_;
  std::vector<Incoming> incoming_;
  std::vector<WorkPtr> rests_;
};

}  // namespace strata::torch_ranks
