// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <functional>

#include "apps/cached/job_command.h"
#include "apps/client/daemon_client.h"
#include "apps/command_table.h"
#include "apps/paths.h"
#include "apps/reference/command_description.h"
#include "apps/text_table.h"
#include "base/counted.h"
#include "doors/admin/codec_cluster.h"

namespace leat {
namespace {

std::string describe_place(const ClusterJobView& job) {
  std::string text = fmt::format("asked for by {}", printable(job.principal));
  if (job.worker.empty()) {
    text += "; waits for the leader";
  } else {
    text +=
        fmt::format("; {} by worker {}", job.job.ended() ? "done" : "led", job.worker.substr(0, 8));
  }
  if (job.begun > 1) text += fmt::format("; begun {} times, since who led it was lost", job.begun);
  std::vector<std::string> again;
  if (job.repeat.every_seconds > 0) {
    again.push_back("every " + format_duration(std::chrono::seconds(job.repeat.every_seconds)));
  }
  if (job.repeat.on_change) again.emplace_back("on change");
  if (job.repeat.on_mount) again.emplace_back("on mount");
  if (!again.empty()) {
    text += fmt::format("; begins again {}; {} so far", fmt::join(again, ", "),
                        counted(job.runs, "run"));
  }
  if (job.ending) text += "; it was asked to end";
  return text;
}

class JobsCommand : public Command {
 public:
  explicit JobsCommand(JobBoard board) : board_(std::move(board)) {}

  void declare(CLI::App& app) override {
    app.require_subcommand(0, 1);
    app.fallthrough();
    auto add = [&](const char* name, const char* help, Attempt<> (JobsCommand::*action)()) {
      CLI::App* sub = app.add_subcommand(name, help);
      sub->callback([this, action] { action_ = [this, action] { return (this->*action)(); }; });
      return sub;
    };
    add("ls", "Those that run and those that ended (also without a word)", &JobsCommand::list)
        ->alias("list");
    CLI::App* show = add("show", "One of them, with its errors", &JobsCommand::show);
    CLI::App* wait = add("wait", "Until it has ended, with progress", &JobsCommand::wait);
    CLI::App* cancel = add("cancel", "Ask one to end; what it did stays", &JobsCommand::cancel);
    for (CLI::App* sub : {show, wait, cancel}) {
      sub->add_option("JOB", id_, "Its number")
          ->type_name(board_.cluster ? value_name::kClusterJob : value_name::kJob)
          ->required();
    }
  }

  Attempt<> run() override { return action_(); }

 private:
  std::string one() const { return fmt::format("{}/{}", board_.route, id_); }

  Attempt<> list() {
    LEAT_TRY(Json answer, DaemonClient(runtime_directory()).get(board_.route));
    if (json) {
      print_json(answer);
      return {};
    }
    TextTable table("rllrrl");
    for (const Json& item : answer["jobs"]) {
      LEAT_TRY(JobView job, job_of(board_, item));
      table.add({std::to_string(job.id), job.kind, job.state,
                 fmt::format("{}/{}", job.files_done, counted(job.files_total, "file")),
                 format_bytes(job.bytes_done), job.path});
    }
    if (std::string text = table.to_string(); !text.empty()) print(text);
    return {};
  }

  Attempt<> show() {
    LEAT_TRY(Json answer, DaemonClient(runtime_directory()).get(one()));
    if (json) {
      print_json(answer);
      return {};
    }
    LEAT_TRY(JobView job, job_of(board_, answer));
    print(fmt::format("job {}: {} of {}, {}", job.id, job.kind, printable(job.path), job.state));
    print(describe_job(job));
    if (board_.cluster) {
      LEAT_TRY(ClusterJobView of_cluster, from_json<ClusterJobView>(answer));
      print(describe_place(of_cluster));
    }
    for (const std::string& error : job.errors) print("  " + printable(error));
    if (job.files_failed > job.errors.size()) {
      print(fmt::format("  … and {} more", job.files_failed - job.errors.size()));
    }
    return {};
  }

  Attempt<> wait() {
    DaemonClient client(runtime_directory());
    LEAT_TRY(Json answer, client.get(one()));
    LEAT_TRY(JobView job, job_of(board_, answer));
    LEAT_TRY(JobView ended, wait_for_job(client, board_, std::move(job)));
    return report_job(ended, json);
  }

  Attempt<> cancel() {
    DaemonClient client(runtime_directory());
    LEAT_TRY(Json answer, client.remove(one()));
    LEAT_TRY(JobView job, job_of(board_, answer));
    if (json) {
      print_json(answer);
    } else if (job.ended()) {
      print(fmt::format("job {} had ended already: {}", id_, job.state));
    } else {
      print(fmt::format("cancelled job {}", id_));
    }
    return {};
  }

  const JobBoard board_;
  std::function<Attempt<>()> action_ = [this] { return list(); };
  uint64_t id_ = 0;
};

}  // namespace

std::unique_ptr<Command> make_jobs_command() {
  return make_jobs_command(JobBoard());
}

std::unique_ptr<Command> make_jobs_command(JobBoard board) {
  return std::make_unique<JobsCommand>(std::move(board));
}

}  // namespace leat
