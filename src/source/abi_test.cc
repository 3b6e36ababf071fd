// SPDX-License-Identifier: Apache-2.0
// Tests the C ABI of the shim (shim/leat_store.h) with a hostile caller: calls in any order,
// handles abandoned and freed at any time, invalid requests. Each request must report exactly once,
// and nothing may touch the caller's memory afterwards. Each test frees it in the callback itself,
// and runs under the address sanitizer.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <atomic>
#include <condition_variable>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <mutex>
#include <random>
#include <string>
#include <vector>

#include "source/store_reader_test.h"
#include "source/stores/shim_types.h"

namespace leat {
namespace {

using testing::content;
using testing::lawful;
using testing::LyingServer;
using testing::range_of;

constexpr leat_terms kTerms{.first_byte_max_ms = 2000, .silence_max_ms = 2000};
constexpr leat_condition kAlways{.if_absent = 0, .if_version = {nullptr, 0}, .metadata = {}};

leat_expected expected(std::string_view version) {
  return {.version = as_text(version), .size = 0, .mtime_s = 0, .has_mtime = 0};
}

using Options = std::vector<std::pair<std::string, std::string>>;

leat_store* open_store(const Options& options, std::string* reason = nullptr) {
  std::vector<leat_option> given;
  for (const auto& [name, value] : options) given.push_back({as_text(name), as_text(value)});
  std::array<char, 512> error{};
  leat_store* store = leat_store_open(given.data(), given.size(), error.data(), error.size());
  if (reason != nullptr) *reason = error.data();
  return store;
}

leat_store* open_memory() {
  return open_store({{"scheme", "memory"}});
}

leat_store* open_s3(const LyingServer& server) {
  return open_store({{"scheme", "s3"},
                     {"bucket", "bucket"},
                     {"region", "us-east-1"},
                     {"endpoint", server.endpoint()},
                     {"anonymous", "true"}});
}

// Counts what was started and what has reported.
class Ledger {
 public:
  // The target of one request's reports; owns the memory that a read fills, until the callback.
  struct Entry {
    Ledger* ledger;
    std::vector<char> memory;
    std::atomic<int> reports = 0;
    size_t arrived = 0;
    leat_code code = LEAT_INTERNAL;
    std::string message;
    size_t entries = 0;
    std::string read;
  };
  using EntryPtr = std::shared_ptr<Entry>;

  EntryPtr begin(size_t bytes = 0) {
    auto entry = std::make_shared<Entry>();
    entry->ledger = this;
    entry->memory.resize(bytes);
    entry->reports = 0;  // publishes it, since the shim's own synchronisation is not seen
    std::lock_guard lock(mutex_);
    ++started_;
    entries_.push_back(entry);
    return entry;
  }

  // Increases each time, never exceeds the memory, and nothing after the report.
  static void arrived(void* user, size_t bytes) {
    auto* entry = static_cast<Entry*>(user);
    ASSERT_EQ(entry->reports, 0);
    ASSERT_GT(bytes, entry->arrived);
    ASSERT_LE(bytes, entry->memory.size());
    entry->arrived = bytes;
  }

  static void done(void* user, const leat_outcome* outcome) {
    auto* entry = static_cast<Entry*>(user);
    ASSERT_EQ(++entry->reports, 1);
    entry->code = outcome->code;
    entry->message = to_string(outcome->message);
    for (size_t i = 0; i < outcome->entry_count; ++i) {
      entry->entries += !to_string(outcome->entries[i].key).empty();
      (void)to_string(outcome->entries[i].version);
    }
    (void)to_string(outcome->next_token);
    (void)to_string(outcome->left_out_example);
    entry->read.assign(entry->memory.begin(), entry->memory.end());
    std::vector<char>().swap(entry->memory);
    Ledger& ledger = *entry->ledger;
    std::lock_guard lock(ledger.mutex_);
    ++ledger.reported_;
    ledger.changed_.notify_all();
  }

  // Whether all started requests have reported in time.
  bool settle() {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, std::chrono::seconds(30), [&] { return reported_ == started_; });
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  size_t started_ = 0, reported_ = 0;
  std::vector<EntryPtr> entries_;
};

// Waits for the only request in flight.
leat_code settled(Ledger& ledger, const Ledger::EntryPtr& entry, leat_request* request) {
  EXPECT_TRUE(ledger.settle());
  leat_request_free(request);
  return entry->code;
}

class AbiMisuse : public ::testing::Test {
 protected:
  ~AbiMisuse() override { leat_store_close(store_); }

  leat_code stat(std::string_view key) {
    auto entry = ledger_.begin();
    return settled(ledger_, entry,
                   leat_store_stat(store_, as_text(key), kTerms, &Ledger::done, entry.get()));
  }
  leat_code list(std::string_view prefix, std::string_view token) {
    auto entry = ledger_.begin();
    return settled(ledger_, entry,
                   leat_store_list(store_, as_text(prefix), 1, as_text(token), kTerms,
                                   &Ledger::done, entry.get()));
  }
  leat_code read(std::string_view key, uint64_t offset, std::vector<size_t> sizes,
                 std::string_view version = "") {
    size_t all = 0;
    for (size_t size : sizes) all += size;
    auto entry = ledger_.begin(all);
    std::vector<leat_memory> pieces;
    char* at = entry->memory.data();
    for (size_t size : sizes) pieces.push_back({std::exchange(at, at + size), size});
    leat_request* request =
        leat_store_read(store_, as_text(key), offset, pieces.data(), pieces.size(),
                        expected(version), kTerms, &Ledger::arrived, &Ledger::done, entry.get());
    leat_code code = settled(ledger_, entry, request);
    last_ = entry;
    return code;
  }
  leat_code write(std::string_view key, std::string_view text, leat_condition condition = kAlways) {
    auto entry = ledger_.begin();
    return settled(ledger_, entry,
                   leat_store_write(store_, as_text(key), as_text(text), condition, kTerms,
                                    &Ledger::done, entry.get()));
  }
  leat_code remove(const std::vector<leat_text>& keys) {
    auto entry = ledger_.begin();
    return settled(
        ledger_, entry,
        leat_store_remove(store_, keys.data(), keys.size(), kTerms, &Ledger::done, entry.get()));
  }

  Ledger ledger_;
  Ledger::EntryPtr last_;
  leat_store* store_ = open_memory();
};

constexpr std::string_view kNotUtf8 = "a\xff\xfe";

TEST(AbiTerms, LongLimitsStayLong) {
  using std::chrono::hours;
  const leat_terms terms =
      as_terms({.first_byte_timeout = hours(24 * 50), .idle_timeout = hours(1)});
  EXPECT_EQ(terms.first_byte_max_ms, UINT32_MAX);
  EXPECT_EQ(terms.silence_max_ms, 3'600'000u);
}

TEST(AbiOpen, WhatCannotBeOpenedSaysWhy) {
  std::string reason;
  EXPECT_EQ(open_store({}, &reason), nullptr);
  EXPECT_NE(reason, "");
  EXPECT_EQ(open_store({{"scheme", "gopher"}}, &reason), nullptr);
  EXPECT_NE(reason.find("gopher"), std::string::npos);
  EXPECT_EQ(open_store({{"scheme", "memory"}, {"page_entries", "many"}}, &reason), nullptr);
  EXPECT_NE(reason.find("many"), std::string::npos);
  EXPECT_EQ(open_store({{std::string(kNotUtf8), "x"}}, &reason), nullptr);
  EXPECT_NE(reason.find("UTF-8"), std::string::npos);
}

TEST(AbiOpen, AReasonIsCutToWhatThereIsRoomFor) {
  const leat_option scheme{as_text("scheme"), as_text("gopher")};
  for (size_t room : {0, 1, 2, 7}) {
    std::vector<char> error(room + 1, '~');
    EXPECT_EQ(leat_store_open(&scheme, 1, error.data(), room), nullptr);
    EXPECT_EQ(error[room], '~');
    if (room > 0) EXPECT_EQ(std::strlen(error.data()), room - 1);
  }
}

TEST_F(AbiMisuse, TextThatIsNoText) {
  EXPECT_EQ(stat(kNotUtf8), LEAT_UNSUPPORTED);
  EXPECT_EQ(list(kNotUtf8, ""), LEAT_UNSUPPORTED);
  EXPECT_EQ(list("", kNotUtf8), LEAT_UNSUPPORTED);
  EXPECT_EQ(read(kNotUtf8, 0, {1}), LEAT_UNSUPPORTED);
  EXPECT_EQ(read("k", 0, {1}, kNotUtf8), LEAT_UNSUPPORTED);
  EXPECT_EQ(write(kNotUtf8, "x"), LEAT_UNSUPPORTED);
  EXPECT_EQ(write("k", "x", {.if_absent = 0, .if_version = as_text(kNotUtf8), .metadata = {}}),
            LEAT_UNSUPPORTED);
  EXPECT_EQ(remove({as_text("k"), as_text(kNotUtf8)}), LEAT_UNSUPPORTED);
}

TEST_F(AbiMisuse, NothingWhereSomethingIsWanted) {
  EXPECT_EQ(write("k", "0123456789"), LEAT_OK);
  EXPECT_EQ(write("", "x"), LEAT_UNSUPPORTED);
  EXPECT_EQ(read("", 0, {1}), LEAT_UNSUPPORTED);
  EXPECT_EQ(read("k", 0, {}), LEAT_INVALID_ARGUMENT);
  EXPECT_EQ(read("k", 0, {0, 0}), LEAT_INVALID_ARGUMENT);
  EXPECT_EQ(read("k", 2, {0, 3, 0, 4, 0}), LEAT_OK);
  EXPECT_EQ(last_->read, "2345678");
  EXPECT_EQ(remove({}), LEAT_OK);
  EXPECT_EQ(stat(""), LEAT_OK);
}

TEST_F(AbiMisuse, NumbersThatCannotBe) {
  EXPECT_EQ(write("k", "0123456789"), LEAT_OK);
  constexpr uint64_t kEnd = std::numeric_limits<uint64_t>::max();
  for (uint64_t offset : {kEnd, kEnd - 1, kEnd - 3, uint64_t{1} << 63, uint64_t{11}}) {
    leat_code code = read("k", offset, {4});
    EXPECT_TRUE(code == LEAT_OUT_OF_RANGE || code == LEAT_INVALID_ARGUMENT) << offset << code;
  }
}

TEST_F(AbiMisuse, KeysOfAllKinds) {
  const std::string huge(1 << 20, 'k');
  for (const std::string& key :
       {huge, std::string("a\0b", 3), std::string("a\r\nX-Evil: 1"), std::string("//"),
        std::string(" "), std::string("/"), std::string(".."), std::string("a/../../b")}) {
    leat_code written = write(key, "x");
    EXPECT_TRUE(written == LEAT_OK || written == LEAT_UNSUPPORTED) << key.substr(0, 20);
    EXPECT_EQ(stat(key) == LEAT_OK, written == LEAT_OK) << key.substr(0, 20);
  }
}

TEST(AbiHeaders, AVersionDoesNotBecomeAHeader) {
  LyingServer server;
  server.then(&testing::serve);
  leat_store* store = open_s3(server);
  Ledger ledger;
  auto entry = ledger.begin(4);
  const leat_memory memory{entry->memory.data(), 4};
  const std::string evil = "\"1\"\r\nX-Evil: 1";
  leat_request* request = leat_store_read(store, as_text("k"), 0, &memory, 1, expected(evil),
                                          kTerms, &Ledger::arrived, &Ledger::done, entry.get());
  EXPECT_NE(settled(ledger, entry, request), LEAT_OK);
  leat_store_close(store);
  for (const std::string& sent : server.requests()) {
    EXPECT_EQ(sent.find("X-Evil"), std::string::npos) << sent;
  }
}

TEST_F(AbiMisuse, AWriterThatHasEnded) {
  auto ask = [&](auto function, leat_writer* writer) {
    auto entry = ledger_.begin();
    return settled(ledger_, entry, function(writer, kTerms, &Ledger::done, entry.get()));
  };
  auto append = [&](leat_writer* writer, std::string_view part) {
    auto entry = ledger_.begin();
    return settled(ledger_, entry,
                   leat_writer_append(writer, as_text(part), kTerms, &Ledger::done, entry.get()));
  };
  leat_writer* writer = leat_writer_open(store_, as_text("w"), kAlways);
  EXPECT_EQ(append(writer, "one"), LEAT_OK);
  EXPECT_EQ(ask(&leat_writer_finish, writer), LEAT_OK);
  EXPECT_EQ(ask(&leat_writer_finish, writer), LEAT_INVALID_ARGUMENT);
  EXPECT_EQ(append(writer, "two"), LEAT_INVALID_ARGUMENT);
  EXPECT_EQ(ask(&leat_writer_abandon, writer), LEAT_INVALID_ARGUMENT);
  leat_writer_close(writer);
  EXPECT_EQ(stat("w"), LEAT_OK);

  for (std::string_view key : {std::string_view(""), std::string_view("d/"), kNotUtf8}) {
    leat_writer* wrong = leat_writer_open(store_, as_text(key), kAlways);
    EXPECT_NE(append(wrong, "x"), LEAT_OK) << key;
    EXPECT_NE(ask(&leat_writer_finish, wrong), LEAT_OK) << key;
    EXPECT_NE(ask(&leat_writer_abandon, wrong), LEAT_OK) << key;
    leat_writer_close(wrong);
  }
}

// Decides the fate of a request, by its place in a sequence of dice.
class Dice {
 public:
  explicit Dice(unsigned seed) : random_(seed) {}
  unsigned below(unsigned end) {
    std::lock_guard lock(mutex_);
    return static_cast<unsigned>(random_() % end);
  }
  bool one_in(unsigned count) { return below(count) == 0; }

 private:
  std::mutex mutex_;
  std::mt19937 random_;
};

// Answers some requests correctly, others not at all, in part, or with an error.
void answer_somehow(Dice& dice, const LyingServer::Exchange& exchange) {
  const bool is_read = exchange.request.contains("range: bytes=");
  std::string answer = "HTTP/1.1 200 OK\r\nContent-Length: 0\r\nETag: \"1\"\r\n\r\n";
  if (is_read) {
    auto [offset, size] = range_of(exchange.request);
    answer = lawful(offset, size);
  } else if (exchange.request.contains("list-type=2")) {
    const std::string body =
        "<ListBucketResult><IsTruncated>true</IsTruncated><NextContinuationToken>t"
        "</NextContinuationToken><Contents><Key>a</Key><Size>1</Size><ETag>\"1\"</ETag>"
        "<LastModified>2024-01-01T00:00:00.000Z</LastModified></Contents></ListBucketResult>";
    answer = fmt::format("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{}", body.size(), body);
  }
  switch (dice.below(6)) {
    case 0:
      exchange.stall();
      return;
    case 1:
      exchange.send(std::string_view(answer).substr(0, dice.below(400)));
      return;
    case 2:
      exchange.send(std::string_view(answer).substr(0, dice.below(400)));
      exchange.stall();
      return;
    case 3:
      exchange.send("HTTP/1.1 503 Slow Down\r\nContent-Length: 0\r\n\r\n");
      return;
    default:
      exchange.send(answer);
      // A body that arrived with the request would be parsed as the next one.
      if (is_read) exchange.keep();
  }
}

// Requests of all kinds, cancelled at any moment, with handles, writers and stores freed at any
// moment. LEAT_ABI_ROUNDS sets the number, LEAT_ABI_SEED repeats a run.
TEST(AbiFuzz, InAnyOrderEachReportsOnce) {
  const char* said = std::getenv("LEAT_ABI_SEED");
  const char* rounds = std::getenv("LEAT_ABI_ROUNDS");
  const unsigned seed = said ? static_cast<unsigned>(std::atoi(said)) : std::random_device{}();
  SCOPED_TRACE(fmt::format("LEAT_ABI_SEED={}", seed));
  Dice dice(seed), lies(seed + 1);
  LyingServer server;
  server.then([&lies](const auto& exchange) { answer_somehow(lies, exchange); });
  const std::string text = content(0, 70'000);

  for (int round = rounds ? std::atoi(rounds) : 60; round > 0; --round) {
    Ledger ledger;
    leat_store* store = dice.one_in(3) ? open_memory() : open_s3(server);
    std::vector<leat_request*> requests;
    std::vector<leat_writer*> writers;
    for (unsigned count = 1 + dice.below(24); count > 0; --count) {
      const std::string key = fmt::format("k{}", dice.below(4));
      const leat_terms terms{.first_byte_max_ms = 20 + dice.below(80),
                             .silence_max_ms = 20 + dice.below(80)};
      const leat_condition condition{.if_absent = dice.one_in(4), .if_version = {}, .metadata = {}};
      const std::string_view part = std::string_view(text).substr(dice.below(70'000));
      const unsigned kind = dice.below(9);
      auto entry = ledger.begin(kind == 2 ? 1 + dice.below(60'000) : 0);
      Ledger::Entry* user = entry.get();
      leat_request* request = nullptr;
      switch (kind) {
        case 0:
          request = leat_store_stat(store, as_text(key), terms, &Ledger::done, user);
          break;
        case 1:
          request = leat_store_list(store, {}, dice.one_in(2), {}, terms, &Ledger::done, user);
          break;
        case 2: {
          char* memory = entry->memory.data();
          const size_t first = dice.below(static_cast<unsigned>(entry->memory.size()));
          const std::array<leat_memory, 2> pieces{
              {{memory, first}, {memory + first, entry->memory.size() - first}}};
          request = leat_store_read(store, as_text(key), dice.below(1000), pieces.data(), 2, {},
                                    terms, &Ledger::arrived, &Ledger::done, user);
          break;
        }
        case 3:
          request = leat_store_write(store, as_text(key), as_text(part), condition, terms,
                                     &Ledger::done, user);
          break;
        case 4:
          request =
              leat_store_copy(store, as_text(key), as_text("to"), 0, terms, &Ledger::done, user);
          break;
        case 5: {
          const std::array<leat_text, 2> keys{as_text(key), as_text("to")};
          request = leat_store_remove(store, keys.data(), keys.size(), terms, &Ledger::done, user);
          break;
        }
        default: {
          if (writers.empty() || dice.one_in(3)) {
            writers.push_back(leat_writer_open(store, as_text(key), condition));
          }
          leat_writer* writer = writers[dice.below(static_cast<unsigned>(writers.size()))];
          const unsigned call = dice.below(6);
          request = call == 0 ? leat_writer_finish(writer, terms, &Ledger::done, user)
                    : call == 1
                        ? leat_writer_abandon(writer, terms, &Ledger::done, user)
                        : leat_writer_append(writer, as_text(part), terms, &Ledger::done, user);
        }
      }
      if (dice.one_in(4)) leat_request_cancel(request);
      if (dice.one_in(4)) {
        leat_request_free(request);
      } else {
        requests.push_back(request);
      }
      if (dice.one_in(8) && !requests.empty()) {
        leat_request_cancel(requests[dice.below(static_cast<unsigned>(requests.size()))]);
      }
    }
    const bool closes_first = dice.one_in(2);
    if (closes_first) {
      for (leat_writer* writer : writers) leat_writer_close(writer);
      leat_store_close(store);
    }
    for (leat_request* request : requests) {
      if (dice.one_in(3)) leat_request_cancel(request);
    }
    ASSERT_TRUE(ledger.settle()) << "a request has not reported";
    for (leat_request* request : requests) {
      leat_request_cancel(request);  // too late, but allowed
      leat_request_free(request);
    }
    if (!closes_first) {
      for (leat_writer* writer : writers) leat_writer_close(writer);
      leat_store_close(store);
    }
  }
}

}  // namespace
}  // namespace leat
