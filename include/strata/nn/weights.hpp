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

/// A tensor of a file; on the CPU and contiguous after reading.
struct NamedTensor {
  std::string name;
  at::Tensor tensor;
};

/// What a safetensors file holds. Models and checkpoints are such files; `safetensors.torch.load_file` reads
/// them in Python.
///
///     u64 length of the header | JSON header, padded with spaces to 8 bytes | the tensors' bytes,
///     little-endian, without gaps
///
/// The header's metadata hold XXH3 hashes: `xxh3.tensors`, one per tensor in the order of their bytes, and
/// `xxh3.header`, of the header in which its own digits are zeros. So no bit can change unseen.
struct TensorFile {
  std::vector<NamedTensor> tensors;             ///< names are distinct; in the order of their bytes
  std::map<std::string, std::string> metadata;  ///< without the hashes
  bool hashed = false;  ///< of a file that was read: it has hashes, and they are right

  /// The tensor of this name; throws InputError naming `path`, of which the file was read, if there is none.
  const at::Tensor& at(const std::string& name, const std::filesystem::path& path) const;
};

/// The contents of a file with hashes. Tensors may lie on any device. Throws Error for types that the format
/// lacks.
std::string format_tensors(const TensorFile& file);

/// Checks and takes apart the contents of a file; `path` names it in errors. Throws InputError naming file
/// and field: not safetensors, truncated, sizes that do not fit shapes, overlapping tensors or gaps between
/// them, unknown types, a name that occurs twice, hashes that do not fit. Files of other programs need no
/// hashes.
TensorFile parse_tensors(std::string_view contents, const std::filesystem::path& path);

/// Writes the file atomically. Throws IoError, and what format_tensors() throws.
void write_tensors(const std::filesystem::path& path, const TensorFile& file);

/// Reads the whole file. Throws IoError, and what parse_tensors() throws.
TensorFile read_tensors(const std::filesystem::path& path);

/// The model's parameters and buffers, under their names.
std::vector<NamedTensor> weights_of(const torch::nn::Module& model);

/// Copies the tensors of `file` that the model has names for into it. Throws InputError naming `path` and the
/// parameter where one is missing, or has another type or shape; the model is unchanged then. Tensors of
/// other names are left alone.
void load_weights(torch::nn::Module& model, const TensorFile& file, const std::filesystem::path& path);

}  // namespace strata::nn
