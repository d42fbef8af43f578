// SPDX-License-Identifier: Apache-2.0
#include "readers/csv.hpp"

#include <fmt/format.h>
#include <spdlog/spdlog.h>
#include <zlib.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <limits>
#include <span>
#include <string_view>
#include <system_error>
#include <type_traits>
#include <utility>

#include "strata/util/error.hpp"
#include "strata/util/format.hpp"
#include "strata/util/memory.hpp"
#include "strata/util/utf8.hpp"

namespace strata::graph {
namespace {

constexpr std::size_t kBlockBytes = std::size_t{4} << 20;

constexpr std::size_t kLongestLine = std::size_t{256} << 20;

/// Whole lines of a file. `offset` is the number of bytes of (inflated) text before them.
struct Block {
  std::string text;
  std::size_t offset = 0;

  void drop(std::size_t bytes) {
    text.erase(0, bytes);
    offset += bytes;
  }
};

/// Refuses an empty file: a full disk or an interrupted copy leaves such a file, so it is not a table without
/// rows.
void check_file(const std::filesystem::path& path) {
  std::error_code error;
  const bool regular = std::filesystem::is_regular_file(path, error);
  if (error || !regular)
    throw InputError(fmt::format("{}: cannot be opened: {}", path.string(),
                                 error ? error.message() : "it is not a regular file"),
                     "Check that the file exists and can be read.");
  if (std::filesystem::file_size(path, error) == 0)
    throw InputError(fmt::format("{}: empty file (0 bytes)", path.string()),
                     "Copy or download it again. A table that has no rows is written as gzip of no text.");
}

/// A gzip or plain file as blocks that end with a line.
class LineBlocks {
 public:
  explicit LineBlocks(const std::filesystem::path& path) : path_(path.string()) {
    check_file(path);
    file_ = gzopen(path.c_str(), "rb");
    if (file_ == nullptr)
      throw InputError(
          fmt::format("{}: cannot be opened: {}", path_, std::strerror(errno == 0 ? EINVAL : errno)),
          "Check that the file exists and can be read.");
    gzbuffer(file_, 1u << 18);
  }
  ~LineBlocks() { gzclose_r(file_); }
  LineBlocks(const LineBlocks&) = delete;
  LineBlocks& operator=(const LineBlocks&) = delete;

  /// Reads the next block; false at the end of the file. The block grows for lines that are longer than a
  /// block.
  bool next(Block& block) {
    std::string& text = block.text;
    text = std::exchange(rest_, {});
    block.offset = offset_;
    std::size_t end = 0;
    while (!ended_ && end == 0) {
      const std::size_t old = text.size();
      if (old > kLongestLine)
        throw InputError(
            fmt::format("{}: no line ends within {} bytes from offset {} on", path_, old, offset_),
            "This is not a table of numbers.");
      read_more(text);
      if (const std::size_t found = std::string_view(text).substr(old).rfind('\n');
          found != std::string::npos)
        end = old + found + 1;
    }
    if (!ended_) {
      rest_ = text.substr(end);
      text.resize(end);
    }
    offset_ += text.size();
    return !text.empty();
  }

 private:
  void read_more(std::string& block) {
    const std::size_t old = block.size();
    block.resize(old + piece_);
    const int got = gzread(file_, block.data() + old, static_cast<unsigned>(piece_));
    int code = Z_OK;
    const char* const text = gzerror(file_, &code);
    if (got < 0 || (static_cast<std::size_t>(got) < piece_ && code != Z_OK && code != Z_STREAM_END))
      throw InputError(fmt::format("{}: damaged or truncated gzip file: {}", path_, text),
                       "Copy or download the file again.");
    block.resize(old + static_cast<std::size_t>(got));
    ended_ = got == 0;
    piece_ = std::min(4 * piece_, kBlockBytes);
  }

  std::string path_, rest_;
  gzFile file_ = nullptr;
  std::size_t offset_ = 0;         ///< of rest_
  std::size_t piece_ = 64u << 10;  ///< to read next; many files are small
  bool ended_ = false;
};

/// Cuts text into lines without their ends; "\r\n" ends a line, too.
class Lines {
 public:
  explicit Lines(std::string_view text) : text_(text) {}
  bool next(std::string_view& line) {
    if (text_.empty()) return false;
    const std::size_t end = text_.find('\n');
    line = text_.substr(0, end);
    text_.remove_prefix(end == std::string_view::npos ? text_.size() : end + 1);
    if (line.ends_with('\r')) line.remove_suffix(1);
    return true;
  }

 private:
  std::string_view text_;
};

Count count_lines(std::string_view block) {
  const auto ends = std::count(block.begin(), block.end(), '\n');
  return ends + (!block.empty() && block.back() != '\n');
}

struct Place {
  const std::string& path;
  Count line = 0;               ///< from 1
  const char* begin = nullptr;  ///< of the line
  std::size_t offset = 0;       ///< of the line in the text

  [[noreturn]] void refuse(const std::string& what, std::string remedy = "Correct the line.") const {
    throw InputError(fmt::format("{}:{}: {}", path, line, what), std::move(remedy));
  }
  void require_utf8(std::string_view field) const {
    if (const auto bad = first_invalid_utf8(field))
      refuse(
          fmt::format("byte 0x{:02x} at offset {} is not UTF-8 text", static_cast<unsigned char>(field[*bad]),
                      offset + static_cast<std::size_t>(field.data() - begin) + *bad),
          "Write the file again as plain text.");
  }
};

/// Whether a field is the name of a column, as in the first line of other programs' files.
bool is_column_name(std::string_view field) {
  const std::size_t first = field.find_first_not_of(" \"'");
  if (first == std::string_view::npos) return false;
  field.remove_prefix(first);
  const bool letter = std::isalpha(static_cast<unsigned char>(field[0])) != 0 || field[0] == '_';
  double number = 0;  // "nan" and "inf" are numbers, "index" is a name
  const char* const end = field.data() + field.size();
  const auto [stop, error] = std::from_chars(field.data(), end, number);
  const bool is_number =
      error == std::errc{} && (stop == end || std::isalnum(static_cast<unsigned char>(*stop)) == 0);
  return letter && !is_number;
}

bool is_header(std::string_view line) {
  while (true) {
    const std::size_t comma = line.find(',');
    if (!is_column_name(line.substr(0, comma))) return false;
    if (comma == std::string_view::npos) return true;
    line.remove_prefix(comma + 1);
  }
}

template <typename T>
const char* parse_field(const char* at, const char* end, T& value, const Place& place, Count column) {
  // fast path: bags of words are full of these
  if (at != end && *at >= '0' && *at <= '9' && (at + 1 == end || at[1] == ',')) {
    value = static_cast<T>(*at - '0');
    return at + 1;
  }
  while (at != end && *at == ' ') ++at;
  if constexpr (std::is_floating_point_v<T>) {
    if (at == end || *at == ',') {
      value = std::numeric_limits<T>::quiet_NaN();
      return at;
    }
  }
  if (at != end && *at == '+') ++at;
  auto [next, error] = std::from_chars(at, end, value);
  while (next != end && *next == ' ') ++next;
  if (error == std::errc{} && (next == end || *next == ',')) return next;
  const std::string_view field(at, static_cast<std::size_t>(std::find(at, end, ',') - at));
  place.require_utf8(field);
  const bool out_of_range = error == std::errc::result_out_of_range;
  place.refuse(fmt::format("column {}: '{}' is not {}{}", column + 1, printable(field.substr(0, 40)),
                           std::is_floating_point_v<T> ? "a number" : "an integer",
                           out_of_range ? " in range" : ""));
}

template <typename T>
void parse_line(std::string_view line, Count cols, T* out, const Place& place) {
  const char* at = line.data();
  const char* const end = at + line.size();
  for (Count column = 0; column < cols; ++column) {
    at = parse_field(at, end, out[column], place, column);
    const bool last = column + 1 == cols;
    if (last && at != end) place.refuse(fmt::format("more than {} columns", cols));
    if (!last && at == end) place.refuse(fmt::format("{} columns, but {} are expected", column + 1, cols));
    if (!last) ++at;
  }
}

/// Room for `rows` lines, but never more than a file of this size can hold (deflate packs at most 1032 bytes
/// into one).
std::size_t room_for(const std::string& path, Count rows, Count cols) {
  const std::size_t most = std::filesystem::file_size(path) * 1032 / 2 + 1;
  std::size_t wanted = 0;
  if (rows < 0 ||
      __builtin_mul_overflow(static_cast<std::size_t>(rows), static_cast<std::size_t>(cols), &wanted))
    return most;
  return std::min(wanted, most);
}

template <typename T>
class Reader {
 public:
  Reader(const std::filesystem::path& path, const CsvExpectation& expected, ThreadPool& pool)
      : path_(path.string()), expected_(expected), pool_(pool), blocks_(path) {}

  CsvTable<T> read() {
    std::vector<Block> batch(static_cast<std::size_t>(2 * pool_.num_threads()));
    std::size_t filled = 0;
    do {
      filled = 0;
      while (filled < batch.size() && blocks_.next(batch[filled])) ++filled;
      parse(std::span(batch).first(filled));
    } while (filled == batch.size());
    if (expected_.rows && table_.rows < *expected_.rows)
      throw InputError(fmt::format("{}: {} lines, but {} states {}", path_, table_.rows, expected_.rows_from,
                                   *expected_.rows),
                       "Copy the file again, or correct the stated number.");
    return std::move(table_);
  }

 private:
  void parse(std::span<Block> blocks) {
    if (table_.rows == 0 && !blocks.empty()) begin(blocks.front());
    std::vector<Count> first_row{table_.rows};
    for (const Block& block : blocks) first_row.push_back(first_row.back() + count_lines(block.text));
    if (first_row.back() == table_.rows) return;
    if (table_.cols == 0)
      take_columns(
          std::ranges::find_if(blocks, [](const Block& block) { return !block.text.empty(); })->text);
    if (expected_.rows && first_row.back() > *expected_.rows)
      Place{path_, *expected_.rows + first_line_}.refuse(
          fmt::format("a further line, but {} states {}", expected_.rows_from, *expected_.rows),
          "Copy the file again, or correct the stated number.");
    check_memory(first_row.back());
    table_.rows = first_row.back();
    table_.values.resize(static_cast<std::size_t>(table_.rows * table_.cols));
    pool_.parallel_for(static_cast<Count>(blocks.size()), 1, [&](Count begin, Count end) {
      for (Count b = begin; b < end; ++b)
        parse_block(blocks[static_cast<std::size_t>(b)], first_row[static_cast<std::size_t>(b)]);
    });
  }

  /// Skips what comes before the first number: a byte order mark, a line of column names.
  void begin(Block& block) {
    block.drop(block.text.size() - without_byte_order_mark(block.text).size());
    std::string_view line;
    if (!Lines(block.text).next(line)) return;
    if (line.starts_with("\xff\xfe") || line.starts_with("\xfe\xff"))
      Place{path_, 1}.refuse("this is UTF-16 text", "Save it as UTF-8: `iconv -f utf-16 -t utf-8`.");
    if (!is_header(line) || first_invalid_utf8(line)) return;
    spdlog::warn("{}:1: taken for names of columns, not read: {}", path_, printable(line.substr(0, 80)));
    block.drop(std::min(block.text.find('\n'), block.text.size() - 1) + 1);
    first_line_ = 2;
  }

  void take_columns(std::string_view block) {
    std::string_view line;
    Lines(block).next(line);
    table_.cols = std::count(line.begin(), line.end(), ',') + 1;
    if (expected_.cols && table_.cols != *expected_.cols)
      Place{path_, first_line_}.refuse(
          fmt::format("{} columns, but {} are expected", table_.cols, *expected_.cols));
    if (!expected_.rows) return;
    const std::size_t free = static_cast<std::size_t>(available_host_bytes()) / sizeof(T);
    table_.values.reserve(std::min(free, room_for(path_, *expected_.rows, table_.cols)));
  }

  /// Throws OutOfMemory in time, because a file of some GiB can inflate to a thousand times its size.
  void check_memory(Count rows) const {
    const std::size_t values = static_cast<std::size_t>(rows) * static_cast<std::size_t>(table_.cols);
    if (values <= table_.values.capacity()) return;
    const std::int64_t free = available_host_bytes();
    if (values > static_cast<std::size_t>(free) / sizeof(T))
      throw OutOfMemory(
          fmt::format("{}: no room for its first {} lines of {} columns: wanted {}, free {}", path_,
                      format_count(rows), table_.cols,
                      format_bytes(static_cast<std::int64_t>(values * sizeof(T))), format_bytes(free)),
          "Use a host with more memory, or npy files.");
  }

  void parse_block(const Block& block, Count row) {
    Lines lines(block.text);
    for (std::string_view line; lines.next(line); ++row) {
      const Place place{path_, row + first_line_, line.data(),
                        block.offset + static_cast<std::size_t>(line.data() - block.text.data())};
      if (line.empty() && !std::is_floating_point_v<T>) place.refuse("empty line");
      parse_line(line, table_.cols, table_.values.data() + row * table_.cols, place);
    }
  }

  std::string path_;
  CsvExpectation expected_;
  ThreadPool& pool_;
  LineBlocks blocks_;
  Count first_line_ = 1;  ///< of numbers
  CsvTable<T> table_;
};

}  // namespace

template <typename T>
CsvTable<T> read_csv(const std::filesystem::path& path, const CsvExpectation& expected, ThreadPool& pool) {
  return Reader<T>(path, expected, pool).read();
}

template CsvTable<NodeId> read_csv(const std::filesystem::path&, const CsvExpectation&, ThreadPool&);
template CsvTable<float> read_csv(const std::filesystem::path&, const CsvExpectation&, ThreadPool&);
template CsvTable<double> read_csv(const std::filesystem::path&, const CsvExpectation&, ThreadPool&);

}  // namespace strata::graph
