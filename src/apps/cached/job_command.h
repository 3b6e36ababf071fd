// SPDX-License-Identifier: Apache-2.0
// JobCommand: what load, free and refresh have together: start a job, show its progress, report its
// end; on this host or in the cluster whose worker it is.
#pragma once

#include <string>
#include <string_view>

#include "apps/command.h"
#include "apps/data/selection_flags.h"

namespace leat {

class DaemonClient;

// Whose jobs.
struct JobBoard {
  std::string route = "/v1/jobs";  // of the control socket
  std::string jobs = "leat jobs";  // the command that shows them
  bool cluster = false;            // paths are those of its namespace, not of this host's files
};
JobBoard cluster_jobs();

class JobCommand : public Command {
 public:
  explicit JobCommand(std::string kind, JobBoard board = {}) : board_(std::move(board)) {
    request_.kind = std::move(kind);
  }
  // For another command, which took the words.
  explicit JobCommand(JobRequest request) : request_(std::move(request)) {}

  void declare(CLI::App& app) override;
  Attempt<> run() override;

  bool quiet = false;  // says nothing when all went well

 private:
  const JobBoard board_;
  void declare_copy(CLI::App& app);
  Attempt<Json> order() const;
  bool stands() const { return !every_.empty() || on_change_ || on_mount_; }

  JobRequest request_;
  SelectionFlags selection_;
  std::string bandwidth_;
  bool background_ = false;
  bool strict_ = false;                  // of a load
  bool force_ = false, update_ = false;  // of a copy
  std::string every_;                    // of a cluster's jobs, as are the next two
  bool on_change_ = false, on_mount_ = false;
};

// What the board's routes answer.
Attempt<JobView> job_of(const JobBoard& board, const Json& answer);
// Shows progress until the job has ended. Fails when the command is interrupted; the job goes on.
Attempt<JobView> wait_for_job(DaemonClient& client, const JobBoard& board, JobView job);
std::unique_ptr<Command> make_jobs_command(JobBoard board);
// Fails where a load that did everything else skipped keys.
Attempt<> check_skipped(const JobView& job);
// What an ended job came to, for people or as JSON; a failure unless it did everything.
Attempt<> report_job(const JobView& job, bool json, bool quiet = false);

// "loaded 10 files, 1.0 GiB (0 B fetched) in 2.0s, 512.0 MiB/s"
std::string describe_job(const JobView& job);
// "+ path" of one that was "added", "- path" "removed", "~ path" "changed".
std::string describe_change(std::string_view kind, std::string_view path);

}  // namespace leat
