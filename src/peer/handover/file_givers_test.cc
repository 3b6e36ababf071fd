// SPDX-License-Identifier: Apache-2.0
// Which workers of a cluster pass files to this host, over real sockets.
#include "peer/handover/file_givers.h"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <filesystem>
#include <fstream>
#include <thread>

#include "peer/handover/descriptor_door.h"
#include "peer/handover/given_file.h"
#include "peer/trust/request_verifier.h"
#include "runtime/disk.h"
#include "runtime/executor.h"

namespace leat {
namespace {

namespace fs = std::filesystem;
using namespace std::chrono_literals;

const WorkerId kWorker(*Id128::from_hex("101112131415161718191a1b1c1d1e1f"));
const WorkerId kOther(*Id128::from_hex("202122232425262728292a2b2c2d2e2f"));

class FileGiversTest : public ::testing::Test {
 protected:
  FileGiversTest() {
    fs::create_directories(folder_);
    std::ofstream(folder_ / "cached") << "abcdefghij";
    file_ = std::make_shared<File>(::open((folder_ / "cached").c_str(), O_RDONLY | O_CLOEXEC));
  }
  ~FileGiversTest() override {
    if (door_ != nullptr) executor_.wait(door_->stop());
    fs::remove_all(folder_);
  }

  void start() {
    door_ = DescriptorDoor::start(
                socket_,
                [this](Context, HttpRequest request) { return answer(this, std::move(request)); },
                {}, executor_)
                .value();
  }
  static Task<Result<HandedFile>> answer(FileGiversTest* test, HttpRequest request) {
    ++test->asked_;
    auto principal = test->verifier_.verify(request);
    if (!principal) co_return Error(principal.error());
    auto asked = descriptor_request_from(request);
    if (!asked) co_return Error(asked.error());
    if (asked->file.key != "here") co_return error(StatusCode::kNotFound, "not complete");
    co_return HandedFile{test->file_, test->file_->fd()};
  }

  FileGiversOptions options() {
    auto token = issue(Secret(std::string(32, 's')), TokenClaims::of_worker(WorkerId()));
    return {.host_id = "this boot",
            .signer = std::make_shared<RequestSigner>(*token),
            .patience = 20s,
            .rest = std::chrono::hours(1)};
  }
  ClusterView view_of(WorkerInfo info) {
    ClusterView view;
    view.workers[info.id] = std::move(info);
    return view;
  }
  WorkerInfo worker(WorkerId id = kWorker) {
    return {.id = id, .address = "w:1", .host_id = "this boot", .socket = socket_};
  }
  Result<SourceFilePtr> open(FileGiver& giver, const std::string& key = "here") {
    PeerReadRequest request{
        .mount = "/data", .file = FileRef::make({}, key, Version::etag("e"), 10), .range = {0, 10}};
    return executor_.wait(giver.open(Context::background(), std::move(request)));
  }

  const fs::path folder_ = fs::temp_directory_path() / ("leat-give-" + Id128::random().to_hex());
  const std::string socket_ = folder_ / "files";
  Executor executor_{{.threads = 2}};
  RequestVerifier verifier_{
      std::make_shared<const SecretSet>(std::vector{Secret(std::string(32, 's'))}),
      {.self = kWorker}};
  std::shared_ptr<File> file_;
  std::atomic<int> asked_ = 0;
  std::unique_ptr<DescriptorDoor> door_;
};

TEST_F(FileGiversTest, AWorkerOfThisHostGivesItsFileAndHasItLeased) {
  start();
  FileGivers givers(options());
  EXPECT_TRUE(givers.empty());
  givers.update(view_of(worker()));
  EXPECT_FALSE(givers.empty());
  const uint64_t before = GivenFile::open();
  Result<SourceFilePtr> given = open(*givers.find(kWorker));
  ASSERT_TRUE(given) << given.error().to_string();
  const SourceFilePtr file = *given;
  given = SourceFilePtr();
  EXPECT_EQ(door_->leases(), 1u);
  EXPECT_EQ(GivenFile::open(), before + 1);
  EXPECT_TRUE(file->immutable());
  EXPECT_EQ(file->size(), 10u);
  std::string into(4, '?');
  EXPECT_TRUE(executor_.wait(file->read({}, 3, std::as_writable_bytes(std::span(into)))));
  EXPECT_EQ(into, "defg");
  EXPECT_EQ(
      executor_.wait(file->read({}, 8, std::as_writable_bytes(std::span(into)))).error().code(),
      StatusCode::kOutOfRange);
  EXPECT_FALSE(file->try_read(8, std::as_writable_bytes(std::span(into))));
  // The worker's end does not affect an open file.
  executor_.wait(door_->stop());
  door_ = nullptr;
  fs::remove(folder_ / "cached");
  EXPECT_TRUE(executor_.wait(file->read({}, 0, std::as_writable_bytes(std::span(into)))));
  EXPECT_EQ(into, "abcd");
}

TEST_F(FileGiversTest, WhatIsNotThereIsSaidAndAskedForAgain) {
  start();
  FileGivers givers(options());
  givers.update(view_of(worker()));
  for (int i = 0; i < 2; ++i) {
    const FileGiverPtr giver = givers.find(kWorker);
    ASSERT_NE(giver, nullptr);
    EXPECT_EQ(open(*giver, "other").error().code(), StatusCode::kNotFound);
  }
  EXPECT_EQ(asked_, 2);
}

TEST_F(FileGiversTest, OnlyThisHostsWorkersGiveAndOnlyThoseThatSayWhere) {
  FileGivers givers(options());
  WorkerInfo far = worker();
  far.host_id = "another boot";
  WorkerInfo silent = worker();
  silent.socket.clear();
  WorkerInfo odd = worker();
  odd.socket = "not/absolute";
  for (const WorkerInfo& info : {far, silent, odd}) {
    givers.update(view_of(info));
    EXPECT_EQ(givers.find(kWorker), nullptr);
    EXPECT_TRUE(givers.empty());
  }
  FileGiversOptions unknown = options();
  unknown.host_id.clear();
  FileGivers nowhere(std::move(unknown));
  WorkerInfo without = worker();
  without.host_id.clear();
  nowhere.update(view_of(without));
  EXPECT_TRUE(nowhere.empty());
  givers.update(view_of(worker()));
  EXPECT_NE(givers.find(kWorker), nullptr);
  givers.update(ClusterView());
  EXPECT_EQ(givers.find(kWorker), nullptr) << "its lease is gone";
}

// Containers of one host, or hosts cloned while running: one path, two workers.
TEST_F(FileGiversTest, AnotherWorkerAtTheSamePathGivesNothing) {
  start();
  FileGivers givers(options());
  givers.update(view_of(worker(kOther)));
  EXPECT_EQ(open(*givers.find(kOther)).error().code(), StatusCode::kNotFound);
  EXPECT_EQ(asked_, 1);
  EXPECT_EQ(door_->leases(), 0u);
}

TEST_F(FileGiversTest, WhoDoesNotAnswerIsLeftAloneForAWhile) {
  FileGivers givers(options());
  givers.update(view_of(worker()));
  EXPECT_EQ(open(*givers.find(kWorker)).error().code(), StatusCode::kUnavailable) << "no socket";
  EXPECT_EQ(givers.find(kWorker), nullptr);
  // After a new record it is tried at once.
  WorkerInfo moved = worker();
  moved.socket = folder_ / "elsewhere";
  givers.update(view_of(moved));
  EXPECT_NE(givers.find(kWorker), nullptr);
}

TEST_F(FileGiversTest, OneThatStandsStillCostsItsPatienceOnce) {
  const File listening(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  socket_.copy(address.sun_path, sizeof address.sun_path - 1);
  ASSERT_EQ(bind(listening.fd(), reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
  ASSERT_EQ(listen(listening.fd(), 10), 0);
  FileGiversOptions impatient = options();
  impatient.patience = 20ms;
  FileGivers givers(std::move(impatient));
  givers.update(view_of(worker()));
  EXPECT_EQ(open(*givers.find(kWorker)).error().code(), StatusCode::kTimedOut);
  EXPECT_EQ(givers.find(kWorker), nullptr);
}

TEST_F(FileGiversTest, WhoGoesAwayBlamesNobody) {
  FileGivers givers(options());
  givers.update(view_of(worker()));
  const FileGiverPtr giver = givers.find(kWorker);
  std::stop_source stop;
  stop.request_stop();
  PeerReadRequest request{.mount = "/data",
                          .file = FileRef::make({}, "here", Version::etag("e"), 10),
                          .range = {0, 10}};
  auto context = Context::background().with_cancel(stop.get_token());
  EXPECT_EQ(executor_.wait(giver->open(context, std::move(request))).error().code(),
            StatusCode::kCancelled);
  EXPECT_NE(givers.find(kWorker), nullptr);
}

class OwnGiver : public FileGiver {
 public:
  bool usable() const override { return true; }
  Task<Result<SourceFilePtr>> open(Context, PeerReadRequest) override { co_return SourceFilePtr(); }
};

TEST_F(FileGiversTest, ThisProcessNeedsNoSocket) {
  FileGiversOptions with = options();
  const auto own = std::make_shared<OwnGiver>();
  with.own = [own](const WorkerInfo& info) -> FileGiverPtr {
    return info.id == kWorker ? own : nullptr;
  };
  FileGivers givers(std::move(with));
  WorkerInfo self = worker();
  self.socket.clear();
  ClusterView view = view_of(self);
  WorkerInfo other = worker(kOther);
  other.socket.clear();
  view.workers[kOther] = other;
  givers.update(view);
  EXPECT_EQ(givers.find(kWorker), own);
  EXPECT_EQ(givers.find(kOther), nullptr);
}

}  // namespace
}  // namespace leat
