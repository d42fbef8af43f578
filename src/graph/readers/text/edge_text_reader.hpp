// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <string>
#include <string_view>

#include "readers/assemble.hpp"
#include "readers/edge_weights.hpp"
#include "readers/text/edge_buffer.hpp"
#include "readers/text/line_blocks.hpp"

namespace strata::graph {

/// The common part of readers of text with edges: the file, and the edges and weights that were read so far.
class EdgeTextReader {
 public:
  EdgeTextReader(const DatasetSource& source, const ReadOptions& options, Assembly& assembly)
      : source_(source),
        options_(options),
        assembly_(assembly),
        path_(source.place.string()),
        edges_(path_, assembly.scratch) {}

 protected:
  /// Calls parse(line, place, piece) in any thread for the lines from number `first` on that are no comments,
  /// and then, in this thread and in the order of the file, take(piece, share of the file that was read).
  template <typename Piece, typename IsComment, typename Parse, typename Take>
  void read_lines(Count first, const IsComment& is_comment, const Parse& parse, const Take& take) {
    LineBlocks blocks(source_.place, block_bytes_within(assembly_.scratch, assembly_.pool));
    parse_blocks<Piece>(
        blocks, assembly_.pool,
        [&](const Block& block, Piece& piece) {
          Lines lines(block.text);
          Count number = block.line;
          for (std::string_view line; lines.next(line); ++number)
            if (number >= first && !is_comment(line))
              parse(line, place_of(line, number, block, path_), piece);
        },
        [&](Piece& piece) { take(piece, blocks.share_read()); });
  }

  const DatasetSource& source_;
  const ReadOptions& options_;
  Assembly& assembly_;
  std::string path_;
  EdgeBuffer edges_;
  EdgeWeights weights_{assembly_.scratch};
};

}  // namespace strata::graph
