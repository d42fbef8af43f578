// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "gather.hpp"
#include "host_path/threaded_gather.hpp"
#include "memory/peer_memory.hpp"
#include "strata/comm/machine.hpp"
#include "strata/cuda/buffer.hpp"
#include "strata/cuda/stream.hpp"
#include "strata/tensor/array_copies.hpp"
#include "strata/tensor/chunk_tensor.hpp"

namespace strata::tensor {

/// The replicated and striped rows of a tensor, and what this rank's GPU needs to read all strata. An owner.
class GpuStrata {
 public:
  /// `resources` limits the CPU threads that gather.
  GpuStrata(Device device, const TensorSpec& spec, const comm::Resources& resources);

  /// Allocates the replicated rows on this rank's GPU, and the striped ones on the GPUs of all ranks. Strata
  /// that need peer access are left out if there is none; missing() returns them. Collective over a machine
  /// whose ranks all have a GPU; throws on all of them alike.
  void allocate(const comm::Machine& machine, const Placement& placement);
  struct Missing {
    bool replicas = false, stripes = false;
    std::string reason;
  };
  const Missing& missing() const { return missing_; }

  /// Takes the final layout and the registered host rows. Call it once, before anything is written or read.
  void adopt(const Layout& layout, std::byte* host_rows);

  /// These copy between a run of rows and memory of the host or of this GPU. finish_copies() waits for all
  /// copies of this rank.
  void write(const Layout::Run& run, const std::byte* rows);
  void read(const Layout::Run& run, std::byte* rows) const;
  void finish_copies() const { copier_.synchronize(); }

  /// Replaces automatic settings by values, and starts the threads of the host stratum if it needs them.
  void configure(GatherSettings& settings);
  void gather(const RowIds& ids, const RowsOut& out, const cuda::Stream& stream) const;
  void decode(const CodedRows& coded, float* out, const cuda::Stream& stream) const;
  void count_strata(const RowIds& ids, Count* counts, const cuda::Stream& stream) const;
  /// REQUIRES: can_scatter().
  void scatter(const RowIds& ids, const RowsIn& in, const cuda::Stream& stream) const;
  /// Whether all copies of replicated rows are within reach.
  bool can_scatter() const { return spec_.scatters || is_alone_ || layout_.rows(Stratum::replicated) == 0; }
  void check_ids(bool on) { table_.bad = on ? bad_.data() : nullptr; }
  /// The first id out of range since the last call, up to this point of the stream; `found` is 0 if there is
  /// none. Waits for the stream.
  BadId take_bad_id(const cuda::Stream& stream) const;
  std::vector<StratumView> views() const;
  ArrayStrata array_strata() const;          ///< without segments, for a tensor of one column
  void close(const comm::Machine& machine);  ///< collective

 private:
  /// Memory on all GPUs of a map.
  struct Shared {
    const GpuMap& gpus;
    std::size_t bytes_per_gpu;
    const char* kind;
  };
  std::unique_ptr<PeerMemory> share(const comm::Machine& machine, const Shared& what, bool& missing);
  struct Copy {
    std::byte* stratum;  ///< address in a stratum
    std::byte* rows;     ///< [count] dense
    Count count;
    bool to_stratum;
  };
  void copy(const Layout::Run& run, std::byte* rows, bool to_stratum) const;
  void copy_rows(const Copy& copy) const;
  void copy_stripes(const Layout::Run& run, std::byte* rows, bool to_stratum) const;
  RowFormat format_of(DType out, Count out_pitch) const;
  LaunchShape shape() const;

  Device device_;
  comm::Resources resources_;
  GatherSettings settings_;
  TensorSpec spec_;
  int multiprocessors_;
  RowTable table_;
  Layout layout_;
  bool is_alone_ = false;  // on its machine: nobody else has copies of replicated rows
  int mine_ = 0;           // index of this GPU among those of the machine
  std::unique_ptr<PeerMemory> stripes_, replicas_;
  Missing missing_;
  cuda::Buffer replicated_;
  cuda::Buffer segments_;  // used if there are more than are passed with a launch
  cuda::Array<BadId> bad_;
  cuda::Array<float> codebooks_;  // of the tensor's code, if it has some
  cuda::Stream copier_;
  std::unique_ptr<ThreadedGather> threaded_;  // null if no CPU threads gather
};

/// Moves the rows of strata that lack peer access to the host stratum of the placement, and logs it.
void move_missing_to_host(const comm::Machine& machine, const TensorSpec& spec,
                          const GpuStrata::Missing& missing, Placement& placement);

}  // namespace strata::tensor
