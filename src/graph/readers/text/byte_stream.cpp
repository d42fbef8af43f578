// SPDX-License-Identifier: Apache-2.0
#include "readers/text/byte_stream.hpp"

#include <fmt/format.h>
#include <zlib.h>
#include <zstd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <string>
#include <system_error>
#include <vector>

#include "strata/util/error.hpp"

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

/// A gzip file, or one that is not compressed at all: zlib reads both.
class GzipStream : public ByteStream {
 public:
  explicit GzipStream(std::string path) : path_(std::move(path)), file_(gzopen(path_.c_str(), "rb")) {
    if (file_ == nullptr) refuse_open(path_, errno);
    gzbuffer(file_, 1u << 18);
  }
  ~GzipStream() override { gzclose_r(file_); }
  GzipStream(const GzipStream&) = delete;
  GzipStream& operator=(const GzipStream&) = delete;

  std::size_t read(char* out, std::size_t bytes) override {
    const int got = gzread(file_, out, static_cast<unsigned>(bytes));
    int code = Z_OK;
    const char* const text = gzerror(file_, &code);
    if (got < 0 || (static_cast<std::size_t>(got) < bytes && code != Z_OK && code != Z_STREAM_END))
      refuse_damage(path_, "gzip", text);
    return static_cast<std::size_t>(got);
  }
  std::int64_t file_bytes_read() const override { return std::max<std::int64_t>(0, gzoffset(file_)); }

 private:
  std::string path_;
  gzFile file_;
};

class ZstdStream : public ByteStream {
 public:
  explicit ZstdStream(std::string path)
      : path_(std::move(path)), file_(std::fopen(path_.c_str(), "rb")), context_(ZSTD_createDCtx()) {
    if (file_ == nullptr || context_ == nullptr) {
      const int code = errno;
      release();
      refuse_open(path_, code);
    }
  }
  ~ZstdStream() override { release(); }
  ZstdStream(const ZstdStream&) = delete;
  ZstdStream& operator=(const ZstdStream&) = delete;

  std::size_t read(char* out, std::size_t bytes) override {
    ZSTD_outBuffer output{out, bytes, 0};
    while (output.pos < output.size) {
      if (input_.pos == input_.size && !refill()) {
        if (unfinished_) refuse_damage(path_, "zstd", "it ends within a frame");
        break;
      }
      const std::size_t left = ZSTD_decompressStream(context_, &output, &input_);
      if (ZSTD_isError(left)) refuse_damage(path_, "zstd", ZSTD_getErrorName(left));
      unfinished_ = left != 0;
    }
    return output.pos;
  }
  std::int64_t file_bytes_read() const override { return read_; }

 private:
  bool refill() {
    input_ = {packed_.data(), std::fread(packed_.data(), 1, packed_.size(), file_), 0};
    if (std::ferror(file_) != 0) throw IoError(fmt::format("{}: cannot be read", path_), "Check the disk.");
    read_ += static_cast<std::int64_t>(input_.size);
    return input_.size > 0;
  }
  void release() {
    if (file_ != nullptr) std::fclose(file_);
    ZSTD_freeDCtx(context_);
  }

  std::string path_;
  std::FILE* file_;
  ZSTD_DCtx* context_;
  std::vector<char> packed_ = std::vector<char>(1u << 18);
  ZSTD_inBuffer input_{nullptr, 0, 0};
  std::int64_t read_ = 0;
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

bool is_zstd(const std::filesystem::path& path) {
  std::FILE* const file = std::fopen(path.c_str(), "rb");
  if (file == nullptr) refuse_open(path.string(), errno);
  unsigned char magic[4] = {};
  const std::size_t got = std::fread(magic, 1, sizeof magic, file);
  std::fclose(file);
  constexpr unsigned char kZstd[] = {0x28, 0xb5, 0x2f, 0xfd};
  return got == sizeof magic && std::equal(magic, magic + sizeof magic, kZstd);
}

}  // namespace

std::unique_ptr<ByteStream> open_bytes(const std::filesystem::path& path) {
  check_file(path);
  if (is_zstd(path)) return std::make_unique<ZstdStream>(path.string());
  return std::make_unique<GzipStream>(path.string());
}

}  // namespace strata::graph
