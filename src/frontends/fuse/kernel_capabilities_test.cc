// SPDX-License-Identifier: Apache-2.0
// Features in FUSE_INIT, from bytes and from the running kernel.
#include "frontends/fuse/kernel_capabilities.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <optional>
#include <thread>

#include "base/id128.h"
#include "base/records.h"
#include "frontends/fuse/connection/mount_point.h"
#include "frontends/fuse/connection/probe_connection.h"
#include "runtime/disk.h"

namespace leat {
namespace {

using testing::HasSubstr;

constexpr uint32_t kInitOpcode = 26;
constexpr uint32_t kInitExt = 1u << 30;
constexpr uint64_t kUnique = 2;

// As in include/uapi/linux/fuse.h; a short one has no flags2.
std::string init_request(uint32_t minor, uint32_t flags, std::optional<uint32_t> flags2,
                         uint32_t opcode = kInitOpcode, uint32_t major = 7) {
  RecordWriter writer;
  writer.put<uint32_t>(flags2 ? 104 : 56);
  writer.put(opcode);
  writer.put(kUnique);
  writer.pad_to(40);
  writer.put(major);
  writer.put(minor);
  writer.put<uint32_t>(131072);
  writer.put(flags);
  if (flags2) {
    writer.put(*flags2);
    writer.pad_to(104);
  }
  return writer.take();
}

Result<InitRequest> parse(const std::string& text) {
  return parse_init(std::as_bytes(std::span(text)));
}

TEST(KernelCapabilities, IsWhatTheFlagsSay) {
  Result<InitRequest> old = parse(init_request(31, 1u << 13 | 1u << 18, std::nullopt));
  ASSERT_TRUE(old) << old.error().to_string();
  EXPECT_EQ(old->unique, kUnique);
  EXPECT_EQ(old->capabilities.protocol_minor, 31u);
  EXPECT_TRUE(old->capabilities.readdirplus);
  EXPECT_TRUE(old->capabilities.parallel_directory_operations);
  EXPECT_EQ(old->capabilities.read_ahead_bytes_max, 131072u);
  EXPECT_FALSE(old->capabilities.no_flush || old->capabilities.passthrough ||
               old->capabilities.io_uring || old->capabilities.resend || old->capabilities.epochs ||
               old->capabilities.request_timeout);

  Result<InitRequest> all =
      parse(init_request(45, kInitExt, 1u << 5 | 1u << 7 | 1u << 9 | 1u << 10));
  ASSERT_TRUE(all) << all.error().to_string();
  EXPECT_TRUE(all->capabilities.no_flush && all->capabilities.passthrough &&
              all->capabilities.io_uring && all->capabilities.resend && all->capabilities.epochs &&
              all->capabilities.request_timeout);
  EXPECT_FALSE(all->capabilities.readdirplus);
}

TEST(KernelCapabilities, Flags2CountOnlyWithInitExt) {
  Result<InitRequest> request = parse(init_request(45, 0, ~0u));
  ASSERT_TRUE(request);
  EXPECT_FALSE(request->capabilities.passthrough);
}

TEST(KernelCapabilities, OtherRequestsAreRefused) {
  EXPECT_EQ(parse("").error().code(), StatusCode::kUnsupported);
  EXPECT_EQ(parse(init_request(45, 0, 0).substr(0, 50)).error().code(), StatusCode::kUnsupported);
  EXPECT_EQ(parse(init_request(45, 0, 0, 38)).error().code(), StatusCode::kUnsupported);
  EXPECT_EQ(parse(init_request(0, 0, 0, kInitOpcode, 8)).error().code(), StatusCode::kUnsupported);
}

TEST(KernelCapabilities, ReplyAcceptsOfferedPassthrough) {
  const std::string with = init_reply(*parse(init_request(45, kInitExt, 1u << 5)));
  const std::string without = init_reply(*parse(init_request(31, 0, std::nullopt)));
  ASSERT_EQ(with.size(), 80u);
  ASSERT_EQ(without.size(), 80u);
  auto word = [](const std::string& reply, size_t offset) {
    uint32_t value;
    std::memcpy(&value, reply.data() + offset, sizeof value);
    return value;
  };
  EXPECT_EQ(word(with, 0), 80u);
  EXPECT_EQ(word(with, 8), kUnique);
  EXPECT_EQ(word(with, 20), 45u);
  EXPECT_EQ(word(with, 28), kInitExt);  // flags
  EXPECT_EQ(word(with, 48), 1u << 5);   // flags2
  EXPECT_EQ(word(with, 52), 1u);        // max_stack_depth
  EXPECT_EQ(word(without, 28), 0u);
  EXPECT_EQ(word(without, 52), 0u);
}

size_t open_descriptors() {
  std::filesystem::directory_iterator all("/proc/self/fd"), end;
  return static_cast<size_t>(std::distance(all, end));
}

// Opens an unlinked file in the temporary directory.
File unlinked_file() {
  return File(::open(testing::TempDir().c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600));
}

// Uses a private temporary directory, which must be empty at the end.
class KernelProbeTest : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = std::filesystem::path(testing::TempDir()) / ("leat_ask_" + Id128::random().to_hex());
    std::filesystem::create_directories(folder_ / "tmp");
    setenv("TMPDIR", (folder_ / "tmp").c_str(), 1);
  }
  void TearDown() override {
    EXPECT_TRUE(std::filesystem::is_empty(folder_ / "tmp"));
    for (const MountinfoLine& mount : mounts_of_this_namespace()) {
      EXPECT_FALSE(mount.point.starts_with(folder_.string())) << mount.point;
    }
    unsetenv("TMPDIR");
    std::filesystem::remove_all(folder_);
  }

  std::string script(const std::string& text) const {
    const std::string path = folder_ / "fusermount";
    std::ofstream(path) << "#!/bin/sh\n" << text << "\n";
    EXPECT_EQ(::chmod(path.c_str(), 0700), 0);
    return path;
  }

  std::filesystem::path folder_;
};

class KernelProbeWaysTest : public KernelProbeTest, public testing::WithParamInterface<bool> {};

TEST_P(KernelProbeWaysTest, AnswersAndLeavesNothingBehind) {
  const File file = unlinked_file();
  ASSERT_TRUE(file) << strerror(errno);
  const size_t descriptors = open_descriptors();
  Result<KernelCapabilities> capabilities =
      probe_kernel({.files = {file.fd()}, .try_direct_mount = GetParam()});
  EXPECT_EQ(open_descriptors(), descriptors);
  if (!capabilities)
    GTEST_SKIP() << "FUSE cannot be used here: " << capabilities.error().to_string();
  EXPECT_EQ(capabilities->protocol_major, 7u);
  EXPECT_GT(capabilities->protocol_minor, 20u);
  EXPECT_TRUE(capabilities->readdirplus);
  EXPECT_EQ(capabilities->backings.size(), capabilities->passthrough ? 1u : 0u);
  for (const Result<>& backing : capabilities->backings) {
    std::printf("a backing file: %s\n", backing ? "yes" : backing.error().to_string().c_str());
  }
}

INSTANTIATE_TEST_SUITE_P(Ways, KernelProbeWaysTest, testing::Bool(),
                         [](const auto& way) { return way.param ? "ByItself" : "ByFusermount"; });

TEST_F(KernelProbeTest, MissingDeviceIsNotFound) {
  Result<KernelCapabilities> capabilities = probe_kernel({.device = "/nowhere/fuse"});
  ASSERT_FALSE(capabilities);
  EXPECT_EQ(capabilities.error().code(), StatusCode::kNotFound);
}

TEST_F(KernelProbeTest, AFusermountThatFailsIsQuoted) {
  Result<KernelCapabilities> capabilities = probe_kernel(
      {.fusermount = script("echo 'not for you' >&2\nexit 1"), .try_direct_mount = false});
  ASSERT_FALSE(capabilities);
  EXPECT_EQ(capabilities.error().code(), StatusCode::kPermissionDenied);
  EXPECT_THAT(capabilities.error().to_string(), HasSubstr("not for you"));
  Result<KernelCapabilities> missing =
      probe_kernel({.fusermount = "/nowhere/fusermount3", .try_direct_mount = false});
  ASSERT_FALSE(missing);
  EXPECT_EQ(missing.error().code(), StatusCode::kPermissionDenied);
}

TEST_F(KernelProbeTest, HangingFusermountTimesOut) {
  Result<KernelCapabilities> capabilities =
      probe_kernel({.timeout = std::chrono::milliseconds(50),
                    .fusermount = script("exec tail -f /dev/null"),
                    .try_direct_mount = false});
  EXPECT_FALSE(capabilities);
}

// fusermount3 notices the end of the process and unmounts some time later.
TEST_F(KernelProbeTest, AKilledProcessLeavesNoMount) {
  int ends[2];
  ASSERT_EQ(::pipe2(ends, O_CLOEXEC), 0);
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    auto connection = ProbeConnection::open({.device = "/dev/fuse",
                                             .fusermount = "fusermount3",
                                             .try_direct_mount = false,
                                             .timeout = std::chrono::seconds(5)});
    const char said = connection ? 'y' : 'n';
    if (::write(ends[1], &said, 1) == 1) ::pause();
    ::_exit(1);
  }
  char said = '?';
  ASSERT_EQ(::read(ends[0], &said, 1), 1);
  auto mounted = [this] {
    return std::ranges::any_of(mounts_of_this_namespace(), [this](const MountinfoLine& mount) {
      return mount.point.starts_with(folder_.string());
    });
  };
  EXPECT_EQ(mounted(), said == 'y');
  ASSERT_EQ(::kill(child, SIGKILL), 0);
  ASSERT_EQ(::waitpid(child, nullptr, 0), child);
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(30);
  while (mounted() && std::chrono::steady_clock::now() < end) std::this_thread::yield();
  EXPECT_FALSE(mounted());
  // Only the empty directory itself may stay.
  std::filesystem::remove_all(folder_ / "tmp");
  std::filesystem::create_directories(folder_ / "tmp");
}

}  // namespace
}  // namespace leat
