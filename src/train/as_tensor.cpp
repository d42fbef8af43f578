// SPDX-License-Identifier: Apache-2.0
#include "as_tensor.hpp"

#include <ATen/ops/from_blob.h>
#include <fmt/format.h>

#include "strata/util/error.hpp"
#include "torch_device.hpp"

namespace strata::train {
namespace {

at::ScalarType torch_type(DType dtype) {
  switch (dtype) {
    case DType::f32:
      return at::kFloat;
    case DType::f16:
      return at::kHalf;
    case DType::bf16:
      return at::kBFloat16;
    case DType::f64:
      return at::kDouble;
    case DType::i8:
      return at::kChar;
    case DType::u8:
      return at::kByte;
    case DType::i32:
      return at::kInt;
    case DType::i64:
      return at::kLong;
  }
  throw Error(fmt::format("libtorch has no type for {}", static_cast<int>(dtype)));
}

}  // namespace

at::Tensor as_tensor(const tensor::TensorSpec& spec, const tensor::StratumView& view) {
  const auto pitch = static_cast<std::int64_t>(view.row_pitch / size_of(spec.dtype));
  return at::from_blob(view.data, {view.rows, spec.cols}, {pitch, 1},
                       at::TensorOptions().dtype(torch_type(spec.dtype)).device(torch_device(view.device)));
}

}  // namespace strata::train
