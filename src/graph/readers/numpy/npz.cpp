// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <zlib.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <span>

#include "readers/numpy/mapped_file.hpp"
#include "readers/numpy/parse_npy.hpp"
#include "strata/graph/npy.hpp"
#include "strata/util/error.hpp"
#include "strata/util/format.hpp"
#include "strata/util/memory.hpp"
#include "strata/util/utf8.hpp"

namespace strata::graph {
namespace {

constexpr std::uint32_t kLocalHeader = 0x04034b50, kCentralEntry = 0x02014b50, kEnd = 0x06054b50,
                        kEnd64 = 0x06064b50, kEnd64Locator = 0x07064b50;
constexpr std::uint32_t kSeeZip64 = 0xffffffff;
constexpr std::size_t kEndBytes = 22, kEnd64LocatorBytes = 20, kEnd64Bytes = 56, kCentralBytes = 46,
                      kLocalBytes = 30;

[[noreturn]] void refuse(const std::string& path, const std::string& what) {
  throw InputError(fmt::format("{}: {}", path, what),
                   "Copy or download the file again, or write it with numpy.savez.");
}

/// Little-endian fields at offsets of a file, checked against its length.
class Fields {
 public:
  Fields(std::string path, std::span<const std::byte> bytes) : path_(std::move(path)), bytes_(bytes) {}

  template <typename T>
  T at(std::uint64_t offset) const {
    T value;
    std::memcpy(&value, range(offset, sizeof value).data(), sizeof value);
    return value;
  }
  std::span<const std::byte> range(std::uint64_t offset, std::uint64_t count) const {
    if (offset > bytes_.size() || count > bytes_.size() - offset)
      refuse(path_, "truncated or damaged zip archive");
    return bytes_.subspan(offset, count);
  }
  std::uint64_t size() const { return bytes_.size(); }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
  std::span<const std::byte> bytes_;
};

std::uint64_t find_end(const Fields& file) {
  if (file.size() < kEndBytes) refuse(file.path(), "not a zip archive, or truncated");
  const std::uint64_t last = file.size() - kEndBytes;
  const std::uint64_t first = last > 0xffff ? last - 0xffff : 0;
  for (std::uint64_t at = last + 1; at-- > first;) {  // only a comment may follow
    if (file.at<std::uint32_t>(at) == kEnd && file.at<std::uint16_t>(at + 20) == last - at) return at;
  }
  refuse(file.path(), "not a zip archive, or truncated");
}

/// `end` is the end of the directory.
struct DirectoryPlace {
  std::uint64_t offset = 0, bytes = 0, entries = 0, entries_here = 0, end = 0;
};

DirectoryPlace find_directory(const Fields& file) {
  const std::uint64_t end = find_end(file);
  if (end >= kEnd64LocatorBytes && file.at<std::uint32_t>(end - kEnd64LocatorBytes) == kEnd64Locator) {
    const auto end64 = file.at<std::uint64_t>(end - kEnd64LocatorBytes + 8);
    if (file.range(end64, kEnd64Bytes).empty() || file.at<std::uint32_t>(end64) != kEnd64)
      refuse(file.path(), "damaged zip64 archive");
    return {.offset = file.at<std::uint64_t>(end64 + 48),
            .bytes = file.at<std::uint64_t>(end64 + 40),
            .entries = file.at<std::uint64_t>(end64 + 32),
            .entries_here = file.at<std::uint64_t>(end64 + 24),
            .end = end64};
  }
  return {.offset = file.at<std::uint32_t>(end + 16),
          .bytes = file.at<std::uint32_t>(end + 12),
          .entries = file.at<std::uint16_t>(end + 10),
          .entries_here = file.at<std::uint16_t>(end + 8),
          .end = end};
}

/// Refuses an impossible size before memory is allocated: deflate packs at most 1032 bytes into one.
void check_stated_size(const std::string& origin, std::uint64_t packed, std::uint64_t bytes) {
  constexpr std::uint64_t kMostPerByte = 1032;
  if (bytes / kMostPerByte > packed)
    refuse(origin, fmt::format("damaged: {} deflated bytes cannot hold the stated {}", packed, bytes));
  const std::int64_t free = available_host_bytes();
  if (bytes > static_cast<std::uint64_t>(free))
    throw OutOfMemory(
        fmt::format("{}: no room to inflate it: wanted {}, free {}", origin,
                    format_bytes(static_cast<std::int64_t>(bytes)), format_bytes(free)),
        "Use a host with more memory, or write the archive with numpy.savez, which does not compress.");
}

std::shared_ptr<std::byte[]> inflate_member(const std::string& origin, std::span<const std::byte> packed,
                                            std::uint64_t bytes) {
  check_stated_size(origin, packed.size(), bytes);
  std::shared_ptr<std::byte[]> out(new std::byte[std::max<std::uint64_t>(bytes, 1)]);
  z_stream stream = {};
  if (inflateInit2(&stream, -MAX_WBITS) != Z_OK) throw IoError(fmt::format("{}: zlib cannot start", origin));
  constexpr std::uint64_t kMost = std::numeric_limits<uInt>::max();
  std::uint64_t read = 0, written = 0;
  int state = Z_OK;
  while (state == Z_OK) {
    const std::uint64_t in = std::min<std::uint64_t>(kMost, packed.size() - read);
    const std::uint64_t room = std::min<std::uint64_t>(kMost, bytes - written);
    stream.next_in = reinterpret_cast<Bytef*>(const_cast<std::byte*>(packed.data() + read));
    stream.avail_in = static_cast<uInt>(in);
    stream.next_out = reinterpret_cast<Bytef*>(out.get() + written);
    stream.avail_out = static_cast<uInt>(room);
    state = inflate(&stream, Z_NO_FLUSH);
    read += in - stream.avail_in;
    written += room - stream.avail_out;
  }
  inflateEnd(&stream);
  if (state != Z_STREAM_END || written != bytes)
    refuse(origin, "damaged: the member does not inflate to its stated size");
  return out;
}

uLong checksum_of(std::span<const std::byte> data) {
  return crc32_z(0, reinterpret_cast<const Bytef*>(data.data()), data.size());
}

/// All threads compute checksums of pieces of a large member, which are then combined.
uLong checksum_of(std::span<const std::byte> data, ThreadPool* pool) {
  constexpr std::size_t kPieceBytes = std::size_t{8} << 20;
  if (pool == nullptr || data.size() <= kPieceBytes) return checksum_of(data);
  const auto piece = [&](std::size_t i) {
    return data.subspan(i * kPieceBytes, std::min(kPieceBytes, data.size() - i * kPieceBytes));
  };
  std::vector<uLong> sums((data.size() + kPieceBytes - 1) / kPieceBytes);
  pool->parallel_for(std::ssize(sums), 1, [&](Count begin, Count end) {
    for (auto i = static_cast<std::size_t>(begin); i < static_cast<std::size_t>(end); ++i)
      sums[i] = checksum_of(piece(i));
  });
  uLong sum = sums[0];
  for (std::size_t i = 1; i < sums.size(); ++i)
    sum = crc32_combine(sum, sums[i], static_cast<z_off_t>(piece(i).size()));
  return sum;
}

}  // namespace

/// Reads the list of members at the end of an archive. Everything that the archive states twice must agree,
/// so that a damaged name or number cannot hide an array.
class ZipDirectory {
 public:
  static void read(const Fields& file, NpzFile& archive) {
    const DirectoryPlace place = find_directory(file);
    std::uint64_t at = place.offset;
    for (std::uint64_t entry = 0; entry < place.entries; ++entry) at = read_entry(file, at, archive);
    if (at != place.end || at - place.offset != place.bytes || place.entries != place.entries_here)
      refuse(file.path(), "damaged zip directory");
  }

 private:
  struct Sizes {
    std::uint64_t bytes, packed_bytes, local_header;
  };

  static std::uint64_t read_entry(const Fields& file, std::uint64_t at, NpzFile& archive) {
    if (file.range(at, kCentralBytes).empty() || file.at<std::uint32_t>(at) != kCentralEntry)
      refuse(file.path(), "damaged zip directory");
    const auto name_bytes = file.at<std::uint16_t>(at + 28), extra_bytes = file.at<std::uint16_t>(at + 30),
               comment_bytes = file.at<std::uint16_t>(at + 32);
    Sizes sizes{.bytes = file.at<std::uint32_t>(at + 24),
                .packed_bytes = file.at<std::uint32_t>(at + 20),
                .local_header = file.at<std::uint32_t>(at + 42)};
    std::string name = text(file, at + kCentralBytes, name_bytes);
    widen(file, at + kCentralBytes + name_bytes, extra_bytes, sizes);
    const NpzFile::Member member{.start = data_start(file, sizes.local_header, name),
                                 .packed_bytes = sizes.packed_bytes,
                                 .bytes = sizes.bytes,
                                 .checksum = file.at<std::uint32_t>(at + 16),
                                 .method = file.at<std::uint16_t>(at + 10)};
    if (name.ends_with(".npy")) name.resize(name.size() - 4);
    if (!archive.members_.emplace(name, member).second)
      refuse(file.path(), fmt::format("two arrays are called '{}'", printable(name)));
    return at + kCentralBytes + name_bytes + extra_bytes + comment_bytes;
  }

  static std::string text(const Fields& file, std::uint64_t at, std::uint64_t bytes) {
    const auto span = file.range(at, bytes);
    return {reinterpret_cast<const char*>(span.data()), span.size()};
  }

  /// Where a member's bytes begin, after its own header.
  static std::uint64_t data_start(const Fields& file, std::uint64_t header, const std::string& name) {
    if (file.range(header, kLocalBytes).empty() || file.at<std::uint32_t>(header) != kLocalHeader)
      refuse(file.path(), "damaged zip archive");
    const auto name_bytes = file.at<std::uint16_t>(header + 26),
               extra_bytes = file.at<std::uint16_t>(header + 28);
    if (text(file, header + kLocalBytes, name_bytes) != name)
      refuse(file.path(),
             fmt::format("damaged zip archive: '{}' has another name in the directory", printable(name)));
    return header + kLocalBytes + name_bytes + extra_bytes;
  }

  /// Sizes that do not fit into 32 bits are in the zip64 extra field, in this order, and only as far as
  /// needed.
  static void widen(const Fields& file, std::uint64_t at, std::uint64_t bytes, Sizes& sizes) {
    const std::uint64_t end = at + bytes;
    while (at + 4 <= end) {
      const auto tag = file.at<std::uint16_t>(at), size = file.at<std::uint16_t>(at + 2);
      const std::uint64_t field_end = at + 4u + size;
      if (field_end > end) refuse(file.path(), "damaged zip directory");
      if (tag == 1) read_zip64(file, at + 4, field_end, sizes);
      at = field_end;
    }
    for (const std::uint64_t value : {sizes.bytes, sizes.packed_bytes, sizes.local_header})
      if (value == kSeeZip64) refuse(file.path(), "damaged zip directory: a zip64 field is missing");
  }

  static void read_zip64(const Fields& file, std::uint64_t at, std::uint64_t end, Sizes& sizes) {
    for (std::uint64_t* value : {&sizes.bytes, &sizes.packed_bytes, &sizes.local_header}) {
      if (*value != kSeeZip64) continue;
      if (at + 8 > end) refuse(file.path(), "damaged zip directory: a zip64 field is missing");
      *value = file.at<std::uint64_t>(at);
      at += 8;
    }
  }
};

NpzFile::NpzFile(const std::filesystem::path& path) : path_(path.string()) {
  const auto file = std::make_shared<const MappedFile>(path);
  data_ = file->data();
  size_ = file->size();
  keep_alive_ = file;
  ZipDirectory::read(Fields(path_, {data_, size_}), *this);
}

std::vector<std::string> NpzFile::names() const {
  std::vector<std::string> result;
  for (const auto& [name, member] : members_) result.push_back(name);
  return result;
}

NpyArray NpzFile::array(const std::string& name, ThreadPool* pool) const {
  const auto found = members_.find(name);
  if (found == members_.end())
    throw InputError(fmt::format("{}: no array '{}'", path_, name),
                     fmt::format("It has: {}.", printable(fmt::format("{}", fmt::join(names(), ", ")))));
  const Member& member = found->second;
  const std::string origin = fmt::format("{}:{}", path_, name);
  const auto packed = Fields(path_, {data_, size_}).range(member.start, member.packed_bytes);
  const bool stored = member.method == 0;
  if (!stored && member.method != 8)
    refuse(origin, fmt::format("compression method {} is not supported", member.method));
  if (stored && member.bytes != member.packed_bytes) refuse(origin, "damaged: its two sizes differ");
  const auto inflated = stored ? nullptr : inflate_member(origin, packed, member.bytes);
  const auto bytes = stored ? packed : std::span<const std::byte>(inflated.get(), member.bytes);
  if (checksum_of(bytes, pool) != member.checksum) refuse(origin, "damaged: wrong checksum");
  if (stored) return parse_npy(origin, bytes, keep_alive_);
  return parse_npy(origin, bytes, inflated);
}

}  // namespace strata::graph
