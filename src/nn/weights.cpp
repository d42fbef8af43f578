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
#include "strata/util/utf8.hpp"

namespace strata::nn {
namespace {

using Json = nlohmann::ordered_json;
using Path = std::filesystem::path;

constexpr std::size_t kAlignment = 8;
constexpr const char* kMetadata = "__metadata__";

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

[[noreturn]] void refuse(const Path& path, const std::string& what) {
  throw InputError(fmt::format("{}: {}", path.string(), what),
                   "The file is damaged or no safetensors file; use another one or write it again.");
}

/// Where a tensor's bytes lie, as the header says.
struct Entry {
  std::string name;
  at::ScalarType type;
  std::vector<std::int64_t> shape;
  std::uint64_t begin = 0, end = 0;
};

/// Parses JSON and refuses an object with the same key twice, of which the parser would keep one.
Json parse_header(const std::string& text, const Path& path) {
  if (const auto bad = first_invalid_utf8(text))
    refuse(path, fmt::format("the header is not UTF-8 text: byte 0x{:02x} at offset {} of the file",
                             static_cast<unsigned char>(text[*bad]), *bad + sizeof(std::uint64_t)));
  std::vector<std::set<std::string>> keys;
  std::string twice;
  const auto watch = [&](int, Json::parse_event_t event, Json& value) {
    if (event == Json::parse_event_t::object_start) keys.emplace_back();
    if (event == Json::parse_event_t::object_end) keys.pop_back();
    if (event == Json::parse_event_t::key && !keys.back().insert(value.get<std::string>()).second)
      twice = value.get<std::string>();
    return true;
  };
  Json header;
  try {
    header = Json::parse(text, watch);
  } catch (const Json::exception& e) {
    refuse(path, fmt::format("the header is not valid JSON: {}", printable(e.what())));
  }
  if (!twice.empty()) refuse(path, fmt::format("the header names \"{}\" twice", twice));
  if (!header.is_object()) refuse(path, "the header is not a JSON object");
  return header;
}

std::uint64_t unsigned_at(const Json& value, const Path& path, const std::string& name, const char* field) {
  if (!value.is_number_unsigned())
    refuse(path, fmt::format("tensor \"{}\": {} is not a whole number", name, field));
  return value.get<std::uint64_t>();
}

/// Bytes of a tensor of this shape; refuses shapes whose size overflows.
std::uint64_t bytes_of(const Entry& entry, const Path& path) {
  constexpr auto kMax = static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max());
  std::uint64_t bytes = c10::elementSize(entry.type);
  for (const std::int64_t extent : entry.shape) {
    if (extent != 0 && bytes > kMax / static_cast<std::uint64_t>(extent)) {
      refuse(path, fmt::format("tensor \"{}\": its shape is too large", entry.name));
    }
    bytes *= static_cast<std::uint64_t>(extent);
  }
  return bytes;
}

Entry parse_entry(const std::string& name, const Json& value, const Path& path) {
  Entry entry{.name = name, .type = at::kFloat, .shape = {}};
  for (const char* field : {"dtype", "shape", "data_offsets"}) {
    if (!value.is_object() || !value.contains(field))
      refuse(path, fmt::format("tensor \"{}\" has no {}", name, field));
  }
  const Json &type = value["dtype"], &shape = value["shape"], &offsets = value["data_offsets"];
  const auto* known = std::ranges::find_if(
      kTypes, [&](const TypeName& t) { return type.is_string() && type.get<std::string>() == t.name; });
  if (known == std::end(kTypes))
    refuse(path, fmt::format("tensor \"{}\" has the unknown type {}", name, type.dump()));
  entry.type = known->type;
  if (!shape.is_array()) refuse(path, fmt::format("tensor \"{}\": shape is not an array", name));
  for (const Json& extent : shape) {
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

/// The tensors must fill the data exactly: none outside, none over another, no gap.
void check_layout(std::vector<Entry> entries, std::uint64_t data_bytes, const Path& path) {
  std::ranges::sort(entries, {}, [](const Entry& e) { return std::pair(e.begin, e.end); });
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

std::map<std::string, std::string> parse_metadata(const Json& value, const Path& path) {
  std::map<std::string, std::string> metadata;
  if (!value.is_object()) refuse(path, "the metadata are not a JSON object");
  for (const auto& [key, text] : value.items()) {
    if (!text.is_string()) refuse(path, fmt::format("the metadata \"{}\" are not a string", key));
    metadata[key] = text.get<std::string>();
  }
  return metadata;
}

void append_bytes(std::string& to, const at::Tensor& tensor) {
  const at::Tensor local = tensor.detach().to(at::kCPU).contiguous();
  to.append(static_cast<const char*>(local.const_data_ptr()), local.nbytes());
}

std::string header_of(const TensorFile& file) {
  Json header = Json::object();
  if (!file.metadata.empty()) header[kMetadata] = file.metadata;
  std::uint64_t offset = 0;
  for (const NamedTensor& entry : file.tensors) {
    if (entry.name == kMetadata || header.contains(entry.name)) {
      throw Error(fmt::format("two tensors of a file have the name \"{}\"", entry.name));
    }
    const std::uint64_t end = offset + entry.tensor.nbytes();
    header[entry.name] = {{"dtype", name_of_type(entry.tensor.scalar_type())},
                          {"shape", entry.tensor.sizes().vec()},
                          {"data_offsets", {offset, end}}};
    offset = end;
  }
  std::string text = header.dump();
  text.append((kAlignment - text.size() % kAlignment) % kAlignment, ' ');
  return text;
}

}  // namespace

const at::Tensor& TensorFile::at(const std::string& name, const Path& path) const {
  const auto found = std::ranges::find(tensors, name, &NamedTensor::name);
  if (found == tensors.end())
    throw InputError(fmt::format("{}: there is no tensor \"{}\"", path.string(), name),
                     "Use a file that the same model and optimizer wrote.");
  return found->tensor;
}

void write_tensors(const Path& path, const TensorFile& file) {
  const std::string header = header_of(file);
  const std::uint64_t length = header.size();
  std::string contents(reinterpret_cast<const char*>(&length), sizeof(length));
  contents += header;
  for (const NamedTensor& entry : file.tensors) append_bytes(contents, entry.tensor);
  write_file_atomically(path, contents);
}

TensorFile read_tensors(const Path& path) {
  const std::string contents = read_file(path);
  std::uint64_t length = 0;
  if (contents.size() < sizeof(length)) refuse(path, fmt::format("truncated: {} bytes", contents.size()));
  std::memcpy(&length, contents.data(), sizeof(length));
  const std::uint64_t rest = contents.size() - sizeof(length);
  if (length > rest)
    refuse(path, fmt::format("truncated: a header of {} bytes is announced, {} are there", length, rest));
  const Json header = parse_header(contents.substr(sizeof(length), length), path);

  TensorFile file;
  std::vector<Entry> entries;
  for (const auto& [name, value] : header.items()) {
    if (name == kMetadata)
      file.metadata = parse_metadata(value, path);
    else
      entries.push_back(parse_entry(name, value, path));
  }
  check_layout(entries, rest - length, path);
  const char* data = contents.data() + sizeof(length) + length;
  for (const Entry& entry : entries) {
    at::Tensor tensor = at::empty(entry.shape, at::TensorOptions().dtype(entry.type));
    if (entry.end > entry.begin)
      std::memcpy(tensor.mutable_data_ptr(), data + entry.begin, entry.end - entry.begin);
    file.tensors.push_back({entry.name, std::move(tensor)});
  }
  return file;
}

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
