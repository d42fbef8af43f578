// SPDX-License-Identifier: Apache-2.0
#include "readers/csv.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <charconv>
#include <limits>
#include <span>
#include <string_view>
#include <system_error>
#include <type_traits>

#include "readers/text/line_blocks.hpp"
#include "readers/text/table_layout.hpp"
#include "strata/util/error.hpp"
#include "strata/util/system.hpp"
#include "strata/util/text.hpp"

namespace strata::graph {
namespace {

Count count_lines(std::string_view block) {
  const auto ends = std::count(block.begin(), block.end(), '\n');
  return ends + (!block.empty() && block.back() != '\n');
}

/// Blank lines at the end of text, and where they begin.
struct BlankEnd {
  Count lines = 0;
  bool whole = false;  ///< there is nothing else
};
BlankEnd blank_end(std::string_view text) {
  std::size_t end = text.size(), begin = end;
  while (end > 0 && (text[end - 1] == ' ' || text[end - 1] == '\r' || text[end - 1] == '\n')) begin = --end;
  if (begin == 0) return {count_lines(text), true};
  const std::size_t line_end = text.find('\n', begin);
  return {line_end == text.npos ? 0 : count_lines(text.substr(line_end + 1)), false};
}

TableRules csv_rules() { return {.are_names = are_column_names}; }

/// Parses the fields of lines. A value.
template <typename T>
class FieldParser {
 public:
  FieldParser() = default;
  FieldParser(char separator, Count file_cols, const std::vector<int>& columns)
      : separator_(separator), blanks_(separator == ' '), file_cols_(file_cols) {
    if (columns.empty()) return;
    wanted_.resize(static_cast<std::size_t>(file_cols));
    for (const int column : columns) wanted_[static_cast<std::size_t>(column)] = true;
  }

  void parse_line(std::string_view line, T* out, const Place& place) const {
    const char* at = line.data();
    const char* const end = at + line.size();
    for (Count column = 0; column < file_cols_; ++column) {
      if (wanted_.empty() || wanted_[static_cast<std::size_t>(column)])
        at = parse_field(at, end, *out++, place, column);
      else
        at = skip_field(at, end, place);
      if (blanks_) at = skip_blanks(at, end);
      const bool last = column + 1 == file_cols_;
      if (last && at != end) place.refuse(fmt::format("more than {}", counted(file_cols_, "column")));
      if (!last && at == end)
        place.refuse(fmt::format("{}, but {} are expected", counted(column + 1, "column"), file_cols_));
      if (!last && !blanks_) ++at;
    }
  }

 private:
  const char* skip_blanks(const char* at, const char* end) const {
    while (at != end && (*at == ' ' || (*at == '\t' && separator_ != '\t'))) ++at;
    return at;
  }
  bool ends_field(const char* at, const char* end) const {
    return at == end || *at == separator_ || (blanks_ && *at == '\t');
  }
  const char* find_end(const char* at, const char* end) const {
    while (!ends_field(at, end)) ++at;
    return at;
  }

  const char* parse_field(const char* at, const char* end, T& value, const Place& place, Count column) const {
    // This is a fast path: bags of words are full of single digits.
    if (at != end && *at >= '0' && *at <= '9' && (at + 1 == end || at[1] == separator_)) {
      value = static_cast<T>(*at - '0');
      return at + 1;
    }
    at = skip_blanks(at, end);
    if (at != end && *at == '"') return parse_quoted(at, end, value, place, column);
    const char* const next = parse_number(at, end, value);
    if (next != nullptr && ends_field(next, end)) return next;
    const char* const stop = find_end(at, end);
    take_word({at, static_cast<std::size_t>(stop - at)}, value, place, column);
    return stop;
  }

  /// The end of the number and of blanks behind it; null if there is none in range.
  const char* parse_number(const char* at, const char* end, T& value) const {
    if (at != end && *at == '+') ++at;
    const auto [next, error] = std::from_chars(at, end, value);
    if (error != std::errc{}) return nullptr;
    return blanks_ ? next : skip_blanks(next, end);
  }

  const char* parse_quoted(const char* at, const char* end, T& value, const Place& place,
                           Count column) const {
    const char* const stop = skip_field(at, end, place);
    const char* const close = std::find(at + 1, end, '"');
    const char* const first = skip_blanks(at + 1, close);
    const bool text = close + 1 != end && close[1] == '"';  // a quotation mark within
    const char* next = text ? nullptr : parse_number(first, close, value);
    if (next != nullptr) next = skip_blanks(next, close);
    if (next != close)
      take_word({first, static_cast<std::size_t>((text ? stop : close) - first)}, value, place, column);
    return stop;
  }

  /// Passes over a field, and over the separator within its quotes.
  const char* skip_field(const char* at, const char* end, const Place& place) const {
    at = skip_blanks(at, end);
    if (at == end || *at != '"') return find_end(at, end);
    const char* close = std::find(at + 1, end, '"');
    while (close != end && close + 1 != end && close[1] == '"') close = std::find(close + 2, end, '"');
    if (close == end) place.refuse("a quotation mark is not closed");
    const char* const next = blanks_ ? close + 1 : skip_blanks(close + 1, end);
    if (!ends_field(next, end)) place.refuse("text behind a closing quotation mark");
    return next;
  }

  /// Takes a missing value, and refuses any other word.
  void take_word(std::string_view field, T& value, const Place& place, Count column) const {
    while (!field.empty() && (field.back() == ' ' || field.back() == '\t')) field.remove_suffix(1);
    if constexpr (std::is_floating_point_v<T>) {
      if (is_missing(field)) {
        value = std::numeric_limits<T>::quiet_NaN();
        return;
      }
    }
    place.require_utf8(field);
    T ignored{};
    const bool out_of_range = std::from_chars(field.data(), field.data() + field.size(), ignored).ec ==
                              std::errc::result_out_of_range;
    place.refuse(fmt::format("column {}: '{}' is not {}{}", column + 1, printable(field.substr(0, 40)),
                             std::is_floating_point_v<T> ? "a number" : "an integer",
                             out_of_range ? " in range" : ""));
  }

  char separator_ = ',';
  bool blanks_ = false;
  Count file_cols_ = 0;
  std::vector<bool> wanted_;  ///< by column; empty: all
};

/// The size to reserve for `rows` lines, but never more than a file of this size can hold (deflate packs at
/// most 1032 bytes into one).
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

  /// Passes the parsed rows on, and returns their number.
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
    take_blank_end();
    if (expected_.rows && table_.rows < *expected_.rows)
      throw InputError(fmt::format("{}: {}{}, but {} states {}", path_, counted(table_.rows, "line"),
                                   has_names_ ? " behind the names of columns" : "", expected_.rows_from,
                                   format_count(*expected_.rows)),
                       "Copy the file again, or correct the stated number.");
  }

  void parse(std::span<Block> blocks) {
    for (Block& block : blocks)
      if (!begun_) begin(block);
    std::vector<Count> first_row{table_.rows + blank_};  // of each block; the end of the last one
    for (const Block& block : blocks) first_row.push_back(first_row.back() + count_lines(block.text));
    const Count end = first_row.back();
    Count blank = 0;  // at the end, which may be no rows
    for (std::size_t b = blocks.size(); b-- > 0;) {
      const BlankEnd here = blank_end(blocks[b].text);
      blank += here.lines;
      if (!here.whole) break;
    }
    if (end - blank == table_.rows + blank_) blank += blank_;  // only such lines
    const Count rows = end - blank;
    if (rows == table_.rows) {
      blank_ = blank;
      return;
    }
    if (expected_.rows && rows > *expected_.rows)
      Place{path_, *expected_.rows + first_line_}.refuse(
          fmt::format("a further line, but {} states {}", expected_.rows_from, *expected_.rows),
          "Copy the file again, or correct the stated number.");
    check_memory(rows);
    const Count begin = table_.rows + blank_;
    grow(rows);
    fill_blank(table_.rows, begin);
    for (Count& row : first_row) row = std::min(row, rows);
    table_.rows = rows;
    blank_ = blank;
    pool_.parallel_for(static_cast<Count>(blocks.size()), 1, [&](Count from, Count to) {
      for (auto b = static_cast<std::size_t>(from); b < static_cast<std::size_t>(to); ++b)
        parse_block(blocks[b], first_row[b], first_row[b + 1]);
    });
    give();
  }

  void grow(Count rows) {
    table_.values.resize(static_cast<std::size_t>((rows - first_held_) * table_.cols));
  }

  void give() {
    if (take_ == nullptr) return;
    (*take_)({.values = table_.values,
              .cols = table_.cols,
              .share_read = blocks_.share_read(),
              .first_row = first_held_});
    table_.values.clear();
    first_held_ = table_.rows;
  }

  /// Rows of a single column may be blank: their value is missing.
  void fill_blank(Count first, Count end) {
    if (first == end) return;
    if (!std::is_floating_point_v<T> || file_cols_ != 1)
      Place{path_, first + first_line_}.refuse("empty line");
    std::fill(table_.values.begin() + (first - first_held_) * table_.cols,
              table_.values.begin() + (end - first_held_) * table_.cols, std::numeric_limits<T>::quiet_NaN());
  }

  /// Blank lines at the end are rows as far as rows are wanted.
  void take_blank_end() {
    if (!std::is_floating_point_v<T> || file_cols_ != 1 || !expected_.rows) return;
    const Count rows = std::min(table_.rows + blank_, *expected_.rows);
    if (rows <= table_.rows) return;
    grow(rows);
    fill_blank(table_.rows, rows);
    table_.rows = rows;
    give();
  }

  /// Looks at the first lines, and drops what comes before the first values.
  void begin(Block& block) {
    const TableLayout layout = layout_of(block, path_, csv_rules());
    first_line_ = layout.first_line;
    block.drop(layout.values_at);
    begun_ = layout.cols > 0;
    if (!begun_) return;
    has_names_ = !layout.names.empty();
    if (has_names_ && expected_.columns.empty())
      spdlog::warn("{}:{}: taken for names of columns, not read: {}", path_, first_line_ - 1,
                   printable(fmt::format("{}", fmt::join(layout.names, ","))).substr(0, 80));
    file_cols_ = layout.cols;
    if (!expected_.columns.empty() && expected_.columns.back() >= file_cols_)
      Place{path_, first_line_}.refuse(fmt::format("{}, but column {} is wanted, counted from 0",
                                                   counted(file_cols_, "column"), expected_.columns.back()));
    table_.cols = expected_.columns.empty() ? file_cols_ : std::ssize(expected_.columns);
    parser_ = FieldParser<T>(layout.separator[0], file_cols_, expected_.columns);
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

  void parse_block(const Block& block, Count row, Count end) {
    Lines lines(block.text);
    for (std::string_view line; row < end && lines.next(line); ++row) {
      const Place place = place_of(line, row + first_line_, block, path_);
      if (line.empty() && !std::is_floating_point_v<T>) place.refuse("empty line");
      parser_.parse_line(line, table_.values.data() + (row - first_held_) * table_.cols, place);
    }
  }

  std::string path_;
  CsvExpectation expected_;
  ThreadPool& pool_;
  LineBlocks blocks_;
  const Take* take_ = nullptr;
  FieldParser<T> parser_;
  bool begun_ = false, has_names_ = false;
  Count first_line_ = 1;  ///< of numbers
  Count first_held_ = 0;  ///< row of the first value in the table
  Count blank_ = 0;       ///< lines behind the rows so far, which are rows if others follow
  Count file_cols_ = 0;
  CsvTable<T> table_;
};

}  // namespace

TableLayout csv_layout(const std::filesystem::path& path) {
  LineBlocks blocks(path);
  Block block;
  TableLayout layout;
  while (layout.cols == 0 && blocks.next(block)) layout = layout_of(block, path.string(), csv_rules());
  return layout;
}

CsvRows count_csv_rows(const std::filesystem::path& path) {
  LineBlocks blocks(path);
  Block block;
  CsvRows found;
  bool begun = false;
  while (blocks.next(block)) {
    if (!begun) {
      const TableLayout layout = layout_of(block, path.string(), csv_rules());
      begun = layout.cols > 0;
      block.drop(layout.values_at);
    }
    const BlankEnd end = blank_end(block.text);
    if (!end.whole) {
      found.rows += found.blank_at_end + count_lines(block.text) - end.lines;
      found.blank_at_end = 0;
    }
    found.blank_at_end += end.lines;
  }
  return found;
}

template <typename T>
CsvTable<T> read_csv(const std::filesystem::path& path, const CsvExpectation& expected, ThreadPool& pool) {
  return Reader<T>(path, expected, pool).read();
}

template <typename T>
Count read_csv_pieces(const std::filesystem::path& path, const CsvExpectation& expected, ThreadPool& pool,
                      const ScratchStore* scratch, const std::function<void(const CsvPiece<T>&)>& take) {
  constexpr std::size_t kBlocks =
      std::is_same_v<T, double> ? 8 : 1;  // a digit of a matrix of labels takes 8 bytes
  return Reader<T>(path, expected, pool, block_bytes_within(scratch, pool) / kBlocks).read_pieces(take);
}

template CsvTable<NodeId> read_csv(const std::filesystem::path&, const CsvExpectation&, ThreadPool&);
template CsvTable<float> read_csv(const std::filesystem::path&, const CsvExpectation&, ThreadPool&);
template CsvTable<double> read_csv(const std::filesystem::path&, const CsvExpectation&, ThreadPool&);

template Count read_csv_pieces(const std::filesystem::path&, const CsvExpectation&, ThreadPool&,
                               const ScratchStore*, const std::function<void(const CsvPiece<NodeId>&)>&);
template Count read_csv_pieces(const std::filesystem::path&, const CsvExpectation&, ThreadPool&,
                               const ScratchStore*, const std::function<void(const CsvPiece<float>&)>&);
template Count read_csv_pieces(const std::filesystem::path&, const CsvExpectation&, ThreadPool&,
                               const ScratchStore*, const std::function<void(const CsvPiece<double>&)>&);

}  // namespace strata::graph
