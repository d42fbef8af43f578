// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <ATen/core/Tensor.h>
#include <ATen/core/ivalue.h>

#include <cstdint>
#include <memory>
#include <tuple>
#include <vector>

#include "strata/dgs/group.hpp"

namespace strata::dgs {

/// The class that scripts see. Dropping it is not collective; views that it gave keep the memory.
class TorchChunkTensor : public torch::CustomClassHolder {
 public:
  /// Makes a tensor; parameters have the names of scripts' arguments. Collective. Throws InputError on all
  /// ranks if the arguments of one make no tensor.
  TorchChunkTensor(std::vector<std::int64_t> shape, at::ScalarType dtype, std::int64_t capacity_per_gpu);

  void load(const at::Tensor& data);
  at::Tensor host_view() const;
  at::Tensor gpu_view() const;
  at::Tensor index(const at::Tensor& ids) const;
  /// The same into the first rows of a contiguous `out` [>= ids, columns] on device().
  void index_into(const at::Tensor& ids, const at::Tensor& out) const;
  /// Ids of rows on this GPU, on others and in host memory, in the order of `ids`.
  std::tuple<at::Tensor, at::Tensor, at::Tensor> split(const at::Tensor& ids) const;
  void close();  ///< collective

  const ChunkTensor& rows() const;                          ///< throws InputError after close()
  std::int64_t size() const { return rows().spec().rows; }  ///< rows, or elements of one dimension
  at::ScalarType dtype() const { return dtype_; }
  Group& group() const { return *group_; }

 private:
  at::TensorOptions options(Device device) const;
  void read(const at::Tensor& ids, const at::Tensor& out) const;
  at::Tensor view(const ChunkTensor::View& rows, Device device) const;

  std::shared_ptr<Group> group_;
  std::vector<std::int64_t> shape_;
  at::ScalarType dtype_;
  std::shared_ptr<ChunkTensor> tensor_;
};

}  // namespace strata::dgs
