// SPDX-License-Identifier: Apache-2.0
// For tests: small reads in flight; the content of each file follows from its key.
#pragma once

#include <gtest/gtest.h>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/use_future.hpp>
#include <future>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "peer/peer.h"
#include "runtime/executor.h"

namespace leat {

inline constexpr uint64_t kPendingBytes = 100;

inline std::string pending_content(const std::string& key) {
  std::string content;
  while (content.size() < kPendingBytes) content += key;
  content.resize(kPendingBytes);
  return content;
}

struct PendingRead {
  std::string key;
  std::string text = std::string(kPendingBytes, '\0');
  std::future<PeerReply<void>> reply{};
};
using PendingReads = std::vector<std::unique_ptr<PendingRead>>;

// `read` takes the request and its buffer, and returns the task.
template <class Read>
std::unique_ptr<PendingRead> begin_read(Executor& executor, const std::string& key,
                                        const Read& read) {
  auto pending = std::make_unique<PendingRead>(PendingRead{.key = key});
  PeerRead request{.mount = "/m", .range = {0, kPendingBytes}, .route = {.epoch = 7}};
  request.file = std::make_shared<const FileRef>(FileRef::make(
      make_store_id("memory", "", "", "bucket"), key, Version::etag("1"), kPendingBytes));
  pending->reply = boost::asio::co_spawn(
      executor.any(), read(std::move(request), std::as_writable_bytes(std::span(pending->text))),
      boost::asio::use_future);
  return pending;
}

inline void expect_read(PendingRead& pending) {
  auto reply = pending.reply.get();
  ASSERT_TRUE(reply.result) << reply.result.error().to_string();
  EXPECT_EQ(reply.outcome, PeerOutcome::kAnswered);
  EXPECT_EQ(reply.epoch, 7);
  EXPECT_EQ(pending.text, pending_content(pending.key)) << pending.key;
}

}  // namespace leat
