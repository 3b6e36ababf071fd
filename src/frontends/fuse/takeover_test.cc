// SPDX-License-Identifier: Apache-2.0
// A FUSE server that takes over from another one, here within one process, which shows what is
// taken over. kill -9 is tested in tests/e2e/survival_test.py.
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "frontends/fuse/mounted_test.h"

namespace leat {
namespace {

using namespace std::chrono_literals;
using testing::eventually;
using testing::Mounted;
using testing::names_in;
using testing::pattern;
using testing::TreeRigOptions;

constexpr Freshness kImmutable{.mode = Freshness::Mode::kImmutable};
constexpr Freshness kAlwaysValidated{.mode = Freshness::Mode::kMaxAge, .max_age = 0s};

// A mount that changes its server while in use.
class TakenOver {
 public:
  explicit TakenOver(TreeRigOptions tree = {})
      : records_(*MemfdRecordTable::create("test")), at(with(tree, records_), server_options()) {}
  ~TakenOver() { at.server.reset(); }  // before its file system

  bool survives() const { return at.server->connection() >= 0; }

  // Replaces the server by another one, with its own file system.
  void take_over(std::chrono::milliseconds timeout = 5s) {
    const int connection = ::fcntl(at.server->connection(), F_DUPFD_CLOEXEC, 3);
    at.server->prepare_takeover(timeout);
    std::unique_ptr<FuseServer> before = std::move(at.server);
    auto records = MemfdRecordTable::adopt(File(::fcntl(records_->fd(), F_DUPFD_CLOEXEC, 3)));
    ASSERT_TRUE(records) << records.error().to_string();
    std::unique_ptr<FileSystem> files = FileSystem::create(
        "/data", *at.rig.catalog, *at.rig.fetcher, at.rig.store.get(), {.records = records->get()});
    auto server = FuseServer::mount(
        {.mountpoint = at.directory, .records = records->get(), .connection = connection}, *files,
        at.rig.executor);
    ASSERT_TRUE(server) << server.error().to_string();
    before.reset();
    at.server = *std::move(server);
    at.rig.files = std::move(files);
    records_ = *std::move(records);
  }

 private:
  static TreeRigOptions with(TreeRigOptions tree,
                             const std::unique_ptr<MemfdRecordTable>& records) {
    tree.records = records.get();
    return tree;
  }
  FuseServerOptions server_options() {
    FuseServerOptions options;
    options.records = records_.get();
    return options;
  }

  std::unique_ptr<MemfdRecordTable> records_;

 public:
  Mounted at;
};

#define SKIP_UNLESS_IT_SURVIVES(inherited) \
  if (!(inherited).survives()) GTEST_SKIP() << "this kernel resends nothing"

TEST(Takeover, OpenFilesAndNamesGoOn) {
  TakenOver one({.freshness = kAlwaysValidated, .cached = false});
  SKIP_UNLESS_IT_SURVIVES(one);
  const std::string content = pattern(5 * kMiB + 777, 1);
  one.at.rig.source->put("d/x", content);
  const int fd = one.at.open("d/x");
  ASSERT_GE(fd, 0);
  ASSERT_EQ(::posix_fadvise(fd, 0, 0, POSIX_FADV_RANDOM), 0);
  EXPECT_EQ(Mounted::read(fd, 0, 4096), content.substr(0, 4096));
  struct stat before{}, after{};
  ASSERT_EQ(::fstat(fd, &before), 0);
  for (int i = 0; i < 3; ++i) {
    one.take_over();
    EXPECT_EQ(Mounted::read(fd, 4 * kMiB + 4096 * i, 4096),
              content.substr(4 * kMiB + 4096 * i, 4096));
    ASSERT_EQ(::fstat(fd, &after), 0);
    EXPECT_EQ(after.st_ino, before.st_ino);
    EXPECT_EQ(one.at.content("d/x"), content);
    one.at.rig.source->put(fmt::format("fresh {}", i), "fresh");
    EXPECT_EQ(one.at.content(fmt::format("fresh {}", i)), "fresh");
  }
  ::close(fd);
}

TEST(Takeover, InFlightReadIsResent) {
  TakenOver one({.freshness = kImmutable, .cached = false});
  SKIP_UNLESS_IT_SURVIVES(one);
  one.at.rig.source->put("x", "content of x");
  const int fd = one.at.open("x");
  one.at.rig.source->block_reads();
  std::string seen;
  std::thread reader([&] { seen = Mounted::read(fd, 0, 100); });
  ASSERT_TRUE(eventually([&] { return one.at.rig.source->blocked_reads() == 1; }));
  one.take_over(0ms);
  ASSERT_TRUE(eventually([&] { return one.at.server->stats().pending_requests == 1; }));
  one.at.rig.source->release_reads();
  reader.join();
  EXPECT_EQ(seen, "content of x");
  ::close(fd);
}

TEST(Takeover, PassthroughKeepsItsBackingId) {
  TakenOver one({.freshness = kImmutable});
  SKIP_UNLESS_IT_SURVIVES(one);
  const std::string content = pattern(5 * kMiB + 12345, 1);
  one.at.rig.source->put("big", content);
  const NodeId node = one.at.rig.node(kRootNode, "big");
  ASSERT_TRUE(one.at.rig.load(one.at.rig.open(node).value()->ref()));
  const int first = one.at.open("big");
  if (one.at.server->stats().passthrough_files == 0) {
    ::close(first);
    GTEST_SKIP() << "no passthrough here: " << one.at.server->features().passthrough_off;
  }
  one.take_over();
  EXPECT_EQ(one.at.server->stats().passthrough_files, 1u);
  EXPECT_EQ(Mounted::read(first, 0, 64 * kMiB), content);
  const int second = one.at.open("big");
  ASSERT_GE(second, 0) << strerror(errno);
  EXPECT_EQ(Mounted::read(second, 777, 100'000), content.substr(777, 100'000));
  void* mapped = ::mmap(nullptr, content.size(), PROT_READ, MAP_SHARED, second, 0);
  ASSERT_NE(mapped, MAP_FAILED);
  ::close(first);
  one.take_over();
  EXPECT_EQ(std::string_view(static_cast<char*>(mapped), content.size()), content);
  EXPECT_EQ(one.at.server->stats().passthrough_files, 1u);
  ::munmap(mapped, content.size());
  ::close(second);
  EXPECT_TRUE(eventually([&] { return one.at.server->stats().passthrough_files == 0; }));
  EXPECT_EQ(one.at.content("big"), content);
}

TEST(Takeover, DirectoryReaderSeesStableNamesOnce) {
  TakenOver one({.freshness = kImmutable});
  SKIP_UNLESS_IT_SURVIVES(one);
  constexpr int kNames = 5000;
  for (int i = 0; i < kNames; ++i) one.at.rig.source->put(fmt::format("d/name {:05}", i), "x");
  DIR* directory = ::opendir(one.at.path("d").c_str());
  ASSERT_NE(directory, nullptr);
  std::multiset<std::string> seen;
  for (int i = 0; i < 700; ++i) seen.insert(::readdir(directory)->d_name);
  // Names that come or go meanwhile may or may not appear; all others must appear once.
  for (int i = 0; i < kNames; i += 7) one.at.rig.source->remove(fmt::format("d/name {:05}", i));
  for (int i = 0; i < 300; ++i) one.at.rig.source->put(fmt::format("d/name {:05} more", i), "x");
  one.at.rig.catalog->invalidate("/data");
  one.take_over();
  int read = 0;
  while (const dirent* entry = ::readdir(directory)) {
    seen.insert(entry->d_name);
    if (++read == 1500) one.take_over();
  }
  for (int i = 0; i < kNames; ++i) {
    if (i % 7 == 0) continue;
    ASSERT_EQ(seen.count(fmt::format("name {:05}", i)), 1u) << i;
  }
  ::closedir(directory);
  EXPECT_EQ(names_in(one.at.path("d")).size(), kNames - (kNames + 6) / 7 + 300 + 2u);
}

TEST(Takeover, ForgottenNodesAreRemoved) {
  TakenOver one({.freshness = kImmutable});
  SKIP_UNLESS_IT_SURVIVES(one);
  for (int i = 0; i < 1000; ++i) one.at.rig.source->put(fmt::format("d/{}", i), "x");
  EXPECT_EQ(names_in(one.at.path("d")).size(), 1002u);
  EXPECT_GT(one.at.rig.files->nodes(), 1000u);
  one.take_over();
  EXPECT_GT(one.at.rig.files->nodes(), 1000u);
  for (int i = 0; i < 1000; ++i) EXPECT_EQ(one.at.content(fmt::format("d/{}", i)), "x");
  one.take_over();
  std::FILE* drop = std::fopen("/proc/sys/vm/drop_caches", "w");
  if (drop == nullptr) GTEST_SKIP() << "only root makes the kernel forget";
  std::fputs("2\n", drop);
  std::fclose(drop);
  EXPECT_TRUE(eventually([&] { return one.at.rig.files->nodes() < 10; }))
      << one.at.rig.files->nodes();
}

TEST(Takeover, ReplacedVersionIsReadFromTheCache) {
  TakenOver one({.freshness = kImmutable});
  SKIP_UNLESS_IT_SURVIVES(one);
  const std::string before = pattern(2 * kMiB, 3);
  one.at.rig.source->put("x", before);
  const NodeId node = one.at.rig.node(kRootNode, "x");
  const int fd = one.at.open("x");
  ASSERT_TRUE(one.at.rig.load(one.at.rig.open(node).value()->ref()));
  one.at.rig.source->put("x", "another version");
  one.take_over();
  EXPECT_EQ(Mounted::read(fd, 0, 4 * kMiB), before);
  ::close(fd);
}

}  // namespace
}  // namespace leat
