// SPDX-License-Identifier: Apache-2.0
#include "vfs/writing/write_journal.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sqlite3.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <set>
#include <utility>

#include "runtime/disk.h"
#include "runtime/sqlite_statement.h"
#include "telemetry/log.h"

namespace leat {
namespace {

constexpr const char* kDatabase = "/journal.db";
constexpr std::string_view kContentSuffix = ".content";
// Raised when the tables change.
constexpr int kFormat = 2;

constexpr const char* kTables =
    "CREATE TABLE IF NOT EXISTS owner (name TEXT NOT NULL);"
    "CREATE TABLE IF NOT EXISTS changes ("
    " number INTEGER PRIMARY KEY, kind INTEGER NOT NULL, path TEXT NOT NULL,"
    " mount TEXT NOT NULL,"
    " directory INTEGER NOT NULL, local INTEGER NOT NULL, ordered INTEGER NOT NULL,"
    " content INTEGER NOT NULL, small INTEGER NOT NULL, size INTEGER NOT NULL,"
    " attributes TEXT NOT NULL,"
    " absent INTEGER NOT NULL, version_kind INTEGER NOT NULL, version TEXT NOT NULL,"
    " since INTEGER NOT NULL, bytes BLOB, origin TEXT NOT NULL DEFAULT '');"
    "CREATE INDEX IF NOT EXISTS changes_by_path ON changes (path);"
    "CREATE INDEX IF NOT EXISTS changes_by_content ON changes (content);";

// A line for each attribute.
std::string to_text(const PosixAttributes& attributes) {
  std::string text;
  for (const auto& [name, value] : to_metadata(attributes)) text += name + "=" + value + "\n";
  return text;
}

PosixAttributes parse_attributes(std::string_view text) {
  ObjectMetadata metadata;
  while (!text.empty()) {
    const std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(text.size(), line.size() + 1));
    const size_t split = line.find('=');
    if (split == std::string_view::npos) continue;
    metadata[std::string(line.substr(0, split))] = line.substr(split + 1);
  }
  return from_metadata(metadata);
}

}  // namespace

struct WriteJournal::Batch {
  Edits edits;
  Result<> result{};
  bool done = false;
};

bool WriteJournal::exists(const std::string& directory) {
  return ::access((directory + kDatabase).c_str(), F_OK) == 0;
}

Result<std::unique_ptr<WriteJournal>> WriteJournal::open(std::string directory,
                                                         std::string_view owner) {
  std::error_code failed;
  std::filesystem::create_directories(directory, failed);
  if (failed) {
    return error(status_from_errno(failed.value(), fmt::format("cannot create {}", directory)));
  }
  std::unique_ptr<WriteJournal> journal(new WriteJournal(std::move(directory)));
  LEAT_CHECK_OK(journal->prepare(owner));
  return journal;
}

void WriteJournal::close() {
  std::lock_guard lock(database_mutex_);
  sqlite3_close(std::exchange(database_, nullptr));
}

Error WriteJournal::failed(const char* what) const {
  if (database_ == nullptr) {
    return error(StatusCode::kUnavailable, "the journal of writes was closed: the mount ends");
  }
  const int code = sqlite3_errcode(database_) & 0xff;
  const StatusCode status = code == SQLITE_FULL                            ? StatusCode::kNoSpace
                            : code == SQLITE_BUSY || code == SQLITE_LOCKED ? StatusCode::kBusy
                            : code == SQLITE_CORRUPT || code == SQLITE_NOTADB
                                ? StatusCode::kCorrupt
                                : StatusCode::kUnavailable;
  return error(status, fmt::format("cannot {} the journal of writes in {}: {}", what, directory_,
                                   sqlite3_errmsg(database_)));
}

Result<> WriteJournal::execute(const char* sql) const {
  if (sqlite3_exec(database_, sql, nullptr, nullptr, nullptr) == SQLITE_OK) return {};
  return failed("write");
}

Result<> WriteJournal::prepare(std::string_view owner) {
  const std::string path = directory_ + kDatabase;
  constexpr int kFlags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX;
  if (sqlite3_open_v2(path.c_str(), &database_, kFlags, nullptr) != SQLITE_OK) {
    return failed("open");
  }
  // Exclusive: no other process, and no shared memory beside the database. FULL: a commit is
  // durable.
  LEAT_CHECK_OK(
      execute("PRAGMA locking_mode = EXCLUSIVE;"
              "PRAGMA journal_mode = WAL;"
              "PRAGMA synchronous = FULL;"));
  uint64_t format = 0;
  {
    SqliteStatement statement(database_, "PRAGMA user_version");
    if (statement.next()) format = statement.number();
  }
  if (format > kFormat) {
    return error(
        StatusCode::kUnsupported,
        fmt::format("the journal of writes in {} is of a later version of Leat; mount with "
                    "that one, and wait until it has sent its changes",
                    directory_));
  }
  if (format == 1) {
    LEAT_CHECK_OK(execute("ALTER TABLE changes ADD COLUMN origin TEXT NOT NULL DEFAULT ''"));
  }
  LEAT_CHECK_OK(execute(kTables));
  LEAT_CHECK_OK(execute(fmt::format("PRAGMA user_version = {}", kFormat).c_str()));
  LEAT_CHECK_OK(claim(owner));
  return sync_directory();
}

Result<> WriteJournal::claim(std::string_view owner) const {
  std::string present;
  uint64_t pending = 0;
  {
    SqliteStatement statement(database_, "SELECT name FROM owner");
    if (statement.next()) present = statement.text();
  }
  {
    SqliteStatement statement(database_, "SELECT count(*) FROM changes");
    if (statement.next()) pending = statement.number();
  }
  if (present == owner) return {};
  if (pending > 0) {
    return error(StatusCode::kInvalidArgument,
                 fmt::format("{} changes of {} are not in the store yet, in {}: mount {} there "
                             "first, so that they are sent",
                             pending, present, directory_, present));
  }
  LEAT_CHECK_OK(execute("DELETE FROM owner"));
  SqliteStatement statement(database_, "INSERT INTO owner VALUES (?)");
  if (!statement.bind(owner).run()) return failed("write");
  return {};
}

std::string WriteJournal::content_path(uint64_t content) const {
  return fmt::format("{}/{}{}", directory_, content, kContentSuffix);
}

Result<std::vector<PendingChange>> WriteJournal::load() {
  std::vector<PendingChange> changes;
  std::set<std::string> contents;
  uint64_t last = 0;
  std::lock_guard lock(database_mutex_);
  if (database_ == nullptr) return failed("use");
  SqliteStatement statement(database_,
                            "SELECT number, kind, path, mount, directory, local, ordered, content,"
                            " small, size, attributes, absent, version_kind, version, since, origin"
                            " FROM changes ORDER BY number");
  while (statement.next()) {
    PendingChange change;
    change.number = statement.number();
    change.kind = static_cast<ChangeKind>(statement.number());
    change.path = statement.text();
    change.mount = statement.text();
    change.directory = statement.number() != 0;
    change.local = statement.number() != 0;
    change.ordered = statement.number() != 0;
    change.content = statement.number();
    change.is_small = statement.number() != 0;
    change.size = statement.number();
    change.attributes = parse_attributes(statement.text());
    change.condition.absent = statement.number() != 0;
    change.condition.version.kind = static_cast<Version::Kind>(statement.number());
    change.condition.version.value = statement.text();
    change.since = WallTime(std::chrono::nanoseconds(statement.number()));
    change.from = statement.text();
    last = std::max({last, change.number, change.content});
    if (change.content != 0 && !change.is_small) contents.insert(content_path(change.content));
    changes.push_back(std::move(change));
  }
  if (!statement.ended()) return failed("read");
  std::error_code ignored;
  for (const auto& item : std::filesystem::directory_iterator(directory_, ignored)) {
    const std::string path = item.path().string();
    if (path.ends_with(kContentSuffix) && !contents.contains(path)) ::unlink(path.c_str());
  }
  next_ = std::max(next_.load(), last + 1);
  return changes;
}

Result<std::string> WriteJournal::small_content(uint64_t content) const {
  std::lock_guard lock(database_mutex_);
  if (database_ == nullptr) return failed("use");
  SqliteStatement statement(database_, "SELECT bytes FROM changes WHERE content = ?");
  statement.bind(content);
  if (!statement.next()) {
    if (!statement.ended()) return failed("read");
    return error(StatusCode::kInternal, fmt::format("{} lacks a content", directory_));
  }
  return statement.text();
}

void WriteJournal::remove_content(const PendingChange& change) const {
  if (change.content == 0 || change.is_small) return;
  const std::string path = content_path(change.content);
  if (::unlink(path.c_str()) != 0 && errno != ENOENT) {
    log::warning("{} cannot be removed: {}", path, ::strerror(errno));
  }
}

Result<> WriteJournal::sync_directory() const {
  const File directory(::open(directory_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (directory && ::fsync(directory.fd()) == 0) return {};
  return error(status_from_errno(errno, fmt::format("cannot synchronise {}", directory_)));
}

// The first of the callers commits for those that have come meanwhile, and they wait for it.
Result<> WriteJournal::commit(Edits edits) {
  Batch own{std::move(edits)};
  std::unique_lock lock(mutex_);
  waiting_.push_back(&own);
  while (committing_ && !own.done) committed_.wait(lock);
  while (!own.done) {
    std::vector<Batch*> batches = std::exchange(waiting_, {});
    committing_ = true;
    lock.unlock();
    const Result<> result = apply(batches);
    lock.lock();
    for (Batch* batch : batches) {
      batch->result = result;
      batch->done = true;
    }
    committing_ = false;
    committed_.notify_all();
  }
  return own.result;
}

Result<> WriteJournal::apply(const std::vector<Batch*>& batches) const {
  const bool has_files = std::ranges::any_of(batches, [](const Batch* batch) {
    return std::ranges::any_of(batch->edits.insert, [](const Insertion& one) {
      return one.change.content != 0 && !one.change.is_small;
    });
  });
  if (has_files) LEAT_CHECK_OK(sync_directory());
  std::lock_guard lock(database_mutex_);
  if (database_ == nullptr) return failed("use");
  LEAT_CHECK_OK(execute("BEGIN IMMEDIATE"));
  Result<> result;
  for (const Batch* batch : batches) {
    if (result) result = apply_one(batch->edits);
  }
  if (result) result = execute("COMMIT");
  if (!result) static_cast<void>(execute("ROLLBACK"));
  return result;
}

void WriteJournal::bind_condition(SqliteStatement& statement, const WriteCondition& condition) {
  statement.bind(uint64_t{condition.absent});
  statement.bind(static_cast<uint64_t>(condition.version.kind)).bind(condition.version.value);
}

Result<> WriteJournal::apply_one(const Edits& edits) const {
  SqliteStatement erase(database_, "DELETE FROM changes WHERE number = ?");
  for (const uint64_t number : edits.erase) {
    if (!erase.bind(number).run()) return failed("write");
  }
  SqliteStatement version(database_,
                          "UPDATE changes SET absent = 0, version_kind = ?, version = ?"
                          " WHERE number = ?");
  for (const NewVersion& one : edits.versions) {
    const auto kind = static_cast<uint64_t>(one.version.kind);
    if (!version.bind(kind).bind(one.version.value).bind(one.number).run()) return failed("write");
  }
  SqliteStatement insert(database_,
                         "INSERT INTO changes"
                         " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)");
  for (const auto& [change, content] : edits.insert) {
    insert.bind(change.number).bind(static_cast<uint64_t>(change.kind)).bind(change.path);
    insert.bind(change.mount).bind(uint64_t{change.directory}).bind(uint64_t{change.local});
    insert.bind(uint64_t{change.ordered}).bind(change.content);
    insert.bind(uint64_t{change.is_small}).bind(change.size);
    insert.bind(to_text(change.attributes));
    bind_condition(insert, change.condition);
    insert.bind(static_cast<uint64_t>(change.since.time_since_epoch().count()));
    if (!insert.bind_bytes(content).bind(change.from).run()) return failed("write");
  }
  SqliteStatement update(
      database_,
      "UPDATE changes SET number = ?, path = ?, local = ?, ordered = ?,"
      " attributes = ?, absent = ?, version_kind = ?, version = ? WHERE number = ?");
  for (const auto& [number, change] : edits.update) {
    update.bind(change.number).bind(change.path).bind(uint64_t{change.local});
    update.bind(uint64_t{change.ordered}).bind(to_text(change.attributes));
    bind_condition(update, change.condition);
    if (!update.bind(number).run()) return failed("write");
  }
  return {};
}

}  // namespace leat
