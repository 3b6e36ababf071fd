// SPDX-License-Identifier: Apache-2.0
#include "staging/staging_log.h"

#include <fmt/format.h>

#include <filesystem>
#include <utility>

#include "runtime/sqlite_statement.h"
#include "telemetry/log.h"

namespace leat {
namespace {

constexpr int kFormat = 1;
constexpr const char* kTables =
    "CREATE TABLE IF NOT EXISTS logs (mount BLOB PRIMARY KEY, store TEXT NOT NULL,"
    " log TEXT NOT NULL, term INTEGER NOT NULL, position INTEGER NOT NULL);"
    "CREATE TABLE IF NOT EXISTS events (sequence INTEGER PRIMARY KEY AUTOINCREMENT,"
    " mount BLOB NOT NULL, text TEXT NOT NULL);"
    "CREATE INDEX IF NOT EXISTS events_by_mount ON events (mount);";

}  // namespace

Result<std::unique_ptr<StagingLog>> StagingLog::open(std::string directory) {
  std::error_code failed;
  std::filesystem::create_directories(directory, failed);
  if (failed) {
    return error(status_from_errno(failed.value(), fmt::format("cannot create {}", directory)));
  }
  std::unique_ptr<StagingLog> log(new StagingLog(std::move(directory)));
  LEAT_CHECK_OK(log->prepare());
  return log;
}

StagingLog::~StagingLog() {
  sqlite3_close(database_);
}

Error StagingLog::failed(const char* what) const {
  const int code = sqlite3_errcode(database_) & 0xff;
  const StatusCode status = code == SQLITE_FULL                            ? StatusCode::kNoSpace
                            : code == SQLITE_BUSY || code == SQLITE_LOCKED ? StatusCode::kBusy
                            : code == SQLITE_CORRUPT || code == SQLITE_NOTADB
                                ? StatusCode::kCorrupt
                                : StatusCode::kUnavailable;
  return error(status, fmt::format("cannot {} the log of staged writes in {}: {}", what, directory_,
                                   sqlite3_errmsg(database_)));
}

Result<> StagingLog::execute(const char* sql) const {
  if (sqlite3_exec(database_, sql, nullptr, nullptr, nullptr) == SQLITE_OK) return {};
  return failed("write");
}

Result<> StagingLog::prepare() {
  const std::string path = directory_ + "/log.db";
  constexpr int kFlags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX;
  if (sqlite3_open_v2(path.c_str(), &database_, kFlags, nullptr) != SQLITE_OK) {
    return failed("open");
  }
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
    return error(StatusCode::kUnsupported,
                 fmt::format("the log of staged writes in {} is of a later version of Leat; start "
                             "that one, and drain this worker",
                             directory_));
  }
  LEAT_CHECK_OK(execute(kTables));
  return execute(fmt::format("PRAGMA user_version = {}", kFormat).c_str());
}

Result<std::vector<StagingLog::Stored>> StagingLog::load() {
  std::lock_guard lock(mutex_);
  std::vector<Stored> all;
  SqliteStatement logs(database_, "SELECT mount, store, log, term, position FROM logs");
  while (logs.next()) {
    Stored one{.mount = logs.text()};
    const auto store = Id128::from_hex(logs.text());
    const auto log = Id128::from_hex(logs.text());
    if (!store || !log) return error(StatusCode::kCorrupt, "a staging log has no id");
    one.store = StoreId(*store);
    one.events = {.log = *log, .term = logs.number(), .position = logs.number(), .is_whole = true};
    all.push_back(std::move(one));
  }
  if (!logs.ended()) return failed("read");
  SqliteStatement events(database_, "SELECT text FROM events WHERE mount = ? ORDER BY sequence");
  for (Stored& one : all) {
    events.bind_bytes(one.mount);
    while (events.next()) {
      LEAT_TRY(StagedEvents read, decode_staged_events(events.text()));
      for (StagedEvent& event : read.events) one.events.events.push_back(std::move(event));
    }
    if (!events.ended()) return failed("read");
    events.reset();
    sizes_[one.mount] = one.events.events.size();
  }
  return all;
}

Result<> StagingLog::append(const std::string& mount, const StoreId& store,
                            const StagedEvents& events) {
  std::lock_guard lock(mutex_);
  LEAT_CHECK_OK(execute("BEGIN IMMEDIATE"));
  Result<> written = write(mount, store, events);
  if (written) written = execute("COMMIT");
  if (!written) {
    static_cast<void>(execute("ROLLBACK"));
    return written;
  }
  uint64_t& size = sizes_[mount];
  size = (events.is_whole ? 0 : size) + events.events.size();
  return {};
}

Result<> StagingLog::write(const std::string& mount, const StoreId& store,
                           const StagedEvents& events) {
  SqliteStatement log(database_, "INSERT OR REPLACE INTO logs VALUES (?, ?, ?, ?, ?)");
  log.bind_bytes(mount).bind(store.to_hex()).bind(events.log.to_hex());
  if (!log.bind(events.term).bind(events.position).run()) return failed("write");
  if (events.is_whole) {
    SqliteStatement erase(database_, "DELETE FROM events WHERE mount = ?");
    if (!erase.bind_bytes(mount).run()) return failed("write");
  }
  SqliteStatement insert(database_, "INSERT INTO events (mount, text) VALUES (?, ?)");
  for (const StagedEvent& event : events.events) {
    const std::string text = encode_staged_events({.events = {event}});
    if (!insert.bind_bytes(mount).bind(text).run()) return failed("write");
  }
  return {};
}

uint64_t StagingLog::size(const std::string& mount) const {
  std::lock_guard lock(mutex_);
  const auto found = sizes_.find(mount);
  return found == sizes_.end() ? 0 : found->second;
}

Result<> StagingLog::remove(const std::string& mount) {
  std::lock_guard lock(mutex_);
  for (const char* sql :
       {"DELETE FROM events WHERE mount = ?", "DELETE FROM logs WHERE mount = ?"}) {
    SqliteStatement statement(database_, sql);
    if (!statement.bind_bytes(mount).run()) return failed("write");
  }
  sizes_.erase(mount);
  return {};
}

}  // namespace leat
