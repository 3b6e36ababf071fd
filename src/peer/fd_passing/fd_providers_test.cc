// SPDX-License-Identifier: Apache-2.0
// Which workers of a cluster pass files to this host, over real sockets.
#include "peer/fd_passing/fd_providers.h"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <filesystem>
#include <fstream>
#include <thread>

#include "auth/request_verifier.h"
#include "peer/fd_passing/fd_server.h"
#include "peer/fd_passing/passed_file.h"
#include "runtime/disk.h"
#include "runtime/executor.h"

namespace leat {
namespace {

namespace fs = std::filesystem;
using namespace std::chrono_literals;

const WorkerId kWorker(*Id128::from_hex("101112131415161718191a1b1c1d1e1f"));
const WorkerId kOther(*Id128::from_hex("202122232425262728292a2b2c2d2e2f"));

class FdProvidersTest : public ::testing::Test {
 protected:
  FdProvidersTest() {
    fs::create_directories(folder_);
    std::ofstream(folder_ / "cached") << "abcdefghij";
    file_ = std::make_shared<File>(::open((folder_ / "cached").c_str(), O_RDONLY | O_CLOEXEC));
  }
  ~FdProvidersTest() override {
    if (server_ != nullptr) executor_.block_on(server_->stop());
    fs::remove_all(folder_);
  }

  void start() {
    server_ = FdServer::start(
                  socket_,
                  [this](Context, HttpRequest request) { return answer(this, std::move(request)); },
                  {}, executor_)
                  .value();
  }
  static Task<Result<PassedFd>> answer(FdProvidersTest* test, HttpRequest request) {
    ++test->requests_;
    auto principal = test->verifier_.verify(request);
    if (!principal) co_return Error(principal.error());
    auto asked = fd_request_from(request);
    if (!asked) co_return Error(asked.error());
    if (asked->file.key != "here") co_return error(StatusCode::kNotFound, "not complete");
    co_return PassedFd{test->file_, test->file_->fd()};
  }

  FdProvidersOptions options() {
    auto token = issue(Secret(std::string(32, 's')), TokenClaims::of_worker(WorkerId()));
    return {.host_id = "this boot",
            .signer = std::make_shared<RequestSigner>(*token),
            .timeout = 20s,
            .backoff = std::chrono::hours(1)};
  }
  ClusterView view_of(WorkerInfo info) {
    ClusterView view;
    view.workers[info.id] = std::move(info);
    return view;
  }
  WorkerInfo worker(WorkerId id = kWorker) {
    return {.id = id, .address = "w:1", .host_id = "this boot", .fd_socket = socket_};
  }
  Result<SourceFilePtr> open(FdProvider& provider, const std::string& key = "here") {
    PeerReadRequest request{
        .mount = "/data", .file = FileRef::make({}, key, Version::etag("e"), 10), .range = {0, 10}};
    return executor_.block_on(provider.open(Context::background(), std::move(request)));
  }

  const fs::path folder_ = fs::temp_directory_path() / ("leat-give-" + Id128::random().to_hex());
  const std::string socket_ = folder_ / "files";
  Executor executor_{{.threads = 2}};
  RequestVerifier verifier_{
      std::make_shared<const SecretSet>(std::vector{Secret(std::string(32, 's'))}),
      {.self = kWorker}};
  std::shared_ptr<File> file_;
  std::atomic<int> requests_ = 0;
  std::unique_ptr<FdServer> server_;
};

TEST_F(FdProvidersTest, LocalWorkerPassesFileUnderLease) {
  start();
  FdProviders providers(options());
  EXPECT_TRUE(providers.empty());
  providers.update(view_of(worker()));
  EXPECT_FALSE(providers.empty());
  const uint64_t before = PassedFile::open();
  Result<SourceFilePtr> given = open(*providers.find(kWorker));
  ASSERT_TRUE(given) << given.error().to_string();
  const SourceFilePtr file = *given;
  given = SourceFilePtr();
  EXPECT_EQ(server_->leases(), 1u);
  EXPECT_EQ(PassedFile::open(), before + 1);
  EXPECT_TRUE(file->immutable());
  EXPECT_EQ(file->size(), 10u);
  std::string into(4, '?');
  EXPECT_TRUE(executor_.block_on(file->read({}, 3, std::as_writable_bytes(std::span(into)))));
  EXPECT_EQ(into, "defg");
  EXPECT_EQ(
      executor_.block_on(file->read({}, 8, std::as_writable_bytes(std::span(into)))).error().code(),
      StatusCode::kOutOfRange);
  EXPECT_FALSE(file->try_read(8, std::as_writable_bytes(std::span(into))));
  // The worker's end does not affect an open file.
  executor_.block_on(server_->stop());
  server_ = nullptr;
  fs::remove(folder_ / "cached");
  EXPECT_TRUE(executor_.block_on(file->read({}, 0, std::as_writable_bytes(std::span(into)))));
  EXPECT_EQ(into, "abcd");
}

TEST_F(FdProvidersTest, AbsentFileIsRequestedAgain) {
  start();
  FdProviders providers(options());
  providers.update(view_of(worker()));
  for (int i = 0; i < 2; ++i) {
    const FdProviderPtr provider = providers.find(kWorker);
    ASSERT_NE(provider, nullptr);
    EXPECT_EQ(open(*provider, "other").error().code(), StatusCode::kNotFound);
  }
  EXPECT_EQ(requests_, 2);
}

TEST_F(FdProvidersTest, OnlyLocalWorkersWithASocketPassFiles) {
  FdProviders providers(options());
  WorkerInfo far = worker();
  far.host_id = "another boot";
  WorkerInfo silent = worker();
  silent.fd_socket.clear();
  WorkerInfo odd = worker();
  odd.fd_socket = "not/absolute";
  for (const WorkerInfo& info : {far, silent, odd}) {
    providers.update(view_of(info));
    EXPECT_EQ(providers.find(kWorker), nullptr);
    EXPECT_TRUE(providers.empty());
  }
  FdProvidersOptions unknown = options();
  unknown.host_id.clear();
  FdProviders nowhere(std::move(unknown));
  WorkerInfo without = worker();
  without.host_id.clear();
  nowhere.update(view_of(without));
  EXPECT_TRUE(nowhere.empty());
  providers.update(view_of(worker()));
  EXPECT_NE(providers.find(kWorker), nullptr);
  providers.update(ClusterView());
  EXPECT_EQ(providers.find(kWorker), nullptr) << "its lease is gone";
}

// Containers of one host, or hosts cloned while running: one path, two workers.
TEST_F(FdProvidersTest, AnotherWorkerAtThePathPassesNothing) {
  start();
  FdProviders providers(options());
  providers.update(view_of(worker(kOther)));
  EXPECT_EQ(open(*providers.find(kOther)).error().code(), StatusCode::kNotFound);
  EXPECT_EQ(requests_, 1);
  EXPECT_EQ(server_->leases(), 0u);
}

TEST_F(FdProvidersTest, SilentWorkerIsBackedOff) {
  FdProviders providers(options());
  providers.update(view_of(worker()));
  EXPECT_EQ(open(*providers.find(kWorker)).error().code(), StatusCode::kUnavailable) << "no socket";
  EXPECT_EQ(providers.find(kWorker), nullptr);
  // After a new record it is tried at once.
  WorkerInfo moved = worker();
  moved.fd_socket = folder_ / "elsewhere";
  providers.update(view_of(moved));
  EXPECT_NE(providers.find(kWorker), nullptr);
}

TEST_F(FdProvidersTest, StoppedWorkerCostsOneTimeout) {
  const File listening(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  socket_.copy(address.sun_path, sizeof address.sun_path - 1);
  ASSERT_EQ(bind(listening.fd(), reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
  ASSERT_EQ(listen(listening.fd(), 10), 0);
  FdProvidersOptions impatient = options();
  impatient.timeout = 20ms;
  FdProviders providers(std::move(impatient));
  providers.update(view_of(worker()));
  EXPECT_EQ(open(*providers.find(kWorker)).error().code(), StatusCode::kTimedOut);
  EXPECT_EQ(providers.find(kWorker), nullptr);
}

TEST_F(FdProvidersTest, CancelledOpenDoesNotBackOff) {
  FdProviders providers(options());
  providers.update(view_of(worker()));
  const FdProviderPtr provider = providers.find(kWorker);
  std::stop_source stop;
  stop.request_stop();
  PeerReadRequest request{.mount = "/data",
                          .file = FileRef::make({}, "here", Version::etag("e"), 10),
                          .range = {0, 10}};
  auto context = Context::background().with_cancel(stop.get_token());
  EXPECT_EQ(executor_.block_on(provider->open(context, std::move(request))).error().code(),
            StatusCode::kCancelled);
  EXPECT_NE(providers.find(kWorker), nullptr);
}

class OwnGiver : public FdProvider {
 public:
  bool usable() const override { return true; }
  Task<Result<SourceFilePtr>> open(Context, PeerReadRequest) override { co_return SourceFilePtr(); }
};

TEST_F(FdProvidersTest, ThisProcessNeedsNoSocket) {
  FdProvidersOptions with = options();
  const auto own = std::make_shared<OwnGiver>();
  with.own = [own](const WorkerInfo& info) -> FdProviderPtr {
    return info.id == kWorker ? own : nullptr;
  };
  FdProviders providers(std::move(with));
  WorkerInfo self = worker();
  self.fd_socket.clear();
  ClusterView view = view_of(self);
  WorkerInfo other = worker(kOther);
  other.fd_socket.clear();
  view.workers[kOther] = other;
  providers.update(view);
  EXPECT_EQ(providers.find(kWorker), own);
  EXPECT_EQ(providers.find(kOther), nullptr);
}

}  // namespace
}  // namespace leat
