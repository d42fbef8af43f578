// SPDX-License-Identifier: Apache-2.0
#include "strata/rpc/agent.hpp"

#include <ATen/Parallel.h>
#include <fmt/format.h>

#include "core.hpp"
#include "modules/module_calls.hpp"
#include "strata/comm/backend.hpp"
#include "strata/cuda/device.hpp"
#include "strata/util/error.hpp"
#include "strata/util/log.hpp"
#include "wire.hpp"

namespace strata::rpc {
namespace {

std::optional<std::chrono::milliseconds>& own_timeout() {
  thread_local std::optional<std::chrono::milliseconds> timeout;
  return timeout;
}

void check(const Options& options) {
  const auto refuse = [](const std::string& what) {
    throw InputError(fmt::format("rpc::Options: {}, with which no call would end", what),
                     "Give a positive number.");
  };
  if (options.threads < 1) refuse(fmt::format("{} threads", options.threads));
  if (options.max_outstanding < 1) refuse(fmt::format("{} outstanding calls", options.max_outstanding));
  if (options.busy_poll && options.busy_poll->count() < 0)
    throw InputError(fmt::format("rpc::Options: a busy_poll of {} us", options.busy_poll->count()),
                     "Give 0 to sleep at once, or the microseconds to look before.");
  if (options.timeout.count() < 1)
    refuse(fmt::format("{} ms until a call times out", options.timeout.count()));
}

std::chrono::microseconds busy_poll_for(int cores) {
  return cores < at::get_num_threads() + Options::kPollingCores ? std::chrono::microseconds{0}
                                                                : Options::kBusyPoll;
}

std::vector<AgentFacts> gather_facts(const comm::Communicator& communicator, const std::string& name,
                                     const Options& options) {
  AgentFacts own{.name = name,
                 .host = comm::host_name(),
                 .num_devices = cuda::device_count(),
                 .maps = options.device_maps};
  for (int device = 0; device < own.num_devices; ++device) own.gpus.push_back(cuda::device_uuid(device));
  std::vector<AgentFacts> agents;
  for (const std::string& text : communicator.all_gather(text_of(own)))
    agents.push_back(parse<AgentFacts>(text));
  check_agents(agents);
  return agents;
}

}  // namespace

Agent::Agent(const comm::Communicator& communicator, const std::string& name, Registry registry,
             Options options) {
  communicator.together([&] { check(options); });
  add_backward_calls(registry);
  add_optimizer_calls(registry);
  add_pipeline_calls(registry);
  std::vector<AgentFacts> agents = gather_facts(communicator, name, options);
  auto channels = std::make_unique<Channels>(communicator, options, agents);
  Core::Setup setup{.agents = std::move(agents),
                    .rank = communicator.rank(),
                    .registry = std::move(registry),
                    .busy_poll = options.busy_poll.value_or(busy_poll_for(channels->cores())),
                    .options = std::move(options)};
  auto links = std::make_unique<MessageLinks>(communicator, setup.busy_poll);
  auto core = std::make_shared<Core>(std::move(setup));
  core->start(std::move(channels), std::move(links));
  core_ = std::move(core);
}

CallTimeout::CallTimeout(std::chrono::milliseconds time) : before_(own_timeout()) {
  if (time.count() < 1)
    throw InputError(fmt::format("a call cannot time out after {} ms", time.count()),
                     "Give a positive number.");
  own_timeout() = time;
}
CallTimeout::~CallTimeout() { own_timeout() = before_; }
std::optional<std::chrono::milliseconds> CallTimeout::of_thread() { return own_timeout(); }

Agent::~Agent() { core_->end(std::chrono::milliseconds(0)); }

const std::string& Agent::name() const { return core_->agent(rank()).name; }
int Agent::rank() const { return core_->rank(); }
int Agent::size() const { return core_->size(); }
const AgentFacts& Agent::agent(int rank) const { return core_->agent(rank); }
int Agent::find(const std::string& peer) const { return rank_of(peer, core_->agents()); }
std::shared_ptr<Holding> Agent::keep(Object object) { return core_->keep(std::move(object)); }

Agent::Counts Agent::counts() const {
  return {
      .objects = core_->num_objects(), .calls = core_->num_pending(), .contexts = core_->contexts().size()};
}

std::vector<Traffic> Agent::traffic() const { return core_->channels().traffic(); }

void Agent::shutdown(Ending ending, const std::function<void()>& drop_handles) {
  if (ending == Ending::graceful) {
    core_->shutdown(drop_handles);
    spdlog::debug("rpc: {}: {}", name(), core_->channels().report());
  }
  const std::optional<std::chrono::milliseconds> at_once{0};
  core_->end(ending == Ending::at_once ? at_once : std::nullopt);
  if (ending == Ending::graceful) core_->channels().close();
}

bool Agent::end_within(std::chrono::milliseconds patience) { return core_->end(patience); }

namespace detail {

std::shared_ptr<Answer> call(Core& core, Request request) { return core.call(std::move(request)); }
std::shared_ptr<Holding> create(Core& core, Request request) { return core.create(std::move(request)); }
Unpacking take(Answer& answer) {
  Parcel parcel = answer.take();
  const std::shared_ptr<Core> core = answer.core();
  return core ? core->unpacking(std::move(parcel), answer.from(), true) : Unpacking(std::move(parcel));
}
std::shared_ptr<Completion> promise(Core& core) { return core.promise(); }
std::shared_ptr<Completion> shared_completion(const std::shared_ptr<Answer>& answer) { return answer; }
const ObjectId& object_of(const Holding& holding) { return holding.object(); }
Core& core_of(const Holding& holding) { return holding.core(); }
bool is_entered(const Holding& holding) { return holding.core().is_entered(holding); }
int rank_of(const Core& core) { return core.rank(); }
const AgentFacts& agent_of(const Core& core, int rank) { return core.agent(rank); }
const Registry& registry_of(const Core& core) { return core.registry(); }
std::shared_ptr<Core> core_of(const Agent& agent) { return agent.core_; }

std::shared_ptr<void> local_value(Core& core, const Holding& holding, std::type_index type) {
  Object object = core.local(holding);
  if (object.type != type) throw InputError("a handle's type is not that of its object");
  return object.value;
}

}  // namespace detail

}  // namespace strata::rpc
