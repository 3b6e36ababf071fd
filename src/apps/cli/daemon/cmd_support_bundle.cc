// SPDX-License-Identifier: Apache-2.0
// Collects the data for remote support in one file, without secrets.
#include <fmt/format.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <map>

#include "apps/cli/client/daemon_client.h"
#include "apps/cli/command/command_table.h"
#include "apps/cli/daemon/log_lines.h"
#include "apps/cli/daemon/service_journal.h"
#include "base/program_version.h"
#include "base/read_file.h"
#include "config/paths.h"
#include "doctor/checkup.h"
#include "telemetry/log_file.h"

extern char** environ;

namespace leat {
namespace {

namespace fs = std::filesystem;

constexpr auto kDaemonTimeout = std::chrono::seconds(10);
constexpr uint64_t kLogBytesMax = 5 * 1024 * 1024;
constexpr const char* kReadme =
    "A support bundle of Leat: what 'leat support-bundle' found on a host.\n"
    "\n"
    "It holds names of buckets, folders and files, addresses of stores, and the log. It holds no\n"
    "content of files, no keys and no tokens: of variables only those of Leat have their values,\n"
    "and what looks like a secret anywhere is '***'. Look through it before you pass it on.\n";

std::string whole_file(const std::string& path, uint64_t last_bytes = UINT64_MAX) {
  return read_file(path, last_bytes).value_or("");
}

std::string variables() {
  std::string text;
  for (char** variable = environ; *variable != nullptr; ++variable) {
    const std::string_view whole(*variable);
    const std::string_view name = whole.substr(0, whole.find('='));
    const bool plain = name.starts_with("LEAT_") || name.starts_with("XDG_");
    text += plain ? fmt::format("{}\n", whole) : fmt::format("{} is set\n", name);
  }
  return text;
}

std::string mounts_of_leat() {
  std::string text;
  std::ifstream file("/proc/self/mountinfo");
  for (std::string line; std::getline(file, line);) {
    if (line.contains(" - fuse")) text += line + "\n";
  }
  return text;
}

class SupportBundleCommand : public Command {
 public:
  void declare(CLI::App& app) override {
    app.add_option("FILE", file_, "File to create (leat-support-TIME.tar.gz, here)")
        ->type_name("FILE");
  }

  CommandResult<> run() override {
    const std::string name = fmt::format("leat-support-{}", now());
    const std::string file = absolute_path(file_.empty() ? name + ".tar.gz" : file_);
    if (fs::exists(file)) {
      return failure(StatusCode::kExists, fmt::format("{} exists already", file));
    }
    note("inspecting the host, which may take half a minute");
    gather();
    LEAT_CHECK_OK(pack(name, file));
    if (json) {
      Json names = Json::array();
      for (const auto& [part, text] : parts_) names.push_back(part);
      print_json({{"file", file}, {"parts", names}});
    } else {
      print(
          fmt::format("{}\nlook through it before you pass it on: names of buckets and files are "
                      "in it, keys are not",
                      file));
    }
    return {};
  }

 private:
  void add(const std::string& part, std::string text) {
    parts_[part] = without_secrets(std::move(text));
  }
  void add_json(const std::string& part, const Json& document) {
    add(part, dump_json(document, 2) + "\n");
  }

  void gather() {
    parts_["README"] = kReadme;
    add("version", fmt::format("{}\n", program_version()));
    add("host/uname", whole_file("/proc/version"));
    for (const char* file : {"/etc/os-release", "/proc/meminfo", "/proc/self/limits",
                             "/proc/self/cgroup", "/proc/filesystems"}) {
      add(fmt::format("host/{}", fs::path(file).filename().string()), whole_file(file));
    }
    add("host/mounts", mounts_of_leat());
    add("host/variables", variables());
    const std::string config = default_config_file();
    if (!config.empty()) add("leat.toml", whole_file(config));
    gather_findings();
    gather_daemon();
  }

  void gather_findings() {
    HostPaths paths;
    const char* path = std::getenv("PATH");  // NOLINT(concurrency-mt-unsafe): no thread sets it
    paths.search_path = path == nullptr ? "/usr/local/bin:/usr/bin:/bin" : path;
    CheckupOptions options;
    options.run.runtime = runtime_directory();
    options.speed = false;
    const Checkup checkup = check_host(paths, options);
    Json findings = Json::array();
    for (const Finding& finding : checkup.findings) findings.push_back(to_json(finding));
    add_json("doctor.json", {{"findings", findings}, {"kernel", checkup.kernel}});
  }

  void gather_daemon() {
    DaemonClient client(runtime_directory());
    // Test once whether the daemon responds, to avoid a timeout for each request.
    const bool answers = client.running(kDaemonTimeout);
    for (const char* what : {"status", "config", "jobs", "snapshots", "errors", "slow"}) {
      Json document = {{"error", "no daemon answers at " + runtime_directory()}};
      if (answers) {
        CommandResult<Json> answer = client.get(fmt::format("/v1/{}", what));
        document = answer ? *answer : Json{{"error", answer.error().status.to_string()}};
        if (answer && document.contains("log_file")) log_file_ = document.value("log_file", "");
      }
      add_json(fmt::format("daemon/{}.json", what), document);
    }
    add("daemon/log", log());
  }

  // Returns the running daemon's log, else that of the last one. A service logs to the journal.
  std::string log() {
    std::string text = log_file_.empty() ? "" : whole_file(log_file_, kLogBytesMax);
    if (!text.empty() && text.size() < kLogBytesMax) {
      text.insert(0, whole_file(log::rotated_path(log_file_), kLogBytesMax - text.size()));
    }
    return text.empty() ? service_journal(kLogBytesMax) : text;
  }

  // With tar, which is available everywhere.
  CommandResult<> pack(const std::string& name, const std::string& file) {
    std::string work = (fs::temp_directory_path() / "leat-support-XXXXXX").string();
    if (mkdtemp(work.data()) == nullptr) {
      return std::unexpected(Failure(status_from_errno(errno, "cannot make " + work)));
    }
    for (const auto& [part, text] : parts_) {
      const fs::path path = fs::path(work) / name / part;
      std::error_code failed;
      fs::create_directories(path.parent_path(), failed);
      std::ofstream(path, std::ios::binary) << text;
    }
    CommandResult<> packed = run_tar(work, name, file);
    std::error_code ignored;
    fs::remove_all(work, ignored);
    if (!packed) fs::remove(file, ignored);
    return packed;
  }

  static CommandResult<> run_tar(const std::string& work, const std::string& name,
                                 const std::string& file) {
    const char* words[] = {"tar", "-C", work.c_str(), "-czf", file.c_str(), name.c_str(), nullptr};
    pid_t pid = 0;
    int status = 0;
    const int failed =
        posix_spawnp(&pid, "tar", nullptr, nullptr, const_cast<char**>(words), environ);
    if (failed != 0) {
      return std::unexpected(Failure(status_from_errno(failed, "cannot run tar, which packs it")));
    }
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR) {
    }
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return {};
    return failure(StatusCode::kInternal, fmt::format("tar could not write {}", file));
  }

  static std::string now() {
    const std::time_t seconds = std::time(nullptr);
    std::tm parts{};
    gmtime_r(&seconds, &parts);
    char text[32];
    std::strftime(text, sizeof text, "%Y%m%dT%H%M%SZ", &parts);
    return text;
  }

  std::string file_;
  std::string log_file_ = daemon_log(runtime_directory());  // empty: none
  std::map<std::string, std::string> parts_;
};

}  // namespace

std::unique_ptr<Command> make_support_bundle_command() {
  return std::make_unique<SupportBundleCommand>();
}

}  // namespace leat
