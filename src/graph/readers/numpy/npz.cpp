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
#include "strata/util/files.hpp"
#include "strata/util/system.hpp"
#include "strata/util/text.hpp"

namespace strata::graph {
namespace {

constexpr std::uint32_t kLocalHeader = 0x04034b50, kCentralEntry = 0x02014b50, kEnd = 0x06054b50,
                        kEnd64 = 0x06064b50, kEnd64Locator = 0x07064b50;
constexpr std::uint32_t kSeeZip64 = 0xffffffff;
constexpr std::size_t kEndBytes = 22, kEnd64LocatorBytes = 20, kEnd64Bytes = 56, kCentralBytes = 46,
                      kLocalBytes = 30;

[[noreturn]] void refuse_archive(const std::string& path, const std::string& what) {
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
      refuse_archive(path_, "truncated or damaged zip archive");
    return bytes_.subspan(offset, count);
  }
  std::uint64_t size() const { return bytes_.size(); }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
  std::span<const std::byte> bytes_;
};

[[noreturn]] void refuse_other(const Fields& file) {
  const auto begin = file.range(0, std::min<std::uint64_t>(file.size(), 300));
  const std::string_view bytes(reinterpret_cast<const char*>(begin.data()), begin.size());
  if (compression_of(bytes) != "zip") refuse_compressed(bytes, file.path());
  refuse_archive(file.path(), "not a zip archive, or truncated");
}

std::uint64_t find_end(const Fields& file) {
  if (file.size() < kEndBytes) refuse_other(file);
  const std::uint64_t last = file.size() - kEndBytes;
  const std::uint64_t first = last > 0xffff ? last - 0xffff : 0;
  for (std::uint64_t at = last + 1; at-- > first;) {  // only a comment may follow
    if (file.at<std::uint32_t>(at) == kEnd && file.at<std::uint16_t>(at + 20) == last - at) return at;
  }
  refuse_other(file);
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
      refuse_archive(file.path(), "damaged zip64 archive");
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
    refuse_archive(origin,
                   fmt::format("damaged: {} deflated bytes cannot hold the stated {}", packed, bytes));
}

void check_memory(const std::string& origin, std::uint64_t bytes) {
  const std::int64_t free = available_host_bytes();
  if (bytes > static_cast<std::uint64_t>(free))
    throw OutOfMemory(
        fmt::format("{}: no room to inflate it: wanted {}, free {}", origin,
                    format_bytes(static_cast<std::int64_t>(bytes)), format_bytes(free)),
        "Use a host with more memory, or write the archive with numpy.savez, which does not compress.");
}

/// Inflates a member from its beginning on. An owner.
class Inflater {
 public:
  Inflater(std::string origin, std::span<const std::byte> packed)
      : origin_(std::move(origin)), packed_(packed) {
    if (inflateInit2(&stream_, -MAX_WBITS) != Z_OK)
      throw IoError(fmt::format("{}: zlib cannot start", origin_));
  }
  ~Inflater() { inflateEnd(&stream_); }
  Inflater(const Inflater&) = delete;
  Inflater& operator=(const Inflater&) = delete;

  /// Fills `out` as far as there is something to inflate, and returns how many bytes that is.
  std::size_t read(std::span<std::byte> out) {
    constexpr std::uint64_t kMost = std::numeric_limits<uInt>::max();
    std::size_t written = 0;
    while (state_ == Z_OK && written < out.size()) {
      const std::uint64_t in = std::min<std::uint64_t>(kMost, packed_.size() - read_);
      const std::uint64_t room = std::min<std::uint64_t>(kMost, out.size() - written);
      stream_.next_in = reinterpret_cast<Bytef*>(const_cast<std::byte*>(packed_.data() + read_));
      stream_.avail_in = static_cast<uInt>(in);
      stream_.next_out = reinterpret_cast<Bytef*>(out.data() + written);
      stream_.avail_out = static_cast<uInt>(room);
      state_ = inflate(&stream_, Z_NO_FLUSH);
      read_ += in - stream_.avail_in;
      written += room - stream_.avail_out;
    }
    total_ += written;
    return written;
  }
  /// Checks that the member ends here; call it after the last read.
  void require_end(std::uint64_t stated_bytes) {
    std::byte more{};
    read({&more, 1});
    if (total_ != stated_bytes || state_ != Z_STREAM_END)
      refuse_archive(origin_, "damaged: the member does not inflate to its stated size");
  }

 private:
  std::string origin_;
  std::span<const std::byte> packed_;
  z_stream stream_ = {};
  std::uint64_t read_ = 0, total_ = 0;
  int state_ = Z_OK;
};

std::shared_ptr<std::byte[]> inflate_member(const std::string& origin, std::span<const std::byte> packed,
                                            std::uint64_t bytes) {
  check_memory(origin, bytes);
  std::shared_ptr<std::byte[]> out(new std::byte[std::max<std::uint64_t>(bytes, 1)]);
  Inflater inflater(origin, packed);
  inflater.read({out.get(), bytes});
  inflater.require_end(bytes);
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

constexpr std::size_t kPieceBytes = std::size_t{1} << 20;

/// The checksum of a member that stays in its file; little of it is resident at a time.
uLong checksum_in_pieces(std::span<const std::byte> data, ScratchStore& scratch) {
  uLong sum = checksum_of({});
  for (std::size_t first = 0; first < data.size(); first += kPieceBytes) {
    const auto piece = data.subspan(first, std::min(kPieceBytes, data.size() - first));
    sum = crc32_z(sum, reinterpret_cast<const Bytef*>(piece.data()), piece.size());
    scratch.trim();
  }
  return sum;
}

struct StoredMember {
  ScratchArray<std::byte> bytes;
  uLong checksum = 0;
};

StoredMember inflate_to_file(const std::string& origin, std::span<const std::byte> packed,
                             std::uint64_t bytes, ScratchStore& scratch) {
  Inflater inflater(origin, packed);
  ScratchWriter<std::byte> file(scratch);
  StoredMember member{.bytes = {}, .checksum = checksum_of({})};
  std::vector<std::byte> piece(kPieceBytes);
  for (std::uint64_t left = bytes; left > 0;) {
    const std::size_t got = inflater.read(std::span(piece).first(std::min<std::uint64_t>(left, kPieceBytes)));
    if (got == 0) break;
    member.checksum = crc32_z(member.checksum, reinterpret_cast<const Bytef*>(piece.data()), got);
    file.append(std::span(piece).first(got));
    left -= got;
    scratch.trim();
  }
  inflater.require_end(bytes);
  member.bytes = std::move(file).finish();
  return member;
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
      refuse_archive(file.path(), "damaged zip directory");
  }

 private:
  struct Sizes {
    std::uint64_t bytes, packed_bytes, local_header;
  };

  static std::uint64_t read_entry(const Fields& file, std::uint64_t at, NpzFile& archive) {
    if (file.range(at, kCentralBytes).empty() || file.at<std::uint32_t>(at) != kCentralEntry)
      refuse_archive(file.path(), "damaged zip directory");
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
      refuse_archive(file.path(), fmt::format("two arrays are called '{}'", printable(name)));
    return at + kCentralBytes + name_bytes + extra_bytes + comment_bytes;
  }

  static std::string text(const Fields& file, std::uint64_t at, std::uint64_t bytes) {
    const auto span = file.range(at, bytes);
    return {reinterpret_cast<const char*>(span.data()), span.size()};
  }

  /// Where a member's bytes begin, after its own header.
  static std::uint64_t data_start(const Fields& file, std::uint64_t header, const std::string& name) {
    if (file.range(header, kLocalBytes).empty() || file.at<std::uint32_t>(header) != kLocalHeader)
      refuse_archive(file.path(), "damaged zip archive");
    const auto name_bytes = file.at<std::uint16_t>(header + 26),
               extra_bytes = file.at<std::uint16_t>(header + 28);
    if (text(file, header + kLocalBytes, name_bytes) != name)
      refuse_archive(file.path(), fmt::format("damaged zip archive: '{}' has another name in the directory",
                                              printable(name)));
    return header + kLocalBytes + name_bytes + extra_bytes;
  }

  /// Sizes that do not fit into 32 bits are in the zip64 extra field, in this order, and only as far as
  /// needed.
  static void widen(const Fields& file, std::uint64_t at, std::uint64_t bytes, Sizes& sizes) {
    const std::uint64_t end = at + bytes;
    while (at + 4 <= end) {
      const auto tag = file.at<std::uint16_t>(at), size = file.at<std::uint16_t>(at + 2);
      const std::uint64_t field_end = at + 4u + size;
      if (field_end > end) refuse_archive(file.path(), "damaged zip directory");
      if (tag == 1) read_zip64(file, at + 4, field_end, sizes);
      at = field_end;
    }
    for (const std::uint64_t value : {sizes.bytes, sizes.packed_bytes, sizes.local_header})
      if (value == kSeeZip64) refuse_archive(file.path(), "damaged zip directory: a zip64 field is missing");
  }

  static void read_zip64(const Fields& file, std::uint64_t at, std::uint64_t end, Sizes& sizes) {
    for (std::uint64_t* value : {&sizes.bytes, &sizes.packed_bytes, &sizes.local_header}) {
      if (*value != kSeeZip64) continue;
      if (at + 8 > end) refuse_archive(file.path(), "damaged zip directory: a zip64 field is missing");
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

std::string NpzFile::origin_of(const std::string& name) const {
  return fmt::format("{}:{}", path_, printable(name));
}

const NpzFile::Member& NpzFile::member(const std::string& name) const {
  const auto found = members_.find(name);
  if (found == members_.end())
    throw InputError(fmt::format("{}: no array '{}'", path_, printable(name)),
                     fmt::format("It has: {}.", printable(fmt::format("{}", fmt::join(names(), ", ")))));
  return found->second;
}

/// The bytes of a member as the archive has them.
std::span<const std::byte> NpzFile::packed(const std::string& name) const {
  const Member& wanted = member(name);
  const std::string origin = origin_of(name);
  if (wanted.method != 0 && wanted.method != 8)
    refuse_archive(origin, fmt::format("compression method {} is not supported", wanted.method));
  if (wanted.method == 0 && wanted.bytes != wanted.packed_bytes)
    refuse_archive(origin, "damaged: its two sizes differ");
  const auto bytes = Fields(path_, {data_, size_}).range(wanted.start, wanted.packed_bytes);
  if (wanted.method == 8) check_stated_size(origin, bytes.size(), wanted.bytes);
  return bytes;
}

NpyArray NpzFile::array(const std::string& name, ThreadPool* pool, ScratchStore* scratch) const {
  const Member& wanted = member(name);
  const std::string origin = origin_of(name);
  std::span<const std::byte> bytes = packed(name);
  std::shared_ptr<const void> keep_alive = keep_alive_;
  const bool stored = wanted.method == 0;
  uLong checksum = 0;
  if (!stored && scratch != nullptr) {
    const StoredMember inflated = inflate_to_file(origin, bytes, wanted.bytes, *scratch);
    bytes = inflated.bytes.span();
    checksum = inflated.checksum;
    keep_alive = inflated.bytes.keep_alive();
  } else {
    if (!stored) {
      const auto inflated = inflate_member(origin, bytes, wanted.bytes);
      bytes = {inflated.get(), wanted.bytes};
      keep_alive = inflated;
    }
    checksum = scratch != nullptr ? checksum_in_pieces(bytes, *scratch) : checksum_of(bytes, pool);
  }
  if (checksum != wanted.checksum) refuse_archive(origin, "damaged: wrong checksum");
  return parse_npy(origin, bytes, std::move(keep_alive), scratch);
}

NpyArray NpzFile::describe(const std::string& name) const {
  constexpr std::size_t kMostHeader = (std::size_t{1} << 16) + 12;
  const Member& wanted = member(name);
  const std::string origin = origin_of(name);
  std::span<const std::byte> bytes = packed(name);
  std::vector<std::byte> first(std::min<std::uint64_t>(wanted.bytes, kMostHeader));
  if (wanted.method == 0)
    first.assign(bytes.begin(), bytes.begin() + std::ssize(first));
  else
    first.resize(Inflater(origin, bytes).read(first));
  NpyHeader header = parse_npy_header(origin, first);
  require_payload(header.array, wanted.bytes - header.bytes);
  return std::move(header.array);
}

}  // namespace strata::graph
