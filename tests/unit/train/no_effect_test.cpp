// SPDX-License-Identifier: Apache-2.0
#include "tuning/no_effect.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace strata::train {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

comm::Topology machines(int number) {
  comm::Topology topology;
  topology.machines.resize(at(number));
  return topology;
}

TEST(OptionsWithoutEffect, AreThoseBetweenMachinesWhereThereIsOne) {
  TrainConfig config;
  EXPECT_THAT(options_without_effect(config, machines(1)), IsEmpty());
  config.halo_cache_bytes = 0;
  config.replicate_graph = plan::Replication::off;
  EXPECT_THAT(options_without_effect(config, machines(1)), IsEmpty()) << "nothing is what one machine keeps";
  config.halo_cache_bytes = 4096;
  config.replicate_graph = plan::Replication::on;
  config.row_exchange_precision = RowPrecision::bf16;
  config.exchange = batches::Transport::mpi;
  EXPECT_THAT(options_without_effect(config, machines(1)),
              ElementsAre(AllOf(HasSubstr("--halo-cache 4096 has no effect"), HasSubstr("one machine")),
                          HasSubstr("--replicate-graph on"), HasSubstr("--row-exchange-precision bf16"),
                          HasSubstr("--exchange mpi")));
  EXPECT_THAT(options_without_effect(config, machines(2)), IsEmpty());
}

TEST(OptionsWithoutEffect, AreThoseOfRowsThatTheGraphDecides) {
  graph::Manifest manifest;
  manifest.feature_cols = 8;
  TrainConfig config;
  config.halo_cache_bytes = 31;
  config.row_exchange_precision = RowPrecision::bf16;
  EXPECT_THAT(options_without_effect(config, manifest),
              ElementsAre(AllOf(HasSubstr("--halo-cache 31 has no effect"), HasSubstr("32 bytes"))));
  config.halo_cache_bytes = 4096;
  config.feature_format = plan::FeatureFormat::i8;
  EXPECT_THAT(options_without_effect(config, manifest),
              ElementsAre(AllOf(HasSubstr("--row-exchange-precision bf16"), HasSubstr("compressed"))));
}

}  // namespace
}  // namespace strata::train
