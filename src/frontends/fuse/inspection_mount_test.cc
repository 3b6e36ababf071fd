// SPDX-License-Identifier: Apache-2.0
// `.leat` as programs see it, on the running kernel.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "base/read_file.h"
#include "frontends/fuse/mounted_test.h"

namespace leat {
namespace {

using namespace std::chrono_literals;
using ::testing::HasSubstr;
using testing::Mounted;
using testing::names_in;
using testing::TreeRigOptions;

constexpr Freshness kAlwaysAsked{.mode = Freshness::Mode::kMaxAge, .max_age = 0s};

TreeRigOptions with_inspection() {
  TreeRigOptions options{.freshness = kAlwaysAsked, .cached = false};
  options.inspection = [](const FileSystem& files) -> std::vector<VirtualFile> {
    auto made = std::make_shared<std::atomic<int>>(0);
    return {{"number", [made] { return fmt::format("number {}\n", ++*made); }},
            {"errors", [&files] {
               std::string text;
               for (const PathError& error : files.errors()) {
                 text += fmt::format("{} {} {} by {} ({})\n", error.path, to_string(error.code),
                                     error.reason, error.caller.program, error.caller.pid);
               }
               return text;
             }}};
  };
  options.inspection_options.lookup_timeout =
      1h;  // a slow store must not count as one that does not respond
  return options;
}

TEST(InspectionMount, IsReadableByNameAndNotListed) {
  Mounted at(with_inspection());
  at.rig.source->put("d/x", "one");
  EXPECT_EQ(names_in(at.directory), (std::set<std::string>{".", "..", "d"}));
  EXPECT_EQ(names_in(at.path(".leat")), (std::set<std::string>{".", "..", "errors", "number"}));
  EXPECT_EQ(names_in(at.directory), (std::set<std::string>{".", "..", "d"}));
  struct stat info{};
  ASSERT_EQ(::stat(at.path(".leat").c_str(), &info), 0);
  EXPECT_TRUE(S_ISDIR(info.st_mode));
  const std::string first = at.content(".leat/number"), second = at.content(".leat/number");
  EXPECT_THAT(first, HasSubstr("number "));
  EXPECT_NE(first, second);
  EXPECT_EQ(at.open("d/.leat"), -1);
  EXPECT_EQ(errno, ENOENT);
  EXPECT_EQ(at.open(".leat/other"), -1);
  EXPECT_EQ(errno, ENOENT);
  struct statvfs usage{};
  EXPECT_EQ(::statvfs(at.path(".leat").c_str(), &usage), 0);
  EXPECT_EQ(::getxattr(at.path(".leat").c_str(), "user.leat.source", nullptr, 0), -1);
  EXPECT_EQ(errno, ENODATA);
}

TEST(InspectionMount, OpenFileIsConsistentInEveryReadMode) {
  Mounted at(with_inspection());
  const int one = at.open(".leat/number"), two = at.open(".leat/number");
  struct stat info{};
  ASSERT_EQ(::fstat(one, &info), 0);
  const std::string content = Mounted::read(one, 0, 100);
  EXPECT_NE(content, Mounted::read(two, 0, 100));
  EXPECT_EQ(static_cast<size_t>(info.st_size), content.size());
  EXPECT_EQ(Mounted::read(one, 3, 4), content.substr(3, 4));
  void* mapped = ::mmap(nullptr, content.size(), PROT_READ, MAP_SHARED, one, 0);
  ASSERT_NE(mapped, MAP_FAILED);
  EXPECT_EQ(std::string(static_cast<char*>(mapped), content.size()), content);
  ::munmap(mapped, content.size());
  int pipe[2];
  ASSERT_EQ(::pipe(pipe), 0);
  off_t offset = 0;
  EXPECT_EQ(::sendfile(pipe[1], one, &offset, 100), static_cast<ssize_t>(content.size()));
  for (int fd : {one, two, pipe[0], pipe[1]}) ::close(fd);
}

TEST(InspectionMount, EveryChangeIsRefusedAsReadOnly) {
  Mounted at(with_inspection());
  auto refused = [&](const char* what, int result) {
    EXPECT_EQ(result, -1) << what;
    EXPECT_EQ(errno, EROFS) << what << ": " << strerror(errno);
  };
  const std::string number = at.path(".leat/number"), fresh = at.path(".leat/fresh");
  refused("write", at.open(".leat/number", O_WRONLY));
  refused("truncate", at.open(".leat/number", O_WRONLY | O_TRUNC));
  refused("create", at.open(".leat/fresh", O_WRONLY | O_CREAT));
  refused("mkdir", ::mkdir(fresh.c_str(), 0755));
  refused("unlink", ::unlink(number.c_str()));
  refused("rmdir", ::rmdir(at.path(".leat").c_str()));
  refused("rename", ::rename(number.c_str(), fresh.c_str()));
  refused("chmod", ::chmod(number.c_str(), 0600));
  EXPECT_THAT(at.content(".leat/number"), HasSubstr("number "));
}

TEST(InspectionMount, ReportsWhyALookupFails) {
  Mounted at(with_inspection());
  at.rig.source->put("x", "one");
  EXPECT_EQ(at.content("x"), "one");
  at.rig.source->fail_next(StatusCode::kCorrupt, 1000);
  EXPECT_EQ(at.open("x"), -1);
  EXPECT_EQ(errno, EIO);
  const std::string errors = at.content(".leat/errors");
  EXPECT_THAT(errors, HasSubstr("x corrupt "));
  std::string program = read_file("/proc/self/comm").value();
  program.pop_back();
  EXPECT_THAT(errors, HasSubstr(fmt::format(" by {} ({})\n", program, ::getpid())));
  EXPECT_THAT(errors, HasSubstr("failing as the test ordered"));
  char reason[1000] = {};
  ASSERT_GT(::getxattr(at.directory.c_str(), "user.leat.last_error", reason, sizeof reason), 0)
      << strerror(errno);
  EXPECT_THAT(reason, HasSubstr("failing as the test ordered"));
  at.rig.source->fail_next(StatusCode::kCorrupt, 0);
  EXPECT_EQ(at.content("x"), "one");
}

TEST(InspectionMount, ARealNameWins) {
  Mounted at(with_inspection());
  EXPECT_THAT(at.content(".leat/number"), HasSubstr("number"));
  at.rig.source->put(".leat/mine", "my own");
  EXPECT_EQ(at.content(".leat/mine"), "my own");
  EXPECT_EQ(names_in(at.directory), (std::set<std::string>{".", "..", ".leat"}));
  EXPECT_EQ(at.open(".leat/number"), -1);
}

}  // namespace
}  // namespace leat
