// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <algorithm>
#include <array>
#include <cstdint>
#include <initializer_list>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "strata/util/row_code.hpp"
#include "strata/util/text.hpp"
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

  std::size_t row_bytes() const { return code ? at(code.row_bytes()) : at(cols) * size_of(dtype); }
  Count gathered_cols(DType out) const {  ///< elements of a row that is gathered as `out`
    return code && out == dtype ? static_cast<Count>(row_bytes()) : cols;
  }
  std::size_t row_pitch() const {  ///< bytes from one row to the next
    constexpr std::size_t kLine = 128;
    return padded ? (row_bytes() + kLine - 1) / kLine * kLine : row_bytes();
  }
};

/// The levels of memory, the fastest first. A further level is an entry here, in kStrata and in enum_names,
/// and code that reads its rows.
enum class Stratum : std::uint8_t {
  replicated,  ///< on every GPU of the machine
  striped,     ///< row-cyclic over the GPUs of the machine
  host,        ///< in host memory that all ranks of the machine share, registered with CUDA
  storage,     ///< in a RowStorage, such as a file; only ranks without a GPU read it
};
inline constexpr std::array kStrata{Stratum::replicated, Stratum::striped, Stratum::host, Stratum::storage};
constexpr int kNumStrata = static_cast<int>(kStrata.size());
constexpr int kGpuStrata = 3;  ///< levels that GPUs read

/// An array with a value per level. {{Stratum::replicated, 2}, {Stratum::host, 4}} leaves the others T().
template <typename T>
class ByStratum {
 public:
  constexpr ByStratum() = default;
  constexpr ByStratum(std::initializer_list<std::pair<Stratum, T>> values) {
    for (const auto& [stratum, value] : values) (*this)[stratum] = value;
  }
  constexpr T& operator[](Stratum s) { return values_[at(s)]; }
  constexpr const T& operator[](Stratum s) const { return values_[at(s)]; }
  constexpr auto begin() const { return values_.begin(); }
  constexpr auto end() const { return values_.end(); }
  bool operator==(const ByStratum&) const = default;

  T sum() const { return std::accumulate(begin(), end(), T()); }
  T sum_above(Stratum s) const { return std::accumulate(begin(), begin() + static_cast<int>(s), T()); }
  ByStratum& operator+=(const ByStratum& other) {
    for (const Stratum s : kStrata) (*this)[s] += other[s];
    return *this;
  }

 private:
  std::array<T, kNumStrata> values_{};
};

/// How many rows of one segment (a hosted part) lie in each level. The hottest rows come first.
struct Segment : ByStratum<Count> {
  using ByStratum::ByStratum;

  Count rows() const { return sum(); }
  Count on_gpus() const { return sum_above(Stratum::host); }
  /// Returns how many rows were moved.
  Count move(Stratum from, Stratum to) {
    const Count moved = std::exchange((*this)[from], 0);
    (*this)[to] += moved;
    return moved;
  }
};

struct Placement {
  std::vector<Segment> segments;  ///< their rows add up to the tensor's
  Count stripe_rows = 64;         ///< rows per stripe block
  bool idle_gpus = false;         ///< whether GPUs that no rank of the host drives get stripes, too

  static Placement on_host(Count rows) { return {.segments = {{{Stratum::host, rows}}}}; }
  static Placement replicated(Count rows) { return {.segments = {{{Stratum::replicated, rows}}}}; }
  static Placement striped(Count rows) { return {.segments = {{{Stratum::striped, rows}}}}; }
  /// One block of rows per GPU, in order, and the rest on the host. No row changes its place in the order.
  static Placement contiguous(Count rows, Count rows_per_gpu, int num_gpus) {
    const Count striped = std::min(rows, rows_per_gpu * num_gpus);
    return {.segments = {{{Stratum::striped, striped}, {Stratum::host, rows - striped}}},
            .stripe_rows = std::max<Count>(1, rows_per_gpu)};
  }

  Segment total() const {
    Segment total;
    for (const Segment& s : segments) total += s;
    return total;
  }
};

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
inline constexpr auto enum_names<tensor::Stratum> =
    std::to_array<EnumName<tensor::Stratum>>({{tensor::Stratum::replicated, "replicated"},
                                              {tensor::Stratum::striped, "striped"},
                                              {tensor::Stratum::host, "host"},
                                              {tensor::Stratum::storage, "storage"}});

template <>
inline constexpr auto enum_names<tensor::HostPath> =
    std::to_array<EnumName<tensor::HostPath>>({{tensor::HostPath::automatic, "auto"},
                                               {tensor::HostPath::zero_copy, "zero-copy"},
                                               {tensor::HostPath::threads, "threads"},
                                               {tensor::HostPath::both, "both"}});

}  // namespace strata
