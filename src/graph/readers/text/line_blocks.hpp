// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "readers/text/byte_stream.hpp"
#include "strata/util/log.hpp"
#include "strata/util/scratch.hpp"
#include "strata/util/threads.hpp"
#include "strata/util/types.hpp"

namespace strata::graph {

/// Whole lines of a file. `offset` is the number of bytes of (inflated) text before them, `line` the number
/// of their first line, from 1.
struct Block {
  std::string text;
  std::size_t offset = 0;
  Count line = 1;

  void drop(std::size_t bytes) {
    text.erase(0, bytes);
    offset += bytes;
  }
};

/// A file, compressed or not, as blocks that end with a line. Shows progress on a terminal.
///
/// Lines end with "\n", "\r\n", or "\r" as classic Mac OS wrote them, which is replaced by "\n". A byte order
/// mark is left out.
class LineBlocks {
 public:
  static constexpr std::size_t kMostBytes = std::size_t{4} << 20;

  /// A block has about `block_bytes` or less. Throws as open_bytes().
  explicit LineBlocks(const std::filesystem::path& path, std::size_t block_bytes = kMostBytes);

  /// Reads the next block; false at the end of the file. The block grows for lines that are longer than a
  /// block. Throws InputError for damaged compression, a tar archive, UTF-16, and for a line of more than
  /// 256 MiB.
  bool next(Block& block);

  const std::string& path() const { return path_; }
  /// The share of the file that was read so far, in (0, 1].
  double share_read() const;

 private:
  void read_more(std::string& block);
  void begin_text(std::string& block);

  std::string path_, rest_;
  std::int64_t file_bytes_ = 0, shown_bytes_ = 0;
  std::unique_ptr<ByteStream> bytes_;
  ProgressBar progress_;
  std::size_t offset_ = 0;  ///< of rest_
  Count line_ = 1;          ///< of rest_
  std::size_t most_;        ///< to read at a time
  std::size_t piece_;       ///< to read next; many files are small
  bool ended_ = false;
};

/// The size of blocks such that two per thread, with what is parsed from them, take no more than the
/// buffers of `scratch`; without it the usual one.
std::size_t block_bytes_within(const ScratchStore* scratch, const ThreadPool& pool);

/// Cuts text into lines without their ends; "\r\n" ends a line, too, and so does "\r\r\n", which a text mode
/// wrote twice.
class Lines {
 public:
  explicit Lines(std::string_view text) : text_(text) {}
  bool next(std::string_view& line) {
    if (text_.empty()) return false;
    const std::size_t end = text_.find('\n');
    line = text_.substr(0, end);
    text_.remove_prefix(end == std::string_view::npos ? text_.size() : end + 1);
    while (line.ends_with('\r')) line.remove_suffix(1);
    return true;
  }

 private:
  std::string_view text_;
};

/// The place of a field in a file, for messages.
struct Place {
  const std::string& path;
  Count line = 0;                          ///< from 1
  const char* begin = nullptr;             ///< of the line
  std::optional<std::size_t> offset = {};  ///< of the line in the text, where it is known

  [[noreturn]] void refuse(const std::string& what, std::string remedy = "Correct the line.") const;
  void require_utf8(std::string_view field) const;
};

/// The place of a line of `block`.
inline Place place_of(std::string_view line, Count number, const Block& block, const std::string& path) {
  return {path, number, line.data(), block.offset + at(line.data() - block.text.data())};
}

/// Parses the blocks of a file with all threads and takes the results in the order of the file.
///
/// `parse(block, piece)` may run in any thread and fills the piece; `take(piece)` runs in this one. Two
/// blocks per thread are in memory at a time.
template <typename Piece>
void parse_blocks(LineBlocks& blocks, ThreadPool& pool,
                  const std::function<void(const Block&, Piece&)>& parse,
                  const std::function<void(Piece&)>& take) {
  std::vector<Block> batch(at(2 * pool.num_threads()));
  std::size_t filled = 0;
  do {
    filled = 0;
    while (filled < batch.size() && blocks.next(batch[filled])) ++filled;
    std::vector<Piece> pieces(filled);
    pool.parallel_for(static_cast<Count>(filled), 1, [&](Count begin, Count end) {
      for (auto b = at(begin); b < at(end); ++b) parse(batch[b], pieces[b]);
    });
    for (Piece& piece : pieces) take(piece);
  } while (filled == batch.size());
}

}  // namespace strata::graph
