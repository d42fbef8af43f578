#include "strata/train/trainer.hpp"

#include <gtest/gtest.h>

#include <functional>
#include <limits>

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

}  // namespace
}  // namespace strata::train
