// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <zlib.h>

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

/// Writers of the file formats that readers are tested with, and the place of the real sets.
namespace strata::test {

/// The folder of the real sets: $STRATA_DATA, or shared/data beside the repository. It may not exist.
inline std::filesystem::path data_folder() {
  if (const char* const folder = std::getenv("STRATA_DATA")) return folder;
  return std::filesystem::path(STRATA_SOURCE_DIR) / ".." / "shared" / "data";
}

inline void write_text(const std::filesystem::path& path, const std::string& text) {
  std::filesystem::create_directories(path.parent_path());
  std::ofstream(path, std::ios::binary) << text;
}

inline std::string read_bytes(const std::filesystem::path& path) {
  std::ostringstream text;
  text << std::ifstream(path, std::ios::binary).rdbuf();
  return text.str();
}

inline void write_gzip(const std::filesystem::path& path, const std::string& text) {
  std::filesystem::create_directories(path.parent_path());
  const gzFile file = gzopen(path.c_str(), "wb");
  if (file == nullptr) throw std::runtime_error(path.string());
  gzwrite(file, text.data(), static_cast<unsigned>(text.size()));
  gzclose(file);
}

struct ZipMember {
  std::string name, contents;
  bool deflated = false;
  bool zip64 = false;  ///< sizes and place stand in the extra field, as in archives above 4 GiB
};

/// Writes a zip archive, as numpy.savez and numpy.savez_compressed do.
class ZipWriter {
 public:
  void add(const ZipMember& member) {
    const std::string packed = member.deflated ? deflated(member.contents) : member.contents;
    const auto checksum =
        static_cast<std::uint32_t>(crc32(0, reinterpret_cast<const Bytef*>(member.contents.data()),
                                         static_cast<uInt>(member.contents.size())));
    const std::uint64_t place = bytes_.size();
    std::string common;
    put<std::uint16_t>(common, 0);  // flags
    put<std::uint16_t>(common, member.deflated ? 8 : 0);
    put<std::uint32_t>(common, 0);  // time
    put<std::uint32_t>(common, checksum);
    put<std::uint32_t>(common, static_cast<std::uint32_t>(member.zip64 ? 0xffffffffu : packed.size()));
    put<std::uint32_t>(common,
                       static_cast<std::uint32_t>(member.zip64 ? 0xffffffffu : member.contents.size()));
    put<std::uint16_t>(common, static_cast<std::uint16_t>(member.name.size()));
    std::string extra;
    if (member.zip64) {
      put<std::uint16_t>(extra, 1);
      put<std::uint16_t>(extra, 24);
      put<std::uint64_t>(extra, member.contents.size());
      put<std::uint64_t>(extra, packed.size());
      put<std::uint64_t>(extra, place);
    }
    put<std::uint32_t>(bytes_, 0x04034b50);
    put<std::uint16_t>(bytes_, 45);
    bytes_ += common;
    put<std::uint16_t>(bytes_, 0);  // no extra field here
    bytes_ += member.name + packed;

    put<std::uint32_t>(directory_, 0x02014b50);
    put<std::uint16_t>(directory_, 45);
    put<std::uint16_t>(directory_, 45);
    directory_ += common;
    put<std::uint16_t>(directory_, static_cast<std::uint16_t>(extra.size()));
    directory_.append(2 + 2 + 2 + 4, '\0');  // comment, disk, attributes
    put<std::uint32_t>(directory_, member.zip64 ? 0xffffffffu : static_cast<std::uint32_t>(place));
    directory_ += member.name + extra;
    ++entries_;
  }

  std::string finish(bool zip64 = false) const {
    std::string all = bytes_ + directory_;
    if (zip64) {
      const std::uint64_t end64 = all.size();
      put<std::uint32_t>(all, 0x06064b50);
      put<std::uint64_t>(all, 44);
      all.append(2 + 2 + 4 + 4, '\0');
      put<std::uint64_t>(all, entries_);
      put<std::uint64_t>(all, entries_);
      put<std::uint64_t>(all, directory_.size());
      put<std::uint64_t>(all, bytes_.size());
      put<std::uint32_t>(all, 0x07064b50);
      put<std::uint32_t>(all, 0);
      put<std::uint64_t>(all, end64);
      put<std::uint32_t>(all, 1);
    }
    put<std::uint32_t>(all, 0x06054b50);
    put<std::uint32_t>(all, 0);
    put<std::uint16_t>(all, static_cast<std::uint16_t>(zip64 ? 0xffff : entries_));
    put<std::uint16_t>(all, static_cast<std::uint16_t>(zip64 ? 0xffff : entries_));
    put<std::uint32_t>(all, zip64 ? 0xffffffffu : static_cast<std::uint32_t>(directory_.size()));
    put<std::uint32_t>(all, zip64 ? 0xffffffffu : static_cast<std::uint32_t>(bytes_.size()));
    put<std::uint16_t>(all, 0);
    return all;
  }

 private:
  template <typename T>
  static void put(std::string& out, T value) {
    out.append(reinterpret_cast<const char*>(&value), sizeof value);
  }

  static std::string deflated(const std::string& contents) {
    z_stream stream = {};
    deflateInit2(&stream, 6, Z_DEFLATED, -MAX_WBITS, 8, Z_DEFAULT_STRATEGY);
    std::string out(deflateBound(&stream, contents.size()), '\0');
    stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(contents.data()));
    stream.avail_in = static_cast<uInt>(contents.size());
    stream.next_out = reinterpret_cast<Bytef*>(out.data());
    stream.avail_out = static_cast<uInt>(out.size());
    deflate(&stream, Z_FINISH);
    out.resize(stream.total_out);
    deflateEnd(&stream);
    return out;
  }

  std::string bytes_, directory_;
  std::uint64_t entries_ = 0;
};

/// The bytes of a .npy file.
inline std::string npy_bytes(const std::string& descr, const std::string& shape, const void* data,
                             std::size_t bytes, bool fortran_order = false) {
  std::string dict = "{'descr': '" + descr + "', 'fortran_order': " + (fortran_order ? "True" : "False") +
                     ", 'shape': " + shape + ", }";
  dict.append(64 - (10 + dict.size() + 1) % 64, ' ');
  dict += '\n';
  std::string out("\x93NUMPY\x01\x00", 8);
  out += static_cast<char>(dict.size() & 0xff);
  out += static_cast<char>(dict.size() >> 8);
  out += dict;
  return out.append(static_cast<const char*>(data), bytes);
}

template <typename T>
std::string npy_bytes(const std::string& descr, const std::string& shape, const std::vector<T>& values,
                      bool fortran_order = false) {
  return npy_bytes(descr, shape, values.data(), values.size() * sizeof(T), fortran_order);
}

}  // namespace strata::test
