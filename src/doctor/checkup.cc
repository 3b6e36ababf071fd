// SPDX-License-Identifier: Apache-2.0
#include "doctor/checkup.h"

#include <unistd.h>

#include <chrono>

#include "base/program_version.h"
#include "base/units.h"
#include "doctor/cache_findings.h"
#include "doctor/daemon_findings.h"
#include "doctor/disk_speed.h"
#include "doctor/fuse_findings.h"
#include "doctor/kernel_findings.h"
#include "doctor/limit_findings.h"
#include "doctor/process_rights.h"
#include "doctor/stat_with_timeout.h"
#include "doctor/store_findings.h"

namespace leat {
namespace {

using namespace std::chrono_literals;

constexpr auto kDiskTimeout = 10s;
constexpr auto kMountTimeout = 5s;
constexpr auto kStoreTimeout = 30s;
constexpr uint64_t kFreeToMeasure = kGiB;

Result<Config> configuration(const DaemonRun& run, const DaemonFacts& daemon) {
  if (!daemon.status) return read_daemon_config(run);
  Config config{daemon_schema()};
  for (const auto& [name, value] : daemon.status->options) {
    // A daemon of another version may have unknown options.
    auto known = config.set(name, value, "the running daemon");
    static_cast<void>(known);
  }
  for (const auto& [name, value] : run.settings) {
    LEAT_CHECK_OK(config.set(name, value, "--set " + name));
  }
  return config;
}

// Returns the command that reports the same errors of this file.
std::string config_check(const DaemonRun& run) {
  return run.config.empty() ? "leat config check" : "leat config check " + run.config;
}

std::optional<uint64_t> used_by_daemon(const DaemonFacts& daemon, const std::string& directory) {
  if (!daemon.status) return std::nullopt;
  for (const DirectoryStats& of : daemon.status->cache.directories) {
    if (of.path == directory) return of.stats.used_bytes;
  }
  return std::nullopt;
}

std::vector<CacheInspection> inspect_caches(const std::vector<PageStoreOptions>& directories,
                                            const DaemonFacts& daemon,
                                            const std::vector<MountinfoLine>& mounts) {
  std::vector<CacheInspection> caches;
  for (const PageStoreOptions& options : directories) {
    if (stat_with_timeout(options.directory, kDiskTimeout)) {
      caches.push_back(inspect_cache(options, mounts, used_by_daemon(daemon, options.directory)));
    } else {
      caches.push_back({.facts = {.directory = options.directory, .hung = true}, .sample = {}});
    }
  }
  return caches;
}

// Probes with samples of the caches, and stores the results in their facts.
Result<KernelCapabilities> probe_kernel_with(std::vector<CacheInspection>& caches,
                                             const HostPaths& paths) {
  CapabilityProbe probe{.device = paths.fuse_device};
  std::vector<CacheFacts*> probed;
  for (CacheInspection& cache : caches) {
    if (!cache.sample) continue;
    probe.files.push_back(cache.sample.fd());
    probed.push_back(&cache.facts);
  }
  Result<KernelCapabilities> capabilities = probe_kernel(probe);
  if (!capabilities) return capabilities;
  for (size_t i = 0; i < capabilities->backings.size(); ++i)
    probed[i]->backing = capabilities->backings[i];
  return capabilities;
}

bool has_problem(const Findings& findings) {
  return count(findings, Level::kProblem) != 0;
}

}  // namespace

Checkup check_host(const HostPaths& paths, const CheckupOptions& options) {
  const DaemonRun& run = options.run;
  const ProcessRights rights = parse_rights(whole_text(paths.process_status), ::geteuid());
  const std::vector<MountinfoLine> mounts = parse_mountinfo(whole_text(paths.mountinfo));
  const DaemonFacts& daemon = options.daemon;
  KernelSettings settings = gather_kernel_settings(paths);
  LimitFacts limits = gather_limits(paths);
  std::vector<CacheInspection> caches;
  Findings configured;
  if (Result<Config> config = configuration(run, daemon)) {
    settings.io_uring_wanted = config->boolean("fuse.io_uring");
    limits.memory_wanted_bytes = config->bytes("fetch.memory_size");
    // read_daemon_config() has validated it, or a daemon uses it.
    if (auto directories = cache_options(*config)) {
      caches = inspect_caches(*directories, daemon, mounts);
    }
  } else {
    configured.push_back({.level = Level::kProblem,
                          .name = "config",
                          .what = config.error().to_string(),
                          .cost = "no daemon starts",
                          .action = config_check(run) + ", until it is understood"});
  }
  const Result<KernelCapabilities> capabilities = probe_kernel_with(caches, paths);

  Checkup checkup{.findings = fuse_findings(gather_fuse(paths), rights),
                  .kernel = to_json(capabilities)};
  const bool may_mount = !has_problem(checkup.findings);
  auto add = [&checkup](Findings more) { append(checkup.findings, std::move(more)); };
  add(kernel_findings(capabilities, settings, rights, may_mount));
  add(rights_findings(rights));
  add(limit_findings(limits, caches.size()));
  add(std::move(configured));
  for (const CacheInspection& cache : caches) {
    add(cache_findings(cache.facts, rights.sys_admin));
    if (!options.speed || !cache.sample || cache.facts.usage.free_bytes < kFreeToMeasure) continue;
    if (auto speed = measure_disk(cache.sample.fd())) {
      add({speed_finding(cache.facts.directory, *speed)});
    }
  }
  add(daemon_findings(daemon, std::string(program_version())));
  add(mount_findings(inspect_mounts(mounts, kMountTimeout)));
  for (const StoreUrl& source : options.sources) {
    add(store_findings(inspect_store(source, kStoreTimeout)));
  }
  return checkup;
}

}  // namespace leat
