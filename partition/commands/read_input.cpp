// SPDX-License-Identifier: Apache-2.0
#include "commands/read_input.hpp"

#include <fmt/format.h>
#include <linux/magic.h>
#include <spdlog/spdlog.h>
#include <sys/vfs.h>

#include "strata/graph/read_graph.hpp"
#include "strata/util/error.hpp"
#include "strata/util/files.hpp"
#include "strata/util/log.hpp"
#include "strata/util/system.hpp"
#include "strata/util/text.hpp"

namespace strata::partition {
namespace {

/// Whether edges that the input lists once may be taken in both directions, as far as that is known before it
/// is read.
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

/// Ends reading into memory that does not hold so many nodes.
struct TooManyNodes {
  Count nodes = 0;
};

bool lies_in_memory(const std::filesystem::path& folder) {
  struct statfs info {};
  return ::statfs(folder.c_str(), &info) == 0 && (info.f_type == TMPFS_MAGIC || info.f_type == RAMFS_MAGIC);
}

class InputReader {
 public:
  InputReader(const InputOptions& options, std::int64_t memory_bytes, const MemoryUse& use,
              const std::filesystem::path& folder)
      : options_{options},
        use_{use},
        folder_{folder},
        how_{.limit_bytes = memory_bytes, .both_directions = may_add_directions(options)},
        size_{graph::measure_input(options.source, options.files)} {
    constexpr int kMostGrowth = 2;  // of rows of 16 bits, which become f32
    if (options.read.normalize_features) size_.bytes_mapped *= 1 + kMostGrowth;
  }

  ReadInput read() {
    try {
      return read_as(plan_memory(size_, use_, how_));
    } catch (const TooManyNodes& found) {
      size_.nodes = found.nodes;
    }
    return_freed_memory();
    spdlog::info("reading it again: there is no room in memory for {} nodes", format_count(size_.nodes));
    return read_as(plan_memory(size_, use_, how_));
  }

 private:
  ReadInput read_as(const MemoryPlan& plan) {
    graph::ReadOptions read = options_.read;
    read.on_nodes_known = [this, &plan](Count nodes) {
      graph::InputSize size = size_;
      size.nodes = nodes;
      if (!holds(plan, size, use_, how_)) throw TooManyNodes{nodes};
    };
    if (!plan.on_disk)
      return {.scratch = nullptr,
              .stored = {.graph = graph::read_graph(options_.source, read, options_.files)}};
    check_disk();
    if (lies_in_memory(folder_))
      spdlog::warn(
          "{} lies in memory (tmpfs): the temporary files of the edges take as much memory as they are "
          "large, beside what --memory counts; give --scratch a folder on a disk",
          folder_.string());
    spdlog::info("the edges go to temporary files in {}: in memory they would take more than {}",
                 folder_.string(), format_bytes(plan.limit_bytes));
    ReadInput input{.scratch = std::make_unique<ScratchStore>(folder_, plan.capacity_bytes), .stored = {}};
    read.num_threads = threads_within(plan.capacity_bytes, read.num_threads);
    input.stored = graph::read_stored_graph(options_.source, read, options_.files, *input.scratch);
    graph::InputSize size = size_;
    size.nodes = input.stored.graph.num_nodes();
    size.bytes_in_memory += static_cast<std::int64_t>(input.stored.graph.node_names.size());
    input.scratch->set_capacity(room_for_nodes(size, use_, plan.limit_bytes));
    return_freed_memory();
    return input;
  }

  /// Checks the disk for the sizes in the input's headers. They may be wrong; that is refused here, before it
  /// is read.
  void check_disk() const {
    const std::int64_t free = free_disk_bytes(folder_);
    if (size_.least_scratch_bytes <= free) return;
    throw InputError(
        fmt::format("{}: the temporary files of {} edges take {} at least, {} are free", folder_.string(),
                    format_count(size_.edges), format_bytes(size_.least_scratch_bytes), format_bytes(free)),
        fmt::format(
            "Free some space, give --scratch a folder on another disk, or more --memory. Is this the number "
            "of edges of {}?",
            options_.spec));
  }

  const InputOptions& options_;
  const MemoryUse& use_;
  const std::filesystem::path& folder_;
  MemoryOptions how_;
  graph::InputSize size_;
};

}  // namespace

ReadInput read_input(const InputOptions& options, std::int64_t memory_bytes, const MemoryUse& use,
                     const std::filesystem::path& folder) {
  if (options.given)
    return {.scratch = nullptr, .stored = {.graph = options.given(options.read.num_threads)}};
  InputReader reader(options, memory_bytes, use, folder);
  announce("reading " + options.spec);
  return reader.read();
}

}  // namespace strata::partition
