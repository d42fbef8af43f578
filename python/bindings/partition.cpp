// SPDX-License-Identifier: Apache-2.0
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/unique_ptr.h>
#include <nanobind/stl/vector.h>

#include <chrono>
#include <memory>
#include <utility>

#include "bindings.hpp"
#include "strata/graph/read_graph.hpp"
#include "strata/partition/command.hpp"
#include "typed_arrays.hpp"

namespace strata::python {
namespace {

using namespace nb::literals;
using partition::Command;
using partition::CommandJob;
using partition::NamedArgument;
using NoGil = nb::call_guard<nb::gil_scoped_release>;

using Options = std::vector<std::pair<std::string, std::vector<std::string>>>;

std::vector<NamedArgument> named(const Options& options) {
  std::vector<NamedArgument> arguments;
  for (const auto& [name, values] : options) arguments.push_back({.name = name, .values = values});
  return arguments;
}

std::unique_ptr<CommandJob> start_command(const std::string& command, const std::vector<std::string>& places,
                                          const Options& options, const std::string& caller) {
  return std::make_unique<CommandJob>(Command(command, places, named(options), caller));
}

std::unique_ptr<CommandJob> build_of(const TypedArrays& arrays, const Options& options,
                                     const std::string& caller) {
  Command command("build", {}, named(options), caller);
  command.give([arrays](int threads) { return graph::graph_from_typed_arrays(arrays.views(), threads); });
  return std::make_unique<CommandJob>(std::move(command));
}

}  // namespace

void bind_partition(nb::module_& module) {
  nb::class_<CommandJob>(module, "CommandJob", "A command of strata-partition on a thread of its own.")
      .def_static("start", &start_command, "command"_a, "places"_a, "options"_a, "caller"_a)
      .def_static("build_of", &build_of, "arrays"_a, "options"_a, "caller"_a,
                  "The command build, of a graph in memory, which its option input only names.")
      .def(
          "wait",
          [](const CommandJob& job, int milliseconds) {
            return job.wait_for(std::chrono::milliseconds(milliseconds));
          },
          "milliseconds"_a, NoGil(), "Whether the command has ended by then.")
      .def(
          "stop", [](CommandJob& job, int) { job.stop(); }, "signal"_a,
          "Asks the command to end without a result.")
      .def("must_be_waited_for", &CommandJob::has_files,
           "Whether there are files that the command removes first when it is stopped.")
      .def(
          "take",
          [](CommandJob& job) {
            const partition::CommandResult result = job.take();
            return std::pair(result.json, result.succeeded);
          },
          NoGil(), "JSON, and whether all is well; raises the command's error.");
}

}  // namespace strata::python
