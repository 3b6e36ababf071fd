// SPDX-License-Identifier: Apache-2.0
// The command line as users see it: words in, exit code and text out. Tests that need a mount are
// in tests/e2e.
#include "apps/cli/cli.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "apps/cli/command/command_table.h"
#include "base/id128.h"
#include "base/units.h"
#include "daemon/daemon_options.h"

namespace leat {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

struct Output {
  int code;
  std::string out, err;
};

Output leat(std::vector<const char*> words) {
  words.insert(words.begin(), "leat");
  testing::internal::CaptureStdout();
  testing::internal::CaptureStderr();
  int code = run_cli(static_cast<int>(words.size()), words.data());
  std::fflush(stdout);
  return {code, testing::internal::GetCapturedStdout(), testing::internal::GetCapturedStderr()};
}

std::string read_file(const std::filesystem::path& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

class CliTest : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = std::filesystem::path(testing::TempDir()) / ("leat_cli_" + Id128::random().to_hex());
    std::filesystem::create_directories(folder_ / "data/sub");
    std::ofstream(folder_ / "data/a.txt") << "alpha";
    std::ofstream(folder_ / "data/sub/b.txt") << "beta";
    setenv("LEAT_RUNTIME_DIR", (folder_ / "run").c_str(), 1);
    url_ = "file://" + (folder_ / "data").string();
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  std::string path(const char* below) const { return folder_ / below; }

  std::filesystem::path folder_;
  std::string url_;
};

TEST_F(CliTest, OverviewNamesEveryCommandThatIsForPeople) {
  Output help = leat({"--help"});
  EXPECT_EQ(help.code, 0);
  for (const CommandEntry& entry : command_table()) {
    EXPECT_EQ(help.out.contains(std::string("\n  ") + entry.name + " "), !entry.hidden)
        << entry.name;
  }
  EXPECT_EQ(leat({}).code, 2);
}

TEST_F(CliTest, EveryCommandHasHelpExampleAndJson) {
  for (const CommandEntry& entry : command_table()) {
    Output help = leat({entry.name, "--help"});
    EXPECT_EQ(help.code, 0) << entry.name;
    EXPECT_THAT(help.out, HasSubstr("Example:\n  leat "));
    EXPECT_THAT(help.out, HasSubstr("--json"));
  }
}

TEST_F(CliTest, AnAliasHasThePageOfWhatItStandsFor) {
  const std::string page = leat({"mounts", "update", "--help"}).out;
  EXPECT_THAT(page, HasSubstr("Usage: leat mounts set "));
  EXPECT_EQ(page, leat({"mounts", "set", "--help"}).out);
  EXPECT_THAT(leat({"jobs", "list", "--help"}).out, HasSubstr("Usage: leat jobs ls"));
  EXPECT_THAT(leat({"mounts", "update", "/x"}).err, HasSubstr("'leat mounts set --help'"));
}

TEST_F(CliTest, AMistypedCommandIsCorrected) {
  Output wrong = leat({"muont"});
  EXPECT_EQ(wrong.code, 2);
  EXPECT_EQ(wrong.err,
            "leat: there is no command 'muont'; did you mean 'mount'?; 'leat --help' lists them\n");
  EXPECT_EQ(leat({"frobnicate"}).err,
            "leat: there is no command 'frobnicate'; 'leat --help' lists them\n");
}

TEST_F(CliTest, CommandsOfOtherProgramsAreTranslated) {
  for (const auto& [word, here] :
       std::vector<std::pair<const char*, const char*>>{{"rm", "leat free PATH"},
                                                        {"sync", "leat cp -r --update SRC DST"},
                                                        {"warmup", "leat load PATH"},
                                                        {"info", "leat stat PATH"},
                                                        {"unmount", "leat umount DIR"}}) {
    const Output said = leat({word, "x"});
    EXPECT_EQ(said.code, 2);
    EXPECT_THAT(said.err, HasSubstr(std::string("there is no command '") + word + "': "));
    EXPECT_THAT(said.err, HasSubstr(here));
  }
  EXPECT_THAT(leat({"--json", "ls"}).err, HasSubstr("flags stand behind it: 'leat ls --json'"));
  EXPECT_EQ(leat({"-V"}).out, leat({"version"}).out);
  EXPECT_EQ(leat({"-V"}).code, 0);
}

// Messages have our own form, whatever the parser writes.
TEST_F(CliTest, WrongUsageSaysWhatWouldBeRight) {
  struct Case {
    std::vector<const char*> words;
    const char* said;
  };
  for (const Case& one : std::vector<Case>{
           {{"mount"}, "mount: SOURCE is missing; it is 'leat mount [FLAGS] SOURCE DIR'; "},
           {{"ls", "a", "b", "c"}, "ls: 'b', 'c' are too much; it is 'leat ls [--long] [--json] "},
           {{"status", "extra"}, "status: 'extra' is too much; it is 'leat status"},
           {{"ls", "-z"}, "ls: there is no flag '-z'; "},
           {{"load", "--requests", "0", "/x"},
            "load: --requests takes a number from 1 to 256, not "
            "'0'; "},
           {{"load", "--requests", "1", "--requests", "2", "/x"}, "--requests may be given once; "},
           {{"mount", "--uid", "abc", "s3://b", "/x"}, "mount: --uid takes a number, not 'abc'; "},
           {{"cp", "--parallel"}, "cp: --parallel takes NUMBER, and nothing follows it; "},
           {{"jobs", "show", "x"}, "jobs show: JOB takes a number, not 'x'; "},
           {{"snapshot"}, "snapshot: a command is missing: build, "}}) {
    const Output said = leat(one.words);
    EXPECT_EQ(said.code, 2);
    EXPECT_THAT(said.err, HasSubstr(one.said));
  }
}

TEST_F(CliTest, APathAndAUrlAreNotTakenForEachOther) {
  const std::string mounted = path("mnt");
  Output swapped = leat({"mount", mounted.c_str(), "s3://b/x?region=r"});
  EXPECT_EQ(swapped.code, 2);
  EXPECT_THAT(swapped.err, HasSubstr("SOURCE comes first: 'leat mount s3://b/x " + mounted + "'"));
  EXPECT_THAT(leat({"mount", "s3://b", "s3://c"}).err, HasSubstr("DIR is a local directory"));
  for (const std::vector<const char*>& words :
       std::vector<std::vector<const char*>>{{"load", "s3://b/x"},
                                             {"free", "s3://b/x"},
                                             {"refresh", "s3://b/x"},
                                             {"pin", "s3://b/x"},
                                             {"umount", "s3://b/x"},
                                             {"trace", "s3://b/x"},
                                             {"mounts", "set", "s3://b/x", "ttl=1h"},
                                             {"mounts", "unset", "s3://b/x", "ttl"},
                                             {"mounts", "move", "s3://b/x", "/x"},
                                             {"snapshot", "build", "s3://b/x"},
                                             {"snapshot", "use", "n", "s3://b/x"},
                                             {"cache", "ls", "--mount", "s3://b/x"}}) {
    const Output said = leat(words);
    EXPECT_EQ(said.code, 2) << words[0] << " " << said.err;
    EXPECT_THAT(said.err, HasSubstr("mount it with 'leat mount s3://b/x/ DIR'")) << words[0];
  }
  const Output copied = leat({"cp", "nofile", "s3://b/x"});
  EXPECT_EQ(copied.code, 3) << copied.err;
  EXPECT_THAT(copied.err, HasSubstr("it is in no mount, and there is no such local file"));
}

TEST_F(CliTest, ATreeOfAStoreIsAddedUp) {
  const Output text = leat({"du", url_.c_str()});
  EXPECT_EQ(text.code, 0) << text.err;
  const std::string below = path("data");
  EXPECT_EQ(text.out, "4 B   1 file  -  " + below + "/sub\n9 B  2 files  -  " + below + "\n");
  const Json json = Json::parse(leat({"du", "--json", "--depth", "0", url_.c_str()}).out);
  EXPECT_EQ(json["files"], 2);
  EXPECT_EQ(json["directories"], 1);
  EXPECT_EQ(json["bytes"], 9);
  EXPECT_FALSE(json.contains("cached_bytes"));
  EXPECT_TRUE(json["entries"].empty());
  const Json one = Json::parse(leat({"du", "--json", (url_ + "/a.txt").c_str()}).out);
  EXPECT_EQ(one["files"], 1);
  EXPECT_EQ(one["bytes"], 5);
  EXPECT_EQ(leat({"du", (url_ + "/none").c_str()}).code, 3);
}

TEST_F(CliTest, WrongFlagsAreUsage) {
  Output wrong = leat({"ls", "--colour"});
  EXPECT_EQ(wrong.code, 2);
  EXPECT_THAT(wrong.err, HasSubstr("'leat ls --help' shows what it takes"));
  EXPECT_EQ(leat({"mount", "s3://b"}).code, 2);
  EXPECT_EQ(leat({"mount", "s3://b", "/tmp", "--umask", "9"}).code, 2);
  EXPECT_EQ(leat({"mount", "s3://b", "/tmp", "--option", "endpoint"}).code, 2);
  EXPECT_EQ(leat({"cat", "--offset", "many", url_.c_str()}).code, 2);
  EXPECT_EQ(leat({"ls", "foo://bucket"}).code, 2);
}

TEST_F(CliTest, WithoutADaemonTheCodeIsFour) {
  for (const char* command : {"mounts", "status", "jobs", "console"}) {
    Output none = leat({command});
    EXPECT_EQ(none.code, 4) << command;
    EXPECT_THAT(none.err, HasSubstr("no daemon runs at"));
  }
  EXPECT_EQ(leat({"ls", "/"}).code, 4);
  EXPECT_EQ(leat({"load", "/data"}).code, 4);
  EXPECT_EQ(leat({"umount", "/data"}).code, 4);
}

TEST_F(CliTest, AFailureIsJsonToo) {
  Output none = leat({"mounts", "--json"});
  EXPECT_EQ(Json::parse(none.out)["error"]["code"], "unavailable");
  for (const std::vector<const char*>& words :
       {std::vector{"ls", "--colour", "--json"}, {"frobnicate", "--json"}, {"mount", "--json"}}) {
    Output wrong = leat(words);
    EXPECT_EQ(wrong.code, 2);
    EXPECT_EQ(Json::parse(wrong.out)["error"]["code"], "invalid_argument");
  }
}

TEST_F(CliTest, AMountThatCannotBeStartsNoDaemon) {
  Output missing = leat({"mount", url_.c_str(), path("nowhere").c_str()});
  EXPECT_EQ(missing.code, 3);
  EXPECT_THAT(missing.err, HasSubstr("make it with 'mkdir -p " + path("nowhere") + "'"));
  EXPECT_EQ(leat({"mount", url_.c_str(), path("data/a.txt").c_str()}).code, 1);
  EXPECT_FALSE(std::filesystem::exists(folder_ / "run/control.sock"));
}

TEST_F(CliTest, ListsAStoreWithoutADaemon) {
  Output list = leat({"ls", url_.c_str()});
  EXPECT_EQ(list.code, 0) << list.err;
  EXPECT_EQ(list.out, "a.txt\nsub/\n");
  Output json = leat({"ls", "--json", url_.c_str()});
  EXPECT_EQ(Json::parse(json.out)["entries"][0]["name"], "a.txt");
  EXPECT_EQ(Json::parse(json.out)["entries"][0]["size"], 5);
  EXPECT_EQ(leat({"ls", (url_ + "/none").c_str()}).code, 3);
}

TEST_F(CliTest, ReadsAStoreWithoutADaemon) {
  EXPECT_EQ(leat({"cat", (url_ + "/a.txt").c_str()}).out, "alpha");
  EXPECT_EQ(leat({"cat", "--offset", "1", "--size", "3", (url_ + "/a.txt").c_str()}).out, "lph");
  EXPECT_EQ(leat({"cat", (url_ + "/none").c_str()}).code, 3);
  Output stat = leat({"stat", "--json", (url_ + "/sub/b.txt").c_str()});
  EXPECT_EQ(Json::parse(stat.out)["size"], 4) << stat.err;
  EXPECT_EQ(Json::parse(stat.out)["kind"], "file");
}

TEST_F(CliTest, EmptyDirectoriesAreThere) {
  std::filesystem::create_directories(folder_ / "data/void/inner");
  std::string empty = url_ + "/void/inner";
  EXPECT_EQ(leat({"ls", empty.c_str()}).code, 0);
  EXPECT_EQ(leat({"ls", empty.c_str()}).out, "");
  EXPECT_THAT(leat({"stat", empty.c_str()}).out, HasSubstr("directory"));
  Output copied = leat({"cp", "-r", url_.c_str(), path("copy").c_str()});
  EXPECT_EQ(copied.code, 0) << copied.err;
  EXPECT_TRUE(std::filesystem::is_directory(folder_ / "copy/void/inner"));
  EXPECT_EQ(leat({"ls", (url_ + "/a.txt").c_str()}).out, "a.txt\n");
  EXPECT_EQ(leat({"ls", (url_ + "/a.txt/x").c_str()}).code, 3);
}

TEST_F(CliTest, ReadingWhatIsNoFileOrBeyondItsEndFails) {
  Output directory = leat({"cat", "--json", (url_ + "/sub").c_str()});
  EXPECT_EQ(Json::parse(directory.out)["error"]["code"], "is_directory");
  Output beyond = leat({"cat", "--json", "--offset", "6", (url_ + "/a.txt").c_str()});
  EXPECT_EQ(Json::parse(beyond.out)["error"]["code"], "out_of_range");
  EXPECT_EQ(leat({"cat", "--offset", "5", (url_ + "/a.txt").c_str()}).code, 0);
  EXPECT_EQ(leat({"bench", "io", url_.c_str()}).code, 2);
}

TEST_F(CliTest, WhatCannotBeAFileIsLeftOutAndSaid) {
  ASSERT_EQ(mkfifo(path("data/pipe").c_str(), 0600), 0);
  Output list = leat({"ls", "--json", url_.c_str()});
  EXPECT_EQ(list.code, 0);
  EXPECT_EQ(Json::parse(list.out)["skipped"], 1);
  EXPECT_THAT(list.err, HasSubstr("1 name,"));
  Output copied = leat({"cp", "-r", "--json", url_.c_str(), path("copy").c_str()});
  EXPECT_EQ(copied.code, 1);
  EXPECT_EQ(Json::parse(copied.out)["files"], 2);
  EXPECT_EQ(Json::parse(copied.out)["names_skipped"], 1);
  EXPECT_EQ(Json::parse(copied.out)["error"]["code"], "unsupported");
}

TEST_F(CliTest, ANameMayBeAsLongAsTheFileSystemTakes) {
  std::string name(255, 'n');
  std::ofstream(folder_ / "data" / name) << "long";
  Output copied = leat({"cp", (url_ + "/" + name).c_str(), path("data/sub").c_str()});
  EXPECT_EQ(copied.code, 0) << copied.err;
  EXPECT_EQ(read_file(folder_ / "data/sub" / name), "long");
}

TEST_F(CliTest, CopiesAndNeverOverwritesUnasked) {
  std::string to = path("copy");
  EXPECT_EQ(leat({"cp", url_.c_str(), to.c_str()}).code, 1);  // a directory, without -r
  Output copied = leat({"cp", "-r", "--json", url_.c_str(), to.c_str()});
  EXPECT_EQ(copied.code, 0) << copied.err;
  EXPECT_EQ(Json::parse(copied.out), Json({{"files", 2},
                                           {"bytes", 9},
                                           {"skipped", 0},
                                           {"failed", 0},
                                           {"names_skipped", 0},
                                           {"empty_directories", 0},
                                           {"errors", Json::array()}}));
  EXPECT_EQ(read_file(folder_ / "copy/sub/b.txt"), "beta");

  std::string file = url_ + "/a.txt", target = path("copy/sub/b.txt");
  Output refused = leat({"cp", file.c_str(), target.c_str()});
  EXPECT_EQ(refused.code, 1);
  EXPECT_THAT(refused.err, HasSubstr("--force overwrites it"));
  EXPECT_EQ(read_file(target), "beta");
  EXPECT_EQ(leat({"cp", "--force", file.c_str(), target.c_str()}).code, 0);
  EXPECT_EQ(read_file(target), "alpha");
  // No half-written file is left anywhere.
  for (const auto& item : std::filesystem::recursive_directory_iterator(folder_ / "copy")) {
    EXPECT_FALSE(item.path().string().contains(".leat-")) << item.path();
  }
}

TEST_F(CliTest, BenchChecksumIsIndependentOfOrder) {
  Output one = leat({"bench", "io", "--json", path("data").c_str()});
  ASSERT_EQ(one.code, 0) << one.err;
  Json result = Json::parse(one.out);
  EXPECT_EQ(result["bytes"], 9);
  EXPECT_EQ(result["files"], 2);
  Output more = leat({"bench", "io", "--json", "--threads", "4", path("data").c_str()});
  EXPECT_EQ(Json::parse(more.out)["checksum"], result["checksum"]);
  Output random = leat({"bench", "io", "--json", "--random", "--reads", "50", "--block", "2",
                        "--seed", "7", path("data").c_str()});
  EXPECT_EQ(Json::parse(random.out)["reads"], 50);
  EXPECT_EQ(Json::parse(random.out)["seed"], 7);
  EXPECT_EQ(leat({"bench", "io", path("none").c_str()}).code, 3);
}

TEST_F(CliTest, VersionIsOneLine) {
  EXPECT_THAT(leat({"version"}).out, StartsWith("leat "));
  EXPECT_TRUE(Json::parse(leat({"version", "--json"}).out).contains("version"));
}

TEST_F(CliTest, TheDaemonsConfigurationIsChecked) {
  Output dump = leat({"daemon", "--dump-config", "--set", "cache.size=3GiB"});
  EXPECT_EQ(dump.code, 0) << dump.err;
  EXPECT_THAT(dump.out, HasSubstr("size = \"3GiB\""));
  Output wrong = leat({"daemon", "--dump-config", "--set", "cache.sise=3GiB"});
  EXPECT_EQ(wrong.code, 2);
  EXPECT_THAT(wrong.err, HasSubstr("did you mean 'cache.size'?"));
  Output json = leat({"daemon", "--dump-config", "--set", "cache.size=3GiB", "--json"});
  EXPECT_EQ(Json::parse(json.out)["options"]["cache.size"], "3GiB");
  Output relative = leat({"daemon", "--dump-config", "--set", "cache.directory=here"});
  EXPECT_EQ(relative.code, 2);
  EXPECT_THAT(relative.err, HasSubstr("absolute"));
  EXPECT_EQ(leat({"daemon", "--dump-config", "--set", "cache.directory=/a,"}).code, 2);
}

TEST(CacheOptions, AreOfOneDirectoryOrSeveral) {
  Config config{daemon_schema()};
  ASSERT_TRUE(config.set("cache.size", "3GiB", "test"));
  ASSERT_TRUE(config.set("cache.directory", "/one/,/two=2TiB,/odd=name,/x=y=1MiB", "test"));
  auto options = cache_options(config);
  ASSERT_TRUE(options) << options.error().to_string();
  std::vector<std::pair<std::string, uint64_t>> found;
  for (const PageStoreOptions& one : *options) {
    found.emplace_back(one.directory, one.capacity_bytes);
    EXPECT_EQ(one.scrub_period, std::chrono::days(14));
  }
  EXPECT_EQ(found,
            (std::vector<std::pair<std::string, uint64_t>>{
                {"/one", 3 * kGiB}, {"/two", 2 * kTiB}, {"/odd=name", 3 * kGiB}, {"/x=y", kMiB}}));
}

TEST_F(CliTest, OfflineCacheDirectoryLifecycle) {
  const std::string made = path("cache"), moved = path("moved");
  EXPECT_EQ(leat({"cache", "ls", "--cache-dir", made.c_str()}).code, 3);
  Output format = leat({"cache", "format", made.c_str()});
  EXPECT_EQ(format.code, 0) << format.err;
  EXPECT_EQ(Json::parse(leat({"cache", "ls", "--cache-dir", made.c_str(), "--json"}).out),
            Json::parse(R"({"objects": []})"));
  Output verified = leat({"cache", "verify", "--cache-dir", made.c_str()});
  EXPECT_EQ(verified.code, 0) << verified.err;
  EXPECT_THAT(verified.out, HasSubstr("verified 0 objects"));
  Output move = leat({"cache", "move", made.c_str(), moved.c_str()});
  EXPECT_EQ(move.code, 0) << move.err;
  EXPECT_EQ(leat({"cache", "move", made.c_str(), moved.c_str()}).code, 3);
  EXPECT_EQ(leat({"cache", "evict", "--cache-dir", moved.c_str(), "--all"}).code, 0);
  EXPECT_EQ(leat({"cache", "evict", "--cache-dir", moved.c_str()}).code, 2);
  std::ofstream(moved + "/files/x") << "something";
  Output unsure = leat({"cache", "format", moved.c_str()});
  EXPECT_EQ(unsure.code, 2);
  EXPECT_THAT(unsure.err, HasSubstr("--yes"));
  EXPECT_EQ(leat({"cache", "format", moved.c_str(), "--yes"}).code, 0);
  EXPECT_FALSE(std::filesystem::exists(moved + "/files/x"));
  EXPECT_EQ(leat({"cache"}).code, 2);
  EXPECT_EQ(leat({"cache", "dance"}).code, 2);
  EXPECT_EQ(leat({"cache", "ls"}).code, 4);
}

}  // namespace
}  // namespace leat
