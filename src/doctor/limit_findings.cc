// SPDX-License-Identifier: Apache-2.0
#include "doctor/limit_findings.h"

#include <fmt/format.h>
#include <linux/io_uring.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/timex.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <system_error>

#include "base/units.h"
#include "daemon/memory_size.h"
#include "runtime/disk.h"

namespace leat {
namespace {

// A cache directory keeps up to 4,096 objects open with two descriptors each. The rest is for files
// of the mounts, connections and the daemon itself.
constexpr uint64_t kFilesOfADirectory = 8192;
constexpr uint64_t kFilesBeside = 4096;
// Below it default_memory_bytes() gives reads less than 256 MiB.
constexpr uint64_t kEnoughMemory = kGiB;

int io_uring_errno() {
  io_uring_params params{};
  const File ring(static_cast<int>(::syscall(SYS_io_uring_setup, 1, &params)));
  return ring ? 0 : errno;
}

Finding io_uring_finding(const LimitFacts& facts) {
  Finding finding{.name = "host.io_uring"};
  if (facts.io_uring_errno == 0) {
    finding.what = "reads of the cache and of local disks go by io_uring";
    return finding;
  }
  finding.level = Level::kNote;
  finding.cost = "each read of the disk occupies a thread meanwhile: more CPU, fewer at once";
  const std::string why = std::generic_category().message(facts.io_uring_errno);
  if (facts.io_uring_disabled != 0) {
    finding.what = fmt::format("kernel.io_uring_disabled is {}", facts.io_uring_disabled);
    finding.action = "sudo sysctl -w kernel.io_uring_disabled=0";
  } else if (facts.io_uring_errno == ENOSYS) {
    finding.what = "the kernel, or a filter of system calls, has no io_uring: " + why;
    finding.action = "a kernel with CONFIG_IO_URING, or a seccomp profile that allows io_uring_*";
  } else {
    finding.what = "io_uring is denied: " + why;
    finding.action =
        "let the seccomp profile of the container allow io_uring_setup, "
        "io_uring_enter and io_uring_register (docker run --security-opt seccomp=FILE)";
  }
  return finding;
}

Finding files_finding(const LimitFacts& facts, size_t cache_directories) {
  const uint64_t wanted =
      kFilesOfADirectory * std::max<size_t>(cache_directories, 1) + kFilesBeside;
  Finding finding{.name = "host.open_files"};
  if (facts.open_files_max >= wanted) {
    finding.what =
        facts.open_files_max >= RLIM_INFINITY
            ? "no limit"
            : fmt::format("up to {}, to which the daemon raises its limit", facts.open_files_max);
    return finding;
  }
  finding.level = Level::kNote;
  finding.what = fmt::format("the hard limit is {}; {} are wanted", facts.open_files_max, wanted);
  finding.cost =
      "cached files are closed and opened again and again, and programs that keep many "
      "files open get errors";
  finding.action = fmt::format(
      "before the mount: ulimit -Hn {0} (root), in a systemd unit "
      "LimitNOFILE={0}, docker run --ulimit nofile={0}",
      wanted);
  return finding;
}

Finding memory_finding(const LimitFacts& facts) {
  const bool set = facts.memory_wanted_bytes != 0;
  const uint64_t taken = set ? facts.memory_wanted_bytes : default_memory_bytes(facts.memory_bytes);
  Finding finding{.name = "host.memory"};
  finding.what = fmt::format("{} of {} for reads{}", format_bytes(taken),
                             format_bytes(facts.memory_bytes), set ? " (fetch.memory_size)" : "");
  if (taken > facts.memory_bytes / 2) {
    finding.level = Level::kNote;
    finding.cost =
        "more than half of what this process may use: it may be killed for lack of memory";
    finding.action = "a smaller fetch.memory_size, or a higher limit of the cgroup (memory.max)";
  } else if (facts.memory_bytes < kEnoughMemory) {
    finding.level = Level::kNote;
    finding.cost = "first reads wait for the disk once that much is in flight";
    finding.action = "at least 1 GiB: the cgroup's memory.max, docker run --memory";
  }
  return finding;
}

Finding clock_finding(const LimitFacts& facts) {
  Finding finding{.name = "host.clock", .what = "synchronised"};
  if (facts.clock_synchronised) return finding;
  finding.level = Level::kNote;
  finding.what = "the kernel's clock is not synchronised";
  finding.cost = "stores reject requests that are signed with a time more than some minutes off";
  finding.action = "timedatectl set-ntp true (in a container: on its host)";
  return finding;
}

}  // namespace

LimitFacts gather_limits(const HostPaths& paths) {
  LimitFacts facts{.io_uring_errno = io_uring_errno()};
  facts.io_uring_disabled =
      std::atoi(first_line(paths.sysctl + "/kernel/io_uring_disabled").c_str());
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) == 0) {
    facts.open_files_max = limit.rlim_max;
  }
  facts.memory_bytes = usable_memory_bytes();
  timex clock{};
  facts.clock_synchronised = ::adjtimex(&clock) >= 0 && (clock.status & STA_UNSYNC) == 0;
  return facts;
}

Findings limit_findings(const LimitFacts& facts, size_t cache_directories) {
  return {io_uring_finding(facts), files_finding(facts, cache_directories), memory_finding(facts),
          clock_finding(facts)};
}

}  // namespace leat
