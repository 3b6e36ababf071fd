// SPDX-License-Identifier: Apache-2.0
// WriteJournal: the changes of a mount that its store does not have yet, durable on a disk of this
// host. A SQLite database holds their order, their attributes and the content of small files; the
// content of others is in files beside it. Thread-safe; all functions block.
#pragma once

#include <atomic>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "base/bytes.h"
#include "base/status.h"
#include "model/file_info.h"
#include "model/posix_attributes.h"
#include "source/source.h"

struct sqlite3;

namespace leat {

class SqliteStatement;

enum class ChangeKind : uint8_t { kSave = 1, kMakeDirectory = 2, kRemove = 3, kRename = 4 };

struct PendingChange {
  uint64_t number = 0;  // increases in the order of publication
  ChangeKind kind = ChangeKind::kSave;

  std::string path{};      // below the root: "/a/b"
  std::string from{};      // the path before a rename
  std::string mount{};     // path and source of its mount
  bool directory = false;  // of a removal, or a rename
  bool local = false;      // never sent to the store
  // It is sent when all earlier changes are in the store, and before all later ones. Others next to
  // each other may be sent at the same time.
  bool ordered = true;
  uint64_t content = 0;   // names the content; 0: there is none
  bool is_small = false;  // the database holds the content, not a file
  uint64_t size = 0;      // of the content, bytes
  PosixAttributes attributes{};
  WriteCondition condition{};  // what the name has in the store before
  WallTime since{};            // when it was made
};

class WriteJournal {
 public:
  // Content up to this size is in the database.
  static constexpr uint64_t kSmallBytes = 64 * 1024;

  struct Insertion {
    PendingChange change;
    std::string content{};  // of a small file
  };
  // Replaces all of a change but its content.
  struct Update {
    uint64_t number;
    PendingChange change;  // may have another number
  };
  // The version that the name of a pending save has in the store from now on. Not known: it is not
  // compared.
  struct NewVersion {
    uint64_t number;
    Version version;
  };
  // Changes of the journal that become durable together.
  struct Edits {
    std::vector<Insertion> insert{};
    std::vector<Update> update{};
    std::vector<uint64_t> erase{};
    std::vector<NewVersion> versions{};
  };

  // Returns whether `directory` has a journal.
  static bool exists(const std::string& directory);
  // Opens the journal in `directory`, or creates both. `owner` says which changes it holds;
  // kInvalidArgument if changes of another owner are pending in it. kBusy while another process has
  // it open.
  static Result<std::unique_ptr<WriteJournal>> open(std::string directory, std::string_view owner);
  ~WriteJournal() { close(); }
  // Lets another process open it. All other calls fail from now on.
  void close();

  // Returns the pending changes in their order, and removes content that none of them has.
  Result<std::vector<PendingChange>> load();
  // Returns when the edits are durable. Calls at the same time share a synchronisation.
  Result<> commit(Edits edits);

  // A number greater than all before; also names content.
  uint64_t next_number() { return next_++; }
  // The path of a file of content.
  std::string content_path(uint64_t content) const;
  Result<std::string> small_content(uint64_t content) const;
  // Removes the file of a content that no change has.
  void remove_content(const PendingChange& change) const;

  const std::string& directory() const { return directory_; }

 private:
  struct Batch;

  explicit WriteJournal(std::string directory) : directory_(std::move(directory)) {}

  Result<> prepare(std::string_view owner);
  Result<> claim(std::string_view owner) const;
  Result<> execute(const char* sql) const;
  Result<> apply(const std::vector<Batch*>& batches) const;
  Result<> apply_one(const Edits& edits) const;
  static void bind_condition(SqliteStatement& statement, const WriteCondition& condition);
  Result<> sync_directory() const;
  Error failed(const char* what) const;

  const std::string directory_;
  sqlite3* database_ = nullptr;
  mutable std::mutex database_mutex_;  // leaf
  std::atomic<uint64_t> next_ = 1;

  std::mutex mutex_;  // leaf: the rest
  std::condition_variable committed_;
  std::vector<Batch*> waiting_;
  bool committing_ = false;
};

}  // namespace leat
