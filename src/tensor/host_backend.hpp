// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <vector>

#include "gather.hpp"
#include "tensor_backend.hpp"

namespace strata::tensor {

/// The backend for rows in host memory and below; those on GPUs are out of reach. A view of them.
class HostBackend final : public TensorBackend {
 public:
  /// `device`, for messages: the one that the rank loaded the tensor for.
  HostBackend(Device device, const TensorSpec& spec) : device_(device), spec_(spec) {}

  void allocate(const comm::Machine& machine, Placement& placement) override;
  void adopt(const Layout& layout, std::byte* host_rows, RowStorage* storage) override;
  void configure(GatherSettings& /*settings*/) override {}
  std::vector<StratumView> views() const override;

  void write_rows(Count first, Count count, const std::byte* rows) override;
  void read_rows(Count first, Count count, std::byte* rows) const override;
  void gather(const RowIds& ids, const RowsOut& out, const cuda::Stream& stream,
              ThreadPool& pool) const override;
  void decode(const CodedRows& coded, float* out, const cuda::Stream& stream,
              ThreadPool& pool) const override;
  void count_strata(const RowIds& ids, Count* counts, const cuda::Stream& stream) const override;
  void scatter(const RowIds& ids, const RowsIn& in, const cuda::Stream& stream, ThreadPool& pool) override;

  void check_ids(bool on) override { checked_ = on; }
  void verify(const cuda::Stream& /*stream*/) const override {}  // operations throw themselves
  void close(const comm::Machine& /*machine*/) override {}

  /// A run of rows from or to dense rows in host memory.
  void write_run(const Layout::Run& run, const std::byte* rows) const;
  void read_run(const Layout::Run& run, std::byte* rows) const;
  HostRows rows() const { return {.spec = &spec_, .data = rows_, .layout = &layout_, .storage = storage_}; }
  /// Throws Error: this stream's device cannot use the tensor.
  [[noreturn]] void refuse(const cuda::Stream& stream) const;

 private:
  void need_cpu(const cuda::Stream& stream) const;

  Device device_;
  TensorSpec spec_;
  Layout layout_;
  std::byte* rows_ = nullptr;
  RowStorage* storage_ = nullptr;
  bool checked_ = false;
};

}  // namespace strata::tensor
