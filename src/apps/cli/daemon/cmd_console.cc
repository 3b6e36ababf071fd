// SPDX-License-Identifier: Apache-2.0
// The address contains the token. So it goes to standard output, which belongs to the caller. It
// never goes into arguments of a process, which every user of the host can read. A browser receives
// the name of a file.
#include <fcntl.h>
#include <fmt/format.h>
#include <spawn.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <thread>

#include "apps/cli/client/daemon_client.h"
#include "apps/cli/command/command_table.h"
#include "config/paths.h"
#include "frontends/console/console_token.h"
#include "runtime/disk.h"

namespace leat {
namespace {

constexpr auto kTimeout = std::chrono::seconds(3);
constexpr const char* kForward =
    R"(<!doctype html><meta charset="utf-8"><title>Leat</title>)"
    R"(<meta http-equiv="refresh" content="0; url={0}"><a href="{0}">Leat's console</a>)";

class ConsoleCommand : public Command {
 public:
  void declare(CLI::App& app) override {
    app.add_flag("--open", open_, "Open it in a browser ($BROWSER, else xdg-open)");
  }

  CommandResult<> run() override {
    DaemonClient client(runtime_directory());
    LEAT_TRY(DaemonStatus status, client.get_as<DaemonStatus>("/v1/status"));
    LEAT_TRY(std::string address, address_of(client.runtime(), status));
    const Json document = {{"address", address}};
    if (!json) print(address);
    if (open_) {
      if (CommandResult<> shown = show(client.runtime(), address); !shown) {
        shown.error().document = document;
        return shown;
      }
    }
    if (json) print_json(document);
    return {};
  }

 private:
  static CommandResult<std::string> address_of(const std::string& runtime,
                                               const DaemonStatus& status) {
    if (status.metrics_address.empty()) {
      return failure(StatusCode::kUnavailable,
                     fmt::format("the daemon listens nowhere, so it has no console ({}); "
                                 "telemetry.listen gives the next daemon an address",
                                 status.metrics_note));
    }
    Result<std::string> token = read_console_token(runtime);
    if (token) return fmt::format("http://{}/#token={}", status.metrics_address, *token);
    if (token.error().code() == StatusCode::kNotFound) {
      return failure(StatusCode::kUnsupported,
                     fmt::format("the daemon (leat {}) has no console: {} is missing; 'leat "
                                 "upgrade' lets this version take over",
                                 status.version, console_token_file(runtime)));
    }
    return std::unexpected(
        Failure(token.error().with_context("cannot use the console's token; remove the file, and "
                                           "'leat upgrade' makes another one")));
  }

  static CommandResult<> show(const std::string& runtime, const std::string& address) {
    const std::string page = runtime + "/console.html";
    unlink(page.c_str());
    File file(open(page.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600));
    const std::string text = fmt::format(fmt::runtime(kForward), address);
    if (!file || write(file.fd(), text.data(), text.size()) != static_cast<ssize_t>(text.size())) {
      return std::unexpected(Failure(status_from_errno(errno, "cannot write " + page)));
    }
    std::string browser = "xdg-open";
    if (const char* wanted = std::getenv("BROWSER");  // NOLINT(concurrency-mt-unsafe)
        wanted != nullptr && *wanted != '\0') {
      browser = std::string(wanted).substr(0, std::string_view(wanted).find(':'));
    }
    return start(browser, "file://" + page);
  }

  // xdg-open ends at once. A browser may run as long as its window, so the command does not wait
  // for it.
  static CommandResult<> start(std::string browser, std::string url) {
    char* words[] = {browser.data(), url.data(), nullptr};
    pid_t pid = 0;
    std::string why;
    if (int failed = posix_spawnp(&pid, browser.c_str(), nullptr, nullptr, words, environ);
        failed != 0) {
      why = status_from_errno(failed, "it cannot be started").message();
    } else if (int code = code_within(kTimeout, pid); code != 0) {
      why = fmt::format("it ended with {}", code);
    }
    if (why.empty()) return {};
    return failure(StatusCode::kUnavailable,
                   fmt::format("cannot open a browser with {}: {}; BROWSER names another one, or "
                               "open the address by hand",
                               browser, why));
  }

  // Returns the exit code of the process; 0 also if it still runs.
  static int code_within(std::chrono::milliseconds timeout, pid_t pid) {
    const auto start = std::chrono::steady_clock::now();
    int ended = 0;
    while (waitpid(pid, &ended, WNOHANG) == 0) {
      if (std::chrono::steady_clock::now() - start > timeout) return 0;
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
    return WIFEXITED(ended) ? WEXITSTATUS(ended) : 128 + WTERMSIG(ended);
  }

  bool open_ = false;
};

}  // namespace

std::unique_ptr<Command> make_console_command() {
  return std::make_unique<ConsoleCommand>();
}

}  // namespace leat
