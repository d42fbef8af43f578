// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>
#include <filesystem>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "strata/util/scratch.hpp"
#include "strata/util/threads.hpp"
#include "strata/util/types.hpp"

namespace strata::graph {

/// An array as NumPy stores it, read in place. `keep_alive` holds the mapped file or the inflated bytes;
/// copies are cheap.
///
/// kind and item_bytes are NumPy's: {'f', 4} is float32, {'i', 8} int64, {'u', 1} uint8, {'b', 1} bool,
/// {'S', 3} bytes of a word.
/// Little endian.
struct NpyArray {
  std::string origin;  ///< used in messages: "data/edges.npy" or "data.npz:edge_index"
  char kind = 'f';
  int item_bytes = 4;
  std::vector<Count> shape;
  bool fortran_order = false;  ///< the first index runs fastest
  const std::byte* data = nullptr;
  std::shared_ptr<const void> keep_alive;

  Count size() const;  ///< number of elements; 1 for a scalar
  bool is(char wanted_kind, int wanted_bytes) const {
    return kind == wanted_kind && item_bytes == wanted_bytes;
  }
  std::string type_name() const;   ///< "f4"
  std::string shape_text() const;  ///< "(2, 100)"
};

/// Maps a .npy file (versions 1 to 3). Throws InputError if the file is missing, empty, not npy, longer or
/// shorter than its shape says, big endian, or holds Python objects.
NpyArray read_npy(const std::filesystem::path& path);

/// Whether a file begins like an npy file, whatever its name. False if it cannot be read.
bool is_npy(const std::filesystem::path& path);

/// The arrays of a .npz file by name. Stored members are read in place, deflated ones are inflated; the
/// checksums of both are verified.
///
/// Members are opened when asked for, so that large arrays that nobody wants cost nothing. ZIP64 is
/// understood.
class NpzFile {
 public:
  /// Throws InputError if the file is missing, not a zip archive or truncated, or if its directory
  /// contradicts itself.
  explicit NpzFile(const std::filesystem::path& path);

  bool contains(const std::string& name) const { return members_.contains(name); }
  std::vector<std::string> names() const;

  /// The threads of `pool` compute checksums; without a pool the calling thread does. Throws InputError if
  /// there is no such member, its checksum is wrong or its size is impossible, and as read_npy() does;
  /// OutOfMemory.
  ///
  /// With `scratch`, which must outlive the array, inflated members lie in its files, and little of a stored
  /// one is resident at a time.
  NpyArray array(const std::string& name, ThreadPool* pool = nullptr, ScratchStore* scratch = nullptr) const;

  /// Type and shape of a member; `data` is null, and checksums are not verified. Throws as array().
  NpyArray describe(const std::string& name) const;

 private:
  struct Member {
    std::uint64_t start = 0, packed_bytes = 0, bytes = 0;
    std::uint32_t checksum = 0;
    std::uint16_t method = 0;  ///< 0 stored, 8 deflated
  };
  friend class ZipDirectory;
  /// The member, as messages name it.
  std::string origin_of(const std::string& name) const;
  const Member& member(const std::string& name) const;
  std::span<const std::byte> packed(const std::string& name) const;

  std::string path_;
  std::shared_ptr<const void> keep_alive_;
  const std::byte* data_ = nullptr;
  std::size_t size_ = 0;
  std::map<std::string, Member> members_;
};

/// The bytes of a .npy file before the elements of a C-order array; their number is a multiple of 64.
///
/// `shape` has one or two extents. Throws InputError for bf16, which NumPy cannot name.
std::string npy_header(DType dtype, const std::vector<Count>& shape);

/// Writes a C-order array so that `path` holds its old or its new contents, never half of them.
///
/// `dtype` and `shape` are as for npy_header. Throws IoError.
void write_npy(const std::filesystem::path& path, DType dtype, const std::vector<Count>& shape,
               const void* data);

}  // namespace strata::graph
