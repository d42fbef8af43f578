// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "strata/util/options.hpp"
#include "support/expect_error.hpp"

namespace strata::options {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

/// Values that may be given several times.
struct Texts {
  using Value = std::vector<std::string>;
  static std::string hint() { return "TEXT"; }
  static std::string shown(const Value&) { return ""; }
  static void add(Value& value, std::string_view, std::string_view text) { value.emplace_back(text); }
};

struct Settings {
  int width = 8, threads = 0;
  bool fast = false;
  FlagOrText::Value resume;
  std::vector<std::string> files;
  std::string graph;
};

class AProgram : public testing::Test {
 protected:
  AProgram() {
    table_.place("GRAPH", settings_.graph, "The graph");
    table_.add("width", settings_.width, "Width of the layers");
    table_.add_as<Integer<int, 0, 4096>>("threads", settings_.threads, "Number of threads");
    table_.add("fast", settings_.fast, "Be quick");
    table_.add_as<FlagOrText>("resume", settings_.resume, "Continue");
    table_.add_as<Texts>("file", settings_.files, "Read this, too");
    line_.add(table_);
  }
  const Settings& parse(const std::vector<std::string>& words) {
    line_.parse(words);
    line_.refuse_empty_values();
    line_.apply(table_);
    return settings_;
  }
  static void expect_refused(const std::vector<std::string>& words, const std::vector<std::string>& parts) {
    test::expect_error<InputError>([&] { AProgram().parse(words); }, parts);
  }
  void TestBody() override {}

  Settings settings_;
  OptionTable table_;
  CommandLine line_{{.help = "mine --help lists the options."}};
};

TEST_F(AProgram, TakesValuesBehindTheirNamesOrEqualSigns) {
  const Settings& settings = parse({"--width", "-3", "--threads=4", "parts", "--fast"});
  EXPECT_EQ(settings.width, -3);
  EXPECT_EQ(settings.threads, 4);
  EXPECT_EQ(settings.graph, "parts");
  EXPECT_TRUE(settings.fast);
  EXPECT_THAT(line_.names(), ElementsAre("GRAPH", "width", "threads", "fast"));
}

TEST_F(AProgram, CountsTheLastValueUnlessTheyAddUp) {
  const Settings& settings = parse({"--width", "x", "--file", "a", "g", "--width", "5", "--file=b"});
  EXPECT_EQ(settings.width, 5);
  EXPECT_THAT(settings.files, ElementsAre("a", "b"));
}

TEST_F(AProgram, TakesAnOptionalValueIfThereIsOne) {
  EXPECT_TRUE(parse({"g", "--resume", "--fast"}).resume.on);
  EXPECT_EQ(parse({"--resume", "runs/last"}).resume.text, "runs/last");
}

TEST_F(AProgram, TakesAnythingForAPlaceAfterTwoDashes) {
  EXPECT_EQ(parse({"--fast", "--", "--width"}).graph, "--width");
}

TEST_F(AProgram, RefusesWordsWithTheNearestOption) {
  expect_refused({"g", "--widht", "3"}, {"unknown option --widht", "Did you mean --width?", "mine --help"});
  expect_refused({"g", "width", "3"}, {"unexpected argument width", "Did you mean --width?"});
  expect_refused({"g", "--widht"}, {"unknown option"});  // though nothing else is missing
  expect_refused({"--widht"}, {"unknown option"});       // before what is missing
  expect_refused({"--GRAPH", "g"}, {"unknown option --GRAPH"});
}

TEST_F(AProgram, RefusesWhatIsMissing) {
  expect_refused({"--fast"}, {"GRAPH is required", "mine --help lists the options."});
  expect_refused({"g", "--width"}, {"--width needs a value"});
  expect_refused({"g", "--width", "--fast"}, {"--width needs a value"});
  expect_refused({"g", "--width="}, {"--width: the value is empty", "leave the option out"});
  expect_refused({""}, {"GRAPH: the value is empty"});
}

TEST_F(AProgram, RefusesValuesByTheirOption) {
  expect_refused({"g", "--threads", "4097"}, {"--threads: 4097 is too large", "at most 4096"});
  expect_refused({"g", "--fast=3"}, {"--fast: there is no \"3\"", "without a value"});
}

TEST_F(AProgram, ListsItsOptions) {
  table_.group("Others", "");
  table_.add("much", settings_.width, "Said at length").like("N").required().common();
  const std::string all = list_options(table_, true);
  EXPECT_THAT(all, HasSubstr("  GRAPH                   The graph\n"));
  EXPECT_THAT(all, HasSubstr("  --width INT             Width of the layers [8]\n"));
  EXPECT_THAT(all, HasSubstr("  --threads 0..4096       Number of threads [0]\n"));
  EXPECT_EQ(list_options(table_, false), "\nOthers\n  --much N                Said at length [8]\n");
}

}  // namespace
}  // namespace strata::options
