// SPDX-License-Identifier: Apache-2.0
// JobCommand: the common part of load, free, refresh and copy: starts a job, shows its progress and
// reports its end. The job runs on this host, or in the cluster of this worker.
#pragma once

#include <string>
#include <string_view>

#include "apps/cli/command/command.h"
#include "apps/cli/data/selection_flags.h"

namespace leat {

class DaemonClient;

// The jobs of a host or of a cluster.
struct JobEndpoints {
  std::string route = "/v1/jobs";          // on the control socket
  std::string list_command = "leat jobs";  // the command that lists them
  bool cluster = false;  // paths are in the cluster's namespace, not in this host's files
};
JobEndpoints cluster_job_endpoints();

class JobCommand : public Command {
 public:
  explicit JobCommand(std::string kind, JobEndpoints endpoints = {})
      : endpoints_(std::move(endpoints)) {
    request_.kind = std::move(kind);
  }
  // For another command that has parsed the words.
  explicit JobCommand(JobRequest request) : request_(std::move(request)) {}

  void declare(CLI::App& app) override;
  CommandResult<> run() override;

  bool quiet = false;  // prints nothing if all succeeded

 private:
  const JobEndpoints endpoints_;
  void declare_copy(CLI::App& app);
  CommandResult<Json> request_json() const;
  bool is_recurring() const { return !every_.empty() || on_change_ || on_mount_; }

  JobRequest request_;
  SelectionFlags selection_;
  std::string bandwidth_;
  bool background_ = false;
  bool strict_ = false;                  // for a load
  bool force_ = false, update_ = false;  // for a copy
  std::string every_;                    // for jobs of a cluster, as are the next two
  bool on_change_ = false, on_mount_ = false;
};

// Parses a reply of the job routes.
CommandResult<JobView> job_of(const JobEndpoints& endpoints, const Json& answer);
// Shows progress until the job has ended. Fails if the command is interrupted; the job continues.
CommandResult<JobView> wait_for_job(DaemonClient& client, const JobEndpoints& endpoints,
                                    JobView job);
std::unique_ptr<Command> make_jobs_command(JobEndpoints endpoints);
// Fails if a load skipped keys and succeeded otherwise.
CommandResult<> check_skipped(const JobView& job);
// Prints the result of an ended job, as text or JSON; fails unless it did everything.
CommandResult<> report_job(const JobView& job, bool json, bool quiet = false);

// "loaded 10 files, 1.0 GiB (0 B fetched) in 2.0s, 512.0 MiB/s"
std::string describe_job(const JobView& job);
// "+ path" for "added", "- path" for "removed", "~ path" for "changed".
std::string describe_change(std::string_view kind, std::string_view path);

}  // namespace leat
