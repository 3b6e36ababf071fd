// SPDX-License-Identifier: Apache-2.0
// BadStore: an S3 store on a loopback socket that fails according to a plan, and is strict: it
// records forbidden client behaviour as a violation. Uses no test framework, so that the benchmarks
// can run it as a separate program.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <functional>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "source/lying_server_test.h"
#include "source/s3_request_test.h"
#include "source/store_answer_test.h"
#include "source/store_fault_test.h"
#include "source/stored_objects_test.h"

namespace leat::testing {

struct StoreTerms {
  bool is_signed = false;
  bool is_behind_proxy = false;    // clients name the host and port of a proxy
  bool demands_versions = false;   // a read has to name the version that it wants
  bool closes = false;             // one response per connection, announced in its head
  size_t page_entries = 1000;      // maximum entries of a listing page
  double requests_per_second = 0;  // more are throttled; zero: no limit
  double burst = 20;               // maximum burst
  StoreFault throttle{.kind = StoreFault::Kind::kSlowDown};
  // Maximum requests after half of the time of a Retry-After: those in flight. Zero: not checked.
  unsigned during_pause_max = 0;
  // A ceiling that the client keeps, counted from the store's start.
  double client_ceiling = 0;
};

class BadStore {
 public:
  using Kind = StoreFault::Kind;
  using Terms = StoreTerms;
  // Fault of the `nth` request, from 0, among identical ones.
  using Plan = std::function<StoreFault(const S3Request&, unsigned nth)>;
  struct Counts {
    uint64_t requests = 0, throttled = 0, stalled = 0, faults = 0;
  };

  explicit BadStore(
      Terms terms = {}, Plan plan = [](const S3Request&, unsigned) { return StoreFault(); })
      : terms_(std::move(terms)), plan_(std::move(plan)), tokens_(terms_.burst) {
    server_.then([this](const Exchange& exchange) { serve(exchange); });
  }

  StoredObjects& objects() { return objects_; }
  const StoredObjects& objects() const { return objects_; }
  std::string endpoint() const { return server_.endpoint(); }
  size_t connections() const { return server_.connections(); }
  void refuse() { server_.refuse(); }
  void accept_again() { server_.accept_again(); }

  Counts counts() const {
    std::lock_guard lock(mutex_);
    return counts_;
  }
  // Forbidden behaviour of the client.
  std::vector<std::string> violations() const {
    std::lock_guard lock(mutex_);
    return violations_;
  }
  // Whether a request for this key, or a listing of this prefix, had this response.
  bool has_befallen(Kind kind, const std::string& key) const {
    std::lock_guard lock(mutex_);
    return befallen_.contains({kind, key});
  }

 private:
  using Exchange = LyingServer::Exchange;
  using Now = std::chrono::steady_clock;

  void serve(const Exchange& exchange) {
    std::string authority = endpoint().substr(sizeof("http://") - 1);
    if (terms_.is_behind_proxy) authority = host_of(exchange.request);
    const S3Request request = S3Request::parse(exchange.request, authority, terms_.is_signed);
    const StoreFault fault = admit(request);
    if (!request.complaint.empty()) {
      exchange.send(rendered(StoreAnswer::refusal(request, "400 Bad Request", "InvalidRequest",
                                                  "The store is strict")));
      return;
    }
    if (fault.kind == Kind::kOverwriteBefore) overwrite(request, fault);
    StoreAnswer answer = make(request, fault);
    if (terms_.closes) answer.set("Connection", "close");
    send(exchange, request, std::move(answer), fault);
  }

  static std::string host_of(const std::string& request) {
    const size_t begin = request.find("host: ") + sizeof("host: ") - 1;
    return request.substr(begin, request.find("\r\n", begin) - begin);
  }

  StoreFault admit(const S3Request& request) {
    std::lock_guard lock(mutex_);
    ++counts_.requests;
    check(request);
    if (!takes()) {
      ++counts_.throttled;
      return pausing(terms_.throttle);
    }
    StoreFault fault = plan_(request, asked_[request.identity()]++);
    if (!fault.befalls(request)) return {};
    if (fault.kind == Kind::kNone) return fault;
    ++counts_.faults;
    if (fault.kind == Kind::kStall) ++counts_.stalled;
    befallen_.emplace(fault.kind, request.is_listing() ? request.parameter("prefix") : request.key);
    return pausing(fault);
  }

  void check(const S3Request& request) {
    if (!request.complaint.empty()) {
      violations_.push_back(request.complaint + " in " + request.identity());
    }
    if (terms_.demands_versions && request.is_read() && request.header("if-match").empty()) {
      violations_.push_back("no version is demanded by " + request.identity());
    }
    const auto now = Now::now();
    if (terms_.during_pause_max > 0 && now >= heeded_from_ && now < paused_until_ &&
        ++during_pause_ == terms_.during_pause_max + 1) {
      violations_.push_back("it goes on while it was asked to pause: " + request.identity());
    }
    if (terms_.client_ceiling > 0) {
      // The client's own ceiling: a tenth of a second's worth beyond the elapsed time.
      const std::chrono::duration<double> time = now - began_;
      const double most = terms_.client_ceiling * (time.count() + 0.1) + 1;
      if (static_cast<double>(counts_.requests) > most) {
        violations_.push_back(fmt::format("{} requests in {:.3f} s exceed the ceiling of {}/s",
                                          counts_.requests, time.count(), terms_.client_ceiling));
      }
    }
  }

  bool takes() {
    if (terms_.requests_per_second == 0) return true;
    const auto now = Now::now();
    const std::chrono::duration<double> since = now - std::exchange(filled_at_, now);
    tokens_ = std::min(terms_.burst, tokens_ + since.count() * terms_.requests_per_second);
    if (tokens_ < 1) return false;
    tokens_ -= 1;
    return true;
  }

  StoreFault pausing(StoreFault fault) {
    if (fault.kind != Kind::kSlowDown && fault.kind != Kind::kTooMany) return fault;
    if (fault.time.count() == 0) return fault;
    const auto now = Now::now();
    if (now >= paused_until_) {
      during_pause_ = 0;
      heeded_from_ = now + fault.time / 2;
    }
    paused_until_ = std::max(paused_until_, now + fault.time);
    return fault;
  }

  void overwrite(const S3Request& request, const StoreFault& fault) {
    const size_t versions = objects_.versions(request.key);
    if (versions == 0) return;
    const size_t size = objects_.version(request.key, versions - 1).content->size();
    objects_.put(request.key, bytes_of(fault.salt, std::max<size_t>(size, 1)));
  }

  StoreAnswer make(const S3Request& request, const StoreFault& fault) const {
    auto refusal = [&](const char* status, const char* code, const char* text) {
      StoreAnswer answer = StoreAnswer::refusal(request, status, code, text);
      if (fault.time.count() > 0) {
        answer.set("Retry-After", std::to_string(fault.time.count() / 1000));
      }
      return answer;
    };
    switch (fault.kind) {
      case Kind::kSlowDown:
        return refusal("503 Slow Down", "SlowDown", "Please reduce your request rate.");
      case Kind::kTooMany:
        return refusal("429 Too Many Requests", "TooManyRequests", "Please reduce your rate.");
      case Kind::kInternalError:
        return refusal("500 Internal Server Error", "InternalError", "We met an internal error.");
      case Kind::kUnavailable:
        return refusal("503 Service Unavailable", "ServiceUnavailable", "Try again later.");
      default:
        break;
    }
    if (fault.kind == Kind::kAnotherAnswer) {
      StoreAnswer other =
          StoreAnswer::lawful(another(request, fault), objects_, terms_.page_entries);
      // Otherwise the test could not distinguish another object's error from this object's own.
      if (other.status.starts_with("2")) return other;
    }
    StoreAnswer answer = StoreAnswer::lawful(request, objects_, terms_.page_entries);
    if (answer.status.starts_with("2")) falsify(request, fault, answer);
    return answer;
  }

  // A request that another client may have sent.
  static S3Request another(S3Request request, const StoreFault& fault) {
    if (request.is_listing()) {
      request.query["prefix"] = "";
    } else {
      const uint64_t shift = 1 + fault.salt % 100;
      const bool back = request.first >= shift;
      request.first = back ? request.first - shift : request.first + shift;
      request.last = back ? request.last - shift : request.last + shift;
    }
    return request;
  }

  void falsify(const S3Request& request, const StoreFault& fault, StoreAnswer& answer) const {
    const size_t size = answer.body.size();
    switch (fault.kind) {
      case Kind::kShortLength:
        answer.body.resize(size - std::min<size_t>(size, 1 + fault.salt % 100));
        answer.length = answer.body.size();
        break;
      case Kind::kLongLength:
        answer.length += 1 + fault.salt % 100;
        break;
      case Kind::kWrongRange:
        answer.set("Content-Range", fmt::format("bytes {}-{}/{}", request.first + 1,
                                                request.first + size, request.last + 1000));
        break;
      case Kind::kWrongEtag:
        answer.set("ETag", "\"another\"");
        break;
      case Kind::kWholeObject:
        answer.status = "200 OK";
        std::erase_if(answer.headers, [](auto& one) { return one.first == "Content-Range"; });
        answer.body = *objects_.version(request.key, objects_.versions(request.key) - 1).content;
        answer.length = answer.body.size();
        break;
      case Kind::kInvalidHeader:
        answer.headers.emplace_back(fault.salt % 2 == 0 ? "X y" : "X", std::string("a\0b", 3));
        break;
      case Kind::kHugeHead:
        answer.set("X-Filler", std::string(70'000, 'x'));
        break;
      case Kind::kCorruptListing:
        answer.body = fault.corrupted(answer.body);
        answer.length = answer.body.size();
        break;
      default:
        break;
    }
  }

  static std::string rendered(const StoreAnswer& answer) { return answer.head() + answer.body; }

  void send(const Exchange& exchange, const S3Request& request, StoreAnswer answer,
            const StoreFault& fault) {
    const std::string text = rendered(answer);
    const size_t position = fault.position(text.size() - answer.body.size(), answer.body.size());
    const std::string_view whole = text;
    switch (fault.kind) {
      case Kind::kStall:
        // After this time the client is gone.
        if (exchange.send(whole.substr(0, position)) && exchange.stall_for(std::chrono::minutes(1)))
          exchange.send(whole.substr(position));
        return;
      case Kind::kCut:
        exchange.send(whole.substr(0, position));
        return;
      case Kind::kReset:
        exchange.send(whole.substr(0, position));
        return exchange.reset();
      case Kind::kDrip:
        for (size_t at = 0, step = whole.size() / 16 + 1; at < whole.size(); at += step) {
          if (!exchange.send(whole.substr(at, step)) || !exchange.stall_for(kDripPause)) return;
        }
        break;
      case Kind::kGarbage:
        exchange.send(bytes_of(fault.salt, 200) + "\r\n\r\n");
        return;
      case Kind::kOverwriteWithin:
        exchange.send(whole.substr(0, position));
        overwrite(request, fault);
        exchange.send(whole.substr(position));
        break;
      case Kind::kLongLength:
      case Kind::kHangUp:
        exchange.send(whole);
        exchange.stall_for(std::chrono::milliseconds(fault.salt % 20));
        return;
      case Kind::kTrailing:
        exchange.send(whole);
        exchange.stall_for(std::chrono::milliseconds(fault.salt % 5));
        exchange.send("what nobody asked for");
        break;
      default:
        exchange.send(whole);
    }
    if (!terms_.closes) exchange.keep();
  }

  static constexpr std::chrono::milliseconds kDripPause{3};

  const Terms terms_;
  const Plan plan_;
  const Now::time_point began_ = Now::now();
  StoredObjects objects_;
  mutable std::mutex mutex_;
  Counts counts_;
  std::map<std::string, unsigned> asked_;
  std::set<std::pair<Kind, std::string>> befallen_;
  std::vector<std::string> violations_;
  double tokens_;
  Now::time_point filled_at_ = Now::now();
  Now::time_point heeded_from_{}, paused_until_{};
  unsigned during_pause_ = 0;
  LyingServer server_;  // last: its threads end first
};

}  // namespace leat::testing
