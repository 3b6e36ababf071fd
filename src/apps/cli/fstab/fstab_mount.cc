// SPDX-License-Identifier: Apache-2.0
#include "apps/cli/fstab/fstab_mount.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/mount.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <string_view>

#include "apps/cli/cli.h"
#include "apps/cli/client/daemon_client.h"
#include "apps/cli/command/command.h"
#include "apps/cli/fstab/environment_file.h"
#include "config/paths.h"
#include "model/store_url.h"
#include "runtime/disk.h"
#include "source/stores/schemes.h"

namespace leat {
namespace {

constexpr int kMountUsage = 1;
constexpr int kMountFailed = 32;

// Options of mount(8), systemd and libmount. Other programs act on them, or they have no effect on
// a read-only mount without devices and setuid programs.
constexpr std::array<std::string_view, 34> kIgnoredOptions = {
    "defaults",   "auto",        "noauto",        "nofail",   "_netdev",    "user",
    "nouser",     "users",       "owner",         "group",    "rw",         "exec",
    "suid",       "nosuid",      "dev",           "nodev",    "sync",       "async",
    "dirsync",    "atime",       "noatime",       "diratime", "nodiratime", "relatime",
    "norelatime", "strictatime", "nostrictatime", "lazytime", "nolazytime", "mand",
    "nomand",     "iversion",    "noiversion",    "silent"};
constexpr std::array<std::string_view, 5> kIgnoredPrefixes = {"x-", "X-",
                                                              "comment=", "user=", "uhelper="};
constexpr std::array<std::string_view, 5> kSwitches = {"allow-other", "no-passthrough",
                                                       "no-inspection", "no-probe", "writable"};
constexpr std::array<std::string_view, 11> kFlags = {
    "path-option", "snapshot",  "uid",        "gid",    "umask", "freshness",
    "profile",     "cache-dir", "cache-size", "memory", "config"};

template <size_t N>
bool holds(const std::array<std::string_view, N>& all, std::string_view one) {
  return std::ranges::find(all, one) != all.end();
}

bool is_ignored(std::string_view option) {
  return holds(kIgnoredOptions, option) || std::ranges::any_of(kIgnoredPrefixes, [&](auto prefix) {
           return option.starts_with(prefix);
         });
}

std::string with_dashes(std::string_view name) {
  std::string dashed(name);
  std::ranges::replace(dashed, '_', '-');
  return dashed;
}

// "a,b=\"c,d\"" becomes a and b=c,d.
std::vector<std::string> split_options(std::string_view text) {
  std::vector<std::string> options(1);
  bool quoted = false;
  for (char c : text) {
    if (c == '"') {
      quoted = !quoted;
    } else if (c == ',' && !quoted) {
      options.emplace_back();
    } else {
      options.back() += c;
    }
  }
  std::erase(options, "");
  return options;
}

class Parser {
 public:
  Result<FstabMount> parse(std::span<const char* const> words);

 private:
  Result<> parse_letters(std::string_view letters);
  Result<> parse_option(const std::string& option);
  Result<> parse_named(std::string_view name, const std::string& value);
  const char* next_word();

  std::span<const char* const> left_;
  FstabMount mount_{};
  std::vector<std::string> positionals_, option_words_, flags_;
  bool sloppy_ = false;
};

const char* Parser::next_word() {
  if (left_.empty()) return nullptr;
  const char* word = left_.front();
  left_ = left_.subspan(1);
  return word;
}

Result<> Parser::parse_letters(std::string_view letters) {
  while (!letters.empty()) {
    const char letter = letters[0];
    letters.remove_prefix(1);
    if (letter == 's') sloppy_ = true;
    if (letter == 'f') mount_.fake = true;
    if (letter == 'v') mount_.verbose = true;
    if (std::string_view("sfvnrw").contains(letter)) {
      if (letter == 'r') option_words_.emplace_back("ro");
      continue;
    }
    if (!std::string_view("otN").contains(letter)) {
      return error(StatusCode::kInvalidArgument, fmt::format("there is no flag -{}", letter));
    }
    std::string value(letters);
    if (value.empty()) {
      const char* word = next_word();
      if (word == nullptr) {
        return error(StatusCode::kInvalidArgument, fmt::format("-{} needs a value", letter));
      }
      value = word;
    }
    if (letter == 'o') std::ranges::move(split_options(value), std::back_inserter(option_words_));
    return {};
  }
  return {};
}

Result<> Parser::parse_option(const std::string& option) {
  if (option == "remount" || option == "bind" || option == "rbind" || option == "move") {
    return error(StatusCode::kUnsupported,
                 fmt::format("'{}' is not for a folder of Leat; 'leat mount set {} NAME=VALUE' "
                             "changes its options, 'leat mount move' its place",
                             option, mount_.directory));
  }
  if (is_ignored(option)) return {};
  if (option == "ro" || option == "read_only" || option == "read-only") {
    flags_.emplace_back("--read-only");
    return {};
  }
  if (option == "noexec") {
    mount_.no_exec = true;
    return {};
  }
  if (const std::string flag = with_dashes(option); holds(kSwitches, flag)) {
    flags_.push_back("--" + flag);
    return {};
  }
  const size_t equals = option.find('=');
  if (equals != std::string::npos && equals > 0) {
    return parse_named(std::string_view(option).substr(0, equals), option.substr(equals + 1));
  }
  if (sloppy_) return {};
  return error(StatusCode::kInvalidArgument,
               fmt::format("'{}' is no option of mount(8) or 'leat mount'; those of a store are of "
                           "the form NAME=VALUE",
                           option));
}

Result<> Parser::parse_named(std::string_view name, const std::string& value) {
  const std::string flag = with_dashes(name);
  if (flag == "env-file") {
    mount_.environment_file = value;
  } else if (holds(kFlags, flag)) {
    // One word, so that a value may begin with a dash.
    flags_.push_back(fmt::format("--{}={}", flag, value));
  } else {
    flags_.push_back(fmt::format("--option={}={}", name, value));
  }
  return {};
}

Result<FstabMount> Parser::parse(std::span<const char* const> words) {
  left_ = words;
  while (const char* word = next_word()) {
    const std::string_view text = word;
    if (text.starts_with('-') && text.size() > 1) {
      LEAT_CHECK_OK(parse_letters(text.substr(1)));
    } else {
      positionals_.emplace_back(text);
    }
  }
  if (positionals_.size() != 2) {
    return error(
        StatusCode::kInvalidArgument,
        "usage: mount.leat SOURCE DIR [-sfnv] [-o OPTIONS]; mount(8) runs it for a line of "
        "fstab of type leat");
  }
  mount_.directory = positionals_[1];
  for (const std::string& option : option_words_) LEAT_CHECK_OK(parse_option(option));
  mount_.words = {"leat", "mount", positionals_[0], positionals_[1]};
  std::ranges::move(flags_, std::back_inserter(mount_.words));
  return std::move(mount_);
}

int fail(const Status& why, int code) {
  std::fprintf(stderr, "mount.leat: %s\n", why.to_string().c_str());
  return code;
}

// Applies the file to this process. A running daemon keeps its initial environment, so the file
// must agree with that.
Result<> apply_environment(const std::string& path) {
  LEAT_TRY(const Environment environment, read_environment_file(path));
  const std::string runtime = runtime_directory();
  if (DaemonClient client(runtime); client.running()) {
    CommandResult<DaemonStatus> status = client.get_as<DaemonStatus>("/v1/status");
    if (!status) return error(status.error().status);
    LEAT_TRY(const std::string names, differing_names(environment, status->pid));
    if (!names.empty()) {
      return error(StatusCode::kBusy,
                   fmt::format("the daemon that runs at {} (pid {}) was started without what {} "
                               "says of {}; give this mount credentials=FILE, let the daemon's "
                               "service read {}, or end it first",
                               runtime, status->pid, path, names, path));
    }
    return {};
  }
  for (const auto& [name, value] : environment) {
    ::setenv(name.c_str(), value.c_str(), 1);  // NOLINT(concurrency-mt-unsafe): one thread
  }
  return {};
}

int run_words(const std::vector<std::string>& words) {
  std::vector<const char*> argv;
  for (const std::string& word : words) argv.push_back(word.c_str());
  return run_cli(static_cast<int>(argv.size()), argv.data());
}

// `mount -a` compares the sources in fstab with the mounted ones as text. For a local directory, or
// options in the query, the kernel shows another text.
bool is_mounted_already(const FstabMount& mount) {
  const std::string& source = mount.words[2];
  Result<StoreUrl> url = StoreUrl::parse(is_store_url(source) ? source : absolute_path(source));
  DaemonClient client(runtime_directory());
  if (!url || !client.running()) return false;
  CommandResult<DaemonStatus> status = client.get_as<DaemonStatus>("/v1/status");
  const std::string directory = absolute_path(mount.directory);
  return status && std::ranges::any_of(status->mounts, [&](const MountView& one) {
           return one.path == directory && one.source == url->to_string();
         });
}

// Sets noexec for this mount point only, as mount(8) does with options that a file system does not
// know.
int set_noexec(const std::string& directory) {
  mount_attr wanted{};
  wanted.attr_set = MOUNT_ATTR_NOEXEC;
  if (mount_setattr(AT_FDCWD, directory.c_str(), AT_SYMLINK_NOFOLLOW, &wanted, sizeof wanted) ==
      0) {
    return 0;
  }
  const Status why = status_from_errno(
      errno, fmt::format("cannot set noexec for {}, which is not mounted therefore", directory));
  run_words({"leat", "umount", directory});
  return fail(why, kMountFailed);
}

}  // namespace

Result<FstabMount> parse_fstab_mount(std::span<const char* const> words) {
  return Parser().parse(words);
}

bool is_fstab_mount(const char* program) {
  const std::string_view path = program == nullptr ? "" : program;
  const std::string_view name = path.substr(path.rfind('/') + 1);
  return name == "mount.leat" || name == "mount.fuse.leat";
}

int run_fstab_mount(int argc, const char* const* argv) {
  const size_t words = argc > 1 ? static_cast<size_t>(argc - 1) : 0;
  Result<FstabMount> mount = parse_fstab_mount({argv + 1, words});
  if (!mount) {
    const bool unsupported = mount.error().code() == StatusCode::kUnsupported;
    return fail(mount.error(), unsupported ? kMountFailed : kMountUsage);
  }
  if (mount->no_exec && geteuid() != 0) {
    return fail(Status(StatusCode::kPermissionDenied,
                       "only root can set noexec; fstab's 'user' implies it, 'user,exec' not"),
                kMountUsage);
  }
  if (!mount->environment_file.empty()) {
    if (auto entered = apply_environment(mount->environment_file); !entered) {
      const bool busy = entered.error().code() == StatusCode::kBusy;
      return fail(entered.error(), busy ? kMountFailed : kMountUsage);
    }
  }
  if (mount->verbose) note(fmt::format("{}", fmt::join(mount->words, " ")));
  if (mount->fake || is_mounted_already(*mount)) return 0;
  // mount(8) prints nothing on success.
  if (const File null(::open("/dev/null", O_WRONLY | O_CLOEXEC)); null && !mount->verbose) {
    ::dup2(null.fd(), STDOUT_FILENO);
  }
  const int code = run_words(mount->words);
  if (code == static_cast<int>(ExitCode::kUsage)) return kMountUsage;
  if (code != 0) return kMountFailed;
  return mount->no_exec ? set_noexec(mount->directory) : 0;
}

}  // namespace leat
