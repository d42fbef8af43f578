// SPDX-License-Identifier: Apache-2.0
#include "strata/dgs/group.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <span>
#include <string>
#include <utility>

#include "strata/comm/machine.hpp"
#include "strata/cuda/device.hpp"
#include "strata/tensor/chunk_tensor.hpp"
#include "strata/util/error.hpp"

namespace strata::dgs {
namespace {

/// The ranks with the GPUs that they chose themselves.
comm::Topology topology_of(const comm::Communicator& ranks, Device gpu) {
  comm::Topology topology = comm::discover(ranks, {});
  if (topology.num_machines() > 1) {
    throw InputError(
        fmt::format("the {} ranks are on {} hosts or in containers that share no memory", ranks.size(),
                    topology.num_machines()),
        "A ChunkTensor lies in the memory of one host: make a group per host, as new_subgroups() does.");
  }
  std::string uuid;
  ranks.together([&] { uuid = gpu.is_cuda() ? cuda::device_uuid(gpu.index) : std::string(); });
  const std::vector<std::string> uuids = ranks.all_gather(uuid);
  const std::vector<std::string> ordinals = ranks.all_gather(std::to_string(gpu.index));
  topology.gpu_per_rank = true;
  for (std::size_t r = 0; r < uuids.size(); ++r) {
    comm::Topology::Rank& rank = topology.ranks[r];
    rank.gpu_uuid = uuids[r];
    rank.device =
        uuids[r].empty() ? Device{} : Device{.kind = Device::Kind::cuda, .index = std::stoi(ordinals[r])};
    const bool first = std::find(uuids.begin(), uuids.begin() + static_cast<std::ptrdiff_t>(r), uuids[r]) ==
                       uuids.begin() + static_cast<std::ptrdiff_t>(r);
    topology.gpu_per_rank = topology.gpu_per_rank && rank.device.is_cuda() && first;
  }
  return topology;
}

std::string text_of(const ChunkTensor::Spec& spec) {
  return fmt::format("{} rows of {} {} with {} bytes per GPU", spec.rows, spec.cols, name_of(spec.dtype),
                     spec.capacity_per_gpu);
}

/// Throws InputError on all ranks if they ask for different tensors.
void check_alike(const comm::Machine& machine, const ChunkTensor::Spec& spec) {
  const std::vector<std::string> all = machine.communicator().all_gather(text_of(spec));
  for (std::size_t rank = 1; rank < all.size(); ++rank) {
    if (all[rank] == all.front()) continue;
    throw InputError(
        fmt::format("rank 0 makes a ChunkTensor of {}, and rank {} one of {}", all.front(), rank, all[rank]),
        "All ranks make the same tensors, in the same order.");
  }
}

std::string blob_of(const std::vector<std::int64_t>& numbers) {
  return {reinterpret_cast<const char*>(numbers.data()), numbers.size() * sizeof(std::int64_t)};
}

std::vector<std::int64_t> numbers_of(const std::string& blob) {
  std::vector<std::int64_t> numbers(blob.size() / sizeof(std::int64_t));
  std::memcpy(numbers.data(), blob.data(), numbers.size() * sizeof(std::int64_t));
  return numbers;
}

/// Throws InputError on all ranks if one of them has `holds`.
void refuse_held(const comm::Machine& machine, bool holds, const char* what) {
  const std::vector<std::string> all = machine.communicator().all_gather(holds ? "held" : "");
  const auto holder = std::ranges::find(all, "held");
  if (holder == all.end()) return;
  throw InputError(fmt::format("rank {} still holds {}", holder - all.begin(), what),
                   "Drop it (del) on all ranks first; its memory then returns at the next creation, too.");
}

}  // namespace

Group::Group(std::shared_ptr<comm::Backend> backend, Device gpu)
    : world_(std::make_unique<comm::World>(std::move(backend))),
      machine_(
          std::make_unique<comm::Machine>(world_->communicator(), topology_of(world_->communicator(), gpu))),
      pool_(comm::resources_of(*machine_).cores) {
  if (!comm::computes_on_gpus(*machine_)) return;
  const tensor::GpuMap gpus = tensor::gpus_of(*machine_);
  num_gpus_ = gpus.size();
  own_gpu_ = gpus.mine;
}

Group::~Group() = default;

std::shared_ptr<ChunkTensor> Group::create(const ChunkTensor::Spec& spec) {
  check_alike(*machine_, spec);
  free_dropped();
  auto made = std::make_shared<ChunkTensor>(*machine_, spec,
                                            ChunkTensor::Gpus{.count = num_gpus_, .own = own_gpu_}, made_);
  const std::lock_guard lock(mutex_);
  tensors_[made_++] = made;
  return made;
}

void Group::free_dropped() {
  for (const Number number : dropped_by_all()) free(number);
}

/// Tensors that all ranks have dropped, in the order in which they were made. Collective.
std::vector<Group::Number> Group::dropped_by_all() const {
  std::vector<Number> dropped;
  for (const auto& [number, tensor] : tensors_)
    if (tensor.use_count() == 1) dropped.push_back(number);
  std::map<Number, int> droppers;
  for (const std::string& blob : machine_->communicator().all_gather(blob_of(dropped)))
    for (const Number number : numbers_of(blob)) ++droppers[number];
  std::vector<Number> all;
  for (const auto& [number, ranks] : droppers)
    if (ranks == size()) all.push_back(number);
  return all;
}

void Group::free(Number number) {
  const auto found = tensors_.find(number);
  found->second->close(*machine_);
  const std::lock_guard lock(mutex_);
  tensors_.erase(found);
}

void Group::close(std::shared_ptr<ChunkTensor> tensor) {
  const auto found =
      std::ranges::find_if(tensors_, [&](const auto& entry) { return entry.second == tensor; });
  if (found == tensors_.end()) throw InputError("the ChunkTensor was closed before", "Close it once.");
  const Number number = found->first;
  // Owners are the caller, this function and the map.
  constexpr long kOwners = 3;
  refuse_held(*machine_, tensor.use_count() > kOwners,
              fmt::format("a view of ChunkTensor {}", number).c_str());
  free(number);
}

Count Group::allocated_bytes() const {
  const std::lock_guard lock(mutex_);
  Count bytes = 0;
  for (const auto& [number, tensor] : tensors_) bytes += tensor->gpu_bytes();
  return bytes;
}

void Group::close() {
  free_dropped();
  refuse_held(*machine_, !tensors_.empty(), "a ChunkTensor or a view of one");
  machine_->close();
  machine_.reset();
  world_.reset();
}

}  // namespace strata::dgs
