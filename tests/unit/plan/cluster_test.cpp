// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "strata/plan/forecast.hpp"
#include "strata/util/error.hpp"
#include "support/expect_error.hpp"

namespace strata::plan {
namespace {

TEST(Cluster, ReadsAllKeys) {
  const Cluster c = parse_cluster(
      "machines=16,gpus=8,link=400Gbit/"
      "s,latency=10us,message=0.5us,links=4,gpu-memory=140GiB,host-memory=2TiB,"
      "compute=0.74ms,sample=0.2ms,gather=1s,measured=runs/last");
  EXPECT_EQ(c.machines, 16);
  EXPECT_EQ(c.all_ranks(), 128);
  EXPECT_DOUBLE_EQ(c.link.bytes_per_second, 50e9);
  EXPECT_DOUBLE_EQ(c.link_of_rank().bytes_per_second, 25e9);
  EXPECT_DOUBLE_EQ(c.link.latency_seconds, 1e-5);
  EXPECT_DOUBLE_EQ(c.link.message_seconds, 5e-7);
  EXPECT_EQ(c.gpu_memory, std::int64_t{140} << 30);
  EXPECT_EQ(c.host_memory, std::int64_t{2} << 40);
  EXPECT_DOUBLE_EQ(c.compute_seconds.value(), 0.74e-3);
  EXPECT_DOUBLE_EQ(c.sample_seconds.value(), 0.2e-3);
  EXPECT_DOUBLE_EQ(c.gather_seconds.value(), 1);
  EXPECT_EQ(c.measured, "runs/last");
}

TEST(Cluster, HasRanksOnCpusWithoutGpus) {
  const Cluster c = parse_cluster("machines=3,ranks=2,link=1.5GB/s");
  EXPECT_FALSE(c.has_gpus());
  EXPECT_EQ(c.all_ranks(), 6);
  EXPECT_DOUBLE_EQ(c.link_of_rank().bytes_per_second, 1.5e9) << "one link per rank";
}

TEST(Cluster, RefusesWhatItCannotMean) {
  const auto refuses = [](const char* text, const char* what) {
    test::expect_error<InputError>([&] { parse_cluster(text); }, {"--cluster", what});
  };
  refuses("", "nothing");
  refuses("machines", "has no value");
  refuses("machines=2,", "has no value");
  refuses("machines=2,machines=1", "'machines' is given twice");
  refuses("gpus=8,ranks=4", "ranks=4 contradicts it");
  EXPECT_EQ(parse_cluster("gpus=8,ranks=8").all_ranks(), 8);
  refuses("machine=2", "did you mean machines?");
  refuses("machines=0", "machines=0 is no whole number from 1");
  refuses("machines=2.5", "machines=2.5");
  refuses("link=400", "link=400 is no positive number with one of the units Gbit/s");
  refuses("link=-1Gbit/s", "link=-1Gbit/s");
  refuses("link=infGB/s", "link=inf");
  refuses("latency=10", "latency=10");
  refuses("latency=us", "latency=us");
  refuses("gpu-memory=0", "gpu-memory=0 is no amount of memory");
  refuses("host-memory=many", "host-memory=many");
}

}  // namespace
}  // namespace strata::plan
