// SPDX-License-Identifier: Apache-2.0
#include "config/config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "base/id128.h"
#include "base/units.h"
#include "config/nearest.h"

namespace leat {
namespace {

using namespace std::chrono_literals;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

Schema make_schema() {
  return Schema({
      {.name = "cache.size",
       .type = OptionType::kBytes,
       .default_text = "10GiB",
       .help = "Bytes kept."},
      {.name = "cache.dir",
       .type = OptionType::kString,
       .default_text = "/var/cache",
       .help = "Where."},
      {.name = "log_level",
       .type = OptionType::kString,
       .default_text = "info",
       .help = "How much.",
       .reloadable = true},
      {.name = "catalog.max_age",
       .type = OptionType::kDuration,
       .default_text = "60s",
       .help = "How old."},
      {.name = "mount.read_only",
       .type = OptionType::kBool,
       .default_text = "true",
       .help = "No changes."},
      {.name = "fetch.requests",
       .type = OptionType::kInteger,
       .default_text = "32",
       .help = "At once.",
       .min = "1",
       .max = "1000"},
  });
}

std::string message_of(const Result<>& result) {
  return result ? "(no error)" : result.error().to_string();
}

TEST(Schema, BoundsHoldForSizesDurationsAndWords) {
  Option size{.name = "a", .type = OptionType::kBytes, .default_text = "0", .help = ""};
  size.min = "4MiB";
  size.max = "1GiB";
  EXPECT_TRUE(parse_option(size, "4MiB"));
  EXPECT_FALSE(parse_option(size, "0"));
  EXPECT_FALSE(parse_option(size, "4095KiB"));
  EXPECT_THAT(parse_option(size, "2GiB").error().message(), HasSubstr("it must be 4MiB to 1GiB"));
  size.or_zero = true;  // 0 has a special meaning
  EXPECT_TRUE(parse_option(size, "0"));
  EXPECT_EQ(range_of(size), "4MiB to 1GiB, or 0");
  Option time{.name = "b", .type = OptionType::kDuration, .default_text = "1s", .help = ""};
  time.max = "1h";
  EXPECT_TRUE(parse_option(time, "60m"));
  EXPECT_FALSE(parse_option(time, "61m"));
  EXPECT_EQ(range_of(time), "at most 1h");
  EXPECT_EQ(unit_of(time), "seconds");
  time.min = "1m";
  time.or_zero = true;
  EXPECT_EQ(range_of(time), "1m to 1h, or 0s");
  EXPECT_TRUE(parse_option(time, "0s"));
  Option word{.name = "c", .type = OptionType::kString, .default_text = "info", .help = ""};
  word.choices = {"debug", "info", "error"};
  EXPECT_THAT(parse_option(word, "inof").error().message(),
              HasSubstr("it must be debug, info or error; did you mean 'info'?"));
  Option text{.name = "d", .default_text = "", .help = "", .form = "an absolute path"};
  EXPECT_EQ(range_of(text), "an absolute path");
  EXPECT_EQ(range_of({.name = "e", .type = OptionType::kBool, .default_text = "false", .help = ""}),
            "true or false");
}

TEST(Config, WithoutLayersEverythingIsDefault) {
  Config config(make_schema());
  EXPECT_EQ(config.bytes("cache.size"), 10 * kGiB);
  EXPECT_EQ(config.text("cache.dir"), "/var/cache");
  EXPECT_EQ(config.duration("catalog.max_age"), 60s);
  EXPECT_TRUE(config.boolean("mount.read_only"));
  EXPECT_EQ(config.integer("fetch.requests"), 32);
  EXPECT_EQ(config.source("cache.size").origin, OptionOrigin::kDefault);
}

TEST(Config, HigherOriginsWinInAnyReadOrder) {
  constexpr std::string_view kFile = "log_level = 'debug'\n[cache]\nsize = '1GiB'\ndir = '/f'\n";
  const std::vector<const char*> environment = {"HOME=/x", "LEAT_CACHE_SIZE=2GiB",
                                                "LEAT_FETCH_REQUESTS=7"};
  Config forward(make_schema()), backward(make_schema());
  ASSERT_TRUE(forward.read_toml(kFile, "f.toml"));
  ASSERT_TRUE(forward.read_environment(environment));
  ASSERT_TRUE(forward.set("fetch.requests", "9", "--requests"));
  ASSERT_TRUE(backward.set("fetch.requests", "9", "--requests"));
  ASSERT_TRUE(backward.read_environment(environment));
  ASSERT_TRUE(backward.read_toml(kFile, "f.toml"));
  for (const Config* config : {&forward, &backward}) {
    EXPECT_EQ(config->bytes("cache.size"), 2 * kGiB);
    EXPECT_EQ(config->text("cache.dir"), "/f");
    EXPECT_EQ(config->text("log_level"), "debug");
    EXPECT_EQ(config->integer("fetch.requests"), 9);
    EXPECT_EQ(config->source("cache.size").location, "LEAT_CACHE_SIZE");
    EXPECT_EQ(config->source("cache.dir").location, "f.toml:4");
    EXPECT_EQ(config->source("fetch.requests").location, "--requests");
    EXPECT_EQ(config->source("mount.read_only").origin, OptionOrigin::kDefault);
  }
  EXPECT_THAT(forward.differences(backward), IsEmpty());
  EXPECT_THAT(forward.differences(Config(make_schema())),
              ElementsAre("cache.size", "cache.dir", "log_level", "fetch.requests"));
}

TEST(Config, LastFlagOfOneOptionWins) {
  Config config(make_schema());
  ASSERT_TRUE(config.set("cache.size", "1GiB", "--cache-size"));
  ASSERT_TRUE(config.set("cache.size", "3GiB", "--cache-size"));
  EXPECT_EQ(config.bytes("cache.size"), 3 * kGiB);
}

TEST(Config, UnknownNamesSayWhatWasProbablyMeant) {
  Config config(make_schema());
  EXPECT_THAT(message_of(config.read_toml("\n[cache]\nsise = '1G'", "f.toml")),
              HasSubstr("f.toml:3: there is no option 'cache.sise'; did you mean 'cache.size'?"));
  EXPECT_THAT(message_of(config.read_toml("[[cache]]\nsize = '1G'", "f.toml")),
              HasSubstr("there is no option 'cache'"));
  const std::vector<const char*> wrong = {"LEAT_CACHE_SIEZ=1G"};
  EXPECT_THAT(
      message_of(config.read_environment(wrong)),
      HasSubstr("LEAT_CACHE_SIEZ: there is no such option; did you mean 'LEAT_CACHE_SIZE'?"));
  EXPECT_THAT(message_of(config.set("log-level", "debug", "--log-level")),
              HasSubstr("did you mean 'log_level'?"));
  EXPECT_THAT(message_of(config.set("quite.different", "1", "--x")),
              testing::Not(HasSubstr("did you mean")));
}

TEST(Config, ReservedVariablesAreLeftAlone) {
  Config config(make_schema());
  const std::vector<const char*> variables = {"LEAT_DEPS_DIR=/x", "LEATHER=1", "LEAT_NO_VALUE"};
  EXPECT_FALSE(config.read_environment(variables));
  const std::vector<std::string> reserved = {"LEAT_DEPS_DIR"};
  EXPECT_TRUE(config.read_environment(variables, reserved));
}

TEST(Config, WrongValuesNamePlaceOptionAndWhatWouldDo) {
  Config config(make_schema());
  EXPECT_THAT(message_of(config.read_toml("cache.size = 'lots'", "f.toml")),
              HasSubstr("f.toml:1: cache.size = 'lots': 'lots' is not a size"));
  EXPECT_THAT(message_of(config.read_toml("catalog.max_age = 60", "f.toml")),
              HasSubstr("catalog.max_age is not a duration; write for example"));
  EXPECT_THAT(message_of(config.read_toml("mount.read_only = 'true'", "f.toml")),
              HasSubstr("mount.read_only = true"));
  EXPECT_THAT(message_of(config.read_toml("fetch.requests = 0", "f.toml")),
              HasSubstr("it must be 1 to 1000"));
  EXPECT_THAT(message_of(config.set("fetch.requests", "12x", "-n")), HasSubstr("whole number"));
  EXPECT_THAT(message_of(config.set("mount.read_only", "maybe", "-r")), HasSubstr("true or false"));
  EXPECT_THAT(message_of(config.read_toml("cache.size = -1", "f.toml")), HasSubstr("cache.size"));
  EXPECT_THAT(message_of(config.read_toml("cache.dir = ['a']", "f.toml")), HasSubstr("cache.dir"));
  EXPECT_THAT(message_of(config.read_toml("a = \n", "f.toml")), HasSubstr("f.toml:1"));
}

TEST(Config, AFileWithAnErrorChangesNothing) {
  Config config(make_schema());
  EXPECT_FALSE(config.read_toml("cache.dir = '/new'\nlog_level = 3\n", "f.toml"));
  EXPECT_EQ(config.text("cache.dir"), "/var/cache");
}

TEST(Config, SizesInFilesMayBeBareNumbers) {
  Config config(make_schema());
  ASSERT_TRUE(config.read_toml("cache.size = 4096", "f.toml"));
  EXPECT_EQ(config.bytes("cache.size"), 4096u);
}

TEST(Config, ADumpReadsBackAsTheSameValues) {
  Config config(make_schema());
  ASSERT_TRUE(config.set("cache.size", "1000001", "--cache-size"));
  ASSERT_TRUE(config.set("cache.dir", "/a \"b\"\\c\n", "--cache-dir"));
  ASSERT_TRUE(config.set("catalog.max_age", "1h30m5s", "--max-age"));
  ASSERT_TRUE(config.set("mount.read_only", "no", "--rw"));
  std::string dump = config.to_toml();
  Config again(make_schema());
  Result<> read = again.read_toml(dump, "dump");
  ASSERT_TRUE(read) << message_of(read) << "\n" << dump;
  EXPECT_THAT(again.differences(config), IsEmpty());
  EXPECT_THAT(dump, HasSubstr("# Bytes kept. (from the command line, --cache-size)\n"));
  EXPECT_THAT(dump, HasSubstr("# How much. (default; changes without a restart)\n"));
  EXPECT_THAT(dump, HasSubstr("[fetch]\n# At once. (default)\nrequests = 32\n"));
}

TEST(Config, FilesAreReadAndMissingOnesAreNotFound) {
  std::string path = testing::TempDir() + "/leat_config_test_" + Id128::random().to_hex();
  std::ofstream(path) << "[cache]\nsize = '5MiB'\n";
  Config config(make_schema());
  ASSERT_TRUE(config.read_file(path));
  EXPECT_EQ(config.bytes("cache.size"), 5 * kMiB);
  EXPECT_EQ(config.source("cache.size").location, path + ":2");
  Result<> missing = config.read_file(path + ".none");
  ASSERT_FALSE(missing);
  EXPECT_EQ(missing.error().code(), StatusCode::kNotFound);
  EXPECT_THAT(message_of(missing), HasSubstr(path + ".none"));
  std::filesystem::remove(path);
}

TEST(SchemaDeathTest, AWrongDeclarationAborts) {
  Option fine{.name = "a.b", .default_text = "", .help = ""};
  Option twin{.name = "a_b", .default_text = "", .help = ""};
  Option section{.name = "a", .default_text = "", .help = ""};
  Option bad_default{.name = "n", .type = OptionType::kInteger, .default_text = "x", .help = ""};
  Option bad_name{.name = "A.b", .default_text = "", .help = ""};
  EXPECT_DEATH(Schema({fine, twin}), "");
  EXPECT_DEATH(Schema({fine, section}), "");
  EXPECT_DEATH(Schema({bad_default}), "");
  EXPECT_DEATH(Schema({bad_name}), "");
}

TEST(Nearest, CountsSwapsAsOneAndRefusesOtherWords) {
  EXPECT_EQ(edit_distance("", "abc"), 3u);
  EXPECT_EQ(edit_distance("kitten", "sitting"), 3u);
  EXPECT_EQ(edit_distance("endpiont", "endpoint"), 1u);
  const std::vector<std::string> words = {"endpoint", "region", "addressing"};
  EXPECT_EQ(nearest("endpiont", words), "endpoint");
  EXPECT_EQ(nearest("Region", words), "region");
  EXPECT_EQ(nearest("bucket", words), std::nullopt);
  EXPECT_EQ(nearest("", words), std::nullopt);
  EXPECT_EQ(did_you_mean("regin", words), "; did you mean 'region'?");
  EXPECT_EQ(did_you_mean("bucket", words), "");
}

}  // namespace
}  // namespace leat
