// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <optional>
#include <random>

#include "strata/batches/placed_graph.hpp"
#include "strata/graph/manifest_file.hpp"
#include "strata/util/error.hpp"
#include "support/machine_graph_cases.hpp"

namespace strata::store {
namespace {

using test::Parts;
using test::RunSetup;
using testing::HasSubstr;

/// A bit of a partition directory, and what a message about it must name.
struct Flip {
  std::filesystem::path file;
  Count byte = 0;
  int bit = 0;
  std::string dataset;  ///< empty: none
};

/// A random bit of the manifest, of each dataset of each part, and of the bytes around them: the same on all
/// ranks.
std::vector<Flip> random_flips(const std::filesystem::path& directory, int per_dataset, std::uint64_t seed) {
  std::mt19937_64 random{seed};
  std::vector<Flip> flips;
  const auto add = [&](const std::filesystem::path& file, Count first, Count bytes,
                       const std::string& dataset) {
    for (int i = 0; bytes > 0 && i < per_dataset; ++i) {
      const Count byte = first + static_cast<Count>(random() % static_cast<std::uint64_t>(bytes));
      flips.push_back({file, byte, static_cast<int>(random() % 8), dataset});
    }
  };
  add(directory / graph::kManifestFile, 0,
      static_cast<Count>(std::filesystem::file_size(directory / graph::kManifestFile)), "");
  for (const graph::PartRecord& part : graph::read_partition_record(directory).parts) {
    Count end = 0;
    for (const graph::DatasetRecord& d : part.datasets) {
      Count bytes = static_cast<Count>(size_of(parse_dtype(d.dtype)));
      for (const Count dim : d.shape) bytes *= dim;
      add(directory / part.file, d.offset, bytes, d.name);
      if (end < d.offset) add(directory / part.file, end, d.offset - end, "");
      end = std::max(end, d.offset + bytes);
    }
    add(directory / part.file, end, part.bytes - end, "");
  }
  return flips;
}

/// Flips the bit on the first rank, for as long as it lives. Collective.
class Flipped {
 public:
  explicit Flipped(const Flip& flip) : flip_(flip) { apply(); }
  ~Flipped() { apply(); }

 private:
  void apply() const {
    test::world().communicator().barrier();
    if (test::world().rank() == 0) {
      std::fstream file(flip_.file, std::ios::in | std::ios::out | std::ios::binary);
      file.seekg(flip_.byte);
      const char old = static_cast<char>(file.get());
      file.seekp(flip_.byte);
      file.put(static_cast<char>(old ^ (1 << flip_.bit)));
    }
    test::world().communicator().barrier();
  }
  const Flip& flip_;
};

/// Compares what is loaded with the graph; the message of what is refused.
std::string load(const Parts& parts, const RunSetup& run, const LoadOptions& options) {
  const comm::Communicator& world = test::world().communicator();
  std::optional<MachineGraph> loaded;
  try {
    world.together([&] { loaded.emplace(batches::load_parts(parts.directory(), run.ranks(), options)); });
  } catch (const InputError& error) {
    return error.what();
  }
  try {
    world.together([&] {
      if (loaded->arrival() != nullptr) loaded->arrival()->finish();
    });
  } catch (const InputError& error) {
    return error.what();
  }
  test::expect_is(*loaded, parts.graph(), options);
  loaded->close(run.machine);
  return "accepted";
}

/// Does loading read the dataset? Only training nodes have an order of their own.
bool is_read(const Flip& flip, const LoadOptions& options) {
  if (flip.dataset.ends_with("edge_id")) return options.edge_ids;
  if (flip.dataset.ends_with("weight")) return options.edge_weights;
  if (flip.dataset.ends_with("cluster")) return test::world().size() > 1;  // of a machine
  return !flip.dataset.ends_with("valid/rank") && !flip.dataset.ends_with("test/rank");
}

/// What is read is refused with its name; what is not read changes nothing.
void expect_noticed(const Flip& flip, const LoadOptions& options, const std::string& message) {
  if (!is_read(flip, options)) {
    EXPECT_EQ(message, "accepted") << flip.dataset;
    return;
  }
  EXPECT_THAT(message, HasSubstr(flip.file.filename().string())) << "byte " << flip.byte;
  if (!flip.dataset.empty()) {
    EXPECT_THAT(message, HasSubstr("dataset " + flip.dataset)) << "byte " << flip.byte;
  }
}

const LoadOptions kEverything{.edge_ids = true, .edge_weights = true, .in_degrees = true};

TEST(DamagedParts, AreRefusedAndNamedOnAllRanks) {
  const Parts parts({.num_clusters = 3, .seed = 90}, 3);
  const RunSetup run(0);
  ASSERT_EQ(load(parts, run, kEverything), "accepted");
  const std::vector<Flip> flips = random_flips(parts.directory(), 2, 7);
  EXPECT_GT(flips.size(), 80u);
  for (const Flip& flip : flips) {
    const Flipped flipped(flip);
    expect_noticed(flip, kEverything, load(parts, run, kEverything));
  }
  EXPECT_EQ(load(parts, run, kEverything), "accepted");
}

TEST(DamagedParts, AreRefusedByTheMachinesThatReadThem) {
  if (test::world().size() == 1) GTEST_SKIP() << "needs two machines";
  const Parts parts({.seed = 91}, 4);
  const RunSetup run(1);
  LoadOptions options = kEverything;
  options.halo_bytes = 20000;
  for (const Flip& flip : random_flips(parts.directory(), 1, 8)) {
    options.replication = flip.byte % 2 == 0 ? plan::Replication::off : plan::Replication::on;
    const Flipped flipped(flip);
    expect_noticed(flip, options, load(parts, run, options));
  }
}

TEST(DamagedParts, AreLoadedAsTheyWereWhereTheDamageIsNotRead) {
  const Parts parts({.seed = 92}, 2);
  const RunSetup run(0);
  for (const Flip& flip : random_flips(parts.directory(), 2, 9)) {
    const Flipped flipped(flip);
    expect_noticed(flip, {}, load(parts, run, {}));
  }
}

TEST(DamagedParts, AreRefusedWhenTheyAreReadLater) {
  const Parts parts({.seed = 94}, 3);
  const RunSetup run(0);
  for (const Flip& flip : random_flips(parts.directory(), 3, 11)) {
    if (!flip.dataset.ends_with("feat")) continue;
    const Flipped flipped(flip);
    expect_noticed(flip, {}, load(parts, run, {.late_features = true}));
  }
}

TEST(DamagedParts, AreTakenAsTheyAreIfAsked) {
  const Parts parts({.seed = 93}, 2);
  const RunSetup run(0);
  const comm::Communicator& world = test::world().communicator();
  for (const Flip& flip : random_flips(parts.directory(), 1, 10)) {
    if (!flip.dataset.ends_with("original_id") && !flip.dataset.ends_with("checksums/xxh3")) continue;
    const Flipped flipped({flip.file, flip.byte / 8 * 8, 0, flip.dataset});
    std::string refusal = "accepted";
    try {
      world.together([&] {
        batches::load_parts(parts.directory(), run.ranks(), {.verify_parts = false}).close(run.machine);
      });
    } catch (const InputError& error) {
      refusal = error.what();
    }
    EXPECT_EQ(refusal, "accepted");
  }
}

}  // namespace
}  // namespace strata::store
