#pragma once
#include <memory>
#include <string>

#include "gather.hpp"
#include "layout.hpp"
#include "peer_memory.hpp"
#include "strata/cuda/runtime.hpp"
#include "strata/store/chunk_tensor.hpp"

namespace strata::store {

/// The replicated and the striped rows of a tensor, and what this rank's GPU needs to read all strata. An
/// owner.
class GpuStrata {
 public:
  GpuStrata(Device device, const TensorSpec& spec);

  /// Allocates the replicated rows on this rank's GPU, and the striped ones on the GPUs of all ranks, which
  /// may turn out to be impossible (has_stripes()). Collective over a machine whose ranks all have a GPU;
  /// throws on all of them alike.
  void allocate(const comm::Machine& machine, const std::string& name, const Placement& placement);

  bool has_stripes() const { return peers_ != nullptr; }
  const std::string& why_no_stripes() const { return why_no_stripes_; }

  /// Takes the final layout and the registered host rows; needed once, before anything is written or read.
  void adopt(const Layout& layout, const std::byte* host_rows);

  /// Copies a run of rows of the replicated or striped stratum; finish_writes() waits for all copies of this
  /// rank.
  void write(const Layout::Run& run, const std::byte* rows);
  void finish_writes() const { writer_.synchronize(); }
  void gather(const RowIds& ids, float* out, const cuda::Stream& stream) const;
  void close(const comm::Machine& machine);  ///< collective

 private:
  void write_stripes(Count first, Count count, const std::byte* rows);
  void write_part_of_block(Count first, Count count, const std::byte* rows);

  Device device_;
  std::size_t row_bytes_;
  GatherTable table_;
  GatherShape shape_;
  std::unique_ptr<PeerMemory> peers_;
  std::string why_no_stripes_;
  cuda::Buffer replicated_;
  cuda::Buffer segments_;  // where there are more than travel with a launch
  cuda::Stream writer_;
};

}  // namespace strata::store
