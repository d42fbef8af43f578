#include <fmt/format.h>
#include <fmt/ranges.h>
#include <zlib.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <optional>
#include <span>

#include "mapped_file.hpp"
#include "parse_npy.hpp"
#include "strata/graph/npy.hpp"
#include "strata/util/error.hpp"

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
  for (std::uint64_t at = last + 1; at-- > first;)
    if (file.at<std::uint32_t>(at) == kEnd) return at;
  refuse(file.path(), "not a zip archive, or truncated");
}

struct DirectoryPlace {
  std::uint64_t offset = 0, entries = 0;
};

DirectoryPlace find_directory(const Fields& file) {
  const std::uint64_t end = find_end(file);
  if (end >= kEnd64LocatorBytes && file.at<std::uint32_t>(end - kEnd64LocatorBytes) == kEnd64Locator) {
    const auto end64 = file.at<std::uint64_t>(end - kEnd64LocatorBytes + 8);
    if (file.range(end64, kEnd64Bytes).empty() || file.at<std::uint32_t>(end64) != kEnd64)
      refuse(file.path(), "damaged zip64 archive");
    return {.offset = file.at<std::uint64_t>(end64 + 48), .entries = file.at<std::uint64_t>(end64 + 32)};
  }
  return {.offset = file.at<std::uint32_t>(end + 16), .entries = file.at<std::uint16_t>(end + 10)};
}

std::shared_ptr<std::byte[]> inflate_member(const std::string& origin, std::span<const std::byte> packed,
                                            std::uint64_t bytes) {
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

std::uint32_t checksum_of(const std::byte* data, std::uint64_t bytes) {
  return static_cast<std::uint32_t>(crc32_z(0, reinterpret_cast<const Bytef*>(data), bytes));
}

}  // namespace

/// Reads the list of members at the end of an archive.
class ZipDirectory {
 public:
  static void read(const Fields& file, NpzFile& archive) {
    const DirectoryPlace place = find_directory(file);
    std::uint64_t at = place.offset;
    for (std::uint64_t entry = 0; entry < place.entries; ++entry) at = read_entry(file, at, archive);
  }

 private:
  static std::uint64_t read_entry(const Fields& file, std::uint64_t at, NpzFile& archive) {
    if (file.range(at, kCentralBytes).empty() || file.at<std::uint32_t>(at) != kCentralEntry)
      refuse(file.path(), "damaged zip directory");
    const auto name_bytes = file.at<std::uint16_t>(at + 28), extra_bytes = file.at<std::uint16_t>(at + 30),
               comment_bytes = file.at<std::uint16_t>(at + 32);
    NpzFile::Member member{.local_header = file.at<std::uint32_t>(at + 42),
                           .packed_bytes = file.at<std::uint32_t>(at + 20),
                           .bytes = file.at<std::uint32_t>(at + 24),
                           .checksum = file.at<std::uint32_t>(at + 16),
                           .method = file.at<std::uint16_t>(at + 10)};
    const auto name_span = file.range(at + kCentralBytes, name_bytes);
    std::string name(reinterpret_cast<const char*>(name_span.data()), name_span.size());
    widen(file, at + kCentralBytes + name_bytes, extra_bytes, member);
    if (name.ends_with(".npy")) name.resize(name.size() - 4);
    archive.members_.insert_or_assign(std::move(name), member);
    return at + kCentralBytes + name_bytes + extra_bytes + comment_bytes;
  }

  /// Sizes that do not fit 32 bits stand in the zip64 extra field, in this order, only those that are needed.
  static void widen(const Fields& file, std::uint64_t at, std::uint64_t bytes, NpzFile::Member& member) {
    const std::uint64_t end = at + bytes;
    while (at + 4 <= end) {
      const auto tag = file.at<std::uint16_t>(at), size = file.at<std::uint16_t>(at + 2);
      std::uint64_t field = at + 4;
      if (tag == 1)
        for (std::uint64_t* value : {&member.bytes, &member.packed_bytes, &member.local_header})
          if (*value == kSeeZip64) {
            *value = file.at<std::uint64_t>(field);
            field += 8;
          }
      at += 4u + size;
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

NpyArray NpzFile::array(const std::string& name) const {
  const auto found = members_.find(name);
  if (found == members_.end())
    throw InputError(fmt::format("{}: no array '{}'", path_, name),
                     fmt::format("It has: {}.", fmt::join(names(), ", ")));
  const Member& member = found->second;
  const std::string origin = fmt::format("{}:{}", path_, name);
  const Fields file(path_, {data_, size_});
  if (file.at<std::uint32_t>(member.local_header) != kLocalHeader) refuse(origin, "damaged zip archive");
  const std::uint64_t start = member.local_header + kLocalBytes +
                              file.at<std::uint16_t>(member.local_header + 26) +
                              file.at<std::uint16_t>(member.local_header + 28);
  const auto packed = file.range(start, member.packed_bytes);
  if (member.method == 0) return parse_npy(origin, packed, keep_alive_);
  if (member.method != 8)
    refuse(origin, fmt::format("compression method {} is not supported", member.method));
  const auto inflated = inflate_member(origin, packed, member.bytes);
  if (checksum_of(inflated.get(), member.bytes) != member.checksum) refuse(origin, "damaged: wrong checksum");
  return parse_npy(origin, {inflated.get(), member.bytes}, inflated);
}

}  // namespace strata::graph
