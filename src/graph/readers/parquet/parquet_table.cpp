// SPDX-License-Identifier: Apache-2.0
#include "readers/parquet/parquet_table.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <new>

#include "readers/parquet/open_parquet.hpp"
#include "strata/util/error.hpp"
#include "strata/util/log.hpp"
#include "strata/util/text.hpp"

namespace strata::graph {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kEnding = ".parquet";

/// The files of a folder whose names begin so. Other programs leave hidden files beside their own.
std::vector<fs::path> files_in(const fs::path& folder, std::string_view beginning) {
  std::vector<fs::path> files;
  std::error_code code;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder, code)) {
    const std::string name = entry.path().filename().string();
    if (entry.is_regular_file(code) && name.ends_with(kEnding) && name.starts_with(beginning) &&
        !name.starts_with('.') && !name.starts_with('_'))
      files.push_back(entry.path());
  }
  std::ranges::sort(files);
  return files;
}

void require_same(const std::vector<ParquetColumn>& columns, const fs::path& file,
                  const std::vector<ParquetColumn>& of_first, const fs::path& first) {
  const auto refuse = [&](const std::string& what) {
    throw InputError(fmt::format("{}: {}", file.string(), what),
                     "Write all files of a table with the same columns.");
  };
  if (columns.size() != of_first.size())
    refuse(fmt::format("{}, but {} has {}", counted(std::ssize(columns), "column"), first.string(),
                       of_first.size()));
  for (std::size_t i = 0; i < columns.size(); ++i) {
    const ParquetColumn &a = columns[i], &b = of_first[i];
    if (a.name != b.name || a.kind != b.kind || a.lists != b.lists)
      refuse(fmt::format("column {} is '{}' of type {}, but '{}' of type {} in {}", i, printable(a.name),
                         a.type, printable(b.name), b.type, first.string()));
  }
}

/// Runs work that Arrow may refuse; `place` names where that happened.
template <typename Work>
decltype(auto) guarded(const std::function<std::string()>& place, Work&& work) {
  try {
    return work();
  } catch (const std::bad_alloc&) {
    throw;
  } catch (const std::exception& error) {
    throw InputError(fmt::format("{}: {}", place(), printable(error.what())),
                     "Write or copy the file again.");
  }
}

}  // namespace

std::vector<fs::path> table_files(const fs::path& folder, const std::string& name) {
  const std::string file = name + std::string(kEnding);
  std::vector<std::vector<fs::path>> places{files_in(folder / name, ""), files_in(folder / file, ""),
                                            files_in(folder, name + "-")};
  std::error_code code;
  if (fs::is_regular_file(folder / file, code)) places.push_back({folder / file});
  std::erase_if(places, [](const auto& files) { return files.empty(); });
  if (places.size() > 1)
    throw InputError(fmt::format("{}: the table '{}' lies both in {} and in {}", folder.string(), name,
                                 places[0][0].string(), places[1][0].string()),
                     "Remove one of them.");
  return places.empty() ? std::vector<fs::path>{} : places[0];
}

std::string TablePiece::place(Count row, const std::string& column) const {
  return fmt::format("{}: row group {}, row {}, column '{}'", file.string(), row_group, first_of_group + row,
                     printable(column));
}

ParquetTable::ParquetTable(std::vector<fs::path> files) : files_(std::move(files)) {
  for (const fs::path& path : files_) {
    const auto file = open_parquet(path);
    const std::vector<ParquetColumn>& columns = file->columns();
    if (path == files_[0])
      columns_ = columns;
    else
      add(columns, path);
    for (const Count rows : file->row_groups()) rows_ += rows;
  }
}

std::string ParquetTable::origin() const {
  const std::string first = files_[0].string();
  return files_.size() == 1 ? first : fmt::format("{} and {} more", first, files_.size() - 1);
}

int ParquetTable::find(const std::string& name) const {
  const auto found = std::ranges::find(columns_, name, &ParquetColumn::name);
  return found == columns_.end() ? -1 : static_cast<int>(found - columns_.begin());
}

int ParquetTable::require(const std::string& name, const std::string& option) const {
  if (const int found = find(name); found >= 0) return found;
  std::vector<std::string> names;
  for (const ParquetColumn& column : columns_) names.push_back(printable(column.name));
  const std::string near = closest(name, names);
  throw InputError(fmt::format("{}: no column '{}', which {}= names", origin(), name, option),
                   near.empty() ? fmt::format("There are {}.", fmt::join(names, ", "))
                                : fmt::format("Did you mean '{}'?", near));
}

Count ParquetTable::width(int column) const {
  const ParquetColumn& of = columns_[at(column)];
  if (!of.lists || rows_ == 0) return 1;
  if (of.values % rows_ != 0)
    throw InputError(fmt::format("{}: column '{}' has {} values in {} rows: its lists have different lengths",
                                 origin(), printable(of.name), of.values, rows_),
                     "Write as many values in each row.");
  return of.values / rows_;
}

void ParquetTable::add(const std::vector<ParquetColumn>& columns, const fs::path& file) {
  require_same(columns, file, columns_, files_[0]);
  for (std::size_t i = 0; i < columns.size(); ++i) {
    columns_[i].values += columns[i].values;
    columns_[i].bytes += columns[i].bytes;
  }
}

void ParquetTable::read(const std::vector<ParquetWish>& wishes, Count values_at_once,
                        const std::function<void(const TablePiece&)>& take) const {
  constexpr Count kMostRows = Count{1} << 16;
  Count width = 1, done = 0;
  for (const ParquetWish& wish : wishes) width += wish.width;
  const Count rows_at_once = std::clamp<Count>(values_at_once / width, 1, kMostRows);
  ProgressBar progress("read " + files_[0].filename().string(), rows_, "rows");
  for (const fs::path& path : files_) {
    const auto file = open_parquet(path);
    require_same(file->columns(), path, columns_, files_[0]);  // it may have changed since
    for (int group = 0; group < static_cast<int>(std::ssize(file->row_groups())); ++group) {
      Count first = 0;
      const auto place = [&] {
        return fmt::format("{}: row group {}, from row {} on", path.string(), group, first);
      };
      const auto rows = guarded(place, [&] { return file->read(group, wishes, rows_at_once); });
      while (true) {
        const std::vector<ParquetPiece>& pieces = guarded(
            place, [&]() -> auto& { return rows->next(); });
        if (pieces.empty()) break;
        const Count count = pieces[0].rows;
        if (done + count > rows_) refuse_rows(done + count);
        take({.columns = pieces,
              .first_row = done,
              .share_read = static_cast<double>(done + count) / static_cast<double>(rows_),
              .file = path,
              .row_group = group,
              .first_of_group = first});
        done += count;
        first += count;
        progress.advance(count);
      }
    }
  }
  if (done != rows_) refuse_rows(done);
}

void ParquetTable::refuse_rows(Count read) const {
  throw InputError(fmt::format("{}: {} rows, but {} are stated", origin(), read, rows_),
                   "Write or copy it again.");
}

}  // namespace strata::graph
