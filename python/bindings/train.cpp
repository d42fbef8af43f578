// SPDX-License-Identifier: Apache-2.0
// This is the extension strata._train: the trainer. It links libtorch, which the package torch has loaded by
// then, and is a module of its own, because the rest of the package does without.
#include <ATen/DLConvertor.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/unique_ptr.h>

#include <chrono>
#include <memory>
#include <optional>

#include "backend_capsule.hpp"
#include "bindings.hpp"
#include "progress.hpp"
#include "strata/cli/train_job.hpp"
#include "strata/nn/weights.hpp"
#include "strata/util/text.hpp"

namespace strata::python {
namespace {

using namespace nb::literals;
using cli::TrainJob;
using options::FileValue;
using NoGil = nb::call_guard<nb::gil_scoped_release>;

FileValue value_of(nb::handle object) {
  if (nb::isinstance<nb::bool_>(object)) return {nb::cast<bool>(object)};
  if (nb::isinstance<nb::int_>(object)) return {nb::cast<std::int64_t>(object)};
  if (nb::isinstance<nb::float_>(object)) return {nb::cast<double>(object)};
  if (nb::isinstance<nb::str>(object)) return {nb::cast<std::string>(object)};
  if (!nb::isinstance<nb::list>(object)) return {FileValue::Unusable{nb::type_name(object.type()).c_str()}};
  FileValue::Array entries;
  for (const nb::handle entry : object) entries.push_back(value_of(entry));
  return {std::move(entries)};
}

std::unique_ptr<TrainJob> start(const nb::dict& options, const std::string& caller, const nb::object& ranks,
                                const std::string& terminal, const std::string& purpose,
                                std::optional<int> gpu, bool reports_epochs) {
  std::vector<cli::NamedOption> named;
  for (const auto& [name, value] : options)
    named.push_back({.name = nb::cast<std::string>(name), .value = value_of(value)});
  TrainJob::Setup setup{.caller = caller,
                        .ranks = backend_in(ranks),
                        .terminal = enum_value<LogLevel>(terminal, "level"),
                        .purpose = enum_value<cli::Purpose>(purpose, "purpose"),
                        .gpu = gpu,
                        .reports_epochs = reports_epochs};
  const nb::gil_scoped_release guard;
  return std::make_unique<TrainJob>(std::move(named), std::move(setup));
}

/// The options of training: name, hint, default as JSON, and help.
nb::list list_options() {
  train::TrainSettings settings;
  const options::OptionTable table = train::train_options(settings);
  nb::list list;
  for (const options::Option& option : table.options())
    list.append(nb::make_tuple(option.name.c_str(), option.hint.c_str(), option.literal().c_str(),
                               option.help.c_str()));
  return list;
}

nb::dict dict_of(const train::Scores& scores) {
  nb::dict entry;
  entry["nodes"] = scores.nodes;
  entry["loss"] = scores.loss;
  for (const train::Score& score : scores.values) entry[score.name.c_str()] = score.value;
  return entry;
}

/// A capsule that torch.utils.dlpack.from_dlpack() takes; it frees the tensor if nobody does.
nb::object dlpack_of(const at::Tensor& tensor) {
  constexpr const char* kName = "dltensor";
  return nb::steal(PyCapsule_New(at::toDLPack(tensor), kName, [](PyObject* capsule) {
    if (PyCapsule_IsValid(capsule, kName) == 0) return;  // it was taken
    auto* const held = static_cast<DLManagedTensor*>(PyCapsule_GetPointer(capsule, kName));
    held->deleter(held);
  }));
}

nb::dict take(TrainJob& job) {
  TrainJob::Outcome outcome;
  {
    const nb::gil_scoped_release guard;
    outcome = job.take();
  }
  const train::TrainResult& result = outcome.result;
  nb::dict weights, entry;
  if (result.weights)
    for (const nn::NamedTensor& weight : *result.weights)
      weights[weight.name.c_str()] = dlpack_of(weight.tensor);
  entry["stopped"] = result.stopped;
  entry["best_epoch"] = result.best_epoch;
  entry["valid"] = dict_of(result.valid);
  entry["test"] = dict_of(result.test);
  entry["epochs"] = result.epochs_done;
  entry["seeds_per_second"] = result.seeds_per_second;
  entry["folder"] = result.folder;
  entry["records"] = outcome.records;
  entry["weights"] = weights;
  return entry;
}

}  // namespace
}  // namespace strata::python

NB_MODULE(_train, module) {
  namespace nb = nanobind;
  using namespace strata::python;
  nb::set_leak_warnings(false);
  module.doc() = "The trainer of strata-train. Use strata.train(), which imports this module.";
  bind_errors(module);
  bind_progress(module);
  module.def("prepare_process", &strata::cli::prepare_process,
             "Sets the variables that libraries read when they begin.");
  module.def("options", &list_options, "Options of training: name, hint, default as JSON, and help.");
  nb::class_<TrainJob>(module, "TrainJob", "A run on a thread of its own; see cli/train_job.hpp.")
      .def_static("start", &start, "options"_a, "caller"_a, "ranks"_a, "terminal"_a, "purpose"_a,
                  "gpu"_a.none(), "reports_epochs"_a,
                  "Collective, as its end is. `ranks` is a capsule of ranks for this run only.")
      .def(
          "wait",
          [](const TrainJob& job, int milliseconds) {
            return job.wait_for(std::chrono::milliseconds(milliseconds));
          },
          "milliseconds"_a, NoGil(), "Whether the run has ended by then; earlier if there is a record.")
      .def("epoch_record", &TrainJob::epoch_record,
           "The record of an epoch, as JSON, for which training waits until answer().")
      .def("answer", &TrainJob::answer, "goes_on"_a, "Lets training go on, or asks it to stop.")
      .def("stop", &TrainJob::stop, "signal"_a, NoGil(), "Asks all ranks to stop, with a checkpoint.")
      .def(
          "must_be_waited_for", [](const TrainJob& job) { return !job.is_loading(); },
          "Whether the run has begun and so has something to save when it is stopped.")
      .def("take", &take, "Returns the result of the run; raises its error.");
}
