// SPDX-License-Identifier: Apache-2.0
// StagingLog: this worker's copy of the staging logs of a cluster's mounts, durable in a SQLite
// database. Thread-safe; all functions block.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "base/status.h"
#include "model/file_ref.h"
#include "wire/staging_messages.h"

struct sqlite3;

namespace leat {

class StagingLog {
 public:
  // The log of a mount, as it was last replicated.
  struct Stored {
    std::string mount{};
    StoreId store{};
    StagedEvents events{};  // whole
  };

  // Opens the database in `directory`, or creates both. kBusy while another process has it open.
  static Result<std::unique_ptr<StagingLog>> open(std::string directory);
  ~StagingLog();

  Result<std::vector<Stored>> load();
  // Returns when the events are durable. Whole ones replace what is there.
  Result<> append(const std::string& mount, const StoreId& store, const StagedEvents& events);
  // Returns the number of stored events of that mount; they are fewer after whole ones.
  uint64_t size(const std::string& mount) const;
  Result<> remove(const std::string& mount);

 private:
  explicit StagingLog(std::string directory) : directory_(std::move(directory)) {}

  Result<> prepare();
  Result<> write(const std::string& mount, const StoreId& store, const StagedEvents& events);
  Result<> execute(const char* sql) const;
  Error failed(const char* what) const;

  const std::string directory_;
  mutable std::mutex mutex_;  // leaf
  sqlite3* database_ = nullptr;
  std::map<std::string, uint64_t> sizes_;
};

}  // namespace leat
