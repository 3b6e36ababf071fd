// SPDX-License-Identifier: Apache-2.0
#include "doctor/host_fixes.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <spawn.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <ranges>

#include "doctor/fuse_findings.h"
#include "frontends/fuse/connection/mount_point.h"
#include "runtime/disk.h"

extern char** environ;

namespace leat {
namespace {

constexpr std::string_view kModuleOption = "options fuse enable_uring=Y";
constexpr std::string_view kAllowOther = "user_allow_other";

bool is_there(const std::string& path) {
  return ::access(path.c_str(), F_OK) == 0;
}

Result<> run_modprobe(const std::string& program) {
  std::string name = program, module = "fuse";
  char* argv[] = {name.data(), module.data(), nullptr};
  pid_t child = 0;
  const int failed = ::posix_spawnp(&child, argv[0], nullptr, nullptr, argv, environ);
  if (failed != 0) return error(status_from_errno(failed, "cannot run " + program));
  int status = 0;
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return {};
  return error(StatusCode::kUnsupported, fmt::format("{} fuse failed", program));
}

// Appends `text` (O_APPEND), or replaces the content.
Result<> write_text(const std::string& path, std::string_view text, int flags) {
  const File file(::open(path.c_str(), O_WRONLY | O_CLOEXEC | flags, 0644));
  if (!file) return error(status_from_errno(errno, "cannot open " + path));
  const ssize_t written = ::write(file.fd(), text.data(), text.size());
  if (written == static_cast<ssize_t>(text.size())) return {};
  return error(status_from_errno(written < 0 ? errno : ENOSPC, "cannot write " + path));
}

// Appends a line, even if the file does not end with a newline.
Result<> append_line(const std::string& path, std::string_view line) {
  const std::string before = whole_text(path);
  const bool open_end = !before.empty() && !before.ends_with('\n');
  return write_text(path, fmt::format("{}{}\n", open_end ? "\n" : "", line), O_CREAT | O_APPEND);
}

bool has_line(const std::string& text, std::string_view wanted) {
  for (auto part : std::views::split(text, '\n')) {
    if (std::string_view(part) == wanted) return true;
  }
  return false;
}

HostFix outcome(const Result<>& result, std::string done, std::string action) {
  if (result) return {.done = true, .what = std::move(done)};
  return {.what = result.error().to_string(), .action = std::move(action)};
}

void load_module(const HostPaths& paths, std::vector<HostFix>& fixes) {
  if (is_there(paths.fuse_device)) return;
  Result<> loaded = run_modprobe(paths.modprobe);
  if (loaded && !is_there(paths.fuse_device)) {
    loaded = error(StatusCode::kNotFound,
                   paths.fuse_device + " is missing though the fuse module is loaded");
  }
  fixes.push_back(outcome(loaded, "loaded the fuse module", "sudo modprobe fuse"));
}

void offer_io_uring(const HostPaths& paths, std::vector<HostFix>& fixes) {
  const std::string parameter = paths.fuse_module + "/parameters/enable_uring";
  if (!is_there(parameter)) return;  // this kernel lacks it
  if (first_line(parameter) != "Y") {
    fixes.push_back(outcome(write_text(parameter, "Y\n", O_TRUNC),
                            fmt::format("wrote Y to {}: folders mounted from now on can use FUSE "
                                        "over io_uring (fuse.io_uring = true)",
                                        parameter),
                            fmt::format("echo Y | sudo tee {}", parameter)));
  }
  // A loadable module has an `initstate`. Options of a built-in one are on the kernel's command
  // line.
  if (!is_there(paths.fuse_module + "/initstate")) {
    if (fixes.empty() || !fixes.back().done) return;
    fixes.back().action =
        "fuse is built into this kernel: for the next boot add "
        "fuse.enable_uring=1 to the kernel's command line";
    return;
  }
  if (has_line(whole_text(paths.module_conf), kModuleOption)) return;
  std::error_code ignored;  // a failure shows when the file is opened
  std::filesystem::create_directories(std::filesystem::path(paths.module_conf).parent_path(),
                                      ignored);
  fixes.push_back(
      outcome(append_line(paths.module_conf, kModuleOption),
              fmt::format("wrote '{}' to {}, for the next boot", kModuleOption, paths.module_conf),
              fmt::format("echo {} | sudo tee -a {}", kModuleOption, paths.module_conf)));
}

void allow_other(const HostPaths& paths, std::vector<HostFix>& fixes) {
  if (has_user_allow_other(whole_text(paths.fuse_conf))) return;
  fixes.push_back(
      outcome(append_line(paths.fuse_conf, kAllowOther),
              fmt::format("added {} to {}: users may show the folders that they mount to others",
                          kAllowOther, paths.fuse_conf),
              fmt::format("echo {} | sudo tee -a {}", kAllowOther, paths.fuse_conf)));
}

}  // namespace

Json to_json(const HostFix& fix) {
  return {{"done", fix.done}, {"what", fix.what}, {"action", fix.action}};
}

std::vector<HostFix> fix_host(const HostPaths& paths) {
  std::vector<HostFix> fixes;
  load_module(paths, fixes);
  offer_io_uring(paths, fixes);
  allow_other(paths, fixes);
  return fixes;
}

}  // namespace leat
