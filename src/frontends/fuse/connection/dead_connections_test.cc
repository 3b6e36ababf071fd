// SPDX-License-Identifier: Apache-2.0
// Resources of a killed process are distinguished from those of live and of other processes. Their
// release is tested with real daemons (tests/e2e/restart_test.py).
#include "frontends/fuse/connection/dead_connections.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "frontends/fuse/fuse_server.h"
#include "vfs/tree_rig_test.h"

namespace leat {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using testing::TreeRig;

const MountinfoLine kOurs{"0:41", "/mnt/a\\040b", "fuse.leat", "leat:s3://b"};

std::string read_file(const std::string& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

std::string fresh_directory() {
  std::string path = "/tmp/leat_record_XXXXXX";
  LEAT_CHECK(::mkdtemp(path.data()) != nullptr);
  return path;
}

TEST(ConnectionRecord, IsReadAsItWasWritten) {
  const RecordedConnections written{
      this_process(), identify_process(1), {kOurs, {"0:7", "/x", "fuse.leat", "leat"}}};
  EXPECT_GT(written.process.start_ticks, 0u);
  EXPECT_EQ(written.process.boot_id.size(), 36u);
  Result<RecordedConnections> read = parse_connections(to_text(written));
  ASSERT_TRUE(read) << read.error().to_string();
  EXPECT_EQ(read->process, written.process);
  EXPECT_EQ(read->mounts, written.mounts);
  for (const char* wrong : {"", "leat-connections 2\n", "leat-connections 1\n",
                            "leat-connections 1\nprocess 12 x b\n", "junk"}) {
    EXPECT_EQ(parse_connections(wrong).error().code(), StatusCode::kCorrupt) << wrong;
  }
  EXPECT_FALSE(parse_connections(to_text(written).substr(0, to_text(written).size() - 6)));
}

TEST(ConnectionRecord, ListsLiveMountsUntilServerEnds) {
  const std::string directory = fresh_directory();
  const std::string file = directory + "/record", at = directory + "/mount";
  std::filesystem::create_directory(at);
  std::ofstream(file) << "of one that was killed";
  TreeRig rig({});
  {
    ConnectionRecord record(file);
    EXPECT_FALSE(std::filesystem::exists(file));
    FuseServerOptions options{.mountpoint = at, .fs_name = "leat:memory with space"};
    options.connections = &record;
    auto server = FuseServer::mount(options, *rig.files, rig.executor);
    ASSERT_TRUE(server) << server.error().to_string();
    Result<RecordedConnections> read = parse_connections(read_file(file));
    ASSERT_TRUE(read) << read.error().to_string();
    EXPECT_EQ(read->process, this_process());
    ASSERT_EQ(read->mounts.size(), 1u);
    EXPECT_EQ(read->mounts[0].device, device_of_mount(mounts_of_this_namespace(), at));
    EXPECT_EQ(read->mounts[0].source, "leat:memory\\040with\\040space");
    EXPECT_FALSE(DeadConnections::find(file)) << "this process lives";
    server->reset();
    read = parse_connections(read_file(file));
    ASSERT_TRUE(read);
    EXPECT_THAT(read->mounts, IsEmpty());
  }
  EXPECT_FALSE(std::filesystem::exists(file));
  std::filesystem::remove_all(directory);
}

TEST(DeadConnections, KilledThreadDiffersFromWaitingThread) {
  const std::string stat = "12 (le) Z (at) D 1 12 12 0 -1 4194624 1 2 3 4 5 6";
  EXPECT_FALSE(is_exiting_thread(stat, "Name:\tleat\nSigPnd:\t0000000000000000\n"));
  EXPECT_FALSE(is_exiting_thread(stat, "Name:\tleat\nSigPnd:\t0000000000004000\n")) << "SIGTERM";
  EXPECT_TRUE(is_exiting_thread(stat, "Name:\tleat\nSigPnd:\t0000000000000100\n"));
  EXPECT_FALSE(is_exiting_thread(stat, "Name:\tleat\nSigQ:\t1/2\nShdPnd:\t0000000000000100\n"));
  EXPECT_TRUE(is_exiting_thread("12 (leat) Z 1 12 12 0 -1 4194624 1", "Name:\tleat\n"));
  EXPECT_TRUE(is_exiting_thread("12 (leat) D 1 12 12 0 -1 4194628 1", "Name:\tleat\n"))
      << "exiting";
  EXPECT_TRUE(is_exiting_thread("", ""));
}

TEST(DeadConnections, AProcessIsKnownByItsStartAndBoot) {
  ProcessIdentity self = this_process();
  EXPECT_EQ(state_of(self), ProcessState::kAlive);
  ProcessIdentity other = self;
  other.start_ticks += 1;
  EXPECT_EQ(state_of(other), ProcessState::kExited);
  other = self;
  other.boot_id = "00000000-0000-0000-0000-000000000000";
  EXPECT_EQ(state_of(other), ProcessState::kExited);
}

TEST(DeadConnections, KilledProcessIsExitedBeforeItIsReaped) {
  const pid_t child = ::fork();
  if (child == 0) {
    ::pause();
    ::_exit(0);
  }
  ProcessIdentity mark{child, start_ticks_in(read_file("/proc/" + std::to_string(child) + "/stat")),
                       this_boot()};
  EXPECT_EQ(state_of(mark), ProcessState::kAlive);
  ::kill(child, SIGKILL);
  siginfo_t ended{};
  ASSERT_EQ(::waitid(P_PID, static_cast<id_t>(child), &ended, WEXITED | WNOWAIT), 0);
  EXPECT_EQ(state_of(mark), ProcessState::kExited);
  ::waitpid(child, nullptr, 0);
  EXPECT_EQ(state_of(mark), ProcessState::kExited);
}

TEST(DeadConnections, OnlyWhatIsItsOwnWithoutDoubtIsAborted) {
  const RecordedConnections record{{}, {}, {kOurs}};
  const MountinfoLine elsewhere{"0:41", "/bound", "fuse.leat", "leat:s3://b"};
  const MountinfoLine other_place{"0:41", "/mnt/c", "fuse.leat", "leat:s3://b"};
  const MountinfoLine other_source{"0:41", "/mnt/a\\040b", "fuse.leat", "leat:s3://c"};
  const MountinfoLine other_kind{"0:41", "/mnt/a\\040b", "fuse.sshfs", "leat:s3://b"};
  // If the kernel does not report held connections, only the very mount that was recorded.
  EXPECT_THAT(connections_to_abort(record, {}, {kOurs}), ElementsAre(41u));
  for (const MountinfoLine& other : {other_place, other_source, other_kind}) {
    EXPECT_THAT(connections_to_abort(record, {}, {other}), IsEmpty()) << to_text({{}, {}, {other}});
  }
  EXPECT_THAT(connections_to_abort(record, {}, {}), IsEmpty());
  // If it does, also unmounted and bound mounts.
  EXPECT_THAT(connections_to_abort(record, {41, 50}, {elsewhere}), ElementsAre(41u, 50u));
  EXPECT_THAT(connections_to_abort(record, {41}, {}), ElementsAre(41u));
  // But not a number that belongs to another mount by now.
  EXPECT_THAT(connections_to_abort(record, {41}, {other_source}), IsEmpty());
  EXPECT_THAT(connections_to_abort(record, {50}, {{"0:50", "/y", "fuse.sshfs", "host:"}}),
              IsEmpty());
  EXPECT_THAT(connections_to_abort({{}, {}, {{"8:1", "/", "ext4", "/dev/sda1"}}}, {},
                                   {{"8:1", "/", "ext4", "/dev/sda1"}}),
              IsEmpty());
}

}  // namespace
}  // namespace leat
