// SPDX-License-Identifier: Apache-2.0
// Tests that an unfinished object leaves nothing at a store, however its writer was abandoned.
#include <gtest/gtest.h>

#include <chrono>
#include <optional>
#include <string>
#include <thread>

#include "source/contract_bucket_test.h"
#include "source/part_writer.h"

namespace leat {
namespace {

using namespace std::chrono_literals;

class UnfinishedUploads : public ::testing::Test {
 protected:
  void SetUp() override {
    server_ = testing::MotoServer::start();
    ASSERT_TRUE(server_) << testing::MotoServer::kHowToGetIt;
    setenv("AWS_ACCESS_KEY_ID", testing::MotoServer::kAccessKey, 1);
    setenv("AWS_SECRET_ACCESS_KEY", testing::MotoServer::kSecretKey, 1);
    // This server sometimes fails concurrent requests of one upload.
    source_ =
        RetryingSource::make(OpendalSource::open(testing::s3_config(server_->endpoint())).value());
  }

  // With three parts, two or three of which were sent.
  PartWriter begun() {
    auto stream = PartWriter::begin(*source_, {"key"});
    const std::vector<std::byte> bytes(3 * PartWriter::kPartBytes + 1);
    auto taken = executor_.block_on(stream->append({}, bytes));
    EXPECT_TRUE(taken) << taken.error().to_string();
    EXPECT_TRUE(has_uploads());
    return *std::move(stream);
  }
  bool has_uploads() {
    return server_->ask("", {"-G", "-d", "uploads"}).find("<UploadId>") != std::string::npos;
  }
  // Work in the background has no event at the server.
  bool ends_without_uploads() {
    for (int tries = 0; tries < 200; ++tries) {
      if (!has_uploads()) return true;
      std::this_thread::sleep_for(50ms);
    }
    return false;
  }

  Executor executor_;
  std::shared_ptr<testing::MotoServer> server_;
  SourcePtr source_;
};

TEST_F(UnfinishedUploads, AnAbandonedOneIsTakenBackAtOnce) {
  PartWriter stream = begun();
  auto done = executor_.block_on(stream.abort({}));
  EXPECT_TRUE(done) << done.error().to_string();
  EXPECT_FALSE(has_uploads());
}

TEST_F(UnfinishedUploads, ADroppedOneIsTakenBackInTheBackground) {
  {
    PartWriter stream = begun();
  }
  EXPECT_TRUE(ends_without_uploads());
}

TEST_F(UnfinishedUploads, OneWhoseSourceIsGoneAsWell) {
  std::optional<PartWriter> stream = begun();
  source_.reset();  // the writer keeps its dependencies alive
  stream.reset();
  EXPECT_TRUE(ends_without_uploads());
}

TEST_F(UnfinishedUploads, OneThatWasGivenUpWhileItWasSent) {
  PartWriter stream = begun();
  std::stop_source stop;
  std::jthread later([&] {
    std::this_thread::sleep_for(2ms);
    stop.request_stop();
  });
  const Context context = Context::background().with_cancel(stop.get_token());
  const std::vector<std::byte> bytes(10 * PartWriter::kPartBytes);
  auto taken = executor_.block_on(stream.append(context, bytes));
  if (!taken) EXPECT_EQ(taken.error().code(), StatusCode::kCancelled);
  auto done = executor_.block_on(stream.abort({}));
  EXPECT_TRUE(done) << done.error().to_string();
  EXPECT_TRUE(ends_without_uploads());
}

}  // namespace
}  // namespace leat
