// SPDX-License-Identifier: Apache-2.0
#include "cluster/etcd_registry.h"

#include <fmt/format.h>

#include <atomic>
#include <map>
#include <mutex>
#include <utility>

#include "base/check.h"
#include "cluster/etcd_codec.h"
#include "http/client.h"
#include "runtime/executor.h"
#include "runtime/shared_promise.h"

namespace leat {
namespace {

constexpr size_t kPageEntries = 1000;
// Attempts of a listing of several pages, if etcd compacts its revision between two pages.
constexpr int kListingsMax = 20;
constexpr unsigned kConnectionsMax = 8;  // per endpoint, without watches
constexpr uint64_t kAnswerBytesMax = 64 * kMiB;
constexpr size_t kWatchLineBytesMax = 16 * kMiB;  // etcd splits what is over its 2 MiB
constexpr Clock::duration kPauseBetweenRounds = std::chrono::milliseconds(100);
// A watch ends after as many consecutive requests to its etcd without an answer.
constexpr int kUnansweredMax = 2;
// etcd reports every 10 minutes that a watch is alive (progressReportInterval in its
// api/v3rpc/watch.go).
constexpr Clock::duration kWatchSilenceMax = std::chrono::minutes(25);

// Whether a request without an answer may be sent again.
enum class Repeatable : uint8_t { kYes, kNo };

bool is_no_answer(StatusCode code) {
  return code == StatusCode::kUnavailable || code == StatusCode::kTimedOut;
}

// Login state with the current token.
class Login {
 public:
  explicit Login(bool needed) : needed_(needed) {}

  bool needed() const { return needed_; }
  std::string token() const {
    std::lock_guard lock(mutex_);
    return token_;
  }
  void keep(std::string token) {
    std::lock_guard lock(mutex_);
    token_ = std::move(token);
  }
  // Drops a rejected token, unless it was replaced already.
  void drop(const std::string& refused) {
    std::lock_guard lock(mutex_);
    if (token_ == refused) token_.clear();
  }

 private:
  const bool needed_;
  mutable std::mutex mutex_;
  std::string token_;
};

// Splits the stream of a watch into lines and passes on their events.
class WatchLines {
 public:
  WatchLines(size_t prefix_size, RegistryRevision after, RegistrySink sink)
      : prefix_size_(prefix_size), after_(after), sink_(std::move(sink)) {}

  // Returns true if the sink ended the watch.
  bool refused() const { return refused_; }

  Task<Result<>> take(Bytes piece) {
    text_ += piece.to_string();
    for (size_t end; (end = text_.find('\n')) != text_.npos;) {
      const std::string line = text_.substr(0, end);
      text_.erase(0, end + 1);
      if (line.empty()) continue;
      LEAT_CO_CHECK_OK(co_await take_line(line));
    }
    if (text_.size() > kWatchLineBytesMax) {
      co_return error(StatusCode::kInternal, "etcd sends a line without an end");
    }
    co_return Result<>();
  }

 private:
  Task<Result<>> take_line(std::string line) {
    LEAT_CO_TRY(etcd::WatchAnswer answer, etcd::watch_answer(line));
    if (answer.ended) co_return Error(std::move(*answer.ended));
    for (RegistryEvent& event : answer.events.events) {
      if (event.entry.changed <= after_) continue;
      event.entry.key.erase(0, std::min(prefix_size_, event.entry.key.size()));
      gathered_.events.push_back(std::move(event));
    }
    gathered_.revision = std::max(gathered_.revision, answer.events.revision);
    if (answer.fragment) co_return Result<>();
    if (answer.created && answer.now < after_) {
      co_return error(StatusCode::kOutOfRange,
                      fmt::format("etcd is at revision {}, changes after {} were requested",
                                  answer.now, after_));
    }
    if (answer.created) co_return co_await hand_on({.revision = after_});
    RegistryEvents whole = std::exchange(gathered_, {});
    after_ = std::max(after_, whole.revision);
    if (whole.events.empty()) co_return Result<>();
    co_return co_await hand_on(std::move(whole));
  }

  Task<Result<>> hand_on(RegistryEvents events) {
    Result<> taken = co_await sink_(std::move(events));
    refused_ = !taken;
    co_return taken;
  }

  const size_t prefix_size_;
  RegistryRevision after_;
  const RegistrySink sink_;
  std::string text_;
  RegistryEvents gathered_;
  bool refused_ = false;
};

Task<Result<>> pass_to(std::shared_ptr<WatchLines> lines, Bytes piece) {
  return lines->take(std::move(piece));
}

// A watch and the health check of its etcd. The end of either ends the other.
class WatchedAnswers {
 public:
  explicit WatchedAnswers(const Context& context)
      : of_watch_(context.with_cancel(ending_.get_token())),
        of_asker_(Context::background().with_cancel(over_.get_token())),
        passes_on_(context.cancel, [ending = ending_]() mutable { ending.request_stop(); }) {}

  const Context& of_watch() const { return of_watch_; }
  const Context& of_asker() const { return of_asker_; }

  void end_watch() {
    unanswered_ = true;
    ending_.request_stop();
  }
  bool unanswered() const { return unanswered_; }

  void asker_ended() { ended_->set(true); }
  Task<> end_asker() {
    over_.request_stop();
    Result<bool> ended =
        co_await ended_->wait(Context::background(), "the end of a watch's health check");
    static_cast<void>(ended);
  }

 private:
  std::stop_source ending_;
  std::stop_source over_;
  const Context of_watch_;
  const Context of_asker_;
  std::stop_callback<std::function<void()>> passes_on_;
  std::atomic<bool> unanswered_ = false;
  const std::shared_ptr<SharedPromise<bool>> ended_ = SharedPromise<bool>::make();
};

class EtcdRegistryImpl : public EtcdRegistry {
 public:
  explicit EtcdRegistryImpl(EtcdOptions options)
      : options_(std::move(options)), login_(!options_.user.empty()) {
    LEAT_CHECK(!options_.endpoints.empty());
    for (const HttpEndpoint& endpoint : options_.endpoints) {
      clients_.emplace(endpoint.to_string(), client_of(endpoint, kConnectionsMax));
    }
  }

  Task<Result<RegistryView>> list(Context context, std::string prefix) override {
    for (int listings = 1;; ++listings) {
      Result<RegistryView> view = co_await list_pages(context, options_.prefix + prefix);
      const bool forgotten = !view && view.error().code() == StatusCode::kOutOfRange;
      if (!forgotten) co_return view;
      if (listings < kListingsMax) continue;
      co_return error(Status(StatusCode::kUnavailable,
                             "etcd is compacted faster than it can be listed", view.error()));
    }
  }

  Task<Result<RegistryRevision>> commit(Context context, RegistryChange change) override {
    LEAT_CO_CHECK_OK(check_sizes(change));
    for (auto& condition : change.conditions) condition.key.insert(0, options_.prefix);
    for (auto& put : change.puts) put.key.insert(0, options_.prefix);
    for (std::string& key : change.removals) key.insert(0, options_.prefix);
    const std::string question = etcd::commit_request(change);
    LEAT_CO_TRY(const std::string body,
                co_await ask(context, "/v3/kv/txn", question, Repeatable::kNo));
    LEAT_CO_TRY(const etcd::CommitAnswer answer, etcd::commit_answer(body));
    if (answer.succeeded) co_return answer.revision;
    co_return error(
        StatusCode::kVersionChanged,
        fmt::format("{} is not as it was any more",
                    change.conditions.empty() ? "the registry" : change.conditions[0].key));
  }

  Task<Result<RegistryLease>> grant(Context context, std::chrono::seconds ttl) override {
    if (ttl < std::chrono::seconds(1)) {
      co_return error(StatusCode::kInvalidArgument, "a lease lasts for a second at least");
    }
    const std::string question = etcd::grant_request(ttl);
    // a lease granted without our knowledge ends by itself
    LEAT_CO_TRY(const std::string body,
                co_await ask(context, "/v3/lease/grant", question, Repeatable::kYes));
    LEAT_CO_TRY(const etcd::LeaseAnswer answer, etcd::grant_answer(body));
    if (answer.lease == 0) co_return error(StatusCode::kInternal, "etcd granted no lease");
    co_return answer.lease;
  }

  Task<Result<std::chrono::seconds>> keep_alive(Context context, RegistryLease lease) override {
    const std::string question = etcd::lease_request(lease);
    LEAT_CO_TRY(const std::string body,
                co_await ask(context, "/v3/lease/keepalive", question, Repeatable::kYes));
    LEAT_CO_TRY(const etcd::LeaseAnswer answer, etcd::keep_alive_answer(body));
    if (answer.ttl.count() > 0) co_return answer.ttl;
    co_return error(StatusCode::kNotFound, fmt::format("lease {} has expired", lease));
  }

  Task<Result<>> revoke(Context context, RegistryLease lease) override {
    const std::string question = etcd::lease_request(lease);
    Result<std::string> body =
        co_await ask(context, "/v3/lease/revoke", question, Repeatable::kYes);
    if (body || body.error().code() == StatusCode::kNotFound) co_return Result<>();
    co_return Error(body.error());
  }

  Task<Result<>> watch(Context context, std::string prefix, RegistryRevision after,
                       RegistrySink sink) override {
    const HttpEndpoint endpoint = current();
    const std::string whole = options_.prefix + prefix;
    auto lines = std::make_shared<WatchLines>(options_.prefix.size(), after, std::move(sink));
    auto answers = std::make_shared<WatchedAnswers>(context);
    boost::asio::co_spawn(co_await boost::asio::this_coro::executor,
                          keep_asking(this, endpoint, whole, answers), terminate_on_exception);
    Result<> ended = co_await stream_watch(answers->of_watch(), endpoint, whole, after, lines);
    co_await answers->end_asker();
    if (answers->unanswered()) {
      ended = error(
          StatusCode::kUnavailable,
          fmt::format("etcd at {} does not respond; its watch was ended", endpoint.to_string()));
    }
    if (lines->refused() || !is_no_answer(ended.error().code()) || context.expired()) {
      co_return ended;
    }
    pass_by(endpoint);
    if (ended.error().code() == StatusCode::kUnavailable) co_return ended;
    // Our timeout, not the caller's.
    co_return error(Status(StatusCode::kUnavailable, "etcd does not answer", ended.error()));
  }

 private:
  static Result<> check_sizes(const RegistryChange& change) {
    for (const auto& put : change.puts) {
      if (put.value.size() <= kValueBytesMax) continue;
      return error(StatusCode::kInvalidArgument,
                   fmt::format("the value of {} has {} bytes, more than {}", put.key,
                               put.value.size(), kValueBytesMax));
    }
    return {};
  }

  // Returns kOutOfRange if etcd compacted the first page's revision before the last page.
  Task<Result<RegistryView>> list_pages(Context context, std::string whole) {
    RegistryView view;
    std::string from = whole;
    for (;;) {
      std::string question = etcd::range_request(whole, from, view.revision, kPageEntries);
      LEAT_CO_TRY(const std::string body,
                  co_await ask(context, "/v3/kv/range", question, Repeatable::kYes));
      LEAT_CO_TRY(etcd::RangeAnswer page, etcd::range_answer(body));
      if (view.revision == 0) view.revision = page.view.revision;
      for (RegistryEntry& entry : page.view.entries) {
        from = entry.key + '\0';
        entry.key.erase(0, options_.prefix.size());
        view.entries.push_back(std::move(entry));
      }
      if (!page.more || page.view.entries.empty()) co_return view;
    }
  }

  // Always returns an error.
  Task<Result<>> stream_watch(Context context, HttpEndpoint endpoint, std::string whole,
                              RegistryRevision after, std::shared_ptr<WatchLines> lines) {
    LEAT_CO_TRY(HttpRequest request,
                co_await signed_request(context, endpoint, "/v3/watch",
                                        etcd::watch_request(whole, after + 1)));
    // Otherwise a watch at a member that was cut off would stay silent.
    request.headers.set("Grpc-Metadata-hasleader", "true");
    const std::string token = login_.token();
    const HttpClient client = client_of(endpoint, 0);
    const HttpRequestOptions limits{.first_byte_timeout = options_.request_timeout,
                                    .idle_timeout = kWatchSilenceMax};
    Result<HttpResponse> response = co_await client.request_streamed(
        context, std::move(request),
        [lines](Bytes piece) { return pass_to(lines, std::move(piece)); }, limits);
    if (response && response->status != 200) {
      login_.drop(token);
      co_return Error(etcd::decode_error(response->status, response->body));
    }
    if (!response) co_return Error(response.error());
    co_return error(StatusCode::kUnavailable, "etcd ended the watch");
  }

  // A connection to a dead or hanging peer is as silent as one without news.
  static Task<> keep_asking(EtcdRegistryImpl* self, HttpEndpoint endpoint, std::string whole,
                            std::shared_ptr<WatchedAnswers> answers) {
    const Context context = answers->of_asker();
    const std::string question = etcd::range_request(whole, whole, 0, 1);
    const Clock::duration timeout = self->options_.request_timeout;
    for (int unanswered = 0; unanswered < kUnansweredMax;) {
      Result<> slept =
          co_await sleep_for(context, unanswered == 0 ? timeout * 2 : kPauseBetweenRounds);
      if (!slept) break;
      Result<std::string> body =
          co_await self->ask_at(context.with_timeout(timeout), endpoint, "/v3/kv/range", question);
      const bool answered = body || !is_no_answer(body.error().code());
      unanswered = answered ? 0 : unanswered + 1;
      if (unanswered == kUnansweredMax) answers->end_watch();
    }
    answers->asker_ended();
  }

  // With 0 connections each request opens its own: a watch keeps it until its end.
  HttpClient client_of(const HttpEndpoint& endpoint, unsigned connections) const {
    return HttpClient(endpoint, {.tls = options_.tls,
                                 .connections_max = connections,
                                 .connect_timeout = options_.request_timeout,
                                 .tcp_keepalive = connections == 0});
  }
  HttpClient kept_client(const HttpEndpoint& endpoint) const {
    return clients_.at(endpoint.to_string());
  }

  HttpEndpoint current() const {
    return options_.endpoints[current_.load(std::memory_order_relaxed) % options_.endpoints.size()];
  }
  // Moves on to the next endpoint, unless another request already did.
  void pass_by(const HttpEndpoint& endpoint) {
    size_t at = current_.load(std::memory_order_relaxed);
    const HttpEndpoint& asked = options_.endpoints[at % options_.endpoints.size()];
    if (asked.to_string() == endpoint.to_string()) current_.compare_exchange_strong(at, at + 1);
  }

  Task<Result<HttpRequest>> signed_request(Context context, HttpEndpoint endpoint, std::string path,
                                           std::string body) {
    HttpRequest request{.method = "POST", .path = std::move(path), .body = std::move(body)};
    if (login_.needed()) {
      if (login_.token().empty()) {
        LEAT_CO_CHECK_OK(co_await log_in(context, endpoint));
      }
      request.headers.set("Authorization", login_.token());
    }
    co_return request;
  }

  Task<Result<>> log_in(Context context, HttpEndpoint endpoint) {
    HttpRequest request{.method = "POST",
                        .path = "/v3/auth/authenticate",
                        .body = etcd::login_request(options_.user, options_.password)};
    Result<std::string> body = co_await post(context, endpoint, std::move(request));
    if (!body && !is_no_answer(body.error().code())) {
      co_return error(body.error().with_context(
          fmt::format("etcd at {} does not let '{}' in; are cluster.registry_user and the password "
                      "in cluster.registry_password_file those of a user there?",
                      endpoint.to_string(), options_.user)));
    }
    if (!body) co_return Error(body.error());
    LEAT_CO_TRY(std::string token, etcd::login_answer(*body));
    login_.keep(std::move(token));
    co_return Result<>();
  }

  // Returns the body of a successful answer.
  Task<Result<std::string>> post(Context context, HttpEndpoint endpoint, HttpRequest request) {
    const HttpClient client = kept_client(endpoint);
    LEAT_CO_TRY(HttpResponse response,
                co_await client.request(context, std::move(request), kAnswerBytesMax));
    if (response.status == 200) co_return std::move(response.body);
    co_return Error(etcd::decode_error(response.status, response.body));
  }

  Task<Result<std::string>> ask_at(Context context, HttpEndpoint endpoint, std::string path,
                                   std::string question) {
    for (int attempt = 0;; ++attempt) {
      LEAT_CO_TRY(HttpRequest request, co_await signed_request(context, endpoint, path, question));
      const std::string token = login_.token();
      Result<std::string> body = co_await post(context, endpoint, std::move(request));
      const bool refused = !body && body.error().code() == StatusCode::kPermissionDenied;
      if (!refused || attempt > 0 || !login_.needed()) co_return body;
      login_.drop(token);  // tokens end after minutes, and with etcd's process
    }
  }

  // Tries one endpoint after the other, each of them twice.
  Task<Result<std::string>> ask(Context context, std::string path, std::string question,
                                Repeatable repeatable) {
    const size_t attempts = options_.endpoints.size() * 2;
    for (size_t attempt = 1;; ++attempt) {
      const HttpEndpoint endpoint = current();
      const Context limited = context.with_timeout(options_.request_timeout);
      Result<std::string> body = co_await ask_at(limited, endpoint, path, question);
      if (body || !is_no_answer(body.error().code())) co_return body;
      LEAT_CO_CHECK_OK(context.check("a request to etcd"));
      pass_by(endpoint);
      if (repeatable == Repeatable::kNo || attempt >= attempts) {
        co_return error(Status(StatusCode::kUnavailable, "etcd does not answer", body.error()));
      }
      if (attempt % options_.endpoints.size() == 0) {
        LEAT_CO_CHECK_OK(co_await sleep_for(context, kPauseBetweenRounds));
      }
    }
  }

  const EtcdOptions options_;
  std::map<std::string, HttpClient> clients_;  // by endpoint; never changes
  std::atomic<size_t> current_ = 0;
  Login login_;
};

}  // namespace

std::unique_ptr<EtcdRegistry> EtcdRegistry::create(EtcdOptions options) {
  return std::make_unique<EtcdRegistryImpl>(std::move(options));
}

}  // namespace leat
