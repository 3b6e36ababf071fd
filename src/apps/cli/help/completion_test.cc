// SPDX-License-Identifier: Apache-2.0
// Completion of a typed line. Tests with real shells are in tests/e2e.
#include "apps/cli/help/completion.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "apps/cli/help/command_description.h"
#include "apps/cli/help/usage_error.h"

namespace leat {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

std::vector<Candidate> live(std::string_view kind) {
  if (kind == value_name::kMount) return {{"/mnt/train", "s3://b/train/"}, {"/mnt/val", ""}};
  if (kind == value_name::kJob) return {{"7", "load /mnt/train"}};
  if (kind == value_name::kSnapshot) return {{"monday", ""}};
  return {};
}

std::vector<std::string> words_for(const std::vector<std::string>& typed) {
  std::vector<std::string> words;
  for (const Candidate& one : complete(typed, live).candidates) words.push_back(one.word);
  return words;
}

TEST(Completion, CommandsThatAreForPeople) {
  EXPECT_THAT(words_for({"mo"}), ElementsAre("mount", "mounts"));
  EXPECT_THAT(words_for({""}), Not(Contains("daemon")));
  EXPECT_THAT(words_for({"--v"}), ElementsAre("--version"));
  EXPECT_THAT(words_for({"frobnicate", ""}), IsEmpty());
}

TEST(Completion, FlagsPartsAndTheirValues) {
  EXPECT_THAT(words_for({"snapshot", "bu"}), ElementsAre("build"));
  EXPECT_THAT(words_for({"snapshot", "build", "--u"}), ElementsAre("--use"));
  EXPECT_THAT(words_for({"mount", "--profile", "s"}), ElementsAre("serving", "small-files"));
  EXPECT_THAT(words_for({"mount", "--profile=t"}), ElementsAre("--profile=training"));
  EXPECT_THAT(words_for({"completion", "z"}), ElementsAre("zsh"));
  // After "--" nothing is a flag.
  EXPECT_THAT(words_for({"load", "--", "--b"}), IsEmpty());
}

TEST(Completion, WhatTheDaemonKnows) {
  EXPECT_THAT(words_for({"umount", "/mnt/t"}), ElementsAre("/mnt/train"));
  EXPECT_THAT(words_for({"jobs", "cancel", ""}), ElementsAre("7"));
  EXPECT_THAT(words_for({"snapshot", "use", "m"}), ElementsAre("monday"));
  EXPECT_THAT(words_for({"snapshot", "use", "monday", "/mnt/v"}), ElementsAre("/mnt/val"));
}

TEST(Completion, OptionsGoOnWithTheirValue) {
  const Completion options = complete({"mounts", "set", "/mnt/train", "qu"}, live);
  ASSERT_EQ(options.candidates.size(), 1u);
  EXPECT_EQ(options.candidates[0].word, "quota=");
  EXPECT_TRUE(options.continues);
  EXPECT_THAT(words_for({"mounts", "set", "/mnt/train", "quota=1GiB", "priority=h"}),
              ElementsAre("priority=high"));
  EXPECT_THAT(words_for({"mount", "-o", "freshness=i"}), ElementsAre("freshness=immutable"));
  EXPECT_THAT(words_for({"daemon", "--set", "cache.mi"}), ElementsAre("cache.min_free="));
}

TEST(Completion, AliasesForThoseWhoWriteThem) {
  EXPECT_THAT(words_for({"mounts", ""}), Not(Contains("update")));
  EXPECT_THAT(words_for({"mounts", "upd"}), ElementsAre("update"));
  EXPECT_THAT(words_for({"jobs", "l"}), ElementsAre("ls"));
  EXPECT_THAT(words_for({"jobs", "li"}), ElementsAre("list"));
  EXPECT_THAT(words_for({"mounts", "update", "/mnt/train", "qu"}), ElementsAre("quota="));
}

TEST(Completion, NamesOfFilesAreTheShells) {
  EXPECT_EQ(complete({"load", ""}, live).files, Completion::Files::kAll);
  EXPECT_EQ(complete({"mount", "s3://b", ""}, live).files, Completion::Files::kDirectories);
  EXPECT_EQ(complete({"mount", "--config", ""}, live).files, Completion::Files::kAll);
  EXPECT_EQ(complete({"version", ""}, live).files, Completion::Files::kNone);
}

TEST(SplitLine, TakesQuotesAsShellsDo) {
  EXPECT_THAT(split_line("leat mo"), ElementsAre("leat", "mo"));
  EXPECT_THAT(split_line("leat  mo "), ElementsAre("leat", "mo", ""));
  EXPECT_THAT(split_line(R"(leat ls 'a b' c\ d "e 'f)"),
              ElementsAre("leat", "ls", "a b", "c d", "e 'f"));
  EXPECT_THAT(split_line(R"(leat '\' "\"")"), ElementsAre("leat", "\\", "\""));
  EXPECT_THAT(split_line(""), ElementsAre(""));
  EXPECT_THAT(split_line("leat ''"), ElementsAre("leat", ""));
}

TEST(CompletionScript, IsThereForThreeShells) {
  for (const char* shell : {"bash", "zsh", "fish"}) {
    ASSERT_TRUE(completion_script(shell));
    EXPECT_THAT(*completion_script(shell), HasSubstr("leat complete "));
  }
  EXPECT_FALSE(completion_script("csh"));
}

const CommandEntry& entry(std::string_view name) {
  return *std::ranges::find(command_table(), name,
                            [](const CommandEntry& one) { return std::string_view(one.name); });
}

// Without a descriptive name, a value would be "TEXT" in help and pages.
void expect_named_values(const CommandDescription& command) {
  for (const ArgumentDescription& argument : command.arguments) {
    for (const char* unnamed : {"TEXT", "INT", "UINT", "FLOAT", "BOOLEAN"}) {
      EXPECT_FALSE(argument.value.starts_with(unnamed)) << command.name << " " << argument.help;
    }
    EXPECT_FALSE(argument.help.empty()) << command.name;
  }
  EXPECT_FALSE(command.summary.empty()) << command.name;
  for (const CommandDescription& part : command.parts) expect_named_values(part);
}

TEST(CommandDescription, SaysOfEveryValueWhatItIs) {
  for (const CommandEntry& one : command_table()) expect_named_values(describe(one));
}

TEST(CommandDescription, KnowsPartsAndTheirFlags) {
  const CommandDescription snapshot = describe(entry("snapshot"));
  EXPECT_TRUE(snapshot.part_needed);
  const CommandDescription* build = snapshot.part("build");
  ASSERT_NE(build, nullptr);
  EXPECT_EQ(usage_line(*build), "leat snapshot build [--name NAME] [--use] [--json] PATH");
  EXPECT_NE(build->flag("--json"), nullptr);
  EXPECT_EQ(build->flag("--jsn"), nullptr);
  EXPECT_EQ(snapshot.part("bild"), nullptr);
}

TEST(CommandDescription, AnAliasIsThePartThatItStandsFor) {
  const CommandDescription mounts = describe(entry("mounts"));
  ASSERT_NE(mounts.part("update"), nullptr);
  EXPECT_EQ(mounts.part("update"), mounts.part("set"));
  EXPECT_EQ(mounts.part("list")->name, "mounts ls");
  EXPECT_THAT(help_text(mounts, "", 100), HasSubstr("  ls, list "));
  EXPECT_THAT(help_text(*mounts.part("set"), "", 100), HasSubstr("'set' may be written 'update'."));
  EXPECT_EQ(describe(entry("jobs")).part("list")->name, "jobs ls");
}

TEST(CommandDescription, HelpFitsTheColumns) {
  for (const CommandEntry& one : command_table()) {
    const std::string text = help_text(describe(one), "", 80);
    size_t begin = 0;
    while (begin < text.size()) {
      const size_t end = std::min(text.find('\n', begin), text.size());
      const std::string line = text.substr(begin, end - begin);
      // A single word may be longer.
      if (line.size() > 90) EXPECT_FALSE(line.substr(26).contains(' ')) << line;
      begin = end + 1;
    }
  }
}

TEST(UsageError, LeadsToWhatWasMeant) {
  auto said = [](const char* command, std::vector<const char*> words) {
    return explain_usage(describe(entry(command)), words, "complaint");
  };
  EXPECT_EQ(said("load", {"--bakground", "/x"}),
            "load: there is no flag '--bakground'; did you mean '--background'?; 'leat load "
            "--help' shows what it takes");
  EXPECT_EQ(said("cache", {"evcit"}),
            "there is no 'leat cache evcit'; did you mean 'evict'?; 'leat cache --help' lists "
            "what there is");
  EXPECT_EQ(said("cache", {"evict", "--al"}),
            "cache evict: there is no flag '--al'; did you mean '--all'?; 'leat cache evict "
            "--help' shows what it takes");
  EXPECT_EQ(
      said("mounts", {"update", "--jsn"}),
      "mounts set: there is no flag '--jsn'; did you mean '--json'?; 'leat mounts set --help' "
      "shows what it takes");
  EXPECT_EQ(said("mounts", {"updtae"}),
            "there is no 'leat mounts updtae'; did you mean 'update'?; 'leat mounts --help' lists "
            "what there is");
  EXPECT_EQ(said("load", {"--", "--odd"}),
            "load: complaint; 'leat load --help' shows what it takes");
}

}  // namespace
}  // namespace leat
