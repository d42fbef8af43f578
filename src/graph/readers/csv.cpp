// SPDX-License-Identifier: Apache-2.0
#include "readers/csv.hpp"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <limits>
#include <span>
#include <string_view>
#include <system_error>
#include <type_traits>

#include "readers/text/line_blocks.hpp"
#include "strata/util/error.hpp"
#include "strata/util/format.hpp"
#include "strata/util/memory.hpp"
#include "strata/util/utf8.hpp"

namespace strata::graph {
namespace {

Count count_lines(std::string_view block) {
  const auto ends = std::count(block.begin(), block.end(), '\n');
  return ends + (!block.empty() && block.back() != '\n');
}

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
    if (last && at != end) place.refuse(fmt::format("more than {}", counted(cols, "column")));
    if (!last && at == end)
      place.refuse(fmt::format("{}, but {} are expected", counted(column + 1, "column"), cols));
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
  using Take = std::function<void(const CsvPiece<T>&)>;

  Reader(const std::filesystem::path& path, const CsvExpectation& expected, ThreadPool& pool,
         std::size_t block_bytes = LineBlocks::kMostBytes)
      : path_(path.string()), expected_(expected), pool_(pool), blocks_(path, block_bytes) {}

  CsvTable<T> read() {
    read_all();
    return std::move(table_);
  }

  /// Gives away what was parsed, and returns the number of rows.
  Count read_pieces(const Take& take) {
    take_ = &take;
    read_all();
    return table_.rows;
  }

 private:
  void read_all() {
    std::vector<Block> batch(static_cast<std::size_t>(2 * pool_.num_threads()));
    std::size_t filled = 0;
    do {
      filled = 0;
      while (filled < batch.size() && blocks_.next(batch[filled])) ++filled;
      parse(std::span(batch).first(filled));
    } while (filled == batch.size());
    if (expected_.rows && table_.rows < *expected_.rows)
      throw InputError(fmt::format("{}: {}, but {} states {}", path_, counted(table_.rows, "line"),
                                   expected_.rows_from, format_count(*expected_.rows)),
                       "Copy the file again, or correct the stated number.");
  }

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
    table_.values.resize(static_cast<std::size_t>((table_.rows - first_held_) * table_.cols));
    pool_.parallel_for(static_cast<Count>(blocks.size()), 1, [&](Count begin, Count end) {
      for (Count b = begin; b < end; ++b)
        parse_block(blocks[static_cast<std::size_t>(b)], first_row[static_cast<std::size_t>(b)]);
    });
    if (take_ == nullptr) return;
    (*take_)({.values = table_.values, .cols = table_.cols, .share_read = blocks_.share_read()});
    table_.values.clear();
    first_held_ = table_.rows;
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
          fmt::format("{}, but {} are expected", counted(table_.cols, "column"), *expected_.cols));
    if (!expected_.rows || take_ != nullptr) return;
    const std::size_t free = static_cast<std::size_t>(available_host_bytes()) / sizeof(T);
    table_.values.reserve(std::min(free, room_for(path_, *expected_.rows, table_.cols)));
  }

  /// Throws OutOfMemory in time, because a file of some GiB can inflate to a thousand times its size.
  void check_memory(Count rows) const {
    const std::size_t values =
        static_cast<std::size_t>(rows - first_held_) * static_cast<std::size_t>(table_.cols);
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
      const Place place = place_of(line, row + first_line_, block, path_);
      if (line.empty() && !std::is_floating_point_v<T>) place.refuse("empty line");
      parse_line(line, table_.cols, table_.values.data() + (row - first_held_) * table_.cols, place);
    }
  }

  std::string path_;
  CsvExpectation expected_;
  ThreadPool& pool_;
  LineBlocks blocks_;
  const Take* take_ = nullptr;
  Count first_line_ = 1;  ///< of numbers
  Count first_held_ = 0;  ///< row of the first value in the table
  CsvTable<T> table_;
};

}  // namespace

template <typename T>
CsvTable<T> read_csv(const std::filesystem::path& path, const CsvExpectation& expected, ThreadPool& pool) {
  return Reader<T>(path, expected, pool).read();
}

template <typename T>
Count read_csv_pieces(const std::filesystem::path& path, const CsvExpectation& expected, ThreadPool& pool,
                      const ScratchStore* scratch, const std::function<void(const CsvPiece<T>&)>& take) {
  return Reader<T>(path, expected, pool, block_bytes_within(scratch, pool)).read_pieces(take);
}

template CsvTable<NodeId> read_csv(const std::filesystem::path&, const CsvExpectation&, ThreadPool&);
template CsvTable<float> read_csv(const std::filesystem::path&, const CsvExpectation&, ThreadPool&);
template CsvTable<double> read_csv(const std::filesystem::path&, const CsvExpectation&, ThreadPool&);

template Count read_csv_pieces(const std::filesystem::path&, const CsvExpectation&, ThreadPool&,
                               const ScratchStore*, const std::function<void(const CsvPiece<NodeId>&)>&);
template Count read_csv_pieces(const std::filesystem::path&, const CsvExpectation&, ThreadPool&,
                               const ScratchStore*, const std::function<void(const CsvPiece<float>&)>&);

}  // namespace strata::graph
