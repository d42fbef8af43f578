// SPDX-License-Identifier: Apache-2.0
#include "commands/read_input.hpp"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include "strata/graph/dataset_source.hpp"
#include "strata/util/error.hpp"
#include "strata/util/format.hpp"
#include "strata/util/memory.hpp"
#include "strata/util/progress.hpp"

namespace strata::partition {
namespace {

/// 0 if none was given.
std::int64_t memory_limit(const std::string& memory) {
  if (memory.empty()) return 0;
  constexpr std::int64_t kLeast = std::int64_t{64} << 20;
  const std::int64_t limit = parse_bytes(memory);
  if (limit < kLeast)
    throw InputError(fmt::format("--memory {}: less than the program itself takes", memory),
                     "Give 64MiB or more, such as --memory 16GiB.");
  return limit;
}

/// Whether edges that the input lists once are taken in both directions, as far as one can tell before it is
/// read.
bool may_add_directions(const InputOptions& input) {
  using Format = graph::DatasetSource::Format;
  using Direction = graph::ReadOptions::Direction;
  const graph::DatasetSource* const dataset = input.source.dataset();
  const bool may_say_so =
      dataset != nullptr && (dataset->format == Format::ogb || dataset->format == Format::edge_list ||
                             dataset->format == Format::matrix_market);
  return input.read.direction == Direction::undirected ||
         (input.read.direction == Direction::automatic && may_say_so);
}

}  // namespace

ReadInput read_input(const InputOptions& options, const std::string& memory, const MemoryUse& use,
                     const std::filesystem::path& folder) {
  const std::int64_t limit = memory_limit(memory);
  announce("reading " + options.spec);
  graph::InputSize size = graph::measure_input(options.source, options.files);
  constexpr int kMostGrowth = 2;  // of rows of 16 bits, which become f32
  if (options.read.normalize_features) size.bytes_mapped *= 1 + kMostGrowth;
  const MemoryPlan plan =
      plan_memory(size, use, {.limit_bytes = limit, .both_directions = may_add_directions(options)});
  if (!plan.on_disk) return {.scratch = nullptr, .stored = {.graph = options.read_graph()}};
  spdlog::info("the edges go to temporary files in {}: in memory they would take more than {}",
               folder.string(), format_bytes(plan.limit_bytes));
  ReadInput input{.scratch = std::make_unique<ScratchStore>(folder, plan.room_bytes), .stored = {}};
  graph::ReadOptions read = options.read;
  read.num_threads = threads_within(plan.room_bytes, read.num_threads);
  input.stored = graph::read_stored_graph(options.source, read, options.files, *input.scratch);
  const auto name_bytes = static_cast<std::int64_t>(input.stored.graph.node_names.size());
  input.scratch->set_room(room_for_nodes(input.stored.graph.num_nodes(), size.bytes_in_memory + name_bytes,
                                         use, plan.limit_bytes));
  return_freed_memory();
  return input;
}

}  // namespace strata::partition
