#pragma once
#include <ATen/core/Tensor.h>

#include <filesystem>
#include <map>
#include <string>
#include <vector>

namespace strata::nn {

/// Named tensors and string metadata as a safetensors file holds them. A value; tensors are shared, not copied.
struct WeightFile {
  struct NamedTensor {
    std::string name;
    at::Tensor tensor;   ///< contiguous, on the cpu
  };
  std::vector<NamedTensor> tensors;
  std::map<std::string, std::string> metadata;

  const at::Tensor* find(const std::string& name) const;   ///< null if there is none
};

/// Writes atomically: the file is complete or was not touched. Throws IoError.
void write_weights(const std::filesystem::path& path, const WeightFile& file);

/// Reads and checks everything. Throws InputError naming the file: truncated, overlapping or unknown tensors.
WeightFile read_weights(const std::filesystem::path& path);

}  // namespace strata::nn
