// SPDX-License-Identifier: Apache-2.0
#include "readers/text/byte_stream.hpp"

#include <fmt/format.h>
#include <zlib.h>
#include <zstd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include "strata/util/error.hpp"
#include "strata/util/files.hpp"

namespace strata::graph {
namespace {

[[noreturn]] void refuse_open(const std::string& path, int code) {
  throw InputError(fmt::format("{}: cannot be opened: {}", path, std::strerror(code == 0 ? EINVAL : code)),
                   "Check that the file exists and can be read.");
}

[[noreturn]] void refuse_damage(const std::string& path, const char* kind, const char* what) {
  throw InputError(fmt::format("{}: damaged or truncated {} file: {}", path, kind, what),
                   "Copy or download the file again.");
}

/// A file as it is, for streams that decompress it. An owner.
class PackedFile {
 public:
  explicit PackedFile(std::string path) : path_(std::move(path)), file_(std::fopen(path_.c_str(), "rb")) {
    if (file_ == nullptr) refuse_open(path_, errno);
  }
  ~PackedFile() { std::fclose(file_); }
  PackedFile(const PackedFile&) = delete;
  PackedFile& operator=(const PackedFile&) = delete;

  /// Reads as many bytes as there are, at most `bytes`.
  std::size_t read(char* out, std::size_t bytes) {
    const std::size_t got = std::fread(out, 1, bytes, file_);
    if (std::ferror(file_) != 0) throw IoError(fmt::format("{}: cannot be read", path_), "Check the disk.");
    read_ += static_cast<std::int64_t>(got);
    return got;
  }
  /// The next bytes, in memory that the next call overwrites; empty at the end.
  std::span<char> next() {
    buffer_.resize(std::size_t{1} << 18);
    return {buffer_.data(), read(buffer_.data(), buffer_.size())};
  }

  const std::string& path() const { return path_; }
  std::int64_t bytes_read() const { return read_; }

 private:
  std::string path_;
  std::FILE* file_;
  std::vector<char> buffer_;
  std::int64_t read_ = 0;
};

class PlainStream : public ByteStream {
 public:
  explicit PlainStream(std::string path) : file_(std::move(path)) {}
  std::size_t read(char* out, std::size_t bytes) override { return file_.read(out, bytes); }
  std::int64_t file_bytes_read() const override { return file_.bytes_read(); }

 private:
  PackedFile file_;
};

/// One or more members, as `cat a.gz b.gz` makes. zlib's own reader would take a damaged header of a later
/// one for the end of the file.
class GzipStream : public ByteStream {
 public:
  explicit GzipStream(std::string path) : file_(std::move(path)) {
    constexpr int kGzip = 16;  // is added to the size of the window
    if (inflateInit2(&inflate_, MAX_WBITS + kGzip) != Z_OK) throw OutOfMemory("no memory to inflate a file");
  }
  ~GzipStream() override { inflateEnd(&inflate_); }
  GzipStream(const GzipStream&) = delete;
  GzipStream& operator=(const GzipStream&) = delete;

  std::size_t read(char* out, std::size_t bytes) override {
    std::size_t done = 0;
    while (done < bytes && (inflate_.avail_in > 0 || refill())) {
      if (ended_ && !begins_member()) continue;
      constexpr std::size_t kMost = 1u << 30;
      const auto room = static_cast<uInt>(std::min(bytes - done, kMost));
      inflate_.next_out = reinterpret_cast<Bytef*>(out + done);
      inflate_.avail_out = room;
      const int code = inflate(&inflate_, Z_NO_FLUSH);
      done += room - inflate_.avail_out;
      if (code != Z_OK && code != Z_STREAM_END && code != Z_BUF_ERROR)
        refuse_damage(file_.path(), "gzip", inflate_.msg != nullptr ? inflate_.msg : zError(code));
      ended_ = code == Z_STREAM_END;
      if (ended_) inflateReset(&inflate_);
    }
    if (done < bytes && !ended_) refuse_damage(file_.path(), "gzip", "it ends within the compressed text");
    return done;
  }
  std::int64_t file_bytes_read() const override { return file_.bytes_read(); }

 private:
  bool refill() {
    const std::span<char> bytes = file_.next();
    inflate_.next_in = reinterpret_cast<Bytef*>(bytes.data());
    inflate_.avail_in = static_cast<uInt>(bytes.size());
    return !bytes.empty();
  }
  /// Skips zeros between members, with which some programs fill up blocks. Returns whether there is more.
  bool begins_member() {
    while (inflate_.avail_in > 0 && *inflate_.next_in == 0) {
      ++inflate_.next_in;
      --inflate_.avail_in;
    }
    return inflate_.avail_in > 0;
  }

  PackedFile file_;
  z_stream inflate_{};
  bool ended_ = false;  ///< a member has ended, and no other has begun
};

class ZstdStream : public ByteStream {
 public:
  explicit ZstdStream(std::string path) : file_(std::move(path)), context_(ZSTD_createDCtx()) {
    if (context_ == nullptr) throw OutOfMemory("no memory to decompress a file");
  }
  ~ZstdStream() override { ZSTD_freeDCtx(context_); }
  ZstdStream(const ZstdStream&) = delete;
  ZstdStream& operator=(const ZstdStream&) = delete;

  std::size_t read(char* out, std::size_t bytes) override {
    ZSTD_outBuffer output{out, bytes, 0};
    while (output.pos < output.size) {
      if (input_.pos == input_.size && !refill()) {
        if (unfinished_) refuse_damage(file_.path(), "zstd", "it ends within a frame");
        break;
      }
      const std::size_t left = ZSTD_decompressStream(context_, &output, &input_);
      if (ZSTD_isError(left)) refuse_damage(file_.path(), "zstd", ZSTD_getErrorName(left));
      unfinished_ = left != 0;
    }
    return output.pos;
  }
  std::int64_t file_bytes_read() const override { return file_.bytes_read(); }

 private:
  bool refill() {
    const std::span<char> bytes = file_.next();
    input_ = {bytes.data(), bytes.size(), 0};
    return !bytes.empty();
  }

  PackedFile file_;
  ZSTD_DCtx* context_;
  ZSTD_inBuffer input_{nullptr, 0, 0};
  bool unfinished_ = true;
};

void check_file(const std::filesystem::path& path) {
  std::error_code error;
  const bool regular = std::filesystem::is_regular_file(path, error);
  if (error || !regular)
    throw InputError(fmt::format("{}: cannot be opened: {}", path.string(),
                                 error ? error.message() : "it is not a regular file"),
                     "Check that the file exists and can be read.");
  if (std::filesystem::file_size(path, error) == 0)
    throw InputError(fmt::format("{}: empty file (0 bytes)", path.string()),
                     "Copy or download it again. A table that has no rows is written as gzip of no text.");
}

/// The first bytes of a file, or all of it.
std::string beginning_of(const std::filesystem::path& path, std::size_t bytes) {
  std::string text(bytes, '\0');
  text.resize(PackedFile(path.string()).read(text.data(), bytes));
  return text;
}

}  // namespace

std::unique_ptr<ByteStream> open_bytes(const std::filesystem::path& path) {
  constexpr std::size_t kMarkBytes = 263;
  check_file(path);
  const std::string begin = beginning_of(path, kMarkBytes);
  const std::string_view compression = compression_of(begin);
  if (compression == "zstd") return std::make_unique<ZstdStream>(path.string());
  if (compression == "gzip") return std::make_unique<GzipStream>(path.string());
  refuse_compressed(begin, path.string());
  return std::make_unique<PlainStream>(path.string());
}

}  // namespace strata::graph
