// SPDX-License-Identifier: Apache-2.0
#include "strata/util/options.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <filesystem>
#include <optional>
#include <vector>

#include "help_text.hpp"
#include "hints.hpp"
#include "named_options.hpp"
#include "strata/cli/config_file.hpp"
#include "strata/cli/program.hpp"
#include "strata/train/config.hpp"
#include "strata/train/planning.hpp"
#include "strata/train/trainer.hpp"
#include "strata/util/error.hpp"
#include "strata/util/files.hpp"
#include "strata/util/system.hpp"
#include "strata/util/text.hpp"

namespace strata::cli {
namespace {

namespace fs = std::filesystem;
using options::CommandLine;
using options::GivenOptions;
using options::Option;
using train::Provenance;

constexpr const char* kConfigFile = "config.toml";

bool uses_model(Purpose purpose) { return purpose == Purpose::predict || purpose == Purpose::evaluate; }

/// The options of a use of a trained model: where and how it is computed. The model's own come from its run.
bool is_for_inference(const Option& option) {
  return option.table == "machines" || option.table == "log"
             ? option.name != "trace" && option.name != "log-every"
             : option.name == "graph";
}

/// Options of predict that no other purpose has.
void add_inference_options(options::OptionTable& table, train::InferenceRequest& request, Purpose purpose) {
  if (purpose != Purpose::predict) return;
  table.group("Predictions", "predictions");
  table.add("output", request.logits, "File for the logits: .npy, or .csv, which also has the nodes' ids")
      .common();
  table.add("nodes", request.nodes, "Write only these nodes, in this order: a .npy file of ids, or of a mask")
      .common();
  table.add("split", request.split, "Write only the nodes of this split, in order of their ids").common();
  table
      .add(
          "pairs", request.pairs,
          "Of links or edges: write what is predicted for these pairs, a .npy file of ids [N, 2] (source, destination), "
          "or [N, 3] with the number of the relation among those of the run")
      .common();
  table
      .add(
          "top", request.top,
          "Of links: write this many best new neighbors of each node, or of those of --nodes, and beside them "
          "their scores (NAME-scores.npy)")
      .common();
  table.add("relation", request.relation, "The relation of --top, if the run learns several").common();
}

/// Options of strata-plan that training does not have.
void add_plan_options(options::OptionTable& table, train::PlanRequest& request, Purpose purpose) {
  if (purpose != Purpose::plan) return;
  table.group("Planning", "");
  table
      .add("cluster", request.cluster,
           "Plan for these machines instead of those at hand: machines=16,gpus=8,link=400Gbit/s,... "
           "(docs/clusters.md has all keys)")
      .common();
  table.add("json", request.json, "Print the plan as one line of JSON instead of tables").common();
}

/// Checks the options, and adds the places of the file's options that the error mentions.
void validate(const train::TrainConfig& config, const ConfigFile& file, const GivenOptions& given,
              Purpose purpose) {
  auto places = file.given_at;
  std::erase_if(places, [&](const auto& option) { return given.has(option.first); });
  with_places(places,
              [&] { purpose == Purpose::plan ? train::validate_plan(config) : train::validate(config); });
}

/// The words as a shell would read them.
std::string joined(const std::vector<std::string>& words) {
  constexpr std::string_view kPlain = "-_=,./:@%+";
  std::string text;
  for (const std::string& word : words) {
    const bool plain = !word.empty() && std::ranges::all_of(word, [&](char c) {
      return std::isalnum(static_cast<unsigned char>(c)) != 0 || kPlain.find(c) != std::string_view::npos;
    });
    if (!text.empty()) text += ' ';
    if (plain) {
      text += word;
      continue;
    }
    text += '\'';
    for (const char c : word) text += c == '\'' ? std::string("'\\''") : std::string(1, c);
    text += '\'';
  }
  return text;
}

/// The run folder of a command line, which may also name its model.safetensors.
std::string folder_of_run(const std::string& run) {
  return run.ends_with(".safetensors") ? folder_of(run).string() : run;
}

/// Checks a run that is to be continued; if that is impossible, the error must not ask for --graph.
void check_resume(const train::TrainConfig& config) {
  if (!config.resume) return;
  std::error_code ignored;
  if (fs::is_regular_file(config.output, ignored))
    throw InputError(
        fmt::format("--resume {}: a file, not a folder", config.output),
        fmt::format("Give the folder of the run: --resume {}.", folder_of(config.output).string()));
  if (!config.graph.empty()) return;
  if (config.output.empty())
    throw InputError("--resume does not say which run goes on", "Name its folder: --resume runs/last.");
  if (!fs::is_directory(config.output, ignored))
    throw InputError(fmt::format("--resume {}: no such directory", config.output),
                     "Give the folder of the run to continue, such as runs/last.");
}

void check_seeds(std::vector<std::uint64_t> seeds) {
  std::ranges::sort(seeds);
  if (const auto twice = std::ranges::adjacent_find(seeds); twice != seeds.end())
    throw InputError(fmt::format("--seeds: {} is there twice", *twice), "Give every seed once: 0,1,2.");
}

}  // namespace

struct Command::State {
  std::vector<std::string> words;
  std::string own_model;
  Purpose purpose;
  train::TrainSettings defaults;
  options::OptionTable table = train::train_options(defaults);
  std::string config_path;
  options::OptionTable config_table;
  train::InferenceRequest request;
  train::PlanRequest plan;
  options::OptionTable request_table;  ///< bound to the two requests
  std::unique_ptr<GivenOptions> given;
  std::string origin = Provenance::kCommandLine;  ///< of what was given
  std::string text;

  State(std::vector<NamedOption> options, const std::string& caller, Purpose wanted)
      : words{caller}, purpose(wanted), origin(caller) {
    add_inference_options(request_table, request, purpose);
    add_plan_options(request_table, plan, purpose);
    if (uses_model(purpose)) request_table.add("run", request.run, "Folder of the run");
    for (const NamedOption& option : options) refuse_option_of_the_run(option.name);
    add_configuration();
    given = std::make_unique<NamedOptions>(
        std::move(options), std::vector<const options::OptionTable*>{&table, &config_table, &request_table},
        caller);
    given->apply(config_table);
    given->apply(request_table);
  }

  State(int argc, const char* const* argv, const std::string& own_model, Purpose wanted)
      : words(argv, argv + argc), own_model(own_model), purpose(wanted) {
    for (int i = 1; i < argc; ++i) require_utf8(argv[i], fmt::format("argument {}", i));  // records are JSON
    for (std::string& word : words) word = expand_home_in_word(std::move(word));
    if (argc > 1 && purpose == Purpose::train) {
      if (words[1] == "predict") purpose = Purpose::predict;
      if (words[1] == "evaluate") purpose = Purpose::evaluate;
    }
    add_inference_options(request_table, request, purpose);
    add_plan_options(request_table, plan, purpose);
    add_configuration();
    if (asks_for_text()) return;
    if (uses_model(purpose))
      split_inference();
    else
      split_training();
  }

  void add_configuration() {
    config_table.group("Configuration", "");
    config_table.add("config", config_path, "TOML file with the same names as the options");
  }

  bool asks_for_text() {
    for (std::size_t i = 1; i < words.size(); ++i) {
      const bool all = i + 1 < words.size() && words[i + 1] == "all";
      if (words[i] == "--version") text = version(all);
      if (words[i] == "--help" || words[i] == "-h") text = help(all);
      if (!text.empty()) return true;
    }
    return false;
  }

  /// The program's name as it was called, without its folder.
  std::string program() const { return fs::path(words.front()).filename().string(); }

  /// The version in one line; with `all`, also one line for each library of the build.
  std::string version(bool all) const {
    std::string result = !own_model.empty()         ? program() + ", with Strata "
                         : purpose == Purpose::plan ? "strata-plan "
                                                    : "strata-train ";
    result += build_version() + '\n';
    if (all)
      for (const std::string& library : train::library_versions()) result += "  " + library + '\n';
    return result;
  }

  std::string help(bool all) const {
    if (purpose == Purpose::train) return train_help(program(), table, all);
    if (purpose == Purpose::plan) return plan_help(program(), request_table, table, all);
    std::string result =
        purpose == Purpose::predict
            ? " predict RUN --graph PARTS [--split test] --output logits.npy\n\n"
              "Writes the logits that a trained model gives the nodes of a graph, or what it "
              "predicts for pairs of nodes.\n\n"
            : " evaluate RUN --graph PARTS\n\nScores a trained model on the "
              "nodes of a graph.\n\n";
    result.insert(0, program());
    for (const Option& option : request_table.options()) result += describe_option(option);
    for (const Option& option : table.options())
      if (is_for_inference(option)) result += describe_option(option);
    return result;
  }

  void split_training() {
    auto line = std::make_unique<CommandLine>(train_hints());
    for (const auto* known : {&table, &request_table, &config_table}) line->add(*known);
    line->parse({words.begin() + 1, words.end()});
    line->apply(config_table);
    line->apply(request_table);
    given = std::move(line);
  }

  void split_inference() {
    const std::string name(enum_name(purpose));
    if (words.size() < 3 || words[2].starts_with("-"))
      throw InputError(fmt::format("{} needs the folder of a run", name),
                       fmt::format("{} {} runs/last --graph parts", program(), name));
    request.run = words[2];
    auto line = std::make_unique<CommandLine>(train_hints());
    for (const Option& option : table.options())
      if (is_for_inference(option)) line->add(option);
    line->add(request_table);
    const std::vector<std::string> rest(words.begin() + 3, words.end());
    for (const std::string& word : rest)
      if (word.starts_with("--")) refuse_option_of_the_run(word.substr(2, word.find('=') - 2));
    line->parse(rest);
    given = std::move(line);
  }

  void refuse_option_of_the_run(std::string name) const {
    if (!uses_model(purpose)) return;
    std::ranges::replace(name, '_', '-');
    const Option* option = table.find(name);
    if (option == nullptr || is_for_inference(*option) || request_table.find(name) != nullptr) return;
    throw InputError(fmt::format("--{} is no option of {}", name, enum_name(purpose)),
                     request.run.empty()  // of a call, whose values are not known yet
                         ? "The model is as its run has it."
                         : fmt::format("The model is as {} has it; {} {} --help lists the options.",
                                       request.run, program(), enum_name(purpose)));
  }

  /// The folder of the run whose options count; empty: none.
  std::string run_folder() const {
    if (uses_model(purpose)) return folder_of_run(request.run);
    options::FlagOrText::Value resume;
    std::string output;
    options::OptionTable both;
    both.add_as<options::FlagOrText>("resume", resume, "");
    both.add("output", output, "");
    given->apply(both);
    return !resume.on ? std::string() : resume.text.empty() ? output : resume.text;
  }

  ParsedOptions complete(const std::optional<std::string>& run_options) const {
    const std::string run_file = run_folder() + "/" + kConfigFile;
    ConfigFile run;
    if (run_options) run = parse_config_file(*run_options, run_file);
    return uses_model(purpose) ? complete_inference(run, !run_options) : complete_training(run, run_file);
  }

  ParsedOptions complete_training(const ConfigFile& run, const std::string& run_file) const {
    ConfigFile file{.settings = run.settings, .given_at = {}};
    if (!config_path.empty()) file = read_config_file(config_path, run.settings);
    train::TrainSettings settings = file.settings;
    const options::OptionTable target = train::train_options(settings);
    given->apply(target);
    const auto is_given = [&](std::string_view name) { return given->has(name); };
    train::settle_resume(settings, is_given, given->dashes());
    train::TrainConfig& config = settings.config;
    const bool is_call = given->dashes().empty();
    config.provenance = {.command_line = is_call ? call_text(origin, *given, target) : joined(words),
                         .given_by = {}};
    auto& given_by = config.provenance.given_by;
    for (const Option& option : target.options())
      if (run.given_at.contains(option.name) && option.literal() != table.find(option.name)->literal())
        given_by[option.name] = run_file;
    for (const auto& [name, place] : file.given_at) given_by[name] = place;
    for (const std::string& name : given->names()) given_by[name] = origin;
    if (config.log_level == LogLevel::off) config.progress = ProgressStyle::off;
    config.own_model = own_model;
    if (!own_model.empty() && given_by.contains("model"))
      throw InputError(
          fmt::format("--model has no effect: this program trains a model of its own, {}", own_model),
          "Leave --model out, or call strata-train.");
    check_resume(config);
    check_seeds(settings.seeds);
    if (!settings.seeds.empty() && config.resume)
      throw InputError("--seeds contradicts --resume", "Resume one run: --resume OUTPUT/seed-N.");
    validate(config, file, *given, purpose);
    return {.config = config, .inference = {}, .plan = plan_request(), .seeds = settings.seeds, .text = {}};
  }

  std::optional<train::PlanRequest> plan_request() const {
    if (purpose != Purpose::plan) return std::nullopt;
    if (given->has("cluster") && plan.cluster.empty())
      throw InputError("--cluster: there is nothing in it",
                       "Say what machines there are, such as machines=2,gpus=8, or leave --cluster out for "
                       "the machines at hand.");
    return plan;
  }

  ParsedOptions complete_inference(const ConfigFile& run, bool is_missing) const {
    std::error_code ignored;
    if (is_missing && !fs::exists(run_folder(), ignored))
      throw InputError(fmt::format("{}: no such directory", run_folder()),
                       "Name a folder that strata-train wrote, such as runs/last.");
    if (is_missing)
      throw InputError(fmt::format("{}: no such run: it has no {}", run_folder(), kConfigFile),
                       "Name a folder that strata-train wrote, such as runs/last.");
    const bool is_call = given->dashes().empty();
    if (!given->has("graph") && !is_call)
      throw InputError("--graph is missing",
                       fmt::format("Name the parts to {} on: --graph parts. The run trained on {}.",
                                   enum_name(purpose), run.settings.config.graph.text()));
    train::TrainSettings settings;
    settings.config = train::inference_config(run.settings.config);
    settings.config.own_model = own_model;
    if (is_call) settings.config.graph = run.settings.config.graph;
    const options::OptionTable target = train::train_options(settings);
    train::InferenceRequest wanted = request;
    options::OptionTable wanted_table;
    add_inference_options(wanted_table, wanted, purpose);
    given->apply(target);
    given->apply(wanted_table);
    settings.config.relation = run.settings.config.relation;  // --relation is that of --top
    if (purpose == Purpose::predict && wanted.logits.empty())
      throw InputError(
          "--output is missing: predict writes logits into a file",
          fmt::format("Give --output logits.npy; {} evaluate {} reports scores.", program(), request.run));
    train::TrainConfig& config = settings.config;
    for (const std::string& name : given->names()) config.provenance.given_by[name] = origin;
    if (config.log_level == LogLevel::off) config.progress = ProgressStyle::off;
    train::validate(config);
    return {.config = config, .inference = wanted, .plan = {}, .seeds = {}, .text = {}};
  }
};

Command::Command(int argc, const char* const* argv, const std::string& own_model, Purpose purpose)
    : state_(std::make_unique<State>(argc, argv, own_model, purpose)) {}
Command::Command(std::vector<NamedOption> options, const std::string& caller, Purpose purpose)
    : state_(std::make_unique<State>(std::move(options), caller, purpose)) {}
Command::~Command() = default;
Command::Command(Command&&) noexcept = default;
Command& Command::operator=(Command&&) noexcept = default;

const std::string& Command::text() const { return state_->text; }

std::string Command::run_file() const {
  const std::string folder = state_->run_folder();
  return folder.empty() ? folder : (fs::path(folder) / kConfigFile).string();
}

ParsedOptions Command::complete(const std::optional<std::string>& run_options) const {
  return state_->complete(run_options);
}

ParsedOptions parse_train_options(int argc, const char* const* argv) {
  const Command command(argc, argv);
  if (!command.text().empty())
    return {.config = {}, .inference = {}, .plan = {}, .seeds = {}, .text = command.text()};
  const std::string file = command.run_file();
  std::error_code ignored;
  std::optional<std::string> contents;
  if (!file.empty() && fs::exists(file, ignored)) contents = read_file(file);
  return command.complete(contents);
}

}  // namespace strata::cli
