// SPDX-License-Identifier: Apache-2.0
#include "strata/nn/weights.hpp"

#include <ATen/ops/empty.h>
#include <c10/core/GradMode.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <nlohmann/json.hpp>
#include <set>

#include "strata/util/error.hpp"
#include "strata/util/files.hpp"
#include "strata/util/text.hpp"

namespace strata::nn {
namespace {

using nlohmann::json;
using Path = std::filesystem::path;

constexpr std::size_t kAlignment = 8;
constexpr const char* kMetadata = "__metadata__";
constexpr const char* kHeaderHash = "xxh3.header";
constexpr const char* kTensorHashes = "xxh3.tensors";
constexpr std::size_t kHashDigits = 16;

// Limits of what is read. The first one is that of the format's own library.
constexpr std::uint64_t kMaxHeaderBytes = 100'000'000;
constexpr int kMaxDepth = 3;  // tensors or metadata, a field, the numbers of a shape
constexpr std::size_t kMaxDims = 64;

struct TypeName {
  const char* name;
  at::ScalarType type;
};
constexpr TypeName kTypes[] = {{"F32", at::kFloat},     {"F64", at::kDouble}, {"F16", at::kHalf},
                               {"BF16", at::kBFloat16}, {"I64", at::kLong},   {"I32", at::kInt},
                               {"I16", at::kShort},     {"I8", at::kChar},    {"U8", at::kByte},
                               {"BOOL", at::kBool}};

const char* name_of_type(at::ScalarType type) {
  const auto* found = std::ranges::find(kTypes, type, &TypeName::type);
  if (found == std::end(kTypes))
    throw Error(fmt::format("safetensors has no type for {}", c10::toString(type)));
  return found->name;
}

/// `what` may quote names of the file, which are anybody's.
[[noreturn]] void refuse(const Path& path, const std::string& what) {
  throw InputError(fmt::format("{}: {}", path.string(), printable(what)),
                   "The file is damaged or no safetensors file; use another one or write it again.");
}

/// Where a tensor's bytes lie, as the header says.
struct Entry {
  std::string name;
  at::ScalarType type;
  std::vector<std::int64_t> shape;
  std::uint64_t begin = 0, end = 0;
};

/// Parses JSON and refuses objects with the same key twice, because the parser would keep only one.
json parse_header(std::string_view text, const Path& path) {
  if (const auto bad = first_invalid_utf8(text))
    refuse(path, fmt::format("the header is not UTF-8 text: byte 0x{:02x} at offset {} of the file",
                             static_cast<unsigned char>(text[*bad]), *bad + sizeof(std::uint64_t)));
  std::vector<std::set<std::string>> keys;
  std::string twice;
  const auto watch = [&](int depth, json::parse_event_t event, json& value) {
    if (depth > kMaxDepth) refuse(path, "the header is nested too deeply");
    if (event == json::parse_event_t::object_start) keys.emplace_back();
    if (event == json::parse_event_t::object_end) keys.pop_back();
    if (event == json::parse_event_t::key && !keys.back().insert(value.get<std::string>()).second)
      twice = value.get<std::string>();
    return true;
  };
  json header;
  try {
    header = json::parse(text, watch);
  } catch (const json::exception& e) {
    refuse(path, fmt::format("the header is not valid JSON: {}", e.what()));
  }
  if (!twice.empty()) refuse(path, fmt::format("the header names \"{}\" twice", twice));
  if (!header.is_object()) refuse(path, "the header is not a JSON object");
  return header;
}

std::uint64_t unsigned_at(const json& value, const Path& path, const std::string& name, const char* field) {
  if (!value.is_number_unsigned())
    refuse(path, fmt::format("tensor \"{}\": {} is not a whole number", name, field));
  return value.get<std::uint64_t>();
}

/// Bytes of a tensor of this shape; refuses shapes whose size overflows.
std::uint64_t bytes_of(const Entry& entry, const Path& path) {
  constexpr auto kMax = static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max());
  std::uint64_t bytes = c10::elementSize(entry.type);
  bool empty = false;
  for (const std::int64_t extent : entry.shape) {
    // 0 counts as 1, as in strides
    const auto factor = static_cast<std::uint64_t>(std::max<std::int64_t>(extent, 1));
    if (bytes > kMax / factor || entry.shape.size() > kMaxDims)
      refuse(path, fmt::format("tensor \"{}\": its shape is too large", entry.name));
    bytes *= factor;
    empty |= extent == 0;
  }
  return empty ? 0 : bytes;
}

Entry parse_entry(const std::string& name, const json& value, const Path& path) {
  Entry entry{.name = name, .type = at::kFloat, .shape = {}};
  for (const char* field : {"dtype", "shape", "data_offsets"}) {
    if (!value.is_object() || !value.contains(field))
      refuse(path, fmt::format("tensor \"{}\" has no {}", name, field));
  }
  const json &type = value["dtype"], &shape = value["shape"], &offsets = value["data_offsets"];
  const auto* known = std::ranges::find_if(
      kTypes, [&](const TypeName& t) { return type.is_string() && type.get<std::string>() == t.name; });
  if (known == std::end(kTypes))
    refuse(path, fmt::format("tensor \"{}\" has the unknown type {}", name, type.dump()));
  entry.type = known->type;
  if (!shape.is_array()) refuse(path, fmt::format("tensor \"{}\": shape is not an array", name));
  for (const json& extent : shape) {
    const std::uint64_t size = unsigned_at(extent, path, name, "an extent of the shape");
    if (size > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max())) {
      refuse(path, fmt::format("tensor \"{}\": its shape is too large", name));
    }
    entry.shape.push_back(static_cast<std::int64_t>(size));
  }
  if (!offsets.is_array() || offsets.size() != 2)
    refuse(path, fmt::format("tensor \"{}\": data_offsets are not two numbers", name));
  entry.begin = unsigned_at(offsets[0], path, name, "an offset");
  entry.end = unsigned_at(offsets[1], path, name, "an offset");
  const std::uint64_t bytes = bytes_of(entry, path);
  if (entry.end < entry.begin || entry.end - entry.begin != bytes) {
    refuse(path, fmt::format("tensor \"{}\": {} of shape [{}] takes {} bytes, but its offsets are {} and {}",
                             name, known->name, fmt::join(entry.shape, ", "), bytes, entry.begin, entry.end));
  }
  return entry;
}

/// The tensors, in order, must fill the data exactly: none outside, none over another, no gap.
void check_layout(const std::vector<Entry>& entries, std::uint64_t data_bytes, const Path& path) {
  std::uint64_t reached = 0;
  for (const Entry& entry : entries) {
    if (entry.end > data_bytes) {
      refuse(path, fmt::format("truncated: tensor \"{}\" ends at byte {} of {} that are there", entry.name,
                               entry.end, data_bytes));
    }
    if (entry.begin < reached)
      refuse(path, fmt::format("tensor \"{}\" overlaps the one before it", entry.name));
    if (entry.begin > reached) refuse(path, fmt::format("there is a gap before tensor \"{}\"", entry.name));
    reached = entry.end;
  }
  if (reached != data_bytes)
    refuse(path, fmt::format("{} bytes follow the last tensor", data_bytes - reached));
}

std::map<std::string, std::string> parse_metadata(const json& value, const Path& path) {
  std::map<std::string, std::string> metadata;
  if (!value.is_object()) refuse(path, "the metadata are not a JSON object");
  for (const auto& [key, text] : value.items()) {
    if (!text.is_string()) refuse(path, fmt::format("the metadata \"{}\" are not a string", key));
    metadata[key] = text.get<std::string>();
  }
  return metadata;
}

at::Tensor on_host(const at::Tensor& tensor) { return tensor.detach().to(at::kCPU).contiguous(); }

std::string hashes_of(const std::vector<at::Tensor>& tensors) {
  std::vector<std::string> hashes;
  for (const at::Tensor& tensor : tensors)
    hashes.push_back(hex64(hash_bytes(tensor.const_data_ptr(), tensor.nbytes())));
  return fmt::format("{}", fmt::join(hashes, " "));
}

/// The position of the header's own hash in its text, or npos.
std::size_t place_of_hash(std::string_view header, const std::string& digits) {
  const std::string before = fmt::format("\"{}\":\"", kHeaderHash);
  const std::size_t found = header.find(before + digits + '"');
  return found == std::string_view::npos ? found : found + before.size();
}

std::string header_of(const TensorFile& file, const std::vector<at::Tensor>& tensors) {
  const std::string zeros(kHashDigits, '0');
  std::map<std::string, std::string> metadata = file.metadata;
  const bool added = metadata.emplace(kHeaderHash, zeros).second &&
                     metadata.emplace(kTensorHashes, hashes_of(tensors)).second;
  if (!added) throw Error("the metadata of a file of tensors hold hashes already");
  nlohmann::ordered_json header{{kMetadata, metadata}};
  std::uint64_t offset = 0;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const std::string& name = file.tensors[i].name;
    if (header.contains(name)) throw Error(fmt::format("two tensors of a file have the name \"{}\"", name));
    const std::uint64_t end = offset + tensors[i].nbytes();
    header[name] = {{"dtype", name_of_type(tensors[i].scalar_type())},
                    {"shape", tensors[i].sizes().vec()},
                    {"data_offsets", {offset, end}}};
    offset = end;
  }
  std::string text = header.dump();
  text.append((kAlignment - text.size() % kAlignment) % kAlignment, ' ');
  const std::string hash = hex64(hash_bytes(text.data(), text.size()));
  return text.replace(place_of_hash(text, zeros), kHashDigits, hash);
}

/// Removes the hashes from the metadata; false if there are none.
bool check_hashes(std::string_view header, const char* data, const std::vector<Entry>& entries,
                  std::map<std::string, std::string>& metadata, const Path& path) {
  const auto own = metadata.extract(kHeaderHash), others = metadata.extract(kTensorHashes);
  if (own.empty() && others.empty()) return false;
  if (own.empty() || others.empty()) refuse(path, "one of its two fields of hashes is missing");
  std::string text(header);
  const std::size_t place = place_of_hash(header, own.mapped());
  if (place == std::string::npos || own.mapped().size() != kHashDigits)
    refuse(path, fmt::format("{} is not where it was written", kHeaderHash));
  text.replace(place, kHashDigits, kHashDigits, '0');
  if (hex64(hash_bytes(text.data(), text.size())) != own.mapped())
    refuse(path, "the header changed after it was written: its hash does not fit");
  const std::size_t separators = entries.empty() ? 0 : entries.size() - 1;
  if (others.mapped().size() != entries.size() * kHashDigits + separators)
    refuse(path, fmt::format("{} does not hold one hash per tensor", kTensorHashes));
  for (std::size_t i = 0; i < entries.size(); ++i) {
    const Entry& entry = entries[i];
    const std::string hash = hex64(hash_bytes(data + entry.begin, entry.end - entry.begin));
    if (others.mapped().compare(i * (kHashDigits + 1), kHashDigits, hash) != 0)
      refuse(path,
             fmt::format("tensor \"{}\" changed after it was written: its hash does not fit", entry.name));
  }
  return true;
}

}  // namespace

const at::Tensor& TensorFile::at(const std::string& name, const Path& path) const {
  const auto found = std::ranges::find(tensors, name, &NamedTensor::name);
  if (found == tensors.end())
    throw InputError(fmt::format("{}: there is no tensor \"{}\"", path.string(), name),
                     "Use a file that the same model and optimizer wrote.");
  return found->tensor;
}

std::string format_tensors(const TensorFile& file) {
  std::vector<at::Tensor> tensors;
  for (const NamedTensor& entry : file.tensors) tensors.push_back(on_host(entry.tensor));
  const std::string header = header_of(file, tensors);
  const std::uint64_t length = header.size();
  std::string contents(reinterpret_cast<const char*>(&length), sizeof(length));
  contents += header;
  for (const at::Tensor& tensor : tensors)
    contents.append(static_cast<const char*>(tensor.const_data_ptr()), tensor.nbytes());
  return contents;
}

void write_tensors(const Path& path, const TensorFile& file) {
  write_file_atomically(path, format_tensors(file));
}

TensorFile parse_tensors(std::string_view contents, const Path& path) {
  std::uint64_t length = 0;
  if (contents.size() < sizeof(length)) refuse(path, fmt::format("truncated: {} bytes", contents.size()));
  std::memcpy(&length, contents.data(), sizeof(length));
  const std::uint64_t rest = contents.size() - sizeof(length);
  if (length > rest)
    refuse(path, fmt::format("truncated: a header of {} bytes is announced, {} are there", length, rest));
  if (length > kMaxHeaderBytes)
    refuse(path, fmt::format("a header of {} bytes; {} are the limit", length, kMaxHeaderBytes));
  const std::string_view text = contents.substr(sizeof(length), length);
  const json header = parse_header(text, path);

  TensorFile file;
  std::vector<Entry> entries;
  for (const auto& [name, value] : header.items()) {
    if (name == kMetadata)
      file.metadata = parse_metadata(value, path);
    else
      entries.push_back(parse_entry(name, value, path));
  }
  std::ranges::sort(entries, {}, [](const Entry& e) { return std::pair(e.begin, e.end); });
  check_layout(entries, rest - length, path);
  const char* data = contents.data() + sizeof(length) + length;
  file.hashed = check_hashes(text, data, entries, file.metadata, path);
  for (const Entry& entry : entries) {
    at::Tensor tensor = at::empty(entry.shape, at::TensorOptions().dtype(entry.type));
    if (entry.end > entry.begin)
      std::memcpy(tensor.mutable_data_ptr(), data + entry.begin, entry.end - entry.begin);
    file.tensors.push_back({entry.name, std::move(tensor)});
  }
  return file;
}

TensorFile read_tensors(const Path& path) { return parse_tensors(read_file(path), path); }

std::vector<NamedTensor> weights_of(const torch::nn::Module& model) {
  std::vector<NamedTensor> weights;
  for (const auto& item : model.named_parameters()) weights.push_back({item.key(), item.value()});
  for (const auto& item : model.named_buffers()) weights.push_back({item.key(), item.value()});
  return weights;
}

void load_weights(torch::nn::Module& model, const TensorFile& file, const Path& path) {
  const std::vector<NamedTensor> weights = weights_of(model);
  for (const NamedTensor& weight : weights) {
    const at::Tensor& found = file.at(weight.name, path);
    if (found.sizes() == weight.tensor.sizes() && found.scalar_type() == weight.tensor.scalar_type())
      continue;
    throw InputError(
        fmt::format("{}: \"{}\" is {} [{}], but the model's is {} [{}]", path.string(), weight.name,
                    c10::toString(found.scalar_type()), fmt::join(found.sizes(), ", "),
                    c10::toString(weight.tensor.scalar_type()), fmt::join(weight.tensor.sizes(), ", ")),
        "Use the options that the file was written with.");
  }
  const c10::NoGradGuard no_grad;
  for (const NamedTensor& weight : weights) at::Tensor(weight.tensor).copy_(file.at(weight.name, path));
}

}  // namespace strata::nn
