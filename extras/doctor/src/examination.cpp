// SPDX-License-Identifier: Apache-2.0
#include "examination.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <utility>

#include "bounded.hpp"
#include "gpus.hpp"
#include "storage.hpp"
#include "strata/comm/machine.hpp"
#include "strata/cuda/device.hpp"
#include "strata/graph/source.hpp"
#include "strata/util/error.hpp"

namespace strata::doctor {
namespace {

using nlohmann::json;
using std::chrono::milliseconds;

template <typename Value>
std::string text_of(const Value& value) {
  return json(value).dump(-1, ' ', false, json::error_handler_t::replace);
}

/// Gathers a value of every rank, in order of rank.
template <typename Value>
std::vector<Value> gather_all(const comm::Communicator& ranks, const Value& own) {
  std::vector<Value> all;
  for (const std::string& text : ranks.all_gather(text_of(own)))
    all.push_back(json::parse(text).get<Value>());
  return all;
}

milliseconds patience_of(bool quick) { return quick ? milliseconds(2000) : milliseconds(10000); }

comm::TopologyOptions topology_of(const Request& request) {
  return request.plan ? request.plan->topology : comm::TopologyOptions{};
}

}  // namespace

Examination::Examination(const Request& request, const comm::World& world, comm::Watchdog& watchdog,
                         Report& report, std::chrono::steady_clock::time_point started)
    : request_(request),
      world_(world),
      watchdog_(watchdog),
      report_(report),
      started_(started),
      topology_(comm::discover(world.communicator(), topology_of(request))),
      leaders_(world.communicator().split(leads_host() ? 0 : 1, world.rank())) {}

const comm::Topology::Rank& Examination::place() const { return topology_.ranks[at(world_.rank())]; }

bool Examination::leads_host() const { return place().host_rank == 0; }

std::vector<int> Examination::ranks_of_host() const {
  std::vector<int> ranks;
  for (std::size_t r = 0; r < topology_.ranks.size(); ++r)
    if (topology_.ranks[r].host == place().host) ranks.push_back(static_cast<int>(r));
  return ranks;
}

template <typename Value>
Value Examination::from_leaders(Value value) const {
  std::string text = world_.rank() == 0 ? text_of(value) : std::string();
  world_.communicator().broadcast(text, 0);
  return json::parse(text).get<Value>();
}

bool Examination::has_time(double share) const {
  const std::chrono::duration<double> passed = std::chrono::steady_clock::now() - started_;
  std::int64_t has_time = passed < share * std::chrono::duration<double>(request_.limit()) ? 1 : 0;
  world_.communicator().broadcast(&has_time, sizeof(has_time), 0);  // one clock decides for all
  return has_time == 1;
}

void Examination::enter(const char* name) {
  watchdog_.alive(name);
  report_.enter(name);
}

template <typename Work>
void Examination::check(const char* name, Work&& work, double share) {
  enter(name);
  if (has_time(share))
    work();
  else
    left_out_.emplace_back(name);
}

void Examination::run() {
  constexpr double kShareForNccl = 0.4;  // because it may take seconds to start
  learn_hosts();
  check("storage", [this] { check_storage(); });
  check("output", [this] { check_output(); });
  check("network", [this] { check_network(); });
  check("clocks", [this] { check_clocks(); });
  if (!comm::ranks_on(topology_, Device::Kind::cuda).empty()) check("gpus", [this] { check_gpus(); });
  if (topology_.gpu_per_rank && world_.size() > 1)
    check(
        "nccl", [this] { check_nccl(); }, kShareForNccl);
  if (request_.plan) check("plan", [this] { check_plan(); });
  leaders_.close();
  if (left_out_.empty()) return;
  report_.add("left out", {},
              {{.level = Level::note,
                .check = "left out",
                .host = {},
                .message = fmt::format("there was no time for: {}", fmt::join(left_out_, ", ")),
                .action = request_.quick ? "Leave --quick out." : "Name fewer hosts.",
                .remedy = Remedy::left_out}});
}

/// Gathers what each rank finds by itself.
void Examination::learn_hosts() {
  enter("hosts");
  comm::Machine machine(world_.communicator(), topology_);
  RankFacts own;
  world_.communicator().together([&] {
    own = gather_facts();
    own.host = place().host;
    own.cores = comm::resources_of(machine).cores;
    own.memory_bytes = comm::resources_of(machine).free_memory().share_bytes;
    if (place().device.is_cuda()) {
      own.gpu = cuda::device_name(place().device.index);
      own.gpu_uuid = place().gpu_uuid;
      own.gpu_node = node_of_device(cuda::pci_address(place().device.index));
      if (own.gpu_node >= 0) own.node_processors = processors_of_node(own.gpu_node);
    }
  });
  machine.close();
  ranks_ = gather_all(world_.communicator(), own);
  report_.begin(ranks_);
  report_.add("versions", describe_versions(ranks_), judge_versions(ranks_));
  report_.add("ranks", describe_ranks(ranks_), judge_ranks(ranks_));
  report_.add("limits", describe_limits(ranks_), judge_limits(ranks_));
  report_.add("numa", {}, judge_numa(ranks_));
}

void Examination::check_network() {
  if (leads_host()) network_ = measure_network(leaders_, Effort::of(request_.quick, leaders_.size()));
  network_ = from_leaders(std::move(network_));
  report_.keep("network", network_);
  report_.add("network", describe_network(network_, ranks_), judge_network(network_, ranks_));
}

void Examination::check_clocks() {
  std::vector<ClockOffset> offsets;
  if (leads_host()) offsets = compare_clocks(leaders_, Effort::of(request_.quick, leaders_.size()));
  offsets = from_leaders(std::move(offsets));
  report_.keep("clocks", offsets);
  report_.add("clocks", describe_clocks(offsets), judge_clocks(offsets, ranks_));
}

void Examination::check_storage() {
  if (request_.graph.empty())
    return report_.add("storage",
                       {request_.plan ? "not measured: a generated graph has no files"
                                      : "not measured; --graph PARTS names the parts that a run would read"},
                       {});
  const milliseconds patience = patience_of(request_.quick);
  const std::string folder = request_.graph;
  const std::optional<StorageFacts> seen = within(patience, [folder] { return look_at_parts(folder); });
  StorageFacts own = seen.value_or(StorageFacts{.answered = false});
  std::int64_t readable = own.answered && own.error.empty() ? 1 : 0;
  world_.communicator().all_reduce(std::span(&readable, 1), comm::Communicator::Op::min);
  if (readable == 1 && leads_host()) {  // all hosts at once, or none: loading is what all do together
    const milliseconds duration = request_.quick ? milliseconds(300) : milliseconds(3000);
    const auto rate =
        within(patience + duration, [folder, duration] { return read_parts(folder, duration); });
    own.answered = rate.has_value();
    if (rate) {
      own.bytes_per_second = rate->bytes_per_second;
      own.direct = rate->direct;
    }
  }
  const std::vector<StorageFacts> storage = gather_all(world_.communicator(), own);
  report_.keep("storage", storage);
  report_.add("storage", describe_storage(storage, ranks_, folder), judge_storage(storage, ranks_, folder));
}

void Examination::check_gpus() {
  const std::vector<int> ranks = ranks_of_host();
  comm::Communicator host = world_.communicator().split(ranks.front(), world_.rank());
  GpuFacts own;
  const bool all_on_gpus =
      std::ranges::all_of(ranks, [&](int r) { return topology_.ranks[at(r)].device.is_cuda(); });
  if (all_on_gpus) measure_copies(host, place().device, own);
  host.close();
  world_.communicator().together([&] {
    if (!leads_host()) return;
    constexpr std::size_t kBytes = std::size_t{64} << 20;
    own.links = cuda::find_peer_links();
    if (!request_.quick) cuda::measure_peer_links(own.links, kBytes);
  });
  if (leads_host()) {
    const auto seen = within(patience_of(request_.quick), look_at_driver);
    if (seen) {
      own.states = seen->states;
      own.driver_messages = seen->driver_messages;
      own.log_readable = seen->log_readable;
    }
  }
  const std::vector<GpuFacts> gpus = gather_all(world_.communicator(), own);
  report_.keep("gpus", gpus);
  report_.add("gpus", describe_gpus(gpus, ranks_), judge_gpus(gpus, ranks_));
}

void Examination::check_nccl() {
  const std::int64_t bytes = std::int64_t{request_.quick ? 32 : 256} << 20;
  NcclFacts own = measure_nccl(world_.communicator(), topology_, place().device, bytes);
  world_.communicator().together([&] { read_nccl_log(own); });
  const std::vector<NcclFacts> nccl = gather_all(world_.communicator(), own);
  report_.keep("nccl", nccl);
  report_.add("nccl", describe_nccl(nccl), judge_nccl(nccl, ranks_));
}

/// Checks the output folder, which only the first rank writes into.
void Examination::check_output() {
  OutputFacts facts;
  if (world_.rank() == 0) {
    const std::string folder = request_.output.empty() ? "." : request_.output;
    const auto seen = within(patience_of(request_.quick), [folder] { return look_at_output(folder); });
    facts = seen.value_or(OutputFacts{.folder = folder, .answered = false});
  }
  facts = from_leaders(std::move(facts));
  report_.keep("output", facts);
  report_.add("output", describe_output(facts), judge_output(facts, ranks_.front().host));
}

/// The link between hosts, where each is one machine. The slowest counts: all wait for it in every step.
std::optional<train::MeasuredLink> Examination::link_of_plan() const {
  if (network_.links.empty() || topology_.virtual_machines) return std::nullopt;
  const double of_pair = std::ranges::min(network_.links, {}, &LinkRate::bytes_per_second).bytes_per_second;
  const double rate = std::min(of_pair, network_.all_to_all_bytes_per_second);
  if (rate <= 0) return std::nullopt;
  return train::MeasuredLink{
      .bytes_per_second = rate,
      .latency_seconds = std::ranges::max(network_.links, {}, &LinkRate::latency_seconds).latency_seconds};
}

void Examination::check_plan() {
  const train::RunPlan plan = train::plan_run(*request_.plan, {}, world_, link_of_plan());
  const std::string record = from_leaders(plan.record), tables = from_leaders(plan.tables);
  const json facts = json::parse(record);
  report_.keep("plan", facts);
  report_.add("plan", lines_of(tables), judge_plan(facts.at("fits").get<bool>()));
}

}  // namespace strata::doctor
