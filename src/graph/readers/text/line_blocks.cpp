// SPDX-License-Identifier: Apache-2.0
#include "readers/text/line_blocks.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "strata/util/error.hpp"
#include "strata/util/files.hpp"
#include "strata/util/text.hpp"

namespace strata::graph {
namespace {

constexpr std::size_t kFirstPiece = std::size_t{64} << 10;
constexpr std::size_t kLongestLine = std::size_t{256} << 20;

std::int64_t size_of_file(const std::filesystem::path& path) {
  std::error_code error;
  const auto bytes = static_cast<std::int64_t>(std::filesystem::file_size(path, error));
  return error ? 0 : bytes;
}

/// Makes "\n" of each "\r" from `first` on that ends a line by itself. Returns where the undecided rest
/// begins: a "\r" at the end depends on the next bytes.
std::size_t end_lines(std::string& text, std::size_t first) {
  for (std::size_t at = text.find('\r', first); at != std::string::npos; at = text.find('\r', at)) {
    const std::size_t after = text.find_first_not_of('\r', at);
    if (after == std::string::npos) return at;
    if (text[after] != '\n') std::fill_n(text.begin() + static_cast<std::ptrdiff_t>(at), after - at, '\n');
    at = after;
  }
  return text.size();
}

}  // namespace

LineBlocks::LineBlocks(const std::filesystem::path& path, std::size_t block_bytes)
    : path_(path.string()),
      file_bytes_(size_of_file(path)),
      bytes_(open_bytes(path)),
      progress_("read " + path.filename().string(), file_bytes_, "bytes"),
      most_(std::max(block_bytes, kFirstPiece)),
      piece_(kFirstPiece) {}

std::size_t block_bytes_within(const ScratchStore* scratch, const ThreadPool& pool) {
  if (scratch == nullptr) return LineBlocks::kMostBytes;
  constexpr std::int64_t kParsedPerByte = 8;  // the text itself, ids of short lines, a growing vector's copy
  const std::int64_t bytes = scratch->buffer_limit() / (2 * pool.num_threads() * kParsedPerByte);
  return static_cast<std::size_t>(
      std::clamp<std::int64_t>(bytes, kFirstPiece, static_cast<std::int64_t>(LineBlocks::kMostBytes)));
}

bool LineBlocks::next(Block& block) {
  std::string& text = block.text;
  text = std::exchange(rest_, {});
  block.line = line_;
  std::size_t end = 0, known = 0;
  while (!ended_ && end == 0) {
    if (text.size() > kLongestLine)
      throw InputError(
          fmt::format("{}: no line ends within {} bytes from offset {} on", path_, text.size(), offset_),
          "This is not a table of numbers.");
    read_more(text);
    const std::size_t first = known;
    known = end_lines(text, first);
    if (const std::size_t found = std::string_view(text).substr(first).rfind('\n');
        found != std::string::npos)
      end = first + found + 1;
  }
  if (!ended_) {
    rest_ = text.substr(end);
    text.resize(end);
  }
  block.offset = offset_;
  offset_ += text.size();
  line_ += std::count(text.begin(), text.end(), '\n');
  return !text.empty();
}

double LineBlocks::share_read() const {
  if (ended_ || file_bytes_ == 0) return 1;
  return std::clamp(static_cast<double>(bytes_->file_bytes_read()) / static_cast<double>(file_bytes_), 1e-6,
                    1.0);
}

void LineBlocks::read_more(std::string& block) {
  const std::size_t old = block.size();
  block.resize(old + piece_);
  const std::size_t got = bytes_->read(block.data() + old, piece_);
  block.resize(old + got);
  ended_ = got == 0;
  if (shown_bytes_ == 0) begin_text(block);
  piece_ = std::min(4 * piece_, most_);
  const std::int64_t read = bytes_->file_bytes_read();
  progress_.advance(read - shown_bytes_);
  shown_bytes_ = read;
}

void LineBlocks::begin_text(std::string& block) {
  refuse_compressed(block, path_);
  if (block.starts_with("\xff\xfe") || block.starts_with("\xfe\xff"))
    Place{path_, 1}.refuse("this is UTF-16 text", "Save it as UTF-8: `iconv -f utf-16 -t utf-8`.");
  const std::size_t mark = block.size() - without_byte_order_mark(block).size();
  block.erase(0, mark);
  offset_ += mark;
}

void Place::refuse(const std::string& what, std::string remedy) const {
  const std::string where = offset ? fmt::format(" (the line begins at byte {})", *offset) : "";
  throw InputError(fmt::format("{}:{}: {}{}", path, line, what, where), std::move(remedy));
}

void Place::require_utf8(std::string_view field) const {
  if (const auto bad = first_invalid_utf8(field))
    refuse(
        fmt::format("byte 0x{:02x} at offset {} is not UTF-8 text", static_cast<unsigned char>(field[*bad]),
                    offset.value_or(0) + static_cast<std::size_t>(field.data() - begin) + *bad),
        "Write the file again as plain text.");
}

}  // namespace strata::graph
