// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <deque>
#include <thread>

#include "apps/cli/client/daemon_client.h"
#include "apps/cli/command/command_table.h"
#include "apps/cli/daemon/log_lines.h"
#include "apps/cli/help/command_description.h"
#include "base/text_table.h"
#include "config/paths.h"

namespace leat {
namespace {

constexpr auto kPollInterval = std::chrono::milliseconds(200);

class LogsCommand : public Command {
 public:
  void declare(CLI::App& app) override {
    app.add_option("-n,--lines", lines_, "Number of lines (50); 0: all")
        ->type_name("NUMBER")
        ->check(CLI::Range(0u, 1'000'000u).description(""));
    one_of(app.add_option("--level", level_, "Minimum level (debug)"),
           {"debug", "info", "warning", "error"});
    app.add_flag("-f,--follow", follow_, "Follow the log");
  }

  CommandResult<> run() override {
    LEAT_TRY(std::string path, log_file());
    std::deque<LogLine> last;
    LogReader reader(path);
    LEAT_CHECK_OK(reader.read([&](LogLine line) {
      if (!is_wanted(line, level_)) return;
      last.push_back(std::move(line));
      if (lines_ > 0 && last.size() > lines_) last.pop_front();
    }));
    if (json) {
      Json list = Json::array();
      for (const LogLine& line : last) {
        list.push_back({{"time", line.time}, {"level", line.level}, {"text", line.text}});
      }
      print_json({{"file", path}, {"lines", list}});
      return {};
    }
    for (const LogLine& line : last) show(line);
    while (follow_) {
      std::fflush(stdout);
      if (std::ferror(stdout) != 0) return {};
      std::this_thread::sleep_for(kPollInterval);
      LEAT_CHECK_OK(reader.read([&](const LogLine& line) {
        if (is_wanted(line, level_)) show(line);
      }));
    }
    return {};
  }

 private:
  // Returns the running daemon's log; else that of the last one, which says why it ended.
  static CommandResult<std::string> log_file() {
    const std::string runtime = runtime_directory();
    DaemonClient client(runtime);
    if (client.running()) {
      LEAT_TRY(DaemonStatus status, client.get_as<DaemonStatus>("/v1/status"));
      if (!status.log_file.empty()) return status.log_file;
      return failure(StatusCode::kUnsupported,
                     fmt::format("the daemon (pid {}) logs to its standard error: of a service "
                                 "'journalctl -u leat' shows it",
                                 status.pid));
    }
    return daemon_log(runtime);
  }

  static void show(const LogLine& line) {
    print(line.time.empty()
              ? printable(line.text)
              : fmt::format("{} {:<7} {}", line.time, line.level, printable(line.text)));
  }

  size_t lines_ = 50;
  std::string level_ = "debug";
  bool follow_ = false;
};

}  // namespace

std::unique_ptr<Command> make_logs_command() {
  return std::make_unique<LogsCommand>();
}

}  // namespace leat
