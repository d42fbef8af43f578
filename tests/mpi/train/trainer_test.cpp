// SPDX-License-Identifier: Apache-2.0
#include "strata/train/trainer.hpp"

#include <gtest/gtest.h>

#include <functional>
#include <limits>

#include "checkpoint/same_config.hpp"
#include "support/expect_error.hpp"
#include "support/mpi_world.hpp"

namespace strata::train {
namespace {

/// Of a graph that is not there: what is refused before says something else.
TrainConfig config_with(const std::function<void(TrainConfig&)>& change) {
  TrainConfig config;
  config.graph = "nowhere";
  change(config);
  return config;
}

void expect_refused(const TrainConfig& config, const std::vector<std::string>& parts) {
  StopListener stop;
  test::expect_error<InputError>([&] { train(config, test::world(), stop); }, parts);
}

TEST(Train, ValidatesTheConfigOfALibraryUser) {
  expect_refused(config_with([](auto& c) { c.precision = static_cast<Precision>(61); }),
                 {"--precision: 61", "f32, tf32 or bf16"});
  expect_refused(config_with([](auto& c) { c.weight_decay = std::numeric_limits<double>::infinity(); }),
                 {"--weight-decay: inf"});
  expect_refused(config_with([](auto& c) { c.fanouts.clear(); }), {"--fanouts is empty"});
}

TEST(Train, RefusesOnAllRanksWhatOneRankIsAskedFor) {
  const int last = test::world().size() - 1;
  expect_refused(config_with([&](auto& c) { c.hidden = test::world().rank() == last ? -3 : 256; }),
                 {"--hidden: -3 is not positive"});
}

TEST(Train, RefusesRanksWithDifferentOptions) {
  if (test::world().size() == 1) GTEST_SKIP() << "needs several ranks";
  const bool is_last = test::world().rank() == test::world().size() - 1;
  expect_refused(config_with([&](auto& c) { c.hidden = is_last ? 64 : 256; }),
                 {"other options than rank 0: --hidden 64 instead of 256", "the same configuration file"});
  expect_refused(config_with([&](auto& c) {
                   c.eval_every = is_last ? 0 : 1;
                   c.metric = is_last ? Metric::macro_f1 : Metric::accuracy;
                 }),
                 {"--eval-every 0 instead of 1", "--metric macro_f1 instead of accuracy"});
}

TEST(Train, LetsRanksNameTheirOwnFiles) {
  const std::string mine = std::to_string(test::world().rank());
  const TrainConfig config = config_with([&](auto& c) { c.graph = c.output = c.trace = "folder" + mine; });
  EXPECT_NO_THROW(require_same_config(config, test::world().communicator()));
}

}  // namespace
}  // namespace strata::train
