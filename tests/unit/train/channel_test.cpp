// SPDX-License-Identifier: Apache-2.0
#include "loading/channel.hpp"

#include <gtest/gtest.h>

#include <memory>
#include <stdexcept>
#include <thread>

namespace strata::train {
namespace {

TEST(Channel, HandsValuesOverInOrderAndEndsWhenClosed) {
  Channel<int> channel;
  constexpr int kCount = 2000;
  std::jthread sender([&] {
    for (int i = 0; i < kCount; ++i) channel.send(i);
    channel.close();
  });
  for (int i = 0; i < kCount; ++i) ASSERT_EQ(channel.receive(), i);
  EXPECT_EQ(channel.receive(), std::nullopt);
  EXPECT_EQ(channel.receive(), std::nullopt);
}

TEST(Channel, WhatWasSentBeforeClosingStillArrives) {
  Channel<int> channel;
  channel.send(7);
  channel.close();
  EXPECT_EQ(channel.receive(), 7);
  EXPECT_EQ(channel.receive(), std::nullopt);
}

TEST(Channel, RethrowsTheFirstFailureAtOnce) {
  Channel<int> channel;
  channel.send(1);  // a failed run does not go on with what is left
  channel.close(std::make_exception_ptr(std::runtime_error("first")));
  channel.close(std::make_exception_ptr(std::runtime_error("second")));
  for (int i = 0; i < 2; ++i) {
    try {
      channel.receive();
      ADD_FAILURE() << "nothing was thrown";
    } catch (const std::runtime_error& error) {
      EXPECT_STREQ(error.what(), "first");
    }
  }
}

TEST(Channel, ClosingWakesAWaitingReceiver) {
  Channel<int> channel;
  std::optional<int> received = 1;
  std::jthread receiver([&] { received = channel.receive(); });
  channel.close();
  receiver.join();
  EXPECT_EQ(received, std::nullopt);
}

TEST(Channel, MovesValuesThatCannotBeCopied) {
  Channel<std::unique_ptr<int>> channel;
  channel.send(std::make_unique<int>(5));
  const auto value = channel.receive();
  ASSERT_TRUE(value.has_value());
  EXPECT_EQ(**value, 5);
}

}  // namespace
}  // namespace strata::train
