// SPDX-License-Identifier: Apache-2.0
#include "step_board.hpp"

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <stdexcept>
#include <thread>
#include <vector>

namespace strata::batches {
namespace {

/// Threads that sample and gather `steps` steps, several at once, until the board says that there are no
/// more.
class Stages {
 public:
  Stages(StepBoard& board, int samplers, int gatherers) {
    threads_.emplace_back([&board] {
      for (Count step = 0; board.wait_until_free(step); ++step) board.seeded(step);
    });
    for (int lane = 0; lane < samplers; ++lane) {
      threads_.emplace_back([this, &board, lane, samplers] {
        for (Count step = lane; board.wait_until_seeded(step); step += samplers) {
          ++sampled;
          board.sampled(step);
        }
      });
    }
    for (int lane = 0; lane < gatherers; ++lane) {
      threads_.emplace_back([this, &board, lane, gatherers] {
        for (Count step = lane; board.wait_until_sampled(step); step += gatherers) {
          ++gathered;
          board.gathered(step);
        }
      });
    }
  }
  void join() {
    for (std::thread& thread : threads_) thread.join();
    threads_.clear();
  }
  std::atomic<Count> sampled{0}, gathered{0};

 private:
  std::vector<std::thread> threads_;
};

TEST(StepBoard, PassesEveryStepOnInOrder) {
  for (const auto& [samplers, gatherers, buffers] :
       {std::array{1, 1, 3}, {3, 2, 6}, {5, 2, 8}, {1, 1, 2}, {2, 2, 3}}) {
    constexpr Count kSteps = 500;
    StepBoard board(kSteps, buffers);
    Stages stages(board, samplers, gatherers);
    Count step = 0;
    while (board.wait_until_gathered(step)) {
      EXPECT_LE(stages.sampled, step + buffers);
      board.release(step++);
    }
    EXPECT_EQ(step, kSteps);
    board.close();
    stages.join();
    EXPECT_EQ(stages.sampled, kSteps);
    EXPECT_EQ(stages.gathered, kSteps);
  }
}

// On several machines, what a rank begins the others must begin, too.
TEST(StepBoard, EndsAfterTheSameStepsWheneverItIsClosed) {
  for (int repetition = 0; repetition < 50; ++repetition) {
    StepBoard board(100, 4);
    Stages stages(board, 3, 2);
    for (Count step = 0; step < 7; ++step) {
      ASSERT_TRUE(board.wait_until_gathered(step));
      board.release(step);
    }
    board.close();
    stages.join();
    EXPECT_EQ(stages.sampled, 7 + 4);
    EXPECT_EQ(stages.gathered, 7 + 4);
  }
}

TEST(StepBoard, HandsAFailureToTheReader) {
  StepBoard board(10, 3);
  Stages stages(board, 2, 1);
  ASSERT_TRUE(board.wait_until_gathered(0));
  board.fail(std::make_exception_ptr(std::runtime_error("first")));
  board.fail(std::make_exception_ptr(std::runtime_error("second")));
  try {
    board.wait_until_gathered(1);
    ADD_FAILURE() << "nothing was thrown";
  } catch (const std::runtime_error& error) {
    EXPECT_STREQ(error.what(), "first");
  }
  stages.join();
}

TEST(StepBoard, HasNothingToDoWithoutSteps) {
  StepBoard board(0, 3);
  EXPECT_FALSE(board.wait_until_gathered(0));
  board.close();
  EXPECT_FALSE(board.wait_until_free(0));
  EXPECT_FALSE(board.wait_until_sampled(0));
}

}  // namespace
}  // namespace strata::batches
