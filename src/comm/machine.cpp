#include "strata/comm/machine.hpp"

#include <fmt/format.h>

#include "agreement.hpp"
#include "mpi_state.hpp"
#include "strata/cuda/runtime.hpp"
#include "strata/util/error.hpp"
#include "topology.hpp"

namespace strata::comm {
namespace {

std::vector<std::string> visible_gpus(TopologyOptions::Compute compute) {
  std::vector<std::string> uuids;
  if (compute == TopologyOptions::Compute::cpu) return uuids;  // does not so much as start the driver
  for (int device = 0; device < cuda::device_count(); ++device) uuids.push_back(cuda::device_uuid(device));
  return uuids;
}

int leader_of_host(const Communicator& world) {
  Communicator host = Internals::split_shared(world);
  int leader = world.rank();
  host.broadcast(&leader, sizeof(leader), 0);
  host.close();
  return leader;
}

const Topology::Rank& own_rank(const Communicator& world, const Topology& topology) {
  if (topology.ranks.size() != static_cast<std::size_t>(world.size())) {
    throw CommError(fmt::format("a topology of {} ranks was given to a communicator of {}",
                                topology.ranks.size(), world.size()));
  }
  return topology.ranks[static_cast<std::size_t>(world.rank())];
}

}  // namespace

void agree_on_failure(const Communicator& communicator, const std::string& failure, std::exception_ptr own) {
  const int size = communicator.size();
  std::int64_t first_failed = own ? communicator.rank() : size;
  communicator.all_reduce(std::span(&first_failed, 1), Communicator::Op::min);
  if (first_failed == size) return;
  const int root = static_cast<int>(first_failed);
  std::string message = fmt::format("{}: {}", Internals::of(communicator).who(), failure);
  Count length = static_cast<Count>(message.size());
  communicator.broadcast(&length, sizeof(length), root);
  message.resize(static_cast<std::size_t>(length));
  communicator.broadcast(message.data(), length, root);
  if (own) std::rethrow_exception(own);
  throw CommError(message);
}

Topology discover(const Communicator& world, const TopologyOptions& options) {
  RankFacts own{.host = Internals::of(world).host,
                .host_leader = leader_of_host(world),
                .gpus = {},
                .options = options};
  std::string failure;
  std::exception_ptr error;
  try {
    own.gpus = visible_gpus(options.compute);
  } catch (const std::exception& e) {
    failure = e.what();
    error = std::current_exception();
  }
  agree_on_failure(world, failure, error);
  std::vector<RankFacts> facts;
  for (const std::string& blob : world.all_gather(serialize(own))) facts.push_back(parse_facts(blob));
  return arrange(facts);
}

Machine::Machine(const Communicator& world, const Topology& topology)
    : communicator_(world.split(own_rank(world, topology).machine, own_rank(world, topology).local_rank)),
      index_(own_rank(world, topology).machine),
      device_(own_rank(world, topology).device) {}

void Machine::agree(const std::string& failure, std::exception_ptr own) const {
  agree_on_failure(communicator_, failure, own);
}

}  // namespace strata::comm
