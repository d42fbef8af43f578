// SPDX-License-Identifier: Apache-2.0
#include "channels/network_ends.hpp"

#include <ATen/ops/equal.h>
#include <ATen/ops/full.h>
#include <ATen/ops/randint.h>
#include <gtest/gtest.h>

#include <chrono>
#include <condition_variable>
#include <cstring>
#include <map>
#include <mutex>
#include <thread>

#include "strata/util/error.hpp"

namespace strata::rpc {
namespace {

using Step = RouteNote::Step;

/// Both ends of a route in one process, on the CPU, where NCCL never opens: what they tell each other is
/// brought by a thread, as that of the links does.
class NetworkEndsTest : public testing::Test {
 protected:
  void connect(bool uses_nccl) {
    const auto setup = [&](RouteOutlet outlet) -> RouteSetup {
      return {.device = {},
              .number = 3,
              .uses_nccl = uses_nccl,
              .timeout = std::chrono::seconds(20),
              .here = "a",
              .peer = "b",
              .places = places_,
              .outlet = std::move(outlet)};
    };
    receiver_ = std::make_unique<NetworkReceiver>(setup({.send_note = to_sender(),
                                                         .send_piece = {},
                                                         .arrived = [](std::uint64_t, std::size_t) {},
                                                         .count = [](std::size_t) {}}));
    sender_ = std::make_unique<NetworkSender>(setup(
        {.send_note = to_receiver(), .send_piece = pieces(), .arrived = {}, .count = [](std::size_t) {}}));
  }
  void TearDown() override {
    sender_->stop();
    sender_->join();
    receiver_->stop();
    receiver_->join();
    messages_.stop();
    messages_.join();
  }

  std::function<void(const RouteNote&)> to_sender() {
    return [this](const RouteNote& note) {
      messages_.push([this, note] {
        note_step(note.step);
        sender_->heard(note);
      });
    };
  }
  std::function<void(const RouteNote&)> to_receiver() {
    return [this](const RouteNote& note) {
      messages_.push([this, note] {
        note_step(note.step);
        if (note.step == Step::offer)
          receiver_->receive(note.transfer, {});
        else
          receiver_->heard(note);
      });
    };
  }
  std::function<void(const NetworkPiece&, StagedBytes)> pieces() {
    return [this](const NetworkPiece& piece, StagedBytes staged) {
      messages_.push([this, piece, moved = std::move(staged)] {
        at::Tensor bytes = at::empty({static_cast<std::int64_t>(piece.bytes)}, at::kByte);
        std::memcpy(bytes.mutable_data_ptr(), moved.bytes.data(), moved.bytes.size());
        const std::lock_guard lock(mutex_);
        EXPECT_EQ(piece.route, 3U);
        receiver_->take_piece(piece, bytes, received_.at({piece.transfer, piece.tensor}));
        bytes_arrived_ += piece.bytes;
        changed_.notify_all();
      });
    };
  }
  void note_step(Step step) {
    const std::lock_guard lock(mutex_);
    ++steps_[step];
  }
  void send(std::uint64_t number, const std::vector<at::Tensor>& tensors) {
    NetworkSender::Transfer transfer{.number = number};
    for (std::uint32_t place = 0; place < tensors.size(); ++place) {
      const at::Tensor& values = tensors[place];
      const std::lock_guard lock(mutex_);
      received_[{number, place}] = receiver_->room(values.sizes(), values.scalar_type());
      std::memset(received_[{number, place}].mutable_data_ptr(), 0x5a, values.nbytes());
      bytes_sent_ += values.nbytes();
      transfer.parts.push_back({.place = place, .values = values});
    }
    sender_->send(std::move(transfer));
  }
  bool wait_for_all() {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, std::chrono::seconds(60), [&] { return bytes_arrived_ == bytes_sent_; });
  }

  const std::shared_ptr<TransferPlaces> places_ = std::make_shared<TransferPlaces>();
  JobThread messages_;
  std::unique_ptr<NetworkSender> sender_;
  std::unique_ptr<NetworkReceiver> receiver_;
  std::mutex mutex_;  // of all below
  std::condition_variable changed_;
  std::map<Step, int> steps_;
  std::map<std::pair<std::uint64_t, std::uint32_t>, at::Tensor> received_;
  std::size_t bytes_sent_ = 0, bytes_arrived_ = 0;
};

TEST_F(NetworkEndsTest, BringTensorsInPieces) {
  connect(false);
  std::vector<std::vector<at::Tensor>> sent;
  for (std::uint64_t number = 0; number < 6; ++number) {
    sent.push_back({at::randint(1000, {static_cast<std::int64_t>(1 + number * 300'000)}, at::kLong),
                    at::full({}, 7.5, at::kDouble), at::randint(2, {131'073}, at::kBool)});
    send(number, sent.back());
  }
  ASSERT_TRUE(wait_for_all());
  for (std::uint64_t number = 0; number < sent.size(); ++number)
    for (std::uint32_t place = 0; place < 3; ++place)
      EXPECT_TRUE(at::equal((received_[{number, place}]), sent[number][place])) << number << " " << place;
  EXPECT_TRUE(steps_.empty()) << "no word of NCCL";
}

TEST_F(NetworkEndsTest, AgreeToGoOnWithoutNccl) {
  connect(true);
  std::vector<at::Tensor> sent;
  for (std::uint64_t number = 0; number < 5; ++number) {
    sent.push_back(at::randint(1000, {200'000}, at::kLong));
    send(number, {sent.back()});
  }
  ASSERT_TRUE(wait_for_all());
  for (std::uint64_t number = 0; number < sent.size(); ++number)
    EXPECT_TRUE(at::equal((received_[{number, 0}]), sent[number])) << number;
  EXPECT_EQ(steps_[Step::fail], 1);
  EXPECT_EQ(steps_[Step::closed], 1);
  EXPECT_EQ(steps_[Step::done], 0);
}

TEST_F(NetworkEndsTest, RefuseAPieceThatDoesNotFit) {
  connect(false);
  const at::Tensor room = receiver_->room({100}, at::kByte);
  const at::Tensor bytes = at::full({60}, 1, at::kByte);
  EXPECT_NO_THROW(receiver_->take_piece({.offset = 40, .bytes = 60}, bytes, room));
  EXPECT_THROW(receiver_->take_piece({.offset = 41, .bytes = 60}, bytes, room), CommError);
  EXPECT_THROW(receiver_->take_piece({.offset = ~std::uint64_t{0}, .bytes = 60}, bytes, room), CommError);
}

TEST_F(NetworkEndsTest, EndWhileTheReceiverIsSilent) {
  connect(true);
  messages_.stop();  // as if the peer were stopped
  for (std::uint64_t number = 0; number < 3; ++number) send(number, {at::full({200'000}, 1, at::kLong)});
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  sender_->stop();
  sender_->join();  // and so does not wait for the timeout
  EXPECT_EQ(bytes_arrived_, 0U);
}

}  // namespace
}  // namespace strata::rpc
