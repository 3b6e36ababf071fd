// SPDX-License-Identifier: Apache-2.0
#include "http/tls_session.h"

#include <fmt/format.h>
#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

namespace leat {
namespace {

constexpr size_t kRecordBytesMax = 16 * 1024;

int fd_of(BIO* bio) {
  return static_cast<int>(reinterpret_cast<intptr_t>(BIO_get_data(bio)));
}

int read_socket(BIO* bio, char* into, int size) {
  BIO_clear_retry_flags(bio);
  const ssize_t got = ::recv(fd_of(bio), into, static_cast<size_t>(size), MSG_DONTWAIT);
  if (got == 0) BIO_set_flags(bio, BIO_FLAGS_IN_EOF);
  if (got < 0 && (errno == EAGAIN || errno == EINTR)) BIO_set_retry_read(bio);
  return static_cast<int>(got);
}

// OpenSSL's own function would raise SIGPIPE if the other end is gone.
int write_socket(BIO* bio, const char* from, int size) {
  BIO_clear_retry_flags(bio);
  const ssize_t sent =
      ::send(fd_of(bio), from, static_cast<size_t>(size), MSG_NOSIGNAL | MSG_DONTWAIT);
  if (sent < 0 && (errno == EAGAIN || errno == EINTR)) BIO_set_retry_write(bio);
  return static_cast<int>(sent);
}

long control_socket_bio(BIO* bio, int command, long, void*) {
  if (command == BIO_CTRL_FLUSH) return 1;
  if (command == BIO_CTRL_EOF) return BIO_test_flags(bio, BIO_FLAGS_IN_EOF) != 0 ? 1 : 0;
  return 0;
}

BIO_METHOD* socket_method() {
  static BIO_METHOD* const method = [] {
    BIO_METHOD* made = BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "leat socket");
    BIO_meth_set_read(made, read_socket);
    BIO_meth_set_write(made, write_socket);
    BIO_meth_set_ctrl(made, control_socket_bio);
    return made;
  }();
  return method;
}

bool is_certificate_error(int reason) {
  static constexpr std::array kReasons = {
      SSL_R_CERTIFICATE_VERIFY_FAILED,
      SSL_R_PEER_DID_NOT_RETURN_A_CERTIFICATE,
      SSL_R_TLSV1_ALERT_UNKNOWN_CA,
      SSL_R_SSLV3_ALERT_CERTIFICATE_EXPIRED,
      SSL_R_SSLV3_ALERT_CERTIFICATE_REVOKED,
      SSL_R_SSLV3_ALERT_CERTIFICATE_UNKNOWN,
      SSL_R_SSLV3_ALERT_BAD_CERTIFICATE,
      SSL_R_TLSV13_ALERT_CERTIFICATE_REQUIRED,
      SSL_R_SSLV3_ALERT_UNSUPPORTED_CERTIFICATE,
      SSL_R_TLSV1_ALERT_ACCESS_DENIED,
  };
  return std::ranges::find(kReasons, reason) != kReasons.end();
}

}  // namespace

void TlsSession::Free::operator()(ssl_st* session) const {
  SSL_free(session);
}

TlsSession::TlsSession(Handle session, int fd) : session_(std::move(session)) {
  BIO* bio = BIO_new(socket_method());
  BIO_set_data(bio, reinterpret_cast<void*>(static_cast<intptr_t>(fd)));
  BIO_set_init(bio, 1);
  SSL_set_bio(session_.get(), bio, bio);  // takes ownership
  SSL_set_mode(session_.get(), SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER |
                                   SSL_MODE_RELEASE_BUFFERS);
}

IoResult TlsSession::outcome(int returned) {
  const int error = errno;
  switch (SSL_get_error(session_.get(), returned)) {
    case SSL_ERROR_WANT_READ:
      return {.state = IoResult::kWaitRead};
    case SSL_ERROR_WANT_WRITE:
      return {.state = IoResult::kWaitWrite};
    case SSL_ERROR_ZERO_RETURN:
      return {.state = IoResult::kEnd};
    case SSL_ERROR_SYSCALL:
      broken_ = true;
      if (error == 0) return {.state = IoResult::kEnd};
      return {.state = IoResult::kFailed, .error = error};
    default:
      break;
  }
  broken_ = true;
  const unsigned long failure = ERR_peek_last_error();
  const int reason = ERR_GET_REASON(failure);
  plaintext_ = reason == SSL_R_HTTP_REQUEST;
  certificate_rejected_ = is_certificate_error(reason);
  const char* text = ERR_reason_error_string(failure);
  reason_ = text != nullptr ? text : "TLS failed";
  if (reason == SSL_R_CERTIFICATE_VERIFY_FAILED) {
    reason_ = fmt::format("the certificate is not to be trusted ({})",
                          X509_verify_cert_error_string(SSL_get_verify_result(session_.get())));
  } else if (reason == SSL_R_WRONG_VERSION_NUMBER) {
    reason_ = "the other end does not speak TLS";
  } else if (reason == SSL_R_UNEXPECTED_EOF_WHILE_READING) {
    reason_ = "the connection was closed in the middle";
  } else if (reason == SSL_R_PEER_DID_NOT_RETURN_A_CERTIFICATE ||
             reason == SSL_R_TLSV13_ALERT_CERTIFICATE_REQUIRED) {
    reason_ = "the server wants a client's certificate and there was none";
  } else if (certificate_rejected_) {
    reason_ = fmt::format("the other end does not trust our certificate ({})", reason_);
  }
  return {.state = IoResult::kFailed};
}

IoResult TlsSession::handshake() {
  ERR_clear_error();
  errno = 0;
  const int returned = SSL_do_handshake(session_.get());
  return returned == 1 ? IoResult{} : outcome(returned);
}

IoResult TlsSession::read(std::span<std::byte> into) {
  ERR_clear_error();
  errno = 0;
  size_t bytes = 0;
  const int returned = SSL_read_ex(session_.get(), into.data(), into.size(), &bytes);
  return returned == 1 ? IoResult{.bytes = bytes} : outcome(returned);
}

// Small pieces, such as a header and its body, go in one record. After a write that has to wait,
// the same bytes are passed again, as OpenSSL demands.
IoResult TlsSession::write(IoVector& from) {
  std::span<iovec> next = from.next();
  const void* data = next[0].iov_base;
  size_t size = next[0].iov_len;
  std::array<std::byte, kRecordBytesMax> gathered;
  if (size < kRecordBytesMax && next.size() > 1) {
    size = 0;
    for (const iovec& piece : next) {
      const size_t part = std::min(piece.iov_len, kRecordBytesMax - size);
      std::memcpy(gathered.data() + size, piece.iov_base, part);
      size += part;
      if (size == kRecordBytesMax) break;
    }
    data = gathered.data();
  }
  ERR_clear_error();
  errno = 0;
  size_t bytes = 0;
  const int returned = SSL_write_ex(session_.get(), data, size, &bytes);
  if (returned != 1) return outcome(returned);
  from.consume(bytes);
  return {.bytes = bytes};
}

void TlsSession::end() {
  if (broken_ || SSL_is_init_finished(session_.get()) == 0) return;
  ERR_clear_error();
  SSL_shutdown(session_.get());
}

std::string TlsSession::peer_name() const {
  X509* certificate = SSL_get0_peer_certificate(session_.get());
  if (certificate == nullptr || SSL_get_verify_mode(session_.get()) == SSL_VERIFY_NONE ||
      SSL_get_verify_result(session_.get()) != X509_V_OK) {
    return {};
  }
  X509_NAME* subject = X509_get_subject_name(certificate);
  const int at = X509_NAME_get_index_by_NID(subject, NID_commonName, -1);
  if (at < 0) return {};
  ASN1_STRING* name = X509_NAME_ENTRY_get_data(X509_NAME_get_entry(subject, at));
  unsigned char* text = nullptr;
  const int size = ASN1_STRING_to_UTF8(&text, name);
  if (size < 0) return {};
  std::string found(reinterpret_cast<const char*>(text), static_cast<size_t>(size));
  OPENSSL_free(text);
  // A name with a NUL could be mistaken for another one in a log or a comparison.
  return found.contains('\0') ? std::string() : found;
}

}  // namespace leat
