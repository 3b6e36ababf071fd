// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <functional>

#include "apps/cli/cache/job_command.h"
#include "apps/cli/client/daemon_client.h"
#include "apps/cli/command/command_table.h"
#include "apps/cli/help/command_description.h"
#include "base/pluralize.h"
#include "base/text_table.h"
#include "config/paths.h"
#include "frontends/admin/codec_cluster.h"

namespace leat {
namespace {

std::string describe_cluster_job(const ClusterJobView& job) {
  std::string text = fmt::format("requested by {}", printable(job.principal));
  if (job.worker.empty()) {
    text += "; waits for the leader";
  } else {
    text +=
        fmt::format("; {} by worker {}", job.job.ended() ? "done" : "led", job.worker.substr(0, 8));
  }
  if (job.starts > 1)
    text += fmt::format("; started {} times, since its worker was lost", job.starts);
  std::vector<std::string> again;
  if (job.schedule.every_seconds > 0) {
    again.push_back("every " + format_duration(std::chrono::seconds(job.schedule.every_seconds)));
  }
  if (job.schedule.on_change) again.emplace_back("on change");
  if (job.schedule.on_mount) again.emplace_back("on mount");
  if (!again.empty()) {
    text +=
        fmt::format("; repeats {}; {} so far", fmt::join(again, ", "), pluralize(job.runs, "run"));
  }
  if (job.cancelling) text += "; cancelling";
  return text;
}

class JobsCommand : public Command {
 public:
  explicit JobsCommand(JobEndpoints endpoints) : endpoints_(std::move(endpoints)) {}

  void declare(CLI::App& app) override {
    app.require_subcommand(0, 1);
    app.fallthrough();
    auto add = [&](const char* name, const char* help, CommandResult<> (JobsCommand::*action)()) {
      CLI::App* sub = app.add_subcommand(name, help);
      sub->callback([this, action] { action_ = [this, action] { return (this->*action)(); }; });
      return sub;
    };
    add("ls", "List running and ended jobs (default)", &JobsCommand::list)->alias("list");
    CLI::App* show = add("show", "Show a job with its errors", &JobsCommand::show);
    CLI::App* wait = add("wait", "Wait for a job to end, with progress", &JobsCommand::wait);
    CLI::App* cancel = add("cancel", "Cancel a job; completed work is kept", &JobsCommand::cancel);
    for (CLI::App* sub : {show, wait, cancel}) {
      sub->add_option("JOB", id_, "Job number")
          ->type_name(endpoints_.cluster ? value_name::kClusterJob : value_name::kJob)
          ->required();
    }
  }

  CommandResult<> run() override { return action_(); }

 private:
  std::string one() const { return fmt::format("{}/{}", endpoints_.route, id_); }

  CommandResult<> list() {
    LEAT_TRY(Json answer, DaemonClient(runtime_directory()).get(endpoints_.route));
    if (json) {
      print_json(answer);
      return {};
    }
    TextTable table("rllrrl");
    for (const Json& item : answer["jobs"]) {
      LEAT_TRY(JobView job, job_of(endpoints_, item));
      table.add({std::to_string(job.id), job.title(), job.state,
                 fmt::format("{}/{}", job.files_done, pluralize(job.files_total, "file")),
                 format_bytes(job.bytes_done), job.path});
    }
    if (std::string text = table.to_string(); !text.empty()) print(text);
    return {};
  }

  CommandResult<> show() {
    LEAT_TRY(Json answer, DaemonClient(runtime_directory()).get(one()));
    if (json) {
      print_json(answer);
      return {};
    }
    LEAT_TRY(JobView job, job_of(endpoints_, answer));
    print(fmt::format("job {}: {} of {}, {}", job.id, job.title(), printable(job.path), job.state));
    print(describe_job(job));
    if (endpoints_.cluster) {
      LEAT_TRY(ClusterJobView of_cluster, from_json<ClusterJobView>(answer));
      print(describe_cluster_job(of_cluster));
    }
    for (const std::string& error : job.errors) print("  " + printable(error));
    if (job.errors_total > job.errors.size()) {
      print(fmt::format("  … and {} more", job.errors_total - job.errors.size()));
    }
    return {};
  }

  CommandResult<> wait() {
    DaemonClient client(runtime_directory());
    LEAT_TRY(Json answer, client.get(one()));
    LEAT_TRY(JobView job, job_of(endpoints_, answer));
    LEAT_TRY(JobView ended, wait_for_job(client, endpoints_, std::move(job)));
    return report_job(ended, json);
  }

  CommandResult<> cancel() {
    DaemonClient client(runtime_directory());
    LEAT_TRY(Json answer, client.remove(one()));
    LEAT_TRY(JobView job, job_of(endpoints_, answer));
    if (json) {
      print_json(answer);
    } else if (job.ended()) {
      print(fmt::format("job {} had ended already: {}", id_, job.state));
    } else {
      print(fmt::format("cancelled job {}", id_));
    }
    return {};
  }

  const JobEndpoints endpoints_;
  std::function<CommandResult<>()> action_ = [this] { return list(); };
  uint64_t id_ = 0;
};

}  // namespace

std::unique_ptr<Command> make_jobs_command() {
  return make_jobs_command(JobEndpoints());
}

std::unique_ptr<Command> make_jobs_command(JobEndpoints endpoints) {
  return std::make_unique<JobsCommand>(std::move(endpoints));
}

}  // namespace leat
