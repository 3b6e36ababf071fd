// SPDX-License-Identifier: Apache-2.0
#include "daemon/daemon_options.h"

#include <fmt/format.h>
#include <unistd.h>

#include <array>
#include <filesystem>
#include <ranges>
#include <string_view>
#include <vector>

#include "base/units.h"
#include "config/paths.h"
#include "daemon/cluster/cluster_options.h"
#include "frontends/console/host_field.h"
#include "frontends/fuse/feature_set.h"
#include "telemetry/log_file.h"
#include "telemetry/slow_log.h"

namespace leat {
namespace {

// LEAT_ variables that are not options of the daemon: its runtime directory, and variables of
// builds, tests and benchmarks.
constexpr std::array<std::string_view, 3> kOtherVariables = {"LEAT_RUNTIME_DIR", "LEAT_BIN",
                                                             "LEAT_RESTARTS"};
constexpr std::array<std::string_view, 6> kOtherPrefixes = {
    "LEAT_BENCH_", "LEAT_BUILD_", "LEAT_DEMO_", "LEAT_DEPS_", "LEAT_SOAK_", "LEAT_TEST_"};

std::vector<std::string> reserved_variables(std::span<const char* const> environment) {
  std::vector<std::string> reserved(kOtherVariables.begin(), kOtherVariables.end());
  for (std::string_view variable : environment) {
    for (std::string_view prefix : kOtherPrefixes) {
      if (!variable.starts_with(prefix)) continue;
      reserved.emplace_back(variable.substr(0, variable.find('=')));
    }
  }
  return reserved;
}

std::span<const char* const> whole_environment() {
  size_t count = 0;
  while (environ[count] != nullptr) ++count;
  return {environ, count};
}

log::Level log_level_of(const Config& config) {
  const std::string& text = config.text("log.level");
  if (text == "debug") return log::Level::kDebug;
  if (text == "warning") return log::Level::kWarning;
  if (text == "error") return log::Level::kError;
  return log::Level::kInfo;
}

}  // namespace

Schema daemon_schema() {
  using enum OptionType;
  std::vector<Option> options = {
      {.name = "cache.directory",
       .type = kString,
       .default_text = default_cache_directory(),
       .help = "cache directories; several: /a,/b=2TiB, the second with its own size",
       .form = "absolute paths, with commas between them",
       .default_help = "/var/cache/leat; of others than root ~/.cache/leat"},
      {.name = "cache.size",
       .type = kBytes,
       .default_text = "0",
       .help = "capacity of each directory; 0: a tenth of its file system",
       .min = "1MiB",
       .max = "1024TiB",
       .or_zero = true},
      {.name = "cache.min_free",
       .type = kBytes,
       .default_text = "0",
       .help = "minimum free bytes of the file system; 0: a tenth of it",
       .max = "1024TiB"},
      {.name = "cache.staging",
       .type = kBytes,
       .default_text = "0",
       .help = "bytes of a mount that wait for its store, at most; 0: half of the cache's size",
       .max = "1024TiB"},
      {.name = "cache.segment_readahead",
       .type = kBytes,
       .default_text = "512KiB",
       .help = "bytes read ahead around a small object on a cold disk; 0: no readahead",
       .max = "16MiB"},
      {.name = "cache.scrub_period",
       .type = kDuration,
       .default_text = "14d",
       .help = "period in which all cached data is verified once; 0s: never",
       .min = "1m",
       .max = "3650d",
       .or_zero = true},
      {.name = "snapshot.directory",
       .type = kString,
       .default_text = default_snapshot_directory(),
       .help = "directory of snapshots",
       .form = "an absolute path",
       .default_help =
           "/var/lib/leat/snapshots; of others than root ~/.local/share/leat/snapshots"},
      {.name = "fetch.memory_size",
       .type = kBytes,
       .default_text = "0",
       .help = "memory for reads in flight and just done; 0: 1/32 of the RAM, 256 MiB to 1 GiB",
       .min = "32MiB",
       .max = "1TiB",
       .or_zero = true},
      {.name = "fetch.requests_per_store_max",
       .type = kInteger,
       .default_text = "1024",
       .help = "maximum concurrent requests to one store, fewer under a small limit of open "
               "files; Leat finds how many the store takes",
       .unit = "requests",
       .min = "1",
       .max = "4096"},
      {.name = "fuse.io_uring",
       .type = kBool,
       .default_text = "false",
       .help = "use FUSE over io_uring if the kernel supports it"},
      {.name = "fuse.threads",
       .type = kInteger,
       .default_text = "0",
       .help = "FUSE threads per mount; 0: one per core",
       .unit = "threads",
       .min = "0",
       .max = "256"},
      {.name = "fuse.disabled_features",
       .type = kString,
       .default_text = "",
       .help = "FUSE features to disable (passthrough, resend …), or after-5.15",
       .form = "names, with commas between them"},
      {.name = "daemon.supervised",
       .type = kBool,
       .default_text = "true",
       .help = "run under a supervisor, which keeps the mounts and restarts the daemon if it dies"},
      {.name = "telemetry.listen",
       .type = kString,
       .default_text = "127.0.0.1:9464",
       .help = "loopback address of /metrics and the web console, or off",
       .form = "loopback HOST:PORT, or off"},
      {.name = "telemetry.hosts",
       .type = kString,
       .default_text = "",
       .help = "names besides localhost accepted in Host for /metrics and the console",
       .form = "names without ports, with commas between them"},
      {.name = "log.level",
       .type = kString,
       .default_text = "info",
       .help = "minimum severity to log",
       .reloadable = true,
       .choices = {"debug", "info", "warning", "error"}},
      {.name = "log.format",
       .type = kString,
       .default_text = "text",
       .help = "json: one object per line, for log collectors",
       .choices = {"text", "json"}},
      {.name = "log.file_size",
       .type = kBytes,
       .default_text = "16MiB",
       .help = "maximum size of daemon.log, then rotated to daemon.log.1; 0: no limit",
       .reloadable = true,
       .min = "64KiB",
       .max = "1TiB",
       .or_zero = true},
      {.name = "log.slow_threshold",
       .type = kDuration,
       .default_text = "1s",
       .help = "log reads and lookups that take longer, with their spans; 0s: none",
       .reloadable = true,
       .min = "1ms",
       .max = "1h",
       .or_zero = true},
  };
  for (Option& option : cluster_schema()) options.push_back(std::move(option));
  return Schema(std::move(options));
}

uint64_t staging_bytes(const Config& config, const PageStoreOptions& cache) {
  if (const uint64_t given = config.bytes("cache.staging")) return given;
  std::error_code failed;
  const std::filesystem::space_info disk = std::filesystem::space(cache.directory, failed);
  if (cache.capacity_bytes == 0 && failed) return UINT64_MAX;
  return (cache.capacity_bytes > 0 ? cache.capacity_bytes : disk.capacity / 10) / 2;
}

Result<std::vector<PageStoreOptions>> cache_options(const Config& config) {
  std::vector<PageStoreOptions> directories;
  for (auto part : std::views::split(config.text("cache.directory"), ',')) {
    const std::string_view word(part.begin(), part.end());
    PageStoreOptions options{.directory = std::string(word),
                             .capacity_bytes = config.bytes("cache.size"),
                             .free_bytes_min = config.bytes("cache.min_free"),
                             .segment_readahead_bytes = config.bytes("cache.segment_readahead"),
                             .scrub_period = config.duration("cache.scrub_period")};
    // A directory name may contain an equals sign; the text after it counts only if it is a size.
    const size_t equals = word.rfind('=');
    if (equals != std::string_view::npos) {
      if (auto bytes = parse_bytes(word.substr(equals + 1)); bytes && *bytes > 0) {
        options.directory.resize(equals);
        options.capacity_bytes = *bytes;
      }
    }
    while (options.directory.size() > 1 && options.directory.ends_with('/')) {
      options.directory.pop_back();
    }
    if (!options.directory.starts_with('/')) {
      return error(
          StatusCode::kInvalidArgument,
          fmt::format("cache.directory '{}' ({}) must be an absolute path, or several with commas "
                      "between them: the daemon's working directory is /",
                      config.text("cache.directory"), config.source("cache.directory").location));
    }
    directories.push_back(std::move(options));
  }
  return directories;
}

OptionView view_of(const Option& option, const Config& config) {
  const OptionSource& source = config.source(option.name);
  return {.name = option.name,
          .value = format_value(config.value(option.name)),
          .origin = std::string(to_string(source.origin)),
          .place = source.location,
          .reloadable = option.reloadable};
}

void apply_reloadable_options(const Config& config) {
  log::set_level(log_level_of(config));
  log::set_file_size_max(config.bytes("log.file_size"));
  slow_log().set_threshold(config.duration("log.slow_threshold"));
}

Result<Config> read_daemon_config(const DaemonRun& run) {
  Config config{daemon_schema()};
  std::string file = run.config.empty() ? default_config_file() : run.config;
  if (!file.empty()) LEAT_CHECK_OK(config.read_file(file));
  auto environment = whole_environment();
  LEAT_CHECK_OK(config.read_environment(environment, reserved_variables(environment)));
  for (const auto& [name, value] : run.settings) {
    LEAT_CHECK_OK(config.set(name, value, "--set " + name));
  }
  LEAT_TRY([[maybe_unused]] auto directories, cache_options(config));
  if (auto without = FuseFeatureSet::parse(config.text("fuse.disabled_features")); !without) {
    return error(without.error().with_context(fmt::format(
        "fuse.disabled_features ({})", config.source("fuse.disabled_features").location)));
  }
  if (auto hosts = parse_host_names(config.text("telemetry.hosts")); !hosts) {
    return error(hosts.error().with_context(
        fmt::format("telemetry.hosts ({})", config.source("telemetry.hosts").location)));
  }
  if (!config.text("snapshot.directory").starts_with('/')) {
    return error(StatusCode::kInvalidArgument,
                 fmt::format("snapshot.directory '{}' ({}) must be an absolute path",
                             config.text("snapshot.directory"),
                             config.source("snapshot.directory").location));
  }
  return config;
}

}  // namespace leat
