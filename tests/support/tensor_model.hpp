// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <random>
#include <string>
#include <vector>

#include "strata/tensor/chunk_tensor.hpp"

namespace strata::test {

/// What a ChunkTensor must hold, as plain bytes; every operation once more, element by element. The same on
/// all ranks of the machine.
class TensorModel {
 public:
  TensorModel(const tensor::TensorSpec& spec, std::uint64_t seed);

  const std::byte* bytes() const { return bytes_.data(); }
  const std::vector<std::byte>& all() const { return bytes_; }
  void set_row(Count row, const std::byte* bytes);
  /// [cols] elements of type `out`; zeros for row -1.
  std::vector<std::byte> row_as(Count row, DType out) const;

 private:
  float element(Count index) const;

  tensor::TensorSpec spec_;
  std::vector<std::byte> bytes_;
};

/// A random tensor, everything about it drawn from the seed.
struct RandomTensor {
  tensor::TensorSpec spec;
  tensor::Placement placement;

  explicit RandomTensor(std::uint64_t seed);
  std::string str() const;
};

/// Runs every operation on a random tensor, on `device`, and compares it with the model: write, read, gather
/// of narrow and wide ids into strided output of every type with counts on the device, scatter, fill, checks
/// of ids. Collective over the machine; fails the test with the seed.
void check_random_tensor(const comm::Machine& machine, Device device, std::uint64_t seed);

}  // namespace strata::test
