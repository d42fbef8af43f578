// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/model_state.hpp"

#include <ATen/ops/full.h>
#include <ATen/ops/tensor.h>
#include <gtest/gtest.h>

#include <cmath>

#include "step/not_finite.hpp"
#include "strata/util/error.hpp"
#include "support/expect_error.hpp"
#include "support/mpi_world.hpp"

namespace strata::train {
namespace {

class Counting : public torch::nn::Module {
 public:
  explicit Counting(int rank)
      : weight(register_parameter("weight", at::full({3}, 1.5))),
        scale(register_parameter("scale", at::full({2}, 0.5))),
        mean(register_buffer("mean", at::full({2}, static_cast<double>(rank)))),
        count(register_buffer("count", at::full({1}, 10 + rank, at::kLong))) {}
  at::Tensor weight, scale, mean, count;
};

TEST(ModelState, BuffersBecomeTheSame) {
  const comm::Communicator& all = test::world().communicator();
  const Counting model(all.rank());
  agree_on_buffers(model, all);
  const float mean = static_cast<float>(all.size() - 1) / 2;
  EXPECT_TRUE(model.mean.equal(at::full({2}, mean, at::kFloat)));
  EXPECT_EQ(model.count.item<std::int64_t>(), 10) << "the first rank's";
  EXPECT_NO_THROW(require_equal_weights(model, all));
}

TEST(ModelState, WeightsThatDifferAreNamedWithTheirRank) {
  const comm::Communicator& all = test::world().communicator();
  const Counting model(0);
  EXPECT_NO_THROW(require_equal_weights(model, all));
  if (all.size() == 1) return;
  const int culprit = all.size() - 1;
  if (all.rank() == culprit) {
    const at::Tensor raw = model.scale.detach();
    raw[1] = std::nextafter(0.5f, 1.0f);
  }
  test::expect_error<Error>([&] { require_equal_weights(model, all); },
                            {"rank " + std::to_string(culprit) + " ", "\"scale\"", "--resume"});
}

TEST(NotFiniteLoss, IsDescribedByRanksAndSeeds) {
  const comm::Communicator& all = test::world().communicator();
  const int culprit = all.size() - 1;
  const NotFinite found{.epoch = 2, .step = 7, .mine = all.rank() == culprit, .seeds = {5, 3, 8}};
  EXPECT_EQ(describe(found, all), "the loss of epoch 2, step 7 is not finite on rank " +
                                      std::to_string(culprit) + " (seeds 5, 3, 8)");
  const NotFinite none{.epoch = 1, .step = 1, .mine = false, .seeds = {5}};
  EXPECT_EQ(describe(none, all),
            "the loss of epoch 1, step 1 is not finite on no single rank, but in their sum");
  const NotFinite many{.epoch = 1, .step = 1, .mine = true, .seeds = {1, 2, 3, 4, 5, 6, 7, 8, 9}};
  EXPECT_NE(describe(many, all).find("seeds 1, 2, 3, 4, 5, 6, 7, 8, ... 9 in all"), std::string::npos);
}

}  // namespace
}  // namespace strata::train
