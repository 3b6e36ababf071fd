// SPDX-License-Identifier: Apache-2.0
// SqliteStatement: a prepared statement; parameters and columns are taken in order. A statement
// that could not be prepared fails when it runs. A module that uses it links SQLite.
#pragma once

#include <sqlite3.h>

#include <cstdint>
#include <string>
#include <string_view>

namespace leat {

class SqliteStatement {
 public:
  SqliteStatement(sqlite3* database, const char* sql) {
    sqlite3_prepare_v2(database, sql, -1, &statement_, nullptr);
  }
  ~SqliteStatement() { sqlite3_finalize(statement_); }
  SqliteStatement(const SqliteStatement&) = delete;
  SqliteStatement& operator=(const SqliteStatement&) = delete;

  SqliteStatement& bind(uint64_t value) {
    sqlite3_bind_int64(statement_, ++bound_, static_cast<sqlite3_int64>(value));
    return *this;
  }
  SqliteStatement& bind(std::string_view text) {
    sqlite3_bind_text64(statement_, ++bound_, text.data(), text.size(), SQLITE_TRANSIENT,
                        SQLITE_UTF8);
    return *this;
  }
  SqliteStatement& bind_bytes(std::string_view bytes) {
    sqlite3_bind_blob64(statement_, ++bound_, bytes.data(), bytes.size(), SQLITE_TRANSIENT);
    return *this;
  }
  // Runs a statement without rows; the next bind() is its first again.
  bool run() {
    const bool done = sqlite3_step(statement_) == SQLITE_DONE;
    reset();
    return done;
  }
  // The next bind() is the first again, of a statement with rows.
  void reset() {
    sqlite3_reset(statement_);
    bound_ = 0;
  }
  // Moves to the next row; false at the end and after a failure.
  bool next() {
    column_ = 0;
    last_ = sqlite3_step(statement_);
    return last_ == SQLITE_ROW;
  }
  bool ended() const { return last_ == SQLITE_DONE; }
  uint64_t number() { return static_cast<uint64_t>(sqlite3_column_int64(statement_, column_++)); }
  std::string text() {
    const int at = column_++;
    const void* bytes = sqlite3_column_blob(statement_, at);
    const auto size = static_cast<size_t>(sqlite3_column_bytes(statement_, at));
    return {static_cast<const char*>(bytes), bytes == nullptr ? 0 : size};
  }

 private:
  sqlite3_stmt* statement_ = nullptr;
  int bound_ = 0, column_ = 0, last_ = SQLITE_OK;
};

}  // namespace leat
