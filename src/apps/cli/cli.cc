// SPDX-License-Identifier: Apache-2.0
// CLI11 throws; all its exceptions are caught in this file.
#include "apps/cli/cli.h"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <span>
#include <string_view>

#include "apps/cli/command/command_table.h"
#include "apps/cli/help/command_description.h"
#include "apps/cli/help/usage_error.h"
#include "config/paths.h"
#include "daemon/hung_daemon.h"

namespace leat {
namespace {

constexpr std::string_view kIntroduction =
    "Leat shows object stores as folders and keeps what is read on local disks.\n"
    "\nUsage: leat COMMAND [ARGUMENTS]\n";
// Words after `leat mount` that mean `leat mounts`.
constexpr std::array<std::string_view, 6> kMountWords = {"list",  "set",  "update",
                                                         "unset", "move", "remove"};
constexpr size_t kColumnsMin = 60;
constexpr size_t kColumnsMax = 100;

bool is_mount_word(std::string_view word) {
  return std::ranges::find(kMountWords, word) != kMountWords.end();
}

// Returns the width of the terminal, or of a page if there is none.
size_t columns() {
  winsize size{};
  if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_col == 0) return kColumnsMax;
  return std::clamp<size_t>(size.ws_col, kColumnsMin, kColumnsMax);
}

std::string overview() {
  std::string text(kIntroduction);
  std::vector<std::string_view> groups;
  for (const CommandEntry& entry : command_table()) {
    if (std::ranges::find(groups, entry.group) == groups.end()) groups.emplace_back(entry.group);
  }
  for (std::string_view group : groups) {
    text += fmt::format("\n{}:\n", group);
    for (const CommandEntry& entry : command_table()) {
      if (entry.hidden || entry.group != group) continue;
      text += fmt::format("  {:<15} {}\n", entry.name, entry.summary);
    }
  }
  text +=
      "\n'leat COMMAND --help' shows a command's flags and an example. Each takes --json.\n"
      "Exit codes: 0 ok, 1 failed, 2 wrong usage, 3 not found, 4 no daemon runs,\n"
      "5 doctor found a problem, 130 interrupted.";
  return text;
}

int report(const Failure& failure, bool json) {
  note(failure.status.to_string());
  if (json) {
    Json document = failure.document;
    document["error"] = {{"code", to_string(failure.status.code())},
                         {"message", failure.status.to_string()}};
    print_json(document);
  }
  return static_cast<int>(failure.code);
}

// Reports words that were not understood; only --json can be recognised in them.
int wrong_usage(std::string what, std::span<const char* const> words) {
  bool json = std::ranges::any_of(words, [](std::string_view word) { return word == "--json"; });
  return report(Status(StatusCode::kInvalidArgument, std::move(what)), json);
}

// Flushes standard output: a full disk is detected here at the latest.
int finish(int code) {
  errno = 0;
  if (std::fflush(stdout) == 0 && std::ferror(stdout) == 0) return code;
  note(status_from_errno(errno == 0 ? EIO : errno, "cannot write to standard output").to_string());
  return code == 0 ? static_cast<int>(ExitCode::kFailed) : code;
}

// A daemon that was killed and hangs blocks its folders and its socket. Commands would wait for
// those, so it is cleared first.
CommandResult<> abort_hung_daemon_first(const CommandEntry& entry) {
  if (entry.alone) return {};  // doctor does it itself and reports it
  LEAT_CHECK_OK(
      abort_hung_daemon(runtime_directory(), [](const std::string& what) { note(what); }));
  return {};
}

// Returns the help page of the subcommand in `words`: "leat snapshot build --help".
std::string help_page(const CommandEntry& entry, std::span<const char* const> words) {
  const CommandDescription command = describe(entry);
  const CommandDescription* meant = &command;
  for (const char* word : words) {
    if (const CommandDescription* part = command.part(word)) meant = part;
  }
  return help_text(*meant, meant == &command ? entry.example : "", columns());
}

int run_command(const CommandEntry& entry, int argc, const char* const* argv) {
  std::unique_ptr<Command> command = entry.make();
  CLI::App app(entry.summary, fmt::format("leat {}", entry.name));
  declare_all(*command, app);
  const std::span<const char* const> words(argv + 1, static_cast<size_t>(argc - 1));
  try {
    app.parse(argc, argv);
  } catch (const CLI::CallForHelp&) {
    print(help_page(entry, words));
    return 0;
  } catch (const CLI::ParseError& wrong) {
    return wrong_usage(explain_usage(describe(entry), words, wrong.what()), words);
  }
  CommandResult<> done = abort_hung_daemon_first(entry);
  if (done) done = command->run();
  return done ? 0 : report(done.error(), command->json);
}

int run_words(int argc, const char* const* argv) {
  std::string_view name = argc > 1 ? argv[1] : "--help";
  // "leat help mount" means "leat mount --help".
  std::vector<const char*> turned;
  if (name == "help" && argc > 2) {
    turned = {argv[0], argv[2]};
    turned.insert(turned.end(), argv + 3, argv + argc);
    turned.push_back("--help");
    argv = turned.data();
    argc = static_cast<int>(turned.size());
    name = argv[1];
  }
  if (name == "--help" || name == "-h" || name == "help") {
    print(overview());
    return argc > 1 ? 0 : static_cast<int>(ExitCode::kUsage);
  }
  if (name == "--version" || name == "-V") name = "version";
  // A source with such a name is written with its directory: './list'.
  if (name == "mount" && argc > 2 && is_mount_word(argv[2])) name = "mounts";
  for (const CommandEntry& entry : command_table()) {
    if (entry.name == name) return run_command(entry, argc - 1, argv + 1);
  }
  return wrong_usage(explain_command(name), {argv, static_cast<size_t>(argc)});
}

}  // namespace

int run_cli(int argc, const char* const* argv) {
  return finish(run_words(argc, argv));
}

}  // namespace leat
