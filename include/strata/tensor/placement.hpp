// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "strata/util/enum_names.hpp"
#include "strata/util/row_code.hpp"
#include "strata/util/types.hpp"

/// What a tensor is, and where its rows lie: values that need neither ranks nor devices.
namespace strata::tensor {

struct TensorSpec {
  std::string name;  ///< used in messages: "features"
  Count rows = 0;
  Count cols = 1;
  DType dtype = DType::f32;
  float scale = 1;  ///< an i8 element becomes the float element * scale
  /// Rows of floats in fewer bits, which gathers decode: `cols` are those of the floats, and `dtype` is u8.
  /// Rows that are written, read, scattered, or gathered as u8 are row_bytes() bytes of code.
  RowCode code = {};
  /// Whether rows will be scattered to. Replicated rows are then opened to all ranks of the machine.
  bool scatters = false;
  /// Whether rows begin at multiples of 128 bytes. They take more memory, but fewer lines cross PCIe and
  /// NVLink.
  bool padded = false;

  std::size_t row_bytes() const {
    return code ? static_cast<std::size_t>(code.row_bytes())
                : static_cast<std::size_t>(cols) * size_of(dtype);
  }
  Count gathered_cols(DType out) const {  ///< elements of a row that is gathered as `out`
    return code && out == dtype ? static_cast<Count>(row_bytes()) : cols;
  }
  std::size_t row_pitch() const {  ///< bytes from one row to the next
    constexpr std::size_t kLine = 128;
    return padded ? (row_bytes() + kLine - 1) / kLine * kLine : row_bytes();
  }
};

/// Where the rows of one segment (a hosted part) lie. The hottest rows come first.
struct Segment {
  Count replicated = 0;  ///< on every GPU of the machine
  Count striped = 0;     ///< row-cyclic over the GPUs of the machine
  Count host = 0;        ///< in host memory that all ranks of the machine share, registered with CUDA

  Count rows() const { return replicated + striped + host; }
};

struct Placement {
  std::vector<Segment> segments;  ///< their rows add up to the tensor's
  Count stripe_rows = 64;         ///< rows per stripe block
  bool idle_gpus = false;         ///< whether GPUs that no rank of the host drives get stripes, too

  static Placement on_host(Count rows) { return {.segments = {{.host = rows}}}; }
  static Placement replicated(Count rows) { return {.segments = {{.replicated = rows}}}; }
  static Placement striped(Count rows) { return {.segments = {{.striped = rows}}}; }
  /// One block of rows per GPU, in order, and the rest on the host. No row changes its place in the order.
  static Placement contiguous(Count rows, Count rows_per_gpu, int num_gpus) {
    const Count striped = std::min(rows, rows_per_gpu * num_gpus);
    return {.segments = {{.striped = striped, .host = rows - striped}},
            .stripe_rows = std::max<Count>(1, rows_per_gpu)};
  }
};

enum class Stratum : std::uint8_t { replicated, striped, host };
constexpr int kNumStrata = 3;

/// How host rows reach a GPU.
enum class HostPath : std::uint8_t {
  automatic,  ///< `both` if more than 1 GiB lies on the host and the rank has 4 cores; else zero copy
  zero_copy,  ///< kernels read them over PCIe, limited by address translation for short rows of large tables
  threads,    ///< CPU threads gather them into a pinned ring that a kernel drains
  both,       ///< the threads take a measured share, the kernels the rest
};

}  // namespace strata::tensor

namespace strata {

template <>
inline constexpr auto enum_names<tensor::HostPath> =
    std::to_array<EnumName<tensor::HostPath>>({{tensor::HostPath::automatic, "auto"},
                                               {tensor::HostPath::zero_copy, "zero-copy"},
                                               {tensor::HostPath::threads, "threads"},
                                               {tensor::HostPath::both, "both"}});

}  // namespace strata
