// SPDX-License-Identifier: Apache-2.0
// This file is the library kParquetLibrary: ParquetFile by Arrow.
#include <arrow/io/file.h>
#include <arrow/memory_pool.h>
#include <arrow/record_batch.h>
#include <arrow/type.h>
#include <fmt/format.h>
#include <parquet/arrow/reader.h>
#include <parquet/arrow/schema.h>
#include <parquet/file_reader.h>
#include <parquet/properties.h>

#include <optional>
#include <stdexcept>

#include "readers/parquet/arrow_values.hpp"
#include "readers/parquet/parquet_file.hpp"

namespace strata::graph {
namespace {

void require(const arrow::Status& status) {
  if (!status.ok()) throw std::runtime_error(status.message());
}

template <typename T>
T take(arrow::Result<T> result) {
  require(result.status());
  return std::move(result).ValueUnsafe();
}

/// A column in the file, where the values of lists are a column below it.
struct Stored {
  ParquetColumn column;
  int leaf = -1;  ///< -1: it cannot be read
};

Stored describe(const parquet::arrow::SchemaField& field) {
  const arrow::DataType& type = *field.field->type();
  const auto in_lists = type_in_lists(type);
  Stored stored{
      .column = {.name = field.field->name(), .type = type.ToString(), .lists = in_lists != nullptr}};
  const parquet::arrow::SchemaField* const holder = in_lists ? &field.children.at(0) : &field;
  stored.column.kind = kind_of(in_lists ? *in_lists : type);
  if (stored.column.kind != ParquetColumn::Kind::other) stored.leaf = holder->column_index;
  return stored;
}

/// Reads each column with a reader of its own: all stay at the same row, and errors name their column.
class ArrowRows : public ParquetRows {
 public:
  struct Source {
    std::string column;
    ParquetWish wish;
    std::unique_ptr<arrow::RecordBatchReader> batches;
    std::shared_ptr<arrow::RecordBatch> batch = nullptr;  // what words are views of
  };

  explicit ArrowRows(std::vector<Source> sources) : sources_(std::move(sources)) {}

  const std::vector<ParquetPiece>& next() override {
    pieces_.clear();
    for (Source& source : sources_) {
      try {
        if (std::optional<ParquetPiece> piece = next_of(source)) pieces_.push_back(std::move(*piece));
      } catch (const std::exception& error) {
        throw std::runtime_error(fmt::format("column '{}': {}", source.column, error.what()));
      }
    }
    for (const ParquetPiece& piece : pieces_)
      if (pieces_.size() != sources_.size() || piece.rows != pieces_[0].rows)
        throw std::runtime_error("its columns have different numbers of rows");
    return pieces_;
  }

 private:
  static std::optional<ParquetPiece> next_of(Source& source) {
    require(source.batches->ReadNext(&source.batch));
    if (source.batch == nullptr) return std::nullopt;
    return piece_of(*source.batch->column(0), source.wish);
  }

  std::vector<Source> sources_;
  std::vector<ParquetPiece> pieces_;
};

class ArrowFile : public ParquetFile {
 public:
  explicit ArrowFile(const char* path) : reader_(open(path)) {
    const parquet::FileMetaData& all = *reader_->parquet_reader()->metadata();
    for (const parquet::arrow::SchemaField& field : reader_->manifest().schema_fields) {
      const Stored stored = describe(field);
      columns_.push_back(stored.column);
      leaves_.push_back(stored.leaf);
    }
    for (int group = 0; group < all.num_row_groups(); ++group) {
      const auto part = all.RowGroup(group);
      rows_.push_back(part->num_rows());
      for (std::size_t i = 0; i < columns_.size(); ++i) {
        if (leaves_[i] < 0) continue;
        const auto chunk = part->ColumnChunk(leaves_[i]);
        columns_[i].values += chunk->num_values();
        columns_[i].bytes += chunk->total_uncompressed_size();
      }
    }
  }

  const std::vector<ParquetColumn>& columns() const override { return columns_; }
  const std::vector<Count>& row_groups() const override { return rows_; }

  std::unique_ptr<ParquetRows> read(int row_group, const std::vector<ParquetWish>& columns,
                                    Count rows_at_once) override {
    reader_->set_batch_size(rows_at_once);
    std::vector<ArrowRows::Source> sources;
    for (const ParquetWish& wish : columns) {
      const auto at = static_cast<std::size_t>(wish.column);
      sources.push_back({.column = columns_.at(at).name,
                         .wish = wish,
                         .batches = take(reader_->GetRecordBatchReader({row_group}, {leaves_.at(at)}))});
    }
    return std::make_unique<ArrowRows>(std::move(sources));
  }

 private:
  /// Pages are read when they are decoded, instead of row groups as a whole, and their checksums verified
  /// where they have some. Memory that is freed goes back, because a limit may hold for it.
  static std::unique_ptr<parquet::arrow::FileReader> open(const char* path) {
    arrow::MemoryPool* const memory = arrow::system_memory_pool();
    parquet::ReaderProperties pages(memory);
    pages.enable_buffered_stream();
    pages.set_page_checksum_verification(true);
    parquet::ArrowReaderProperties values(/*use_threads=*/false);
    values.set_pre_buffer(false);
    parquet::arrow::FileReaderBuilder builder;
    require(builder.Open(take(arrow::io::ReadableFile::Open(path, memory)), pages));
    return take(builder.memory_pool(memory)->properties(values)->Build());
  }

  std::unique_ptr<parquet::arrow::FileReader> reader_;
  std::vector<ParquetColumn> columns_;
  std::vector<int> leaves_;  // of each column
  std::vector<Count> rows_;  // of each row group
};

}  // namespace

extern "C" [[gnu::visibility("default")]] ParquetFile* strata_open_parquet(const char* path);

ParquetFile* strata_open_parquet(const char* path) { return new ArrowFile(path); }

}  // namespace strata::graph
