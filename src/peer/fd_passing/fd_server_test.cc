// SPDX-License-Identifier: Apache-2.0
// Server and client over a real socket, and each of them against a peer that violates the protocol.
#include "peer/fd_passing/fd_server.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <boost/asio/co_spawn.hpp>
#include <filesystem>
#include <fstream>
#include <future>
#include <thread>

#include "auth/request_verifier.h"
#include "peer/fd_passing/fd_client.h"
#include "wire/fd_message.h"

namespace leat {
namespace {

namespace fs = std::filesystem;
using namespace std::chrono_literals;

const WorkerId kWorker(*Id128::from_hex("101112131415161718191a1b1c1d1e1f"));

size_t open_descriptors() {
  return static_cast<size_t>(std::distance(fs::directory_iterator("/proc/self/fd"), {}));
}

template <class Condition>
void wait_until(Condition condition) {
  while (!condition()) std::this_thread::yield();
}

sockaddr_un address_of(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  path.copy(address.sun_path, sizeof address.sun_path - 1);
  return address;
}

File connected_to(const std::string& path) {
  File made(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const sockaddr_un address = address_of(path);
  EXPECT_EQ(connect(made.fd(), reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
  return made;
}

// Returns all bytes until the other end closes.
std::string said_by(const File& file) {
  std::string text;
  char byte;
  while (recv(file.fd(), &byte, 1, 0) == 1) text += byte;
  return text;
}

class FdServerTest : public ::testing::Test {
 protected:
  FdServerTest() {
    fs::create_directories(folder_);
    std::ofstream(folder_ / "cached") << "abcdefghij";
    owner_ = std::make_shared<File>(::open((folder_ / "cached").c_str(), O_RDWR | O_CLOEXEC));
    fs::remove(folder_ / "cached");  // a file in use may have no name any more
  }
  ~FdServerTest() override {
    if (server_ != nullptr) executor_.block_on(server_->stop());
    fs::remove_all(folder_);
  }

  void start(FdServerOptions options = {}) {
    auto server = FdServer::start(
        socket_, [this](Context, HttpRequest request) { return answer(this, std::move(request)); },
        options, executor_);
    ASSERT_TRUE(server) << server.error().to_string();
    server_ = *std::move(server);
  }
  static Task<Result<PassedFd>> answer(FdServerTest* test, HttpRequest request) {
    auto principal = test->verifier_.verify(request);
    if (!principal) co_return Error(principal.error());
    auto asked = fd_request_from(request);
    if (!asked) co_return Error(asked.error());
    if (asked->file.key != "a b") co_return error(StatusCode::kNotFound, "not complete");
    std::lock_guard lock(test->mutex_);
    co_return PassedFd{test->owner_, test->owner_->fd()};
  }

  Result<LeasedFile> open(std::string key = "a b", char secret = 's',
                          Context context = Context::background().with_timeout(60s)) {
    const auto token = issue(Secret(std::string(32, secret)), TokenClaims::of_worker(WorkerId()));
    const FdClient client(socket_, kWorker, std::make_shared<RequestSigner>(*token));
    const PeerReadRequest request{.mount = "/data",
                                  .file = FileRef::make({}, std::move(key), Version::etag("e"), 10),
                                  .range = {}};
    return executor_.block_on(client.open(std::move(context), request));
  }
  StatusCode refusal(Result<LeasedFile> file) {
    EXPECT_FALSE(file);
    return file ? StatusCode::kInternal : file.error().code();
  }

  const fs::path folder_ = fs::temp_directory_path() / ("leat-fd-" + Id128::random().to_hex());
  const std::string socket_ = folder_ / "descriptors";
  Executor executor_{{.threads = 2}};
  RequestVerifier verifier_{
      std::make_shared<const SecretSet>(std::vector{Secret(std::string(32, 's'))}),
      {.self = kWorker}};
  std::mutex mutex_;
  std::shared_ptr<File> owner_;
  std::unique_ptr<FdServer> server_;
};

TEST_F(FdServerTest, AReaderGetsTheFileAndCanOnlyRead) {
  start();
  auto file = open();
  ASSERT_TRUE(file) << file.error().to_string();
  char into[10];
  ASSERT_EQ(pread(file->fd(), into, sizeof into, 0), 10);
  EXPECT_EQ(std::string(into, 10), "abcdefghij");
  EXPECT_EQ(fcntl(file->fd(), F_GETFL) & O_ACCMODE, O_RDONLY);
  EXPECT_NE(fcntl(file->fd(), F_GETFD) & FD_CLOEXEC, 0);
  EXPECT_EQ(pwrite(file->fd(), "x", 1, 0), -1);
  // A separate open file: neither offset nor flags are shared.
  EXPECT_EQ(lseek(file->fd(), 5, SEEK_SET), 5);
  EXPECT_EQ(lseek(owner_->fd(), 0, SEEK_CUR), 0);
  EXPECT_EQ(fcntl(file->fd(), F_SETFL, O_NONBLOCK), 0);
  EXPECT_EQ(fcntl(owner_->fd(), F_GETFL) & O_NONBLOCK, 0);
}

TEST_F(FdServerTest, FileCountsAsUsedWhileReaderHasIt) {
  start();
  std::optional<LeasedFile> file = *open();
  std::weak_ptr<File> used = owner_;
  {
    std::lock_guard lock(mutex_);
    owner_.reset();
  }
  EXPECT_EQ(server_->leases(), 1u);
  EXPECT_FALSE(used.expired());
  file.reset();
  wait_until([&] { return used.expired() && server_->leases() == 0; });
}

TEST_F(FdServerTest, ForbiddenFileIsReportedAsAbsent) {
  start();
  EXPECT_EQ(refusal(open("other")), StatusCode::kNotFound);
  EXPECT_EQ(refusal(open("a b", 'x')), StatusCode::kNotFound);
  EXPECT_EQ(refusal(open("a/../b")), StatusCode::kNotFound);
  EXPECT_TRUE(open());
}

TEST_F(FdServerTest, MalformedRequestsAreRejected) {
  start({.request_timeout = 1h});
  for (const std::string& text :
       {std::string("\n\n"), std::string("GET / HTTP/1.1\n\n"), std::string("DESCRIPTOR x\n\n"),
        std::string("DESCRIPTOR /peer/v1/bytes\nno field\n\n"),
        std::string("DESCRIPTOR /peer/v1/bytes\na: b\na: c\n\n"),
        std::string("DESCRIPTOR /peer/v1/bytes\n\nand more"),
        std::string(kFdRequestBytesMax + 1, 'x')}) {
    const File client = connected_to(socket_);
    ASSERT_EQ(send(client.fd(), text.data(), text.size(), MSG_NOSIGNAL),
              static_cast<ssize_t>(text.size()));
    EXPECT_EQ(said_by(client), "0") << text.substr(0, 40);
  }
  EXPECT_TRUE(open());
}

TEST_F(FdServerTest, SilenceIsEnded) {
  start({.request_timeout = 50ms});
  EXPECT_EQ(said_by(connected_to(socket_)), "") << "it said nothing";
  const File half = connected_to(socket_);
  // On a busy machine the connection may have timed out already.
  static_cast<void>(send(half.fd(), "DESCR", 5, MSG_NOSIGNAL));
  EXPECT_EQ(said_by(half), "");
  wait_until([&] { return open().has_value(); });
}

TEST_F(FdServerTest, SilentClientsDoNotBlockOthers) {
  start({.pending_max = 2, .request_timeout = 50ms});
  std::vector<File> mute;
  for (int i = 0; i < 6; ++i) mute.push_back(connected_to(socket_));
  // On a busy machine a request may time out; retry.
  wait_until([&] { return open().has_value(); });
}

TEST_F(FdServerTest, PassedFilesAreBounded) {
  start({.leases_max = 1});
  std::optional<LeasedFile> first = *open();
  EXPECT_EQ(refusal(open()), StatusCode::kNotFound);
  first.reset();
  wait_until([&] { return server_->leases() == 0; });
  EXPECT_TRUE(open());
}

TEST_F(FdServerTest, NoDescriptorIsLeftOpen) {
  start();
  ASSERT_TRUE(open());
  wait_until([&] { return server_->leases() == 0; });
  const size_t before = open_descriptors();
  for (int i = 0; i < 50; ++i) {
    EXPECT_TRUE(open());
    EXPECT_FALSE(open("other"));
    // A client that disconnects without taking the file.
    const File client = connected_to(socket_);
    const auto token = issue(Secret(std::string(32, 's')), TokenClaims::of_worker(WorkerId()));
    HttpRequest request = to_fd_request(
        {.mount = "/data", .file = FileRef::make({}, "a b", Version::etag("e"), 10), .range = {}});
    request.headers.set(kToField, kWorker.to_hex());
    RequestSigner(*token).sign(request);
    const std::string text = encode_fd_request(request);
    ASSERT_EQ(send(client.fd(), text.data(), text.size(), 0), static_cast<ssize_t>(text.size()));
  }
  wait_until([&] { return server_->leases() == 0 && open_descriptors() <= before; });
}

TEST_F(FdServerTest, StoppingEndsAllConnectionsAndNoFile) {
  start();
  auto file = open();
  ASSERT_TRUE(file);
  const File mute = connected_to(socket_);
  executor_.block_on(server_->stop());
  EXPECT_EQ(said_by(mute), "");
  EXPECT_FALSE(fs::exists(socket_));
  char byte;
  EXPECT_EQ(pread(file->fd(), &byte, 1, 9), 1);
  EXPECT_EQ(refusal(open()), StatusCode::kUnavailable);
  server_ = nullptr;
}

TEST_F(FdServerTest, ReplacesStaleSocket) {
  start();
  struct stat found{};
  ASSERT_EQ(stat(socket_.c_str(), &found), 0);
  EXPECT_EQ(found.st_mode & 0777, 0666u);
  auto handler = [this](Context, HttpRequest request) { return answer(this, std::move(request)); };
  auto second = FdServer::start(socket_, handler, {}, executor_);
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().code(), StatusCode::kBusy);
  executor_.block_on(server_->stop());
  {
    const File stale(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    const sockaddr_un address = address_of(socket_);
    ASSERT_EQ(bind(stale.fd(), reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
  }
  start();
  EXPECT_TRUE(open());
  executor_.block_on(server_->stop());
  std::ofstream(socket_.c_str()) << "a file";
  second = FdServer::start(socket_, handler, {}, executor_);
  EXPECT_EQ(second.error().code(), StatusCode::kExists);
  server_ = nullptr;
}

// A process at the socket that is no worker.
class BrokenFdServerTest : public FdServerTest {
 protected:
  BrokenFdServerTest() : listening_(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    const sockaddr_un address = address_of(socket_);
    EXPECT_EQ(bind(listening_.fd(), reinterpret_cast<const sockaddr*>(&address), sizeof address),
              0);
    EXPECT_EQ(listen(listening_.fd(), 10), 0);
  }
  // Answers one request with a byte and descriptors.
  StatusCode answered(char byte, const std::vector<int>& fds) {
    std::jthread server_thread([&] {
      const File client(accept4(listening_.fd(), nullptr, nullptr, SOCK_CLOEXEC));
      std::string asked;
      char next;
      while (!end_of_fd_request(asked) && recv(client.fd(), &next, 1, 0) == 1) {
        asked += next;
      }
      iovec piece{&byte, 1};
      std::array<char, CMSG_SPACE(4 * sizeof(int))> control{};
      msghdr message{};
      message.msg_iov = &piece;
      message.msg_iovlen = 1;
      if (!fds.empty()) {
        message.msg_control = control.data();
        message.msg_controllen = CMSG_SPACE(fds.size() * sizeof(int));
        cmsghdr* rights = CMSG_FIRSTHDR(&message);
        rights->cmsg_level = SOL_SOCKET;
        rights->cmsg_type = SCM_RIGHTS;
        rights->cmsg_len = CMSG_LEN(fds.size() * sizeof(int));
        std::memcpy(CMSG_DATA(rights), fds.data(), fds.size() * sizeof(int));
      }
      EXPECT_EQ(sendmsg(client.fd(), &message, MSG_NOSIGNAL), 1);
    });
    return refusal(open());
  }
  // Accepts a connection within `patience`; returns an empty File after that.
  File accepted_within(std::chrono::milliseconds patience) {
    pollfd waiting{listening_.fd(), POLLIN, 0};
    if (poll(&waiting, 1, static_cast<int>(patience.count())) != 1) return {};
    return File(accept4(listening_.fd(), nullptr, nullptr, SOCK_CLOEXEC));
  }

  const File listening_;
};

TEST_F(BrokenFdServerTest, BadAnswersAreCheckedAndClosed) {
  int ends[2];
  ASSERT_EQ(pipe2(ends, O_CLOEXEC), 0);
  const File reading(ends[0]), writing(ends[1]);
  std::ofstream(folder_ / "short") << "abc";
  const File small(::open((folder_ / "short").c_str(), O_RDONLY | O_CLOEXEC));
  const int file = owner_->fd();
  EXPECT_EQ(answered('0', {}), StatusCode::kNotFound);
  const size_t before = open_descriptors();  // those of the executor
  EXPECT_EQ(answered('x', {}), StatusCode::kCorrupt);
  EXPECT_EQ(answered('1', {}), StatusCode::kCorrupt);
  EXPECT_EQ(answered('0', {file}), StatusCode::kCorrupt);
  EXPECT_EQ(answered('1', {file, file}), StatusCode::kCorrupt);
  EXPECT_EQ(answered('1', {file, file, file, file}), StatusCode::kCorrupt);
  EXPECT_EQ(answered('1', {reading.fd()}), StatusCode::kCorrupt);
  EXPECT_EQ(answered('1', {small.fd()}), StatusCode::kCorrupt);
  wait_until([&] { return open_descriptors() <= before; });
}

TEST_F(BrokenFdServerTest, WaitEndsWithTheContext) {
  // A client that times out before it connects does not test the silence.
  bool connected = false;
  for (auto patience = 20ms; !connected && patience < 60s; patience *= 2) {
    const auto late = Context::background().with_timeout(patience);
    EXPECT_EQ(refusal(open("a b", 's', late)), StatusCode::kTimedOut);
    while (accepted_within(0ms)) connected = true;
  }
  EXPECT_TRUE(connected);
  std::stop_source stop;
  auto waiting = std::async(std::launch::async, [&] {
    return refusal(open("a b", 's', Context::background().with_cancel(stop.get_token())));
  });
  const File silent = accepted_within(60s);
  EXPECT_TRUE(silent);
  stop.request_stop();
  EXPECT_EQ(waiting.get(), StatusCode::kCancelled);
}

TEST_F(BrokenFdServerTest, ClosedConnectionIsUnavailable) {
  std::jthread server_thread(
      [&] { const File client(accept4(listening_.fd(), nullptr, nullptr, SOCK_CLOEXEC)); });
  EXPECT_EQ(refusal(open()), StatusCode::kUnavailable);
}

TEST(FdMessage, RequestsComeBack) {
  HttpRequest request;
  request.method = kFdMethod;
  request.path = "/peer/v1/bytes";
  request.query = {{"key", "a\nb\xff"}, {"mount", "/m"}};
  request.headers.set("leat-date", "7");
  request.headers.set("leat-failover-for", "");
  const std::string text = encode_fd_request(request);
  EXPECT_EQ(
      text,
      "DESCRIPTOR /peer/v1/bytes?key=a%0Ab%FF&mount=/m\nleat-date: 7\nleat-failover-for: \n\n");
  auto there = decode_fd_request(text);
  ASSERT_TRUE(there) << there.error().to_string();
  EXPECT_EQ(there->path, request.path);
  EXPECT_EQ(there->query, request.query);
  EXPECT_EQ(there->headers.all(), request.headers.all());
  // Encoded as by the sender, because that was signed.
  const std::string target = "/peer/v1/bytes?mount=%2Fm&key=a+b";
  there = decode_fd_request("DESCRIPTOR " + target + "\n\n");
  ASSERT_TRUE(there) << there.error().to_string();
  EXPECT_EQ(there->target, target);
  EXPECT_EQ(there->query.at("key"), "a b");
}

}  // namespace
}  // namespace leat
