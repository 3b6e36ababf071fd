// SPDX-License-Identifier: Apache-2.0
// The FUSE server on the running kernel: a bucket in memory, mounted at a temporary directory.
#include "frontends/fuse/fuse_server.h"

#include <dirent.h>
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <cstdio>
#include <random>
#include <set>
#include <thread>

#include "frontends/fuse/connection/mount_point.h"
#include "frontends/fuse/mounted_test.h"

namespace leat {
namespace {

using namespace std::chrono_literals;
using testing::eventually;
using ::testing::HasSubstr;
using testing::Mounted;
using testing::names_in;
using testing::pattern;
using testing::TreeRig;
using testing::TreeRigOptions;

constexpr Freshness kImmutable{.mode = Freshness::Mode::kImmutable};
constexpr Freshness kValidate{.mode = Freshness::Mode::kValidate};
constexpr Freshness kHour{.mode = Freshness::Mode::kMaxAge, .max_age = 3600s};

// Otherwise the kernel and the server would hold an inode for each.
TEST(FuseServer, OfAFolderOfManyNamesNotAllAreDescribed) {
  constexpr size_t kNames = 101'000, kDescribed = 100'000;
  Mounted at;
  for (size_t i = 0; i < kNames; ++i) at.rig.source->put(fmt::format("many/{}", i), "x");
  // A kernel that needs memory may forget some of them at once.
  for (int attempt = 0; attempt < 10; ++attempt) {
    const auto names = names_in(at.path("many"));
    EXPECT_EQ(names.size(), kNames + 2);
    if (at.rig.files->nodes() >= kDescribed) break;
  }
  EXPECT_GE(at.rig.files->nodes(), kDescribed);
  EXPECT_LT(at.rig.files->nodes(), kDescribed + 100);
  for (size_t i = 0; i < kNames; i += 1000) {
    struct stat info{};
    ASSERT_EQ(::stat(at.path(fmt::format("many/{}", i)).c_str(), &info), 0) << i;
    EXPECT_EQ(info.st_size, 1);
  }
}

TEST(FuseServer, FilesAndDirectoriesMatchTheStore) {
  Mounted at({.uid = 1000, .gid = 100, .umask = 022}, {.fs_name = "memory://bucket,with\\comma"});
  at.rig.source->put("train/cat/1.png", "meow");
  at.rig.source->put("train/dog/1.png", "woof!");
  EXPECT_EQ(at.content("train/cat/1.png"), "meow");
  struct stat info{};
  ASSERT_EQ(::stat(at.path("train/dog/1.png").c_str(), &info), 0);
  EXPECT_EQ(info.st_size, 5);
  EXPECT_EQ(info.st_mode, static_cast<mode_t>(S_IFREG | 0644));
  EXPECT_EQ(info.st_uid, 1000u);
  EXPECT_EQ(info.st_gid, 100u);
  EXPECT_EQ(info.st_nlink, 1u);
  EXPECT_EQ(info.st_mtim.tv_sec, 1'700'000'002);
  ASSERT_EQ(::stat(at.path("train").c_str(), &info), 0);
  EXPECT_EQ(info.st_mode, static_cast<mode_t>(S_IFDIR | 0755));
  EXPECT_EQ(info.st_nlink, 2u);
  EXPECT_EQ(names_in(at.path("train")), (std::set<std::string>{".", "..", "cat", "dog"}));
  EXPECT_EQ(::stat(at.path("train/cow").c_str(), &info), -1);
  EXPECT_EQ(errno, ENOENT);
  EXPECT_EQ(at.open("train/cow/1.png"), -1);
  EXPECT_EQ(errno, ENOENT);
  EXPECT_EQ(::stat(at.path("train/cat/1.png/x").c_str(), &info), -1);
  EXPECT_EQ(errno, ENOTDIR);
}

// With the cache's numbers a mount in use would look like a full disk.
TEST(FuseServer, DfShowsRoomHoweverFullTheCache) {
  Mounted at;
  at.rig.source->put("x", pattern(2 * kMiB, 1));
  ASSERT_TRUE(at.rig.load(at.rig.open(at.rig.node(kRootNode, "x")).value()->ref()));
  struct statvfs room{};
  ASSERT_EQ(::statvfs(at.directory.c_str(), &room), 0);
  EXPECT_EQ(room.f_namemax, 255u);
  EXPECT_EQ(room.f_bfree, room.f_blocks) << "of a store no use is known";
  EXPECT_EQ(room.f_bavail, room.f_blocks);
  EXPECT_GE(room.f_blocks * room.f_frsize, uint64_t{1} << 50);
  EXPECT_EQ(room.f_ffree, room.f_files);
  EXPECT_EQ(room.f_favail, room.f_files);
  EXPECT_GE(room.f_files, 1'000'000'000u);
}

TEST(FuseServer, ADirectoryOfFiveThousandNamesIsComplete) {
  for (const Freshness& freshness : {kImmutable, kValidate}) {
    Mounted at({.freshness = freshness});
    std::set<std::string> expected = {".", ".."};
    for (int i = 0; i < 5000; ++i) {
      const std::string name = fmt::format("a rather long name of a sample {:05}.png", i);
      at.rig.source->put("d/" + name, "x");
      expected.insert(name);
    }
    EXPECT_EQ(names_in(at.path("d")), expected);
    const uint64_t lists = at.rig.source->lists();
    EXPECT_EQ(names_in(at.path("d")), expected) << "again, from the kernel's memory or ours";
    if (freshness == kImmutable) EXPECT_EQ(at.rig.source->lists(), lists);
    struct stat info{};
    EXPECT_EQ(::stat(at.path("d/a rather long name of a sample 04999.png").c_str(), &info), 0);
  }
}

TEST(FuseServer, ACompleteFileIsReadByTheKernelItself) {
  Mounted at({.freshness = kImmutable});
  const std::string content = pattern(5 * kMiB + 12345, 1);
  at.rig.source->put("big", content);
  EXPECT_EQ(at.content("big"), content) << "READ path";
  const NodeId node = at.rig.node(kRootNode, "big");
  ASSERT_TRUE(at.rig.load(at.rig.open(node).value()->ref()));
  if (!at.server->features().passthrough) {
    std::printf("no passthrough here: %s\n", at.server->features().passthrough_off.c_str());
    EXPECT_EQ(at.content("big"), content);
    return;
  }
  ASSERT_TRUE(eventually([&] {  // the first open's RELEASE may still be pending
    const int probe = at.open("big");
    const bool passed = at.server->stats().passthrough_files == 1;
    ::close(probe);
    return passed;
  }));
  const int first = at.open("big");
  const int second = at.open("big");
  ASSERT_GE(first, 0);
  ASSERT_GE(second, 0);
  EXPECT_TRUE(eventually([&] { return at.server->stats().passthrough_files == 1; }));
  EXPECT_EQ(Mounted::read(first, 0, 64 * kMiB), content);
  EXPECT_EQ(Mounted::read(second, 777, 100'000), content.substr(777, 100'000));
  EXPECT_EQ(at.open("big", O_RDWR), -1) << "the kernel would let writes through";
  EXPECT_EQ(errno, EROFS);
  void* mapped = ::mmap(nullptr, content.size(), PROT_READ, MAP_SHARED, first, 0);
  ASSERT_NE(mapped, MAP_FAILED);
  ::close(first);
  ::close(second);
  EXPECT_EQ(std::string_view(static_cast<char*>(mapped), content.size()), content);
  EXPECT_TRUE(eventually([&] { return at.server->stats().passthrough_files == 0; }));
  EXPECT_EQ(std::string_view(static_cast<char*>(mapped), content.size()), content)
      << "a mapping outlives its open and keeps the bytes";
  ::munmap(mapped, content.size());
  EXPECT_EQ(at.content("big"), content);
}

TEST(FuseServer, WithoutPassthroughTheServerServesReads) {
  Mounted at({.freshness = kImmutable}, {.passthrough = false});
  const std::string content = pattern(3 * kMiB, 2);
  at.rig.source->put("big", content);
  const NodeId node = at.rig.node(kRootNode, "big");
  ASSERT_TRUE(at.rig.load(at.rig.open(node).value()->ref()));
  const int fd = at.open("big");
  EXPECT_EQ(Mounted::read(fd, 0, 64 * kMiB), content);
  EXPECT_EQ(at.server->stats().passthrough_files, 0u);
  EXPECT_FALSE(at.server->features().passthrough);
  void* mapped = ::mmap(nullptr, content.size(), PROT_READ, MAP_PRIVATE, fd, 0);
  ASSERT_NE(mapped, MAP_FAILED);
  EXPECT_EQ(std::string_view(static_cast<char*>(mapped), content.size()), content);
  ::munmap(mapped, content.size());
  ::close(fd);
}

void expect_every_change_refused(const Mounted& at) {
  at.rig.source->put("d/x", "one");
  const std::string x = at.path("d/x"), fresh = at.path("d/new");
  auto refused = [&](const char* what, auto call) {
    errno = 0;
    EXPECT_EQ(call(), -1) << what;
    EXPECT_EQ(errno, EROFS) << what << ": " << strerror(errno);
  };
  refused("create", [&] { return at.open("d/new", O_WRONLY | O_CREAT); });
  refused("open for writing", [&] { return at.open("d/x", O_WRONLY); });
  refused("open for both", [&] { return at.open("d/x", O_RDWR); });
  refused("open and truncate", [&] { return at.open("d/x", O_RDONLY | O_TRUNC); });
  refused("append", [&] { return at.open("d/x", O_WRONLY | O_APPEND); });
  refused("temporary file", [&] { return at.open("d", O_RDWR | O_TMPFILE); });
  refused("truncate", [&] { return ::truncate(x.c_str(), 1); });
  refused("mkdir", [&] { return ::mkdir(fresh.c_str(), 0755); });
  refused("mknod", [&] { return ::mknod(fresh.c_str(), S_IFREG | 0644, 0); });
  refused("mkfifo", [&] { return ::mkfifo(fresh.c_str(), 0644); });
  refused("unlink", [&] { return ::unlink(x.c_str()); });
  refused("rmdir", [&] { return ::rmdir(at.path("d").c_str()); });
  refused("rename", [&] { return ::rename(x.c_str(), fresh.c_str()); });
  refused("link", [&] { return ::link(x.c_str(), fresh.c_str()); });
  refused("symlink", [&] { return ::symlink("x", fresh.c_str()); });
  refused("chmod", [&] { return ::chmod(x.c_str(), 0600); });
  refused("chown", [&] { return ::chown(x.c_str(), 1, 1); });
  refused("utimes", [&] { return ::utimensat(AT_FDCWD, x.c_str(), nullptr, 0); });
  refused("setxattr", [&] { return ::setxattr(x.c_str(), "user.a", "b", 1, 0); });
  refused("removexattr", [&] { return ::removexattr(x.c_str(), "user.a"); });
  EXPECT_EQ(at.content("d/x"), "one");
}

TEST(FuseServer, EveryChangeIsRefusedAsReadOnly) {
  const Mounted at;
  expect_every_change_refused(at);
}

// Programs that check before they write see it: findmnt, df, test -w, also as root.
TEST(FuseServer, AMountIsReadOnlyForProgramsThatLook) {
  Mounted at;
  at.rig.source->put("d/x", "one");
  struct statvfs found{};
  ASSERT_EQ(::statvfs(at.path("d").c_str(), &found), 0);
  EXPECT_NE(found.f_flag & ST_RDONLY, 0u);
  for (const char* name : {"", "d", "d/x"}) {
    errno = 0;
    EXPECT_EQ(::access(at.path(name).c_str(), W_OK), -1) << name;
    EXPECT_EQ(errno, EROFS) << name;
    EXPECT_EQ(::access(at.path(name).c_str(), R_OK), 0) << name;
  }
  char value[1000] = {};
  EXPECT_GT(::getxattr(at.path("d/x").c_str(), "user.leat.source", value, sizeof value), 0);
  EXPECT_TRUE(at.server->unmount(false));
}

// A connection of an earlier version may be writable.
TEST(FuseServer, ServerRejectsWhatTheKernelLetsThrough) {
  const Mounted at({}, {.read_only = false});
  expect_every_change_refused(at);
  const std::string x = at.path("d/x");
  char reason[1000] = {};
  ASSERT_GT(::getxattr(x.c_str(), "user.leat.last_error", reason, sizeof reason), 0);
  EXPECT_THAT(reason, HasSubstr("read-only"));
  EXPECT_THAT(reason, HasSubstr("'leat cp' writes to memory://bucket/d/x"));
  std::set<std::string> names;
  for (const PathError& error : at.rig.files->errors()) names.insert(error.path);
  EXPECT_EQ(names, (std::set<std::string>{"d/new", "d/x", "d"}));
}

TEST(FuseServer, ExtendedAttributesShowTheSource) {
  Mounted at;
  at.rig.source->put("d/x", "one");
  const std::string x = at.path("d/x");
  char value[1000] = {};
  ASSERT_GT(::getxattr(x.c_str(), "user.leat.source", value, sizeof value), 0);
  EXPECT_STREQ(value, "memory://bucket/d/x");
  EXPECT_EQ(::getxattr(x.c_str(), "user.leat.source", nullptr, 0), 19);
  EXPECT_EQ(::getxattr(x.c_str(), "user.leat.source", value, 5), -1);
  EXPECT_EQ(errno, ERANGE);
  EXPECT_EQ(::getxattr(x.c_str(), "user.other", value, sizeof value), -1);
  EXPECT_EQ(errno, ENODATA);
  const ssize_t size = ::listxattr(x.c_str(), value, sizeof value);
  ASSERT_GT(size, 0);
  EXPECT_THAT(std::string(value, static_cast<size_t>(size)), HasSubstr("user.leat.cached_bytes"));
}

TEST(FuseServer, OverwrittenFileIsNewAtTheNextOpen) {
  Mounted at({.freshness = kValidate, .cached = false});
  const std::string before = pattern(32 * kMiB, 3), after = pattern(2 * kMiB, 4);
  at.rig.source->put("x", before);
  const int old_open = at.open("x");
  ASSERT_EQ(::posix_fadvise(old_open, 0, 0, POSIX_FADV_RANDOM), 0);
  EXPECT_EQ(Mounted::read(old_open, 0, 4096), before.substr(0, 4096));
  at.rig.source->put("x", after);
  EXPECT_EQ(at.content("x"), after);
  EXPECT_EQ(Mounted::read(old_open, 30 * kMiB, 4096), std::string("failed: ") + strerror(ESTALE));
  EXPECT_EQ(Mounted::read(old_open, 0, 4096), before.substr(0, 4096)) << "what was read stays";
  struct stat info{};
  ASSERT_EQ(::fstat(old_open, &info), 0);
  EXPECT_EQ(info.st_size, static_cast<off_t>(before.size()));
  ::close(old_open);
}

TEST(FuseServer, ReadOfAChangedFileInvalidatesItsName) {
  Mounted at({.freshness = kHour, .cached = false});
  at.rig.source->put("x", pattern(32 * kMiB, 5));
  const int old_open = at.open("x");
  ASSERT_EQ(::posix_fadvise(old_open, 0, 0, POSIX_FADV_RANDOM), 0);
  at.rig.source->put("x", "new");
  EXPECT_EQ(Mounted::read(old_open, 20 * kMiB, 10), std::string("failed: ") + strerror(ESTALE));
  EXPECT_TRUE(eventually([&] {
    struct stat info{};
    return ::stat(at.path("x").c_str(), &info) == 0 && info.st_size == 3;
  }));
  EXPECT_EQ(at.content("x"), "new");
  ::close(old_open);
}

TEST(FuseServer, AStoreThatFailsIsAnErrorWithItsReason) {
  Mounted at({.freshness = kImmutable, .cached = false});
  at.rig.source->put("x", pattern(100'000, 6));
  const int fd = at.open("x");
  ASSERT_GE(fd, 0);
  at.rig.source->fail_next(StatusCode::kPermissionDenied, 1000);
  EXPECT_EQ(Mounted::read(fd, 0, 10), std::string("failed: ") + strerror(EACCES));
  at.rig.source->fail_next(StatusCode::kCorrupt, 1000);
  EXPECT_EQ(Mounted::read(fd, 0, 10), std::string("failed: ") + strerror(EIO));
  at.rig.source->fail_next(StatusCode::kPermissionDenied, 0);
  char reason[1000] = {};
  ASSERT_GT(::fgetxattr(fd, "user.leat.last_error", reason, sizeof reason), 0);
  EXPECT_THAT(reason, HasSubstr("failing as the test ordered"));
  EXPECT_EQ(Mounted::read(fd, 0, 10).size(), 10u);
  ::close(fd);
}

TEST(FuseServer, ConcurrentReadersGetTheirBytes) {
  const unsigned seed = std::random_device{}();
  std::printf("seed %u\n", seed);
  Mounted at;
  std::vector<std::string> contents;
  for (uint64_t i = 0; i < 8; ++i) {
    contents.push_back(pattern(i % 2 == 0 ? 3 * kMiB + i : 50'000 + i, i));
    at.rig.source->put(fmt::format("f{}", i), contents.back());
  }
  std::vector<std::thread> readers;
  for (unsigned t = 0; t < 4; ++t) {
    readers.emplace_back([&, t] {
      std::mt19937 random(seed + t);
      for (int i = 0; i < 40; ++i) {
        const size_t file = random() % contents.size();
        const std::string& expected = contents[file];
        const size_t offset = random() % expected.size();
        const size_t size = random() % 300'000;
        const int fd = at.open(fmt::format("f{}", file));
        ASSERT_GE(fd, 0) << strerror(errno);
        EXPECT_TRUE(Mounted::read(fd, offset, size) == expected.substr(offset, size))
            << "file " << file << " offset " << offset << " size " << size;
        ::close(fd);
      }
    });
  }
  for (std::thread& reader : readers) reader.join();
}

TEST(Unmount, IsRefusedWhileAFileIsOpenUnlessItIsLazy) {
  std::atomic<int> unmounts = 0;
  Mounted at({.freshness = kImmutable}, {.on_unmounted = [&unmounts] { ++unmounts; }});
  const std::string content = pattern(8 * kMiB, 7);
  at.rig.source->put("x", content);
  const int fd = at.open("x");
  const Result<> busy = at.server->unmount(false);
  ASSERT_FALSE(busy);
  EXPECT_EQ(busy.error().code(), StatusCode::kBusy);
  EXPECT_THAT(busy.error().message(), HasSubstr(at.directory));
  EXPECT_TRUE(at.server->mounted());
  ASSERT_TRUE(at.server->unmount(true));
  EXPECT_FALSE(at.server->mounted());
  EXPECT_EQ(at.open("x"), -1);
  EXPECT_EQ(Mounted::read(fd, 0, 64 * kMiB), content) << "open files are served to their end";
  EXPECT_EQ(unmounts, 0);
  ::close(fd);
  at.server->wait();
  EXPECT_TRUE(eventually([&] { return unmounts == 1; }));
  EXPECT_EQ(at.server->unmount(false).error().code(), StatusCode::kNotFound);
}

TEST(Unmount, ByAnyoneElseEndsTheServerToo) {
  Mounted at;
  ASSERT_TRUE(unmount_path(at.directory, false));
  at.server->wait();
  EXPECT_FALSE(at.server->mounted());
}

TEST(Unmount, BindMountIsServedUntilTheServerEnds) {
  Mounted at({.freshness = kImmutable});
  at.rig.source->put("x", "text");
  const std::string other = at.directory + "-other";
  ASSERT_EQ(::mkdir(other.c_str(), 0755), 0);
  if (::mount(at.directory.c_str(), other.c_str(), nullptr, MS_BIND, nullptr) != 0) {
    ::rmdir(other.c_str());
    GTEST_SKIP() << "no bind mounts here: " << strerror(errno);
  }
  EXPECT_TRUE(at.server->unmount(false));
  EXPECT_FALSE(at.server->mounted());
  EXPECT_TRUE(at.server->serving());
  const int fd = ::open((other + "/x").c_str(), O_RDONLY);
  EXPECT_EQ(Mounted::read(fd, 0, 10), "text");
  ::close(fd);
  at.server.reset();
  EXPECT_EQ(::open((other + "/x").c_str(), O_RDONLY), -1);
  EXPECT_EQ(errno, ENOTCONN);
  ::umount2(other.c_str(), MNT_DETACH);
  ::rmdir(other.c_str());
}

TEST(Unmount, EndOfServerReleasesWaitingReaders) {
  Mounted at({.freshness = kImmutable, .cached = false});
  at.rig.source->put("x", pattern(kMiB, 8));
  const int fd = at.open("x");
  at.rig.source->block_reads();
  std::thread reader([fd] { EXPECT_THAT(Mounted::read(fd, 0, 10), HasSubstr("failed: ")); });
  ASSERT_TRUE(eventually([&] { return at.rig.source->blocked_reads() > 0; }));
  at.server.reset();
  reader.join();
  ::close(fd);
  at.rig.source->release_reads();
}

TEST(Mounting, SaysWhatIsWrongWithThePlace) {
  TreeRig rig;
  const auto missing =
      FuseServer::mount({.mountpoint = "/no/such/place"}, *rig.files, rig.executor);
  ASSERT_FALSE(missing);
  EXPECT_EQ(missing.error().code(), StatusCode::kNotFound);
  EXPECT_THAT(missing.error().message(), HasSubstr("/no/such/place"));
}

TEST(Mounting, IoUringIsUsedOnlyWhereTheKernelOffersIt) {
  Mounted at({.freshness = kImmutable}, {.io_uring = true, .threads = 1});
  const std::string content = pattern(2 * kMiB, 9);
  at.rig.source->put("x", content);
  EXPECT_EQ(at.content("x"), content);
  std::printf("FUSE over io_uring: %s\n", at.server->features().io_uring ? "yes" : "no");
}

TEST(Mounting, ReportsNegotiatedFeatures) {
  Mounted at;
  const FuseFeatures features = at.server->features();
  EXPECT_EQ(features.protocol_major, 7u);
  EXPECT_TRUE(features.readdirplus);
  EXPECT_EQ(features.request_bytes_max, kMiB);
  EXPECT_EQ(features.passthrough, features.passthrough_off.empty());
}

}  // namespace
}  // namespace leat
