// SPDX-License-Identifier: Apache-2.0
#include "apps/cli/doctor/inspect_daemon.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>

#include <cerrno>

#include "apps/cli/client/daemon_client.h"
#include "config/paths.h"
#include "daemon/findings/status_findings.h"
#include "daemon/hung_daemon.h"
#include "doctor/host_paths.h"
#include "runtime/disk.h"

namespace leat {
namespace {

constexpr auto kDaemonTimeout = std::chrono::seconds(10);

// Tests the lock of the pid file, which a daemon holds for its whole life.
bool is_alive(const std::string& runtime) {
  const File file(::open(pid_file(runtime).c_str(), O_RDONLY | O_CLOEXEC));
  return file && ::flock(file.fd(), LOCK_SH | LOCK_NB) != 0 && errno == EWOULDBLOCK;
}

// Returns the console's findings. An older daemon has no such list; then its status gives them.
Findings findings_of(DaemonClient& daemon, const DaemonStatus& status) {
  CommandResult<Json> response = daemon.get("/v1/findings");
  if (!response) return status_findings(status, {}, WallTime());
  Findings findings;
  for (const Json& json : response->value("findings", Json::array())) {
    if (auto finding = from_json<Finding>(json)) findings.push_back(*std::move(finding));
  }
  return findings;
}

}  // namespace

DaemonFacts inspect_daemon(const std::string& runtime) {
  DaemonFacts facts;
  auto say = [&facts](std::string what) { facts.cleared.push_back(std::move(what)); };
  if (auto cleared = abort_hung_daemon(runtime, say); !cleared) {
    facts.not_cleared = cleared.error().to_string();
    return facts;
  }
  DaemonClient daemon(runtime);
  if (!daemon.running(kDaemonTimeout)) {
    Result<> safe = check_runtime_directory(runtime);
    if (!safe && safe.error().code() != StatusCode::kNotFound) {
      facts.unresponsive = safe.error().message();
    } else if (is_alive(runtime)) {
      facts.unresponsive = fmt::format("the daemon of {} (pid {}) lives and does not answer",
                                       runtime, first_line(pid_file(runtime)));
    }
    return facts;
  }
  if (auto status = daemon.get_as<DaemonStatus>("/v1/status")) {
    facts.status = std::move(*status);
    facts.findings = findings_of(daemon, *facts.status);
  } else if (status.error().code != ExitCode::kNoDaemon) {
    facts.unresponsive = status.error().status.to_string();
  }
  return facts;
}

}  // namespace leat
