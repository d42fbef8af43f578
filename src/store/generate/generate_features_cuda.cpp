// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <vector>

#include "generate/generate_cuda.hpp"
#include "generate/generate_kernels.hpp"
#include "strata/cuda/buffer.hpp"
#include "strata/cuda/device.hpp"
#include "strata/cuda/stream.hpp"
#include "strata/graph/synthetic.hpp"
#include "strata/util/ranges.hpp"

namespace strata::store {
namespace {

/// Makes rows on this rank's GPU, one piece at a time, and writes them to the tensor.
class RowMaker {
 public:
  RowMaker(const GenerateTask& task, const graph::ClassMeans& means, std::int32_t* labels,
           tensor::ChunkTensor& tensor)
      : task_(task),
        formula_(graph::feature_formula(task.spec, means)),
        labels_(labels),
        tensor_(tensor),
        device_(task.machine.device()),
        piece_rows_(std::clamp<Count>(static_cast<Count>(kPieceBytes / tensor.spec().row_bytes()), 1,
                                      tensor.spec().rows)),
        stream_(device_) {
    rows_ = cuda::Buffer(cuda::Memory::device, at(piece_rows_) * tensor.spec().row_bytes(), kWhat, device_);
    if (!means.values.empty()) {
      piece_labels_ = on_device<std::int32_t>(piece_rows_);
      means_ = on_device<float>(std::ssize(means.values));
      cuda::copy_async(means_.data(), means.values.data(), means.values.size() * sizeof(float), stream_);
      stream_.synchronize();
      formula_.class_means = means_.data();
    }
    if (task.read.normalize_features || task.load.row_normalize)
      row_sums_ = on_device<double>(2 * piece_rows_);
  }

  void make(Range rows) {
    const cuda::DeviceGuard guard(device_);
    for (Count first = rows.first; first < rows.end(); first += piece_rows_)
      make_piece({first, std::min(piece_rows_, rows.end() - first)});
  }

 private:
  static constexpr std::size_t kPieceBytes = std::size_t{64} << 20;
  static constexpr const char* kWhat = "making features";

  template <typename T>
  cuda::Array<T> on_device(Count size) const {
    return cuda::Array<T>(cuda::Memory::device, size, kWhat, device_);
  }

  void make_piece(Range rows) {
    if (piece_labels_.size() > 0)
      cuda::copy_async(piece_labels_.data(), labels_ + rows.first, at(rows.count) * sizeof(std::int32_t),
                       stream_);
    write_features({.formula = formula_,
                    .first_node = rows.first,
                    .rows = rows.count,
                    .labels = piece_labels_.data(),
                    .made_as = task_.spec.dtype,
                    .normalize = task_.read.normalize_features,
                    .row_normalize = task_.load.row_normalize,
                    .row_sums = row_sums_.data()},
                   rows_.data(), stream_);
    stream_.synchronize();
    tensor_.write_rows(rows.first, rows.count, rows_.data());
  }

  const GenerateTask& task_;
  graph::FeatureFormula formula_;
  std::int32_t* labels_;
  tensor::ChunkTensor& tensor_;
  Device device_;
  Count piece_rows_;
  cuda::Buffer rows_;
  cuda::Array<std::int32_t> piece_labels_;
  cuda::Array<float> means_;
  cuda::Array<double> row_sums_;
  cuda::Stream stream_;
};

/// The rows that a rank writes: all replicated rows, to its own GPU, and its share of all others.
std::vector<Range> rows_to_write(const tensor::Placement& placement, const comm::Machine& machine) {
  std::vector<Range> ranges;
  Count first = 0;
  for (const tensor::Segment& segment : placement.segments) {
    for (const tensor::Stratum s : tensor::kStrata) {
      const Range all{first, segment[s]};
      ranges.push_back(s == tensor::Stratum::replicated ? all
                                                        : share_of(all, machine.rank(), machine.size()));
      first += segment[s];
    }
  }
  return ranges;
}

}  // namespace

void generate_features(const GenerateTask& task, std::int32_t* labels, tensor::ChunkTensor& features) {
  const tensor::TensorSpec& spec = features.spec();
  if (spec.rows == 0 || spec.cols == 0) return;
  task.machine.together([&] {
    RowMaker maker(task, graph::class_means(task.spec), labels, features);
    for (const Range& rows : rows_to_write(features.placement(), task.machine)) maker.make(rows);
  });
}

}  // namespace strata::store
