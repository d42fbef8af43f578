// SPDX-License-Identifier: Apache-2.0
// The extension strata._rpc: calls between ranks. It links libtorch, which the package torch has loaded by
// then.
#include <fmt/format.h>
#include <nanobind/stl/array.h>
#include <nanobind/stl/map.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/unique_ptr.h>
#include <nanobind/stl/vector.h>

#include <array>
#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <utility>

#include "backend_capsule.hpp"
#include "bindings.hpp"
#include "python_value.hpp"
#include "strata/rpc/autograd.hpp"
#include "strata/rpc/remote_module.hpp"
#include "torch_tensor.hpp"

namespace strata::python {
namespace {

using namespace nb::literals;
using NoGil = nb::call_guard<nb::gil_scoped_release>;
using std::chrono::milliseconds;
using ContextNumber = std::pair<int, std::uint64_t>;  // creator, number

constexpr const char* kFunction = "a Python function";

/// What all Python calls of other ranks are: one function, whose argument is the call itself.
PythonValue run(const Pickle& call) {
  static PackageFunction run_here("strata.rpc._calls", "run");
  return in_python([&] { return PythonValue((*run_here)(unpickled(call))); });
}

/// Translates an exception for callers on other ranks.
void translate(const std::exception_ptr& thrown) {
  try {
    std::rethrow_exception(thrown);
  } catch (::python_error& error) {
    in_python([&error] { throw raised_again(error); });
  } catch (...) {  // of C++
  }
}

rpc::Registry registry() {
  rpc::Registry registry;
  registry.function(kFunction, &run).exception_translator(&translate);
  return registry;
}

using Result = rpc::Future<PythonValue>;

Result result_of(const std::shared_ptr<rpc::Answer>& answer) {
  return Result(rpc::detail::shared_completion(answer),
                [answer] { return PythonValue(std::get<0>(rpc::detail::take(*answer).unpack<Pickle>())); });
}

nb::object take(Result& result) {
  std::optional<PythonValue> value;
  {
    const nb::gil_scoped_release guard;
    value = result.wait();
  }
  return value->object();
}

Result then(Result& result, nb::object callback) {
  const PythonValue kept(std::move(callback));
  const nb::gil_scoped_release guard;
  return result.then(
      [kept](const Result&) { return in_python([&] { return PythonValue(kept.object()()); }); });
}

/// What a call waits for besides other calls; the agent's end makes it fail.
class Signal {
 public:
  explicit Signal(std::shared_ptr<rpc::Completion> completion) : completion_(std::move(completion)) {}
  void set() { completion_->succeed(); }
  void wait() { completion_->wait(); }

 private:
  std::shared_ptr<rpc::Completion> completion_;
};

/// An agent and the ranks that it connects.
class Session {
 public:
  static std::unique_ptr<Session> start(const nb::object& ranks, const std::string& name,
                                        rpc::Options options) {
    std::shared_ptr<comm::Backend> backend = ranks.is_none() ? comm::solo_backend() : backend_in(ranks);
    const nb::gil_scoped_release guard;
    return std::make_unique<Session>(std::move(backend), name, std::move(options));
  }
  Session(std::shared_ptr<comm::Backend> backend, const std::string& name, rpc::Options options)
      : world_(std::make_unique<comm::World>(std::move(backend))),
        agent_(std::make_unique<rpc::Agent>(world_->communicator(), name, registry(), std::move(options))) {}
  /// Only a graceful end closes the ranks, because that waits for all of them. Threads of the agent may need
  /// Python's lock to end.
  ~Session() {
    const nb::gil_scoped_release guard;
    agent_.reset();
    static_cast<void>(world_.release());
  }
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  const rpc::Agent& agent() const { return *agent_; }
  int find(const std::string& peer) const { return agent_->find(peer); }

  Result call(int to, const std::string& what, Pickle pickle, std::optional<int> timeout_ms,
              rpc::Caller caller) {
    const nb::gil_scoped_release guard;
    return result_of(rpc::detail::call(core(), request(to, what, pickle, timeout_ms, caller)));
  }
  std::unique_ptr<Handle> create(int to, const std::string& what, Pickle pickle,
                                 std::optional<int> timeout_ms) {
    const nb::gil_scoped_release guard;
    return std::make_unique<Handle>(rpc::Ref<PythonValue>(
        rpc::detail::create(core(), request(to, what, pickle, timeout_ms, rpc::Caller::goes_on))));
  }
  std::unique_ptr<Handle> share(nb::object object) {
    auto value = std::make_shared<PythonValue>(std::move(object));
    const nb::gil_scoped_release guard;
    return std::make_unique<Handle>(agent_->share(std::move(value)));
  }

  std::unique_ptr<Signal> signal() { return std::make_unique<Signal>(rpc::detail::promise(core())); }

  void shutdown(const nb::object& drop_handles) {
    const PythonValue drop(drop_handles);
    const nb::gil_scoped_release guard;
    const auto drop_all = [&] { in_python([&] { return PythonValue(drop.object()()); }); };
    agent_->shutdown(rpc::Agent::Ending::graceful, drop_all);
    world_.reset();
  }
  bool end_within(int time) { return agent_->end_within(milliseconds(time)); }

 private:
  rpc::Core& core() const { return *rpc::detail::core_of(*agent_); }
  rpc::Request request(int to, const std::string& what, const Pickle& pickle, std::optional<int> timeout_ms,
                       rpc::Caller caller) {
    if (to < 0 || to >= agent_->size())
      throw InputError(fmt::format("there is no rank {} of {} to call", to, agent_->size()));
    rpc::Packing packing(
        core(), {.rank = to, .function = what, .copies = caller == rpc::Caller::goes_on, .as_one = true});
    rpc::Request request{.to = to, .function = kFunction, .what = what, .arguments = packing.pack(pickle)};
    if (timeout_ms) request.timeout = milliseconds(*timeout_ms);
    return request;
  }

  std::unique_ptr<comm::World> world_;
  std::unique_ptr<rpc::Agent> agent_;
};

Pickle cast_pickle(const nb::tuple& parts) {
  return pickle_of(nb::cast<nb::bytes>(parts[0]), nb::cast<nb::list>(parts[1]), nb::cast<nb::list>(parts[2]));
}

Result fetch(const Handle& handle, std::optional<int> timeout_ms) {
  const rpc::Ref<PythonValue> ref = handle.ref();
  rpc::Request request{.to = ref.owner(), .target = ref.holding()};
  if (timeout_ms) request.timeout = milliseconds(*timeout_ms);
  const nb::gil_scoped_release guard;
  return result_of(rpc::detail::call(rpc::detail::core_of(*ref.holding()), std::move(request)));
}

nb::object local_value(const Handle& handle) {
  const rpc::Ref<PythonValue> ref = handle.ref();
  std::shared_ptr<PythonValue> value;
  {
    const nb::gil_scoped_release guard;
    value = ref.local();
  }
  return value->object();
}

/// An autograd context, which ends with close() on the thread that made it.
class Context {
 public:
  explicit Context(const Session& session)
      : context_(std::make_unique<rpc::AutogradContext>(session.agent())) {}
  ContextNumber id() const { return {context_->id().creator, context_->id().number}; }
  void close() { context_.reset(); }

 private:
  std::unique_ptr<rpc::AutogradContext> context_;
};

/// An rpc::ParameterLock, which ends with release().
class ParameterLock {
 public:
  ParameterLock(const Session& session, const std::vector<at::Tensor>& parameters) {
    const nb::gil_scoped_release guard;
    lock_ = std::make_unique<rpc::ParameterLock>(rpc::detail::core_of(session.agent()), parameters);
  }
  void release() { lock_.reset(); }

 private:
  std::unique_ptr<rpc::ParameterLock> lock_;
};

rpc::ContextId context_id(const ContextNumber& number) {
  return {.creator = number.first, .number = number.second};
}

void backward(const Session& session, ContextNumber id, const std::vector<at::Tensor>& roots) try {
  const nb::gil_scoped_release guard;
  rpc::backward(session.agent(), context_id(id), roots);
} catch (::python_error& error) {
  throw raised_again(error);
}

std::vector<std::pair<at::Tensor, at::Tensor>> gradients(const Session& session, ContextNumber id) {
  std::vector<std::pair<at::Tensor, at::Tensor>> pairs;
  const nb::gil_scoped_release guard;
  for (rpc::Gradient& each : rpc::gradients(session.agent(), context_id(id)))
    pairs.emplace_back(std::move(each.parameter), std::move(each.gradient));
  return pairs;
}

void bind_remote_errors() {
  nb::register_exception_translator([](const std::exception_ptr& exception, void*) {
    try {
      std::rethrow_exception(exception);
    } catch (const rpc::RemoteError& error) {
      try {
        static PackageFunction exception_of("strata.rpc._failures", "exception_of");
        const nb::object value = (*exception_of)(error.type(), error.text(), error.remedy(), error.rank(),
                                                 error.host(), error.agent(), error.device());
        PyErr_SetObject(value.type().ptr(), value.ptr());
      } catch (nb::python_error& failed) {
        failed.restore();
      }
    }
  });
}

void set_channels(rpc::Options& options, const std::vector<std::string>& names) {
  options.channels.clear();
  for (const std::string& name : names)
    options.channels.push_back(enum_value<rpc::Channel>(name, "a channel of strata.rpc"));
}

void set_device_map(rpc::Options& options, const std::string& peer,
                    const std::vector<std::pair<int, int>>& pairs) {
  std::vector<rpc::DevicePair> devices;
  for (const auto& [mine, its] : pairs) devices.push_back({.mine = mine, .its = its});
  options.set_device_map(peer, std::move(devices));
}

void bind_options(nb::module_& module) {
  nb::class_<rpc::Options>(module, "Options", "Options of an agent; see rpc/agent.hpp.")
      .def(nb::init<>())
      .def_rw("threads", &rpc::Options::threads)
      .def_rw("landing_bytes", &rpc::Options::landing_bytes)
      .def(
          "set_busy_poll",
          [](rpc::Options& options, int time) { options.busy_poll = std::chrono::microseconds(time); },
          "microseconds"_a)
      .def(
          "set_timeout", [](rpc::Options& options, int time) { options.timeout = milliseconds(time); },
          "milliseconds"_a)
      .def("set_channels", &set_channels, "names"_a)
      .def("set_device_map", &set_device_map, "peer"_a, "pairs"_a);
}

/// Traffic by channel: messages and bytes that were sent, messages and bytes that were received.
std::map<std::string, std::array<std::uint64_t, 4>> traffic_of(const Session& session) {
  std::map<std::string, std::array<std::uint64_t, 4>> traffic;
  for (const rpc::Traffic& each : session.agent().traffic())
    traffic[std::string(enum_name(each.channel))] = {each.sent.messages, each.sent.bytes,
                                                     each.received.messages, each.received.bytes};
  return traffic;
}

void bind_session(nb::module_& module) {
  nb::class_<Session>(module, "Session", "This rank's agent; see rpc/agent.hpp.")
      .def_static("start", &Session::start, "ranks"_a.none(), "name"_a, "options"_a,
                  "Collective. `ranks` is a capsule of ranks for this agent only; None: one rank.")
      .def_prop_ro("rank", [](const Session& session) { return session.agent().rank(); })
      .def_prop_ro("size", [](const Session& session) { return session.agent().size(); })
      .def(
          "name_of", [](const Session& session, int rank) { return session.agent().agent(rank).name; },
          "rank"_a)
      .def("find", &Session::find, "peer"_a, "The rank of a name, or of rank:R.")
      .def(
          "call",
          [](Session& session, int to, const std::string& what, const nb::tuple& pickle,
             std::optional<int> timeout_ms, bool waits) {
            const rpc::Caller caller = waits ? rpc::Caller::waits : rpc::Caller::goes_on;
            return session.call(to, what, cast_pickle(pickle), timeout_ms, caller);
          },
          "to"_a, "what"_a, "pickle"_a, "timeout_ms"_a.none(), "waits"_a,
          "`waits` with its tensors as they are until the answer is there.")
      .def(
          "create",
          [](Session& session, int to, const std::string& what, const nb::tuple& pickle,
             std::optional<int> timeout_ms) {
            return session.create(to, what, cast_pickle(pickle), timeout_ms);
          },
          "to"_a, "what"_a, "pickle"_a, "timeout_ms"_a.none())
      .def("share", &Session::share, "object"_a)
      .def(
          "counts",
          [](const Session& session) {
            const rpc::Agent::Counts counts = session.agent().counts();
            return nb::make_tuple(counts.objects, counts.calls, counts.contexts);
          },
          "Objects kept for others, calls under way, autograd contexts.")
      .def("traffic", &traffic_of,
           "Traffic by channel: messages and bytes that were sent, messages and bytes that were received.")
      .def("signal", &Session::signal, NoGil())
      .def("shutdown", &Session::shutdown, "drop_handles"_a,
           "Collective; drop_handles() is called when no call is under way anywhere.")
      .def("end_within", &Session::end_within, "milliseconds"_a, NoGil(),
           "Ends calls under way, and returns whether none runs on this rank by then. May be called again.");
}

void bind_results(nb::module_& module) {
  nb::class_<Result>(module, "Result", "The future result of a call.")
      .def(
          "wait_for", [](const Result& result, int time) { return result.wait_for(milliseconds(time)); },
          "milliseconds"_a, NoGil(), "Whether it is there by then.")
      .def("is_done", &Result::is_done, NoGil())
      .def("take", &take, "Returns or raises the result of the call; once.")
      .def("then", &then, "callback"_a,
           "Calls callback() on a thread of the agent; returns its future result.");
  nb::class_<Signal>(module, "Signal", "Lets a call wait; another one runs in its place meanwhile.")
      .def("set", &Signal::set, NoGil())
      .def("wait", &Signal::wait, NoGil());
  nb::class_<Handle>(module, "Handle", "A handle of an object that lies on some rank.")
      .def_prop_ro("owner", [](const Handle& handle) { return handle.ref().owner(); })
      .def_prop_ro("is_confirmed", [](const Handle& handle) { return handle.ref().is_confirmed(); })
      .def("local", &local_value, "The object, on its owner.")
      .def("fetch", &fetch, "timeout_ms"_a.none(), "A copy of the object.")
      .def("drop", &Handle::drop);
}

void bind_autograd(nb::module_& module) {
  nb::class_<Context>(module, "Context", "See rpc/autograd.hpp.")
      .def(nb::init<const Session&>(), "session"_a)
      .def_prop_ro("id", &Context::id)
      .def("close", &Context::close, NoGil());
  nb::class_<ParameterLock>(module, "ParameterLock", "See rpc/autograd.hpp.")
      .def(nb::init<const Session&, const std::vector<at::Tensor>&>(), "session"_a, "parameters"_a)
      .def("release", &ParameterLock::release, NoGil());
  module.def(
      "note_device", [](const std::string& device) { rpc::detail::note_device(at::Device(device)); },
      "device"_a, "The device that the call of this thread works on, for errors.");
  module.def("backward", &backward, "session"_a, "context"_a, "roots"_a,
             "Runs backward in a context that any rank began.");
  module.def("gradients", &gradients, "session"_a, "context"_a, "Leaves of this rank and their gradients.");
}

}  // namespace
}  // namespace strata::python

NB_MODULE(_rpc, module) {
  using namespace strata::python;
  nb::set_leak_warnings(false);
  module.doc() = "Calls between ranks. Use strata.rpc, which imports this module.";
  bind_errors(module);
  bind_remote_errors();
  bind_options(module);
  bind_results(module);
  bind_session(module);
  bind_autograd(module);
  module.def("close_interpreter", &Interpreter::close,
             "Lets no thread of an agent run Python any more; waits for those that do.");
}
