// SPDX-License-Identifier: Apache-2.0
#include "strata/graph/npy.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <string_view>
#include <system_error>
#include <utility>

#include "readers/numpy/mapped_file.hpp"
#include "readers/numpy/parse_npy.hpp"
#include "strata/util/error.hpp"
#include "strata/util/files.hpp"
#include "strata/util/text.hpp"

namespace strata::graph {
namespace {

static_assert(std::endian::native == std::endian::little, "npy files are read in place");

constexpr std::string_view kMagic = "\x93NUMPY";
constexpr std::size_t kAlignment = 64;

[[noreturn]] void refuse_array(const std::string& origin, const std::string& what) {
  throw InputError(fmt::format("{}: {}", origin, what),
                   "Write the array again with numpy.save (little endian, no Python objects).");
}

/// The header is a Python dict literal: {'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), }
class HeaderDict {
 public:
  HeaderDict(std::string origin, std::string_view text) : origin_(std::move(origin)), text_(text) {}

  std::string_view value(std::string_view key) const {
    const std::string quoted = fmt::format("'{}'", key);
    const std::size_t at = text_.find(quoted);
    if (at == std::string_view::npos) refuse_array(origin_, fmt::format("the npy header has no '{}'", key));
    std::size_t first = text_.find(':', at + quoted.size());
    if (first == std::string_view::npos) refuse_array(origin_, "the npy header is damaged");
    first = text_.find_first_not_of(' ', first + 1);
    if (first == std::string_view::npos) refuse_array(origin_, "the npy header is damaged");
    return text_.substr(first);
  }

  std::string_view descr() const {
    const std::string_view text = value("descr");
    if (text.front() != '\'') refuse_array(origin_, "structured arrays are not supported");
    const std::size_t end = text.find('\'', 1);
    if (end == std::string_view::npos) refuse_array(origin_, "the npy header is damaged");
    return text.substr(1, end - 1);
  }

  bool fortran_order() const {
    const std::string_view text = value("fortran_order");
    if (!text.starts_with("True") && !text.starts_with("False"))
      refuse_array(origin_, "the npy header has no valid fortran_order");
    return text.starts_with("True");
  }

  std::vector<Count> shape() const {
    std::string_view text = value("shape");
    const std::size_t end = text.find(')');
    if (text.front() != '(' || end == std::string_view::npos)
      refuse_array(origin_, "the npy header has no shape");
    text = text.substr(1, end - 1);
    std::vector<Count> extents;
    while (!text.empty()) {
      Count extent = 0;
      const auto [next, error] = std::from_chars(text.data(), text.data() + text.size(), extent);
      text.remove_prefix(static_cast<std::size_t>(next - text.data()));
      const bool more = text.starts_with(',');
      if (error != std::errc{} || extent < 0 || (!more && !text.empty()))
        refuse_array(origin_, "the npy header has no valid shape");
      extents.push_back(extent);
      text.remove_prefix(std::min(text.find_first_not_of(' ', more ? 1 : 0), text.size()));
    }
    return extents;
  }

 private:
  std::string origin_;
  std::string_view text_;
};

struct ItemType {
  char kind;
  int bytes;
};

ItemType parse_descr(const std::string& origin, std::string_view descr) {
  const bool known_order = descr.size() >= 3 && (descr[0] == '<' || descr[0] == '|' || descr[0] == '=');
  if (!known_order)
    refuse_array(origin,
                 fmt::format("type '{}' is not supported (big endian or Python objects)", printable(descr)));
  const char kind = descr[1];
  int bytes = 0;
  const char* const end = descr.data() + descr.size();
  if (std::from_chars(descr.data() + 2, end, bytes).ptr != end) bytes = 0;
  const bool is_float = kind == 'f' && (bytes == 2 || bytes == 4 || bytes == 8);
  const bool is_int = (kind == 'i' || kind == 'u') && (bytes == 1 || bytes == 2 || bytes == 4 || bytes == 8);
  const bool is_word = kind == 'S' && bytes >= 1 && bytes <= 64;
  if (!is_float && !is_int && !is_word && !(kind == 'b' && bytes == 1))
    refuse_array(origin, fmt::format("type '{}' is not supported", printable(descr)));
  return {.kind = kind, .bytes = bytes};
}

std::size_t payload_bytes(const NpyArray& array) {
  std::size_t bytes = static_cast<std::size_t>(array.item_bytes);
  for (const Count extent : array.shape)
    if (__builtin_mul_overflow(bytes, static_cast<std::size_t>(extent), &bytes))
      refuse_array(array.origin, fmt::format("shape {} overflows 64 bits", array.shape_text()));
  return bytes;
}

/// Aligns an array by a copy, because members of a zip archive may begin at any byte.
void align(NpyArray& array, std::size_t bytes, ScratchStore* scratch) {
  if (bytes == 0 ||
      reinterpret_cast<std::uintptr_t>(array.data) % static_cast<std::size_t>(array.item_bytes) == 0)
    return;
  if (scratch != nullptr) {
    constexpr std::size_t kPieceBytes = std::size_t{1} << 20;
    ScratchWriter<std::byte> file(*scratch);
    for (std::size_t first = 0; first < bytes; first += kPieceBytes) {
      file.append({array.data + first, std::min(kPieceBytes, bytes - first)});
      scratch->trim();
    }
    const ScratchArray<std::byte> stored = std::move(file).finish();
    array.data = stored.data();
    array.keep_alive = stored.keep_alive();
    return;
  }
  const std::shared_ptr<std::byte[]> copy(new std::byte[bytes]);
  std::memcpy(copy.get(), array.data, bytes);
  array.data = copy.get();
  array.keep_alive = copy;
}

std::string descr_of(DType dtype) {
  switch (dtype) {
    case DType::f32:
      return "<f4";
    case DType::f16:
      return "<f2";
    case DType::f64:
      return "<f8";
    case DType::i8:
      return "|i1";
    case DType::u8:
      return "|u1";
    case DType::i32:
      return "<i4";
    case DType::i64:
      return "<i8";
    case DType::bf16:
      break;
  }
  throw InputError(fmt::format("npy files cannot hold {}", name_of(dtype)), "Convert to f16 or f32.");
}

class OutputFile {
 public:
  explicit OutputFile(std::string path) : path_(std::move(path)), file_(std::fopen(path_.c_str(), "wb")) {
    if (file_ == nullptr) fail();
  }
  ~OutputFile() {
    if (file_ != nullptr) std::fclose(file_);
  }
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;

  void write(const void* data, std::size_t bytes) {
    if (bytes != 0 && std::fwrite(data, 1, bytes, file_) != bytes) fail();
  }
  void close() {
    std::FILE* file = std::exchange(file_, nullptr);
    if (std::fclose(file) != 0) fail();
  }

 private:
  [[noreturn]] void fail() const {
    const int code = errno;
    throw IoError(fmt::format("{}: cannot write: {}", path_, std::generic_category().message(code)),
                  code == ENOSPC ? "Free some disk space." : "Check the folder and its permissions.");
  }

  std::string path_;
  std::FILE* file_;
};

}  // namespace

Count NpyArray::size() const {
  Count product = 1;
  for (const Count extent : shape) product *= extent;
  return product;
}

std::string NpyArray::type_name() const { return fmt::format("{}{}", kind, item_bytes); }

std::string NpyArray::shape_text() const {
  return shape.size() == 1 ? fmt::format("({},)", shape[0]) : fmt::format("({})", fmt::join(shape, ", "));
}

NpyHeader parse_npy_header(const std::string& origin, std::span<const std::byte> bytes) {
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  if (text.empty()) refuse_array(origin, "empty file (0 bytes); an empty array has a header, too");
  refuse_compressed(text, origin);
  if (!text.starts_with(kMagic)) refuse_array(origin, "not a npy file (wrong magic)");
  if (text.size() < 12) refuse_array(origin, "truncated: the npy header is incomplete");
  const int major = static_cast<unsigned char>(text[6]);
  if (major < 1 || major > 3)
    refuse_array(origin, fmt::format("npy version {} is not known (1 to 3 are)", major));
  const std::size_t length_bytes = major == 1 ? 2 : 4;
  std::size_t length = 0;
  std::memcpy(&length, text.data() + 8, length_bytes);
  const std::size_t start = 8 + length_bytes + length;
  if (start > text.size()) refuse_array(origin, "truncated: the npy header is incomplete");

  const HeaderDict dict(origin, text.substr(8 + length_bytes, length));
  const ItemType item = parse_descr(origin, dict.descr());
  return {.array = {.origin = origin,
                    .kind = item.kind,
                    .item_bytes = item.bytes,
                    .shape = dict.shape(),
                    .fortran_order = dict.fortran_order(),
                    .data = nullptr,
                    .keep_alive = nullptr},
          .bytes = start};
}

void require_payload(const NpyArray& array, std::size_t found_bytes) {
  const std::size_t wanted = payload_bytes(array);
  if (found_bytes != wanted)
    throw InputError(fmt::format("{}: {}: shape {} of {} takes {} bytes of data, the file has {}",
                                 array.origin, found_bytes < wanted ? "truncated" : "too long",
                                 array.shape_text(), array.type_name(), wanted, found_bytes),
                     "Copy or download the file again, or write it with numpy.save: one array per file.");
}

NpyArray parse_npy(const std::string& origin, std::span<const std::byte> bytes,
                   std::shared_ptr<const void> keep_alive, ScratchStore* scratch) {
  auto [array, start] = parse_npy_header(origin, bytes);
  array.data = bytes.data() + start;
  array.keep_alive = std::move(keep_alive);
  require_payload(array, bytes.size() - start);
  align(array, bytes.size() - start, scratch);
  return array;
}

bool is_npy(const std::filesystem::path& path) {
  std::string first(kMagic.size(), '\0');
  std::ifstream{path, std::ios::binary}.read(first.data(), std::ssize(first));
  return first == kMagic;
}

NpyArray read_npy(const std::filesystem::path& path) {
  const auto file = std::make_shared<const MappedFile>(path);
  return parse_npy(path.string(), {file->data(), file->size()}, file);
}

std::string npy_header(DType dtype, const std::vector<Count>& shape) {
  const std::string extents =
      shape.size() == 1 ? fmt::format("{},", shape[0]) : fmt::format("{}", fmt::join(shape, ", "));
  std::string dict =
      fmt::format("{{'descr': '{}', 'fortran_order': False, 'shape': ({}), }}", descr_of(dtype), extents);
  const std::size_t fixed = kMagic.size() + 4;  // magic, version, length
  dict.append((kAlignment - (fixed + dict.size() + 1) % kAlignment) % kAlignment, ' ');
  dict += '\n';
  std::string header(kMagic);
  header += {'\x01', '\x00', static_cast<char>(dict.size() & 0xff), static_cast<char>(dict.size() >> 8)};
  return header + dict;
}

void write_npy(const std::filesystem::path& path, DType dtype, const std::vector<Count>& shape,
               const void* data) {
  std::size_t bytes = size_of(dtype);
  for (const Count extent : shape) bytes *= static_cast<std::size_t>(extent);
  const std::string header = npy_header(dtype, shape);
  const std::filesystem::path temporary = make_temporary_beside(path);
  try {
    OutputFile file(temporary.string());
    file.write(header.data(), header.size());
    file.write(data, bytes);
    file.close();
    sync_to_disk(temporary);
    std::error_code error;
    std::filesystem::rename(temporary, path, error);
    if (error)
      throw IoError(fmt::format("{}: cannot rename the finished file: {}", path.string(), error.message()));
  } catch (...) {
    std::error_code ignored;
    std::filesystem::remove(temporary, ignored);
    throw;
  }
}

}  // namespace strata::graph
