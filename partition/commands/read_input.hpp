// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <filesystem>
#include <memory>
#include <string>

#include "assign/memory_plan.hpp"
#include "commands/input_options.hpp"
#include "strata/graph/stored_graph.hpp"

namespace strata::partition {

/// A graph as it was read: in memory, or with its lists in scratch files.
struct ReadInput {
  std::unique_ptr<ScratchStore> scratch;  ///< null: all is in memory
  graph::StoredGraph stored;

  graph::ListsView lists() const {
    return stored.lists ? lists_of(*stored.lists, *scratch) : lists_of(stored.graph.structure);
  }
};

/// Reads an input for some use within what --memory says, such as "16GiB"; empty: what is free. Scratch files
/// go to `folder`. Throws InputError, IoError, and OutOfMemory with what is needed and why.
ReadInput read_input(const InputOptions& input, std::int64_t memory_bytes, const MemoryUse& use,
                     const std::filesystem::path& folder);

}  // namespace strata::partition
