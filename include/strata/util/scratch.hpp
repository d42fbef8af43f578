// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <filesystem>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

#include "strata/util/types.hpp"

namespace strata {

/// A folder for data that does not fit in memory, and a limit on how much of it is resident at a time.
///
/// The data lies in files without names, so nothing is left behind however the process ends. Arrays of it are
/// mapped, and the system brings in what is touched. trim(), called between pieces of work, releases the
/// resident pages of all scratch arrays and of all other files that are mapped for reading, such as input
/// arrays, when they exceed the limit. Nothing is lost by that: pages come back when they are touched.
class ScratchStore {
 public:
  /// `capacity_bytes` is what work may take besides memory that grows with the number of nodes: resident
  /// pages of files, buffers and small graphs.
  ScratchStore(std::filesystem::path folder, std::int64_t capacity_bytes);
  ~ScratchStore();
  ScratchStore(const ScratchStore&) = delete;
  ScratchStore& operator=(const ScratchStore&) = delete;

  /// Sets the capacity anew, when more is known of what else takes memory.
  void set_capacity(std::int64_t bytes) { capacity_bytes_ = bytes; }
  std::int64_t capacity() const { return capacity_bytes_; }
  std::int64_t resident_limit() const { return capacity_bytes_ / 4; }  ///< of the pages of files
  std::int64_t buffer_limit() const { return capacity_bytes_ / 4; }    ///< of the buffers of one phase
  std::int64_t array_limit() const { return capacity_bytes_ / 8; }     ///< of data that is kept in memory

  /// Any thread may call it, also while others read and write the arrays.
  void trim();
  /// Gives the disk back what a range of an array takes, where the file system can; its contents are lost.
  /// REQUIRES: as find().
  void discard(const void* first, std::size_t bytes);

  /// Where an array lies.
  struct Place {
    int descriptor = -1;
    Count offset = 0;
    /// Reads at least `least` bytes, and as many of `most` as there are; returns how many. Throws IoError.
    std::size_t read(Count at, std::size_t least, std::size_t most, void* out) const;
  };
  /// REQUIRES: `address` lies in an array of this store, which lives longer than the result.
  Place find(const void* address);
  /// The same, or nothing if it lies in none of them.
  std::optional<Place> look_up(const void* address);

 private:
  friend class ScratchFile;
  struct Range {
    std::byte* first;
    std::size_t bytes;
    int descriptor;  // owned
  };
  void add(Range range);
  void remove(const std::byte* first);
  std::int64_t resident_bytes_of_files() const;

  std::filesystem::path folder_;
  std::int64_t capacity_bytes_;
  int statm_ = -1;
  std::int64_t at_start_ = 0;  // resident: the program itself
  std::mutex mutex_;
  std::vector<Range> ranges_;
};

/// Releases pages now and then during accesses to mapped files that are far from each other. Does nothing
/// without a store.
class PageReleaser {
 public:
  explicit PageReleaser(ScratchStore* store) : store_(store) {}
  /// Call it for each access, which may bring in as much as 2 MiB: the system maps large pages as a whole.
  void step() {
    constexpr int kSteps = 4;
    if (store_ == nullptr || ++steps_ < kSteps) return;
    steps_ = 0;
    store_->trim();
  }

 private:
  ScratchStore* store_;
  int steps_ = 0;
};

/// A file without a name that grows at its end and is then mapped. An owner. The store must outlive the file
/// and its mapping.
class ScratchFile {
 public:
  /// Throws IoError if the folder cannot hold it.
  explicit ScratchFile(ScratchStore& store);
  ~ScratchFile();
  ScratchFile(ScratchFile&& other) noexcept;
  ScratchFile& operator=(ScratchFile&&) = delete;

  /// Throws IoError if the disk is full.
  void append(const void* data, std::size_t bytes);
  /// Ends appending. Unmapped when the last copy of the result goes.
  std::shared_ptr<std::byte> map() &&;
  /// Makes room for write_at(). Throws IoError if the disk has none. REQUIRES: nothing was appended.
  void reserve(std::size_t bytes);
  /// Writes into what was reserved. Several threads may call it at once, for disjoint ranges.
  void write_at(std::size_t offset, const void* data, std::size_t bytes) const;

  std::size_t bytes() const { return written_ + buffer_.size(); }

 private:
  void flush();
  [[noreturn]] void fail(const char* what, int error) const;

  ScratchStore* store_;
  int descriptor_ = -1;
  std::size_t written_ = 0;  // or reserved
  std::vector<std::byte> buffer_;
};

/// An array in a scratch file. Copies share it; the last one frees it.
template <typename T>
class ScratchArray {
 public:
  ScratchArray() = default;
  ScratchArray(std::shared_ptr<std::byte> bytes, Count size) : size_(size), bytes_(std::move(bytes)) {}

  T* data() const { return reinterpret_cast<T*>(bytes_.get()); }
  Count size() const { return size_; }
  T& operator[](Count i) const { return data()[i]; }
  std::span<T> span() const { return {data(), static_cast<std::size_t>(size_)}; }
  std::shared_ptr<const void> keep_alive() const { return bytes_; }

 private:
  Count size_ = 0;
  std::shared_ptr<std::byte> bytes_;
};

/// Reads runs of an array that are far from each other: a scratch array without mapping its pages, one in
/// memory in place. Runs that follow each other closely are read together. A view with a buffer, for one
/// thread.
template <typename T>
class FarReader {
 public:
  /// `store` is null if the array lies in memory. `array` may be null, if nothing is read.
  FarReader(ScratchStore* store, const T* array)
      : FarReader(array, store == nullptr || array == nullptr ? ScratchStore::Place{} : store->find(array)) {}
  /// Reads an array at `place`; it is in memory if `place` has no descriptor.
  FarReader(const T* array, ScratchStore::Place place) : array_(array), file_(place) {}

  /// Valid until the next call.
  const T* read(Count first, Count count) {
    if (file_.descriptor < 0) return array_ + first;
    if (first < begin_ || first + count > end_) fill(first, count);
    return buffer_.data() + (first - begin_);
  }

 private:
  static constexpr Count kClose = 1024 / sizeof(T), kTogether = 16'384 / sizeof(T);

  void fill(Count first, Count count) {
    const bool close = first >= end_ && first - end_ <= kClose;
    const Count wanted = close ? std::max(count, kTogether) : count;
    if (std::ssize(buffer_) < wanted) buffer_.resize(static_cast<std::size_t>(wanted));
    const std::size_t read =
        file_.read(first * static_cast<Count>(sizeof(T)), bytes_of(count), bytes_of(wanted), buffer_.data());
    begin_ = first;
    end_ = first + static_cast<Count>(read / sizeof(T));
  }

  static std::size_t bytes_of(Count count) { return static_cast<std::size_t>(count) * sizeof(T); }

  const T* array_;
  ScratchStore::Place file_;
  Count begin_ = 0, end_ = 0;  // of what the buffer holds
  std::vector<T> buffer_;
};

/// Reads pieces of a table that are far from each other, without mapping its pages: a scratch array, or an
/// input that is mapped only for reading. A table in memory is read in place. For one thread.
class FarTable {
 public:
  /// `store` is null if the table is read in place. Throws IoError if the file of an input is gone.
  FarTable(ScratchStore* store, const std::byte* table);
  ~FarTable();
  FarTable(const FarTable&) = delete;
  FarTable& operator=(const FarTable&) = delete;

  /// Valid until the next call. Throws IoError.
  const std::byte* read(std::size_t offset, std::size_t bytes) {
    return reader_.read(static_cast<Count>(offset), static_cast<Count>(bytes));
  }

 private:
  ScratchStore::Place open(ScratchStore* store, const std::byte* table);

  int input_ = -1;  // owned
  FarReader<std::byte> reader_;
};

/// Writes an array from its beginning to its end.
template <typename T>
class ScratchWriter {
 public:
  explicit ScratchWriter(ScratchStore& store) : file_(store) {}

  void append(std::span<const T> values) { file_.append(values.data(), values.size_bytes()); }
  Count size() const { return static_cast<Count>(file_.bytes() / sizeof(T)); }
  ScratchArray<T> finish() && {
    const Count size = this->size();
    return {std::move(file_).map(), size};
  }

 private:
  ScratchFile file_;
};

}  // namespace strata
