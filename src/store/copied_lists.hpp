#pragma once
#include <memory>
#include <string>
#include <vector>

#include "gpu_strata.hpp"
#include "list_directory.hpp"
#include "strata/comm/machine.hpp"
#include "strata/store/list_copies.hpp"

namespace strata::store {

/// The lists of a machine in host memory that all its ranks see, registered with their GPUs.
struct HostLists {
  const Count* indptr = nullptr;
  const Count* indptr_for_gpu = nullptr;  ///< the same, where the GPU reads it faster
  struct Array {                          ///< of their entries
    std::string name;
    const void* data = nullptr;
    DType dtype = DType::i64;
  };
  std::vector<Array> arrays;
};

/// Copies of the lists of a placement in the memory of the GPUs, the same lists of every array. An owner.
class CopiedLists {
 public:
  /// Chooses the lists, allocates their copies and fills them. Where stripes cannot be, for lack of peer
  /// access, their lists have no copy and the log says so. Collective over a machine whose ranks all have a
  /// GPU; throws on all of them alike.
  CopiedLists(const comm::Machine& machine, const HostLists& lists, const ListRanking& ranking,
              const Placement& wanted);

  ListCopies lists() const { return lists_; }
  EntryCopies entries(std::size_t array) const { return arrays_[array].copies; }
  const Placement& placement() const { return placement_; }  ///< of the entries, as realised
  void close(const comm::Machine& machine);                  ///< collective

 private:
  struct Array {
    HostLists::Array host;
    std::unique_ptr<GpuStrata> strata = {};
    EntryCopies copies = {};
  };
  void allocate(const comm::Machine& machine, const Segment& totals);
  void drop_stripes(const comm::Machine& machine, ListDirectory& directory) const;
  const ListCopies::Group* upload(const ListDirectory::Groups& groups, const cuda::Stream& stream);
  void adopt(Array& array, const Segment& totals) const;
  void fill(const comm::Machine& machine, const Count* indptr, Count num_nodes,
            const cuda::Stream& stream) const;

  Placement placement_;
  std::vector<Array> arrays_;
  std::vector<cuda::Buffer> groups_;
  ListCopies lists_;
};

}  // namespace strata::store
