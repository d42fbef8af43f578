// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <ATen/core/Tensor.h>
#include <torch/nn/module.h>

#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace strata::nn {

/// A tensor with the name that it has in a file. After reading it is contiguous and on the CPU.
struct NamedTensor {
  std::string name;
  at::Tensor tensor;
};

/// The contents of a safetensors file. Models and checkpoints are such files; `safetensors.torch.load_file`
/// reads them in Python.
///
///     u64 length of the header | JSON header, padded with spaces to 8 bytes | the tensors' bytes,
///     little-endian, without gaps
///
/// The header's metadata hold XXH3 hashes, so that no bit can change unseen: `xxh3.tensors`, one per tensor
/// in the order of their bytes, and `xxh3.header`, of the header with zeros in place of its own digits.
struct TensorFile {
  std::vector<NamedTensor> tensors;             ///< names are distinct; in the order of their bytes
  std::map<std::string, std::string> metadata;  ///< without the hashes
  bool hashed = false;                          ///< set by reading: the file has hashes, and they are right

  /// The tensor of this name. Throws InputError naming `path`, from which the file was read, if there is
  /// none.
  const at::Tensor& at(const std::string& name, const std::filesystem::path& path) const;
};

/// The bytes of the file, with hashes. Tensors may lie on any device. Throws Error for types that the format
/// lacks.
std::string format_tensors(const TensorFile& file);

/// Checks and parses the bytes of a file; `path` names it in errors. Throws InputError naming file and field:
/// not safetensors, truncated, sizes that do not match shapes, overlapping tensors or gaps between them,
/// unknown types, a name that occurs twice, wrong hashes. Files of other programs need no hashes.
TensorFile parse_tensors(std::string_view contents, const std::filesystem::path& path);

/// Writes the file atomically. Throws IoError, and what format_tensors() throws.
void write_tensors(const std::filesystem::path& path, const TensorFile& file);

/// Reads the whole file. Throws IoError, and what parse_tensors() throws.
TensorFile read_tensors(const std::filesystem::path& path);

/// The model's parameters and buffers, under their names.
std::vector<NamedTensor> weights_of(const torch::nn::Module& model);

/// Copies the tensors of `file` into the model's parameters and buffers of the same names. Tensors of other
/// names are ignored. If one is missing or has another type or shape, it throws InputError naming `path` and
/// the parameter, and the model is unchanged.
void load_weights(torch::nn::Module& model, const TensorFile& file, const std::filesystem::path& path);

}  // namespace strata::nn
