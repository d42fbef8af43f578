// SPDX-License-Identifier: Apache-2.0
#include "runtime.hpp"

#include <fmt/format.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>

#include <chrono>
#include <optional>

#include "backend_capsule.hpp"
#include "bindings.hpp"
#include "interruptible.hpp"
#include "strata/util/enum_names.hpp"
#include "strata/util/error.hpp"
#include "strata/util/log.hpp"

namespace strata::python {
namespace {

using namespace nb::literals;
using NoGil = nb::call_guard<nb::gil_scoped_release>;

const char* launcher() {
  switch (comm::find_launcher()) {
    case comm::Launcher::none:
      return "none";
    case comm::Launcher::mpi:
      return "mpi";
    case comm::Launcher::torch:
      return "torch";
  }
  return "";
}

/// Of the capsule if there is one, else of MPI where mpirun or srun started the process.
std::shared_ptr<comm::Backend> backend_of(const nb::object& capsule) {
  if (!capsule.is_none()) return backend_in(capsule);
  const nb::gil_scoped_release guard;
  return comm::find_launcher() == comm::Launcher::mpi ? comm::mpi_backend(nullptr, nullptr)
                                                      : comm::solo_backend();
}

std::shared_ptr<Process> start(const nb::object& backend, const std::string& device, int ranks_per_machine) {
  const comm::TopologyOptions options{
      .ranks_per_machine = ranks_per_machine,
      .compute = enum_value<comm::TopologyOptions::Compute>(device, "device")};
  std::shared_ptr<comm::Backend> group = backend_of(backend);
  const nb::gil_scoped_release guard;
  return std::make_shared<Process>(std::move(group), options);
}

nb::capsule more_ranks(const Process& process) {
  std::shared_ptr<comm::Backend> ranks;
  {
    const nb::gil_scoped_release guard;
    ranks = process.backend->duplicate();
  }
  return capsule_of(std::move(ranks));
}

const comm::Topology::Rank& place_of(const Process& process) {
  return process.runtime->topology().ranks[static_cast<std::size_t>(process.world->rank())];
}

}  // namespace

void bind_runtime(nb::module_& module) {
  module.def(
      "init_log",
      [](const std::string& name, const std::string& level) {
        init_log(name, enum_value<LogLevel>(level, "level"));
      },
      "name"_a, "level"_a, "Sends messages of this level and above to stderr, with the rank's name.");
  module.def("find_launcher", &launcher, "What started this process: none, mpi or torch.");
  nb::class_<Process>(module, "Process",
                      "This process among the ranks of a run. Its properties are not collective.")
      .def_static("start", &start, "backend"_a.none(), "device"_a, "ranks_per_machine"_a,
                  "Collective. Finds hosts, machines and devices. `backend` is a capsule of another "
                  "launcher's ranks.")
      .def_prop_ro(
          "rank", [](const Process& p) { return p.world->rank(); }, "Number of this process, from 0.")
      .def_prop_ro(
          "size", [](const Process& p) { return p.world->size(); }, "How many ranks the run has.")
      .def_prop_ro(
          "host", [](const Process& p) { return p.world->host(); }, "Name of the host that the rank is on.")
      .def_prop_ro(
          "device", [](const Process& p) { return p.runtime->device().str(); },
          "What the rank computes on, as torch names it: \"cpu\", \"cuda:0\" ...")
      .def_prop_ro(
          "local_rank", [](const Process& p) { return place_of(p).local_rank; },
          "Number of the rank on its machine, from 0.")
      .def_prop_ro(
          "machine", [](const Process& p) { return place_of(p).machine; },
          "Number of the machine, whose ranks share memory: usually a host.")
      .def_prop_ro(
          "num_machines", [](const Process& p) { return p.runtime->topology().num_machines(); },
          "How many machines the run has.")
      .def("__repr__",
           [](const Process& p) {
             return fmt::format("strata.Process(rank={}, size={}, host='{}', device='{}')", p.world->rank(),
                                p.world->size(), p.world->host(), p.runtime->device().str());
           })
      .def("ranks", &more_ranks,
           "Collective. A capsule of the same ranks as a group of its own, for another extension.")
      .def(
          "barrier",
          [](const std::shared_ptr<Process>& p) {
            interruptible(p->device(), [p] { p->world->communicator().barrier(); });
          },
          "Collective: waits for all ranks.")
      .def(
          "share_error",
          [](const std::shared_ptr<Process>& p, const std::optional<std::string>& error) {
            interruptible(p->device(), [p, error] {
              p->world->communicator().together([&] {
                if (error) throw InputError(*error);
              });
            });
          },
          "error"_a.none(), "Collective: raises InputError on all ranks if one of them gives a text.")
      .def(
          "broadcast",
          [](const std::shared_ptr<Process>& p, std::string text, int root) {
            return interruptible(p->device(), [p, text = std::move(text), root]() mutable {
              p->world->communicator().broadcast(text, root);
              return text;
            });
          },
          "text"_a, "root"_a, "Collective: the text that rank `root` gives.")
      .def(
          "least",
          [](const std::shared_ptr<Process>& p, std::int64_t value) {
            return interruptible(p->device(), [p, value] {
              std::vector<Count> values{value};
              p->world->communicator().all_reduce(values, comm::Communicator::Op::min);
              return values.front();
            });
          },
          "value"_a, "Collective: the least of the numbers that ranks give.")
      .def(
          "abort", [](const Process& p, int code) { p.world->abort(code); }, "exit_code"_a,
          "Ends all ranks of the run. Never returns.")
      .def(
          "part",
          [](const std::shared_ptr<Process>& p, int milliseconds) {
            return interruptible(p->device(), [p, patience = std::chrono::milliseconds(milliseconds)] {
              return p->farewell->meet(false, patience).has_value();
            });
          },
          "milliseconds"_a, "Whether all ranks have come to the end of their programs by then. Called once.")
      .def("close", &Process::close, NoGil(), "Collective; after all graphs.");
  module.def("await_left", &Interruptible::await_left, "milliseconds"_a,
             "Whether no call is still at work that a signal ended the wait for.");
}

}  // namespace strata::python
