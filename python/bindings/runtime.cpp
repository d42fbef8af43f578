// SPDX-License-Identifier: Apache-2.0
#include "runtime.hpp"

#include <fmt/format.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>
#include <unistd.h>

#include <charconv>
#include <chrono>
#include <cstdio>
#include <optional>

#include "backend_capsule.hpp"
#include "bindings.hpp"
#include "interruptible.hpp"
#include "strata/comm/communicator.hpp"
#include "strata/util/error.hpp"
#include "strata/util/log.hpp"
#include "strata/util/system.hpp"
#include "strata/util/text.hpp"

namespace strata::python {

std::optional<bool> Process::part(std::chrono::milliseconds patience) {
  const std::chrono::milliseconds ages = std::chrono::hours(24 * 365);
  if (!parting.valid()) {
    end_notices->send();
    parting = std::async(std::launch::async, [this, ages] {
                return orderly_end->meet(false, ages).has_value();
              }).share();
  }
  if (parting.wait_for(patience) != std::future_status::ready) return std::nullopt;
  return parting.get();
}

void Process::end_if_left_alone(std::chrono::seconds waited) {
  constexpr std::chrono::seconds kPatience{20};
  if (waited < kPatience || parting.valid() || !end_notices) return;
  const std::optional<int> left = end_notices->received();
  if (!left) return;
  fmt::print(
      stderr,
      "strata: rank {} (host {}) has waited for {} s in one call, and the program of rank {} has ended. "
      "The run is ended.\n  Let all ranks make the same calls: what one rank does by itself comes after "
      "the last of them.\n",
      world->rank(), world->host(), waited.count(), *left);
  std::fflush(stderr);
  world->abort(1);
}

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

/// The backend in the capsule if there is one, else MPI's where mpirun or srun started the process.
std::shared_ptr<comm::Backend> backend_of(const nb::object& capsule) {
  if (!capsule.is_none()) return backend_in(capsule);
  const nb::gil_scoped_release guard;
  return comm::find_launcher() == comm::Launcher::mpi ? comm::mpi_backend(nullptr, nullptr)
                                                      : comm::solo_backend();
}

/// "auto", "cpu", "cuda", or "cuda:1".
comm::TopologyOptions options_of(const std::string& device, int ranks_per_machine) {
  using Compute = comm::TopologyOptions::Compute;
  constexpr std::string_view kOneGpu = "cuda:";
  comm::TopologyOptions options{.ranks_per_machine = ranks_per_machine};
  int index = -1;
  if (const char* end = device.data() + device.size(); device.starts_with(kOneGpu)) {
    const auto [rest, error] = std::from_chars(device.data() + kOneGpu.size(), end, index);
    if (error != std::errc() || rest != end || index < 0)
      throw InputError(fmt::format("'{}' is no device", device), "Write a number: cuda:0.");
    options.compute = Compute::cuda;
    options.gpu = index;
  } else {
    options.compute = enum_value<Compute>(device, "device");
  }
  return options;
}

std::shared_ptr<Process> start(const nb::object& backend, const std::string& device, int ranks_per_machine) {
  const comm::TopologyOptions options = options_of(device, ranks_per_machine);
  std::shared_ptr<comm::Backend> group = backend_of(backend);
  std::shared_ptr<Process> process;
  {
    const nb::gil_scoped_release guard;
    process = std::make_shared<Process>(std::move(group), options);
  }
  Interruptible::Wait::on_second([weak = std::weak_ptr(process)](std::chrono::seconds waited) {
    if (const std::shared_ptr<Process> waits = weak.lock()) waits->end_if_left_alone(waited);
  });
  return process;
}

/// The status of the SystemExit that ends the program; handlers of atexit do not get it otherwise.
///
/// Python frees that exception outside of any frame and then calls the handlers, while one that was caught is
/// freed in a frame. So this looks at every SystemExit that is freed, however it was raised.
class ExitStatus {
 public:
  static void watch() {
    auto* type = reinterpret_cast<PyTypeObject*>(PyExc_SystemExit);
    if (kept().free != nullptr) return;
    kept().free = std::exchange(type->tp_dealloc, &look_and_free);
#if PY_VERSION_HEX < 0x030c0000
    make_exceptions();
#endif
  }
  static int get() { return kept().status; }

 private:
  struct Kept {
    destructor free = nullptr;
    PyCFunction exit = nullptr;
    int status = 0;
  };
  static Kept& kept() {
    static Kept kept;
    return kept;
  }
  static void look_and_free(PyObject* exception) {
    const bool on_main_thread = gettid() == getpid();
    if (on_main_thread && PyEval_GetFrame() == nullptr)
      kept().status = status_of(reinterpret_cast<PySystemExitObject*>(exception)->code);
    kept().free(exception);
  }
#if PY_VERSION_HEX < 0x030c0000
  /// Before Python 3.12, sys.exit() raises without an exception object where nobody asks for one. The
  /// function stays what it is; what it does makes one.
  static void make_exceptions() {
    PyObject* exit = PySys_GetObject("exit");  // borrowed
    if (exit == nullptr || PyCFunction_Check(exit) == 0 || PyCFunction_GET_FLAGS(exit) != METH_FASTCALL)
      return;
    PyMethodDef& method = *reinterpret_cast<PyCFunctionObject*>(exit)->m_ml;
    kept().exit = std::exchange(
        method.ml_meth, reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(&exit_with_exception)));
  }
  static PyObject* exit_with_exception(PyObject* sys, PyObject* const* arguments, Py_ssize_t count) {
    const auto exit = reinterpret_cast<_PyCFunctionFast>(reinterpret_cast<void (*)()>(kept().exit));
    PyObject* const nothing = exit(sys, arguments, count);
    PyObject *type = nullptr, *value = nullptr, *trace = nullptr;
    PyErr_Fetch(&type, &value, &trace);
    PyErr_NormalizeException(&type, &value, &trace);
    PyErr_Restore(type, value, trace);
    return nothing;
  }
#endif
  /// The exit status as Python takes it: a text is printed, and stands for 1.
  static int status_of(PyObject* code) {
    if (code == nullptr || code == Py_None) return 0;
    if (PyLong_Check(code) == 0) return 1;
    int overflow = 0;
    return static_cast<int>(PyLong_AsLongAndOverflow(code, &overflow) & 0xff);
  }
};

nb::capsule more_ranks(const Process& process) {
  std::shared_ptr<comm::Backend> ranks;
  {
    const nb::gil_scoped_release guard;
    ranks = process.backend->duplicate();
  }
  return capsule_of(std::move(ranks));
}

const comm::Topology::Rank& place_of(const Process& process) {
  return process.runtime->topology().ranks[at(process.world->rank())];
}

}  // namespace

void bind_runtime(nb::module_& module) {
  ExitStatus::watch();
  module.def("exit_status", &ExitStatus::get,
             "In a handler of atexit: what the SystemExit asked for that ended the program, else 0.");
  module.def("network_identity", &comm::network_identity,
             "The same in processes that reach each other over the loopback interface.");
  module.def("network_addresses", &comm::network_addresses,
             "Addresses at which other hosts may reach this one.");
  module.def(
      "log", [](const std::string& text) { spdlog::info("{}", text); }, "text"_a,
      "Logs what was chosen and why.");
  module.def(
      "init_log",
      [](const std::string& name, const std::string& level) {
        init_log(name, enum_value<LogLevel>(level, "level"));
      },
      "name"_a, "level"_a, "Sends messages of this level and above to stderr, with the rank's name.");
  module.def("available_host_bytes", &available_host_bytes,
             "What new allocations may use of the host, within the limits of this process.");
  module.def("find_launcher", &launcher, "The launcher of this process: none, mpi or torch.");
  nb::class_<Process>(module, "Process",
                      "This process among the ranks of a run. Its properties are not collective.")
      .def_static("start", &start, "backend"_a.none(), "device"_a, "ranks_per_machine"_a,
                  "Collective. Finds hosts, machines and devices. `backend` is a capsule of another "
                  "launcher's ranks.")
      .def_prop_ro(
          "rank", [](const Process& p) { return p.world->rank(); }, "Number of this process, from 0.")
      .def_prop_ro(
          "size", [](const Process& p) { return p.world->size(); }, "Number of ranks of the run.")
      .def_prop_ro(
          "host", [](const Process& p) { return p.world->host(); }, "Name of the host that the rank is on.")
      .def_prop_ro(
          "device", [](const Process& p) { return p.runtime->device().str(); },
          "The device that the rank computes on, as torch names it: \"cpu\", \"cuda:0\" ...")
      .def_prop_ro(
          "local_rank", [](const Process& p) { return place_of(p).local_rank; },
          "Number of the rank on its machine, from 0.")
      .def_prop_ro(
          "machine", [](const Process& p) { return place_of(p).machine; },
          "Number of the machine, whose ranks share memory: usually a host.")
      .def_prop_ro(
          "num_machines", [](const Process& p) { return p.runtime->topology().num_machines(); },
          "Number of machines of the run.")
      .def_prop_ro(
          "gpu_per_rank", [](const Process& p) { return p.runtime->topology().gpu_per_rank; },
          "Whether every rank of the run has a GPU that no other rank has.")
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
          "broadcast",
          [](const std::shared_ptr<Process>& p, const nb::bytes& bytes, int root) {
            std::string held(bytes.c_str(), bytes.size());
            held = interruptible(p->device(), [p, held = std::move(held), root]() mutable {
              p->world->communicator().broadcast(held, root);
              return held;
            });
            return nb::bytes(held.data(), held.size());
          },
          "bytes"_a, "root"_a, "Collective: the bytes that rank `root` gives.")
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
              return p->part(patience);
            });
          },
          "milliseconds"_a,
          "This rank's program has ended: whether those of all ranks have, None if some has not by then, "
          "False if a rank is gone. May be called again.")
      .def("close", &Process::close, NoGil(), "Collective; after all graphs.");
  module.def("await_left", &Interruptible::await_left, "milliseconds"_a,
             "Whether no call is still at work that a signal ended the wait for.");
}

}  // namespace strata::python
