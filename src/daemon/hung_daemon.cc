// SPDX-License-Identifier: Apache-2.0
#include "daemon/hung_daemon.h"

#include <fmt/format.h>

#include <chrono>

#include "config/paths.h"
#include "frontends/fuse/connection/dead_connections.h"

namespace leat {
namespace {

using namespace std::chrono_literals;

// A killed process that does not hang ends at once, except for the time to release its memory.
constexpr auto kExitGrace = 500ms;
constexpr auto kSilence = 2s;
constexpr auto kPatience = 20s;

}  // namespace

Result<> abort_hung_daemon(const std::string& runtime,
                           const std::function<void(std::string)>& report, bool supervised) {
  // Do not trust files that other users may have written there.
  if (!check_runtime_directory(runtime)) return {};
  std::optional<DeadConnections> dead =
      DeadConnections::find(connection_record(runtime), supervised);
  if (!dead || dead->wait_until_exited(kExitGrace)) return {};
  const std::string what = fmt::format(
      "the daemon of {} (pid {}) was killed and hangs in the kernel", runtime, dead->pid());
  Result<> aborted = dead->abort();
  if (!aborted) return error(aborted.error().with_context(what));
  if (!dead->wait_until_exited(kSilence)) {
    report(fmt::format("{}; waiting for its end", what));
    if (!dead->wait_until_exited(kPatience)) {
      return error(
          StatusCode::kBusy,
          fmt::format("{0}, though its FUSE connections were aborted; what it waits for is "
                      "in /proc/{1}/task/*/stack. LEAT_RUNTIME_DIR and --cache-dir give "
                      "another daemon a place of its own",
                      what, dead->pid()));
    }
  }
  dead->unmount();
  report(fmt::format("{}; its FUSE connections were aborted, and it has ended", what));
  return {};
}

}  // namespace leat
