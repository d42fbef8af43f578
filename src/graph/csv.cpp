#include "csv.hpp"

#include <fmt/format.h>
#include <zlib.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <limits>
#include <span>
#include <string_view>
#include <type_traits>
#include <utility>

#include "strata/util/error.hpp"

namespace strata::graph {
namespace {

constexpr std::size_t kBlockBytes = std::size_t{4} << 20;

/// A gzip or plain file as blocks that end with a line.
class LineBlocks {
 public:
  explicit LineBlocks(const std::filesystem::path& path)
      : path_(path.string()), file_(gzopen(path.c_str(), "rb")) {
    if (file_ == nullptr || !std::filesystem::is_regular_file(path)) {
      if (file_ != nullptr) gzclose_r(file_);
      throw InputError(
          fmt::format("{}: cannot be opened: {}", path_, std::strerror(errno == 0 ? EINVAL : errno)),
          "Check that the file exists and can be read.");
    }
    gzbuffer(file_, 1u << 18);
  }
  ~LineBlocks() { gzclose_r(file_); }
  LineBlocks(const LineBlocks&) = delete;
  LineBlocks& operator=(const LineBlocks&) = delete;

  /// False at the end of the file. A line longer than a block makes the block grow.
  bool next(std::string& block) {
    block = std::exchange(rest_, {});
    std::size_t end = 0;
    while (!ended_ && end == 0) {
      read_more(block);
      end = block.rfind('\n') + 1;
    }
    if (!ended_) {
      rest_ = block.substr(end);
      block.resize(end);
    }
    return !block.empty();
  }

 private:
  void read_more(std::string& block) {
    const std::size_t old = block.size();
    block.resize(old + kBlockBytes);
    const int got = gzread(file_, block.data() + old, static_cast<unsigned>(kBlockBytes));
    int code = Z_OK;
    const char* const text = gzerror(file_, &code);
    if (got < 0 || (static_cast<std::size_t>(got) < kBlockBytes && code != Z_OK && code != Z_STREAM_END))
      throw InputError(fmt::format("{}: damaged or truncated gzip file: {}", path_, text),
                       "Copy or download the file again.");
    block.resize(old + static_cast<std::size_t>(got));
    ended_ = got == 0;
  }

  std::string path_, rest_;
  gzFile file_;
  bool ended_ = false;
};

/// Cuts text into lines without their ends; "\r\n" ends a line too.
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
  Count line = 0;  ///< from 1

  [[noreturn]] void refuse(const std::string& what, std::string remedy = "Correct the line.") const {
    throw InputError(fmt::format("{}:{}: {}", path, line, what), std::move(remedy));
  }
};

template <typename T>
const char* parse_field(const char* at, const char* end, T& value, const Place& place, Count column) {
  if (at != end && *at >= '0' && *at <= '9' &&
      (at + 1 == end || at[1] == ',')) {  // bags of words are full of these
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
  const bool out_of_range = error == std::errc::result_out_of_range;
  place.refuse(fmt::format("column {}: '{}' is not {}{}", column + 1, field.substr(0, 40),
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

/// Room for `rows` lines, but never more than a file of this size can hold (deflate packs 1032 bytes into one
/// at best).
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
    std::vector<std::string> batch(static_cast<std::size_t>(2 * pool_.num_threads()));
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
  void parse(std::span<const std::string> blocks) {
    std::vector<Count> first_row{table_.rows};
    for (const std::string& block : blocks) first_row.push_back(first_row.back() + count_lines(block));
    if (first_row.back() == table_.rows) return;
    if (table_.rows == 0) take_columns(blocks.front());
    if (expected_.rows && first_row.back() > *expected_.rows)
      Place{path_, *expected_.rows + 1}.refuse(
          fmt::format("a further line, but {} states {}", expected_.rows_from, *expected_.rows),
          "Copy the file again, or correct the stated number.");
    table_.rows = first_row.back();
    table_.values.resize(static_cast<std::size_t>(table_.rows * table_.cols));
    pool_.parallel_for(static_cast<Count>(blocks.size()), 1, [&](Count begin, Count end) {
      for (Count b = begin; b < end; ++b)
        parse_block(blocks[static_cast<std::size_t>(b)], first_row[static_cast<std::size_t>(b)]);
    });
  }

  void take_columns(std::string_view block) {
    std::string_view line;
    Lines(block).next(line);
    table_.cols = std::count(line.begin(), line.end(), ',') + 1;
    if (expected_.cols && table_.cols != *expected_.cols)
      Place{path_, 1}.refuse(fmt::format("{} columns, but {} are expected", table_.cols, *expected_.cols));
    if (expected_.rows) table_.values.reserve(room_for(path_, *expected_.rows, table_.cols));
  }

  void parse_block(std::string_view block, Count row) {
    Lines lines(block);
    for (std::string_view line; lines.next(line); ++row) {
      const Place place{path_, row + 1};
      if (line.empty() && !std::is_floating_point_v<T>) place.refuse("empty line");
      parse_line(line, table_.cols, table_.values.data() + row * table_.cols, place);
    }
  }

  std::string path_;
  CsvExpectation expected_;
  ThreadPool& pool_;
  LineBlocks blocks_;
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
