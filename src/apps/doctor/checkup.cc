// SPDX-License-Identifier: Apache-2.0
#include "apps/doctor/checkup.h"

#include <unistd.h>

#include <chrono>

#include "apps/doctor/bounded_look.h"
#include "apps/doctor/cache_findings.h"
#include "apps/doctor/daemon_findings.h"
#include "apps/doctor/disk_speed.h"
#include "apps/doctor/fuse_findings.h"
#include "apps/doctor/kernel_findings.h"
#include "apps/doctor/limit_findings.h"
#include "apps/doctor/process_rights.h"
#include "apps/doctor/store_findings.h"
#include "apps/program_version.h"
#include "base/units.h"

namespace leat {
namespace {

using namespace std::chrono_literals;

constexpr auto kDiskPatience = 10s;
constexpr auto kFolderPatience = 5s;
constexpr auto kStorePatience = 30s;
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
    if (look_at(options.directory, kDiskPatience)) {
      caches.push_back(inspect_cache(options, mounts, used_by_daemon(daemon, options.directory)));
    } else {
      caches.push_back({.facts = {.directory = options.directory, .silent = true}, .sample = {}});
    }
  }
  return caches;
}

// Probes with samples of the caches, and stores the results in their facts.
Result<KernelOffer> ask_about(std::vector<CacheInspection>& caches, const HostPlaces& places) {
  KernelQuestion question{.device = places.fuse_device};
  std::vector<CacheFacts*> asked;
  for (CacheInspection& cache : caches) {
    if (!cache.sample) continue;
    question.files.push_back(cache.sample.fd());
    asked.push_back(&cache.facts);
  }
  Result<KernelOffer> offer = ask_kernel(question);
  if (!offer) return offer;
  for (size_t i = 0; i < offer->backings.size(); ++i) asked[i]->backing = offer->backings[i];
  return offer;
}

bool has_problem(const Findings& findings) {
  return count(findings, Level::kProblem) != 0;
}

}  // namespace

Checkup check_host(const HostPlaces& places, const CheckupOrder& order) {
  const DaemonRun& run = order.run;
  const ProcessRights rights = parse_rights(whole_text(places.process_status), ::geteuid());
  const std::vector<MountinfoLine> mounts = parse_mountinfo(whole_text(places.mountinfo));
  const DaemonFacts daemon = ask_daemon(run.runtime);
  KernelSettings settings = gather_kernel_settings(places);
  LimitFacts limits = gather_limits(places);
  std::vector<CacheInspection> caches;
  Findings configured;
  if (Result<Config> config = configuration(run, daemon)) {
    settings.io_uring_wanted = config->boolean("fuse.io_uring");
    limits.memory_wanted_bytes = config->bytes("memory.size");
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
  const Result<KernelOffer> offer = ask_about(caches, places);

  Checkup checkup{.findings = fuse_findings(gather_fuse(places), rights), .kernel = to_json(offer)};
  const bool may_mount = !has_problem(checkup.findings);
  auto add = [&checkup](Findings more) { append(checkup.findings, std::move(more)); };
  add(kernel_findings(offer, settings, rights, may_mount));
  add(rights_findings(rights));
  add(limit_findings(limits, caches.size()));
  add(std::move(configured));
  for (const CacheInspection& cache : caches) {
    add(cache_findings(cache.facts, rights.sys_admin));
    if (!order.speed || !cache.sample || cache.facts.usage.free_bytes < kFreeToMeasure) continue;
    if (auto speed = measure_disk(cache.sample.fd())) {
      add({speed_finding(cache.facts.directory, *speed)});
    }
  }
  add(daemon_findings(daemon, std::string(program_version())));
  add(folder_findings(inspect_folders(mounts, kFolderPatience)));
  for (const StoreUrl& source : order.sources) {
    add(store_findings(inspect_store(source, kStorePatience)));
  }
  return checkup;
}

}  // namespace leat
