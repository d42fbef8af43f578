// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <span>
#include <string>
#include <vector>

#include "strata/tensor/chunk_tensor.hpp"

namespace strata::test {

/// A tensor with random contents, and what a gather must give.
struct TensorCase {
  DType dtype = DType::f32;
  Count cols = 1;
  tensor::Placement placement;
  std::uint64_t seed = 1;
  RowCode::Kind code = RowCode::Kind::none;  ///< in which rows of f32 are stored

  Count rows() const;
  std::string str() const;  ///< repeats the case
};

/// Creates the tensor and writes it: every rank its replicated rows, the ranks in turn pieces of the others,
/// pieces of many lengths. Collective over the machine.
struct FilledTensor {
  tensor::ChunkTensor tensor;
  std::vector<float> values;     ///< [rows, cols], as they are stored
  std::vector<std::byte> bytes;  ///< what was written
};
FilledTensor fill(const comm::Machine& machine, const TensorCase& tensor_case);

struct IdOptions {
  Count count = 0;
  Count below = 0;   ///< rows
  NodeId first = 0;  ///< added to all but -1
  bool sorted = false;
  std::uint64_t seed = 1;
};
/// About one in eight is -1.
std::vector<NodeId> random_ids(const IdOptions& options);

std::vector<float> expected_rows(const FilledTensor& filled, std::span<const NodeId> ids, NodeId first);

/// Gathers into a poisoned buffer that begins `misalignment` floats after an aligned address; fails the test
/// if anything behind the result was touched.
struct GatherOptions {
  NodeId first = 0;
  Count misalignment = 0;
};
std::vector<float> gathered(const tensor::ChunkTensor& tensor, Device device, std::span<const NodeId> ids,
                            const GatherOptions& options);

/// The bytes that are gathered as they are stored, from a poisoned buffer.
std::vector<std::byte> gathered_codes(const tensor::ChunkTensor& tensor, Device device,
                                      std::span<const NodeId> ids);
std::vector<std::byte> expected_codes(const FilledTensor& filled, std::span<const NodeId> ids);

/// Decodes all rows of the tensor in the other order, without every fifth, and compares.
void expect_decodes(const FilledTensor& filled, Device device);

}  // namespace strata::test
