/* SPDX-License-Identifier: MIT */
/*
 * rdmad.hpp - rdmad.h for C++20, in a header alone: link librdmad, as from C.
 *
 *     rdmad::session s;
 *     rdmad::pool pool = s.make_pool(1 << 20);
 *     rdmad::lease there = s.attach(uri);
 *     rdmad::buffer buf = pool.alloc(4096);
 *     std::memcpy(buf.data(), "hello", 6);
 *     there.write(0, buf.bytes().first(6));
 *
 * Objects own what they stand for, are moved and never copied, and end it when they end. What is
 * made of another object has to end before that does: declare sessions first, then pools, then
 * buffers. Whoever uses one that was moved from gives the library NULL, which ends the program with
 * a message.
 *
 * Errors are exceptions: rdmad::error, with the code, the library's sentence and, of a transfer,
 * its outcome. Each code has a class of its own, error_of<RDMAD_E_LIMIT>. What is given a time to
 * wait returns nothing (an empty optional, false) when that is over. What may wait for ever (-1)
 * always returns something, or throws: RDMAD_E_TIMEOUT, too, which is a daemon that hangs.
 *
 * Memory of transfers is a std::span of something trivially copyable, and lies in a pool, but for
 * read_copy and write_copy. Units, order, threads and all else are as rdmad.h says of the call that
 * has the same name. rdmad_async.hpp has coroutines.
 */
#ifndef RDMAD_RDMAD_HPP
#define RDMAD_RDMAD_HPP

#include <rdmad/rdmad.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace rdmad {

/* ---- errors -------------------------------------------------------------------------------- */

/* what() is the sentence. */
class error : public std::runtime_error {
  public:
    error(int code, const std::string &sentence, std::optional<rdmad_outcome> outcome = {})
        : std::runtime_error(sentence), code_(code), outcome_(outcome) {}
    /* RDMAD_E_* */
    int code() const noexcept { return code_; }
    /* "RDMAD_E_LIMIT" */
    const char *name() const noexcept { return rdmad_errname(code_); }
    /* Of a transfer: what became of its target. */
    std::optional<rdmad_outcome> outcome() const noexcept { return outcome_; }

  private:
    int code_;
    std::optional<rdmad_outcome> outcome_;
};

/* Of one code, to be caught. */
template <int Code> class error_of final : public error {
  public:
    using error::error;
};

namespace detail {

[[noreturn]] inline void raise(int code, const std::string &sentence,
                               std::optional<rdmad_outcome> outcome = {}) {
    switch (code) {
#define RDMAD_X(name, value, text) \
    case (value):                  \
        throw error_of<(value)>(code, sentence, outcome);
        RDMAD_ERRORS(RDMAD_X)
#undef RDMAD_X
    default: /* of a newer library */
        throw error(code, sentence, outcome);
    }
}

inline int check(int code, const rdmad_session *session) {
    if (code < 0)
        raise(code, rdmad_last_error(session));
    return code;
}

inline void check_transfer(int code, const rdmad_session *session) {
    if (code < 0)
        raise(code, rdmad_last_error(session), static_cast<rdmad_outcome>(rdmad_last_outcome()));
}

/* Whether it came before the time was over. Where there is none, that is an error as any. */
inline bool waited(int code, int timeout_ms, const rdmad_session *session) {
    const bool over = code == RDMAD_E_TIMEOUT && timeout_ms >= 0;
    return !over && check(code, session) >= 0;
}

template <auto End> struct ends {
    template <class T> void operator()(T *it) const noexcept { End(it); }
};
template <class T, auto End> using handle = std::unique_ptr<T, ends<End>>;

} // namespace detail

/* What a span of can be moved as bytes. */
template <class T>
concept plain = std::is_trivially_copyable_v<T>;

/* ---- memory -------------------------------------------------------------------------------- */

/* A piece of a pool; it goes back when this ends. */
class buffer {
  public:
    buffer(rdmad_pool *pool, std::size_t length, const rdmad_session *session)
        : piece_(rdmad_alloc(pool, length), back{pool}), length_(length) {
        if (!piece_)
            detail::raise(RDMAD_E_NOMEM, rdmad_last_error(session));
    }
    std::byte *data() const noexcept { return static_cast<std::byte *>(piece_.get()); }
    std::size_t size() const noexcept { return length_; }
    std::span<std::byte> bytes() const noexcept { return {data(), length_}; }
    /* As many Ts as fit. Their lives begin here; their values are whatever was there. */
    template <plain T> std::span<T> as() const noexcept {
        static_assert(alignof(T) <= 64, "pieces are aligned to 64 bytes");
        return {std::launder(reinterpret_cast<T *>(data())), length_ / sizeof(T)};
    }

  private:
    struct back {
        rdmad_pool *pool;
        void operator()(void *piece) const noexcept { rdmad_free(pool, piece); }
    };
    std::unique_ptr<void, back> piece_;
    std::size_t length_;
};

/* Memory that nobody else may fill, or, of a write lock, read, as long as this lives. */
class buffer_lock {
  public:
    buffer_lock(buffer_lock &&other) noexcept
        : pool_(std::exchange(other.pool_, nullptr)), memory_(other.memory_),
          writes_(other.writes_) {}
    buffer_lock &operator=(buffer_lock &&) = delete;
    ~buffer_lock() {
        if (pool_ && writes_)
            rdmad_buf_unlock_write(pool_, memory_.data(), memory_.size());
        else if (pool_)
            rdmad_buf_unlock_read(pool_, memory_.data(), memory_.size());
    }

  private:
    friend class pool;
    buffer_lock(rdmad_pool *pool, std::span<std::byte> memory, bool writes) noexcept
        : pool_(pool), memory_(memory), writes_(writes) {}
    rdmad_pool *pool_;
    std::span<std::byte> memory_;
    bool writes_;
};

/* Memory of transfers. */
class pool {
  public:
    pool(rdmad_pool *it, rdmad_session *session) noexcept : pool_(it), session_(session) {}
    rdmad_pool *get() const noexcept { return pool_.get(); }
    std::size_t size() const noexcept { return rdmad_pool_size(get()); }
    /* All of it, for who lays it out himself. */
    std::span<std::byte> memory() const noexcept {
        return {static_cast<std::byte *>(rdmad_pool_base(get())), size()};
    }
    /* A piece of it. */
    buffer alloc(std::size_t length) const { return {get(), length, session_}; }
    /* An empty one: memory is held by somebody else. timeout_ms: -1 for ever, 0 not at all. */
    template <plain T>
    std::optional<buffer_lock> lock_read(std::span<T> memory, int timeout_ms = -1) const {
        return lock(memory, timeout_ms, false, rdmad_buf_lock_read);
    }
    template <plain T>
    std::optional<buffer_lock> lock_write(std::span<T> memory, int timeout_ms = -1) const {
        return lock(memory, timeout_ms, true, rdmad_buf_lock_write);
    }
    /* Gives it back. With an error (RDMAD_E_BUSY: leases, ops or locks are on it) it is as before.
     * Without this it ends when it can, or with its session. */
    void destroy() {
        detail::check(rdmad_pool_destroy(get()), session_);
        static_cast<void>(pool_.release());
    }

  private:
    template <class T, class Lock>
    std::optional<buffer_lock> lock(std::span<T> memory, int timeout_ms, bool writes,
                                    Lock how) const {
        auto bytes = std::as_writable_bytes(memory);
        if (!detail::waited(how(get(), bytes.data(), bytes.size(), timeout_ms), timeout_ms,
                            session_))
            return {};
        return buffer_lock(get(), bytes, writes);
    }
    detail::handle<rdmad_pool, rdmad_pool_destroy> pool_;
    rdmad_session *session_;
};

/* ---- leases -------------------------------------------------------------------------------- */

/* They begin as RDMAD_LEASE_TERMS_INIT says. */
struct lease_terms : rdmad_lease_terms {
    lease_terms() noexcept : rdmad_lease_terms RDMAD_LEASE_TERMS_INIT {}
};
/* They begin as RDMAD_SERVICE_TERMS_INIT says. */
struct service_terms : rdmad_service_terms {
    service_terms() noexcept : rdmad_service_terms RDMAD_SERVICE_TERMS_INIT {}
};
/* They begin as RDMAD_OPTIONS_INIT says. */
struct options : rdmad_options {
    options() noexcept : rdmad_options RDMAD_OPTIONS_INIT {}
};

/* What a lessee has written and told of. */
struct notification {
    std::uint32_t imm;
    std::uint64_t bytes;
};

/* A part of a transfer of several. */
template <plain T> rdmad_segment segment(std::uint64_t offset, std::span<T> memory) noexcept {
    auto bytes = std::as_bytes(memory);
    return {const_cast<std::byte *>(bytes.data()), bytes.size(), offset};
}

/* Transfers are a lessee's, and return when they are over. */
class lease {
  public:
    lease(rdmad_lease *it, rdmad_session *session) noexcept : lease_(it), session_(session) {}
    rdmad_lease *get() const noexcept { return lease_.get(); }
    const char *uri() const noexcept { return rdmad_lease_uri(get()); }
    rdmad_lease_info info() const noexcept {
        rdmad_lease_info it = RDMAD_LEASE_INFO_INIT;
        rdmad_lease_get_info(get(), &it);
        return it;
    }

    /* Lessee. */
    template <plain T>
    requires(!std::is_const_v<T>) void read(std::uint64_t offset, std::span<T> into) const {
        auto bytes = std::as_writable_bytes(into);
        transfer(rdmad_read(get(), offset, bytes.data(), bytes.size()));
    }
    template <plain T> void write(std::uint64_t offset, std::span<T> from) const {
        auto bytes = std::as_bytes(from);
        transfer(rdmad_write(get(), offset, bytes.data(), bytes.size()));
    }
    /* Of memory that is in no pool; so is write_copy. */
    template <plain T>
    requires(!std::is_const_v<T>) void read_copy(std::uint64_t offset, std::span<T> into) const {
        auto bytes = std::as_writable_bytes(into);
        transfer(rdmad_read_copy(get(), offset, bytes.data(), bytes.size()));
    }
    template <plain T> void write_copy(std::uint64_t offset, std::span<T> from) const {
        auto bytes = std::as_bytes(from);
        transfer(rdmad_write_copy(get(), offset, bytes.data(), bytes.size()));
    }
    void readv(std::span<const rdmad_segment> segments) const {
        transfer(rdmad_readv(get(), segments.data(), static_cast<unsigned>(segments.size())));
    }
    void writev(std::span<const rdmad_segment> segments) const {
        transfer(rdmad_writev(get(), segments.data(), static_cast<unsigned>(segments.size())));
    }
    /* Returns what was there before, as fetch_add does. */
    std::uint64_t cas(std::uint64_t offset, std::uint64_t expected, std::uint64_t desired) const {
        std::uint64_t old = 0;
        transfer(rdmad_cas(get(), offset, expected, desired, &old));
        return old;
    }
    std::uint64_t fetch_add(std::uint64_t offset, std::uint64_t add) const {
        std::uint64_t old = 0;
        transfer(rdmad_fetch_add(get(), offset, add, &old));
        return old;
    }
    template <plain T>
    void write_notify(std::uint64_t offset, std::span<T> from, std::uint32_t imm) const {
        auto bytes = std::as_bytes(from);
        transfer(rdmad_write_notify(get(), offset, bytes.data(), bytes.size(), imm));
    }
    void keep(bool on = true) const { check(rdmad_lease_keep(get(), on)); }
    /* The URI of a narrower one. */
    std::string delegate(std::uint64_t offset, std::size_t length, const lease_terms &terms = {},
                         int timeout_ms = 0) const {
        char uri[RDMAD_URI_MAX + 1];
        check(rdmad_lease_delegate(get(), offset, length, &terms, timeout_ms, uri));
        return uri;
    }
    /* Of one that was requested. If it throws, the lease is as before. */
    void hand_over() {
        check(rdmad_lease_hand_over(get()));
        static_cast<void>(lease_.release());
    }

    /* Owner: empty when the time is over. */
    std::optional<notification> wait_notified(int timeout_ms = -1) const {
        notification it{};
        if (!detail::waited(rdmad_wait_notified(get(), timeout_ms, &it.imm, &it.bytes), timeout_ms,
                            session_))
            return {};
        return it;
    }
    void renew(std::uint64_t ttl_ms) const { check(rdmad_lease_renew(get(), ttl_ms)); }
    void revoke() const { check(rdmad_lease_revoke(get())); }
    rdmad_lease_audit audit() const {
        rdmad_lease_audit it = RDMAD_LEASE_AUDIT_INIT;
        check(rdmad_lease_get_audit(get(), &it));
        return it;
    }

  private:
    void check(int code) const { detail::check(code, session_); }
    void transfer(int code) const { detail::check_transfer(code, session_); }
    detail::handle<rdmad_lease, rdmad_lease_free> lease_;
    rdmad_session *session_;
};

/* ---- services and channels ----------------------------------------------------------------- */

/* When it ends, what was sent before is delivered; abort does not wait for that. */
class channel {
  public:
    channel(rdmad_channel *it, rdmad_session *session) noexcept : channel_(it), session_(session) {}
    rdmad_channel *get() const noexcept { return channel_.get(); }
    rdmad_channel_info info() const noexcept {
        rdmad_channel_info it = RDMAD_CHANNEL_INFO_INIT;
        rdmad_channel_get_info(get(), &it);
        return it;
    }
    template <plain T> void send(std::span<T> from) const {
        auto bytes = std::as_bytes(from);
        transfer(rdmad_send(get(), bytes.data(), bytes.size()));
    }
    template <plain T> void send(std::span<T> from, std::uint32_t imm) const {
        auto bytes = std::as_bytes(from);
        transfer(rdmad_send_imm(get(), bytes.data(), bytes.size(), imm));
    }
    template <plain T>
    requires(!std::is_const_v<T>) std::optional<rdmad_message> recv(std::span<T> into,
                                                                    int timeout_ms = -1)
    const {
        rdmad_message it = RDMAD_MESSAGE_INIT;
        auto bytes = std::as_writable_bytes(into);
        if (!detail::waited(rdmad_recv(get(), bytes.data(), bytes.size(), timeout_ms, &it),
                            timeout_ms, session_))
            return {};
        return it;
    }
    void send_lease(const char *uri) const { transfer(rdmad_send_lease(get(), uri)); }
    std::optional<lease> recv_lease(int timeout_ms = -1) const {
        rdmad_lease *it = nullptr;
        if (!detail::waited(rdmad_recv_lease(get(), timeout_ms, &it), timeout_ms, session_))
            return {};
        return lease(it, session_);
    }
    rdmad_channel_audit audit() const {
        rdmad_channel_audit it = RDMAD_CHANNEL_AUDIT_INIT;
        detail::check(rdmad_channel_get_audit(get(), &it), session_);
        return it;
    }
    /* As its end does, and throws if that fails. */
    void close() { detail::check(rdmad_channel_close(channel_.release()), session_); }
    void abort() noexcept { rdmad_channel_abort(channel_.release()); }

  private:
    void transfer(int code) const { detail::check_transfer(code, session_); }
    detail::handle<rdmad_channel, rdmad_channel_close> channel_;
    rdmad_session *session_;
};

/* A name that others connect to. */
class service {
  public:
    service(rdmad_service *it, rdmad_session *session) noexcept : service_(it), session_(session) {}
    rdmad_service *get() const noexcept { return service_.get(); }
    const char *uri() const noexcept { return rdmad_service_uri(get()); }
    std::optional<rdmad_incoming> next_incoming(int timeout_ms = -1) const {
        rdmad_incoming it = RDMAD_INCOMING_INIT;
        if (!detail::waited(rdmad_next_incoming(get(), timeout_ms, &it), timeout_ms, session_))
            return {};
        return it;
    }
    /* The first that comes. */
    std::optional<channel> accept(int timeout_ms = -1) const { return accept(nullptr, timeout_ms); }
    std::optional<channel> accept(const rdmad_incoming *who, int timeout_ms = -1) const {
        rdmad_channel *it = nullptr;
        if (!detail::waited(rdmad_accept(get(), who, timeout_ms, &it), timeout_ms, session_))
            return {};
        return channel(it, session_);
    }
    void reject(const rdmad_incoming &who, const char *text = nullptr) const {
        detail::check(rdmad_reject(get(), &who, text), session_);
    }
    /* Gives memory of RDMAD_EVENT_HANDED_OVER back to the budget. */
    void give_back(void *memory) const {
        detail::check(rdmad_service_free(get(), memory), session_);
    }

  private:
    detail::handle<rdmad_service, rdmad_service_close> service_;
    rdmad_session *session_;
};

/* ---- sessions ------------------------------------------------------------------------------ */

/* A connection to rdmad, which all else is made by. */
class session {
  public:
    session() : session(nullptr) {}
    explicit session(const options &o) : session(&o) {}
    rdmad_session *get() const noexcept { return session_.get(); }
    rdmad_session_info info() const noexcept {
        rdmad_session_info it = RDMAD_SESSION_INFO_INIT;
        rdmad_session_get_info(get(), &it);
        return it;
    }
    /* For an event loop; rdmad_session_fd says how. */
    int fd() const { return check(rdmad_session_fd(get())); }
    std::optional<rdmad_event> next_event(int timeout_ms = -1) const {
        rdmad_event it = RDMAD_EVENT_INIT;
        if (!detail::waited(rdmad_next_event(get(), timeout_ms, &it), timeout_ms, get()))
            return {};
        return it;
    }
    pool make_pool(std::size_t bytes, unsigned flags = 0) const {
        rdmad_pool *it = nullptr;
        check(rdmad_pool_create(get(), bytes, flags, &it));
        return {it, get()};
    }
    pool import_pool(int memfd) const {
        rdmad_pool *it = nullptr;
        check(rdmad_pool_import(get(), memfd, &it));
        return {it, get()};
    }
    template <plain T> lease grant(std::span<T> memory, const lease_terms &terms = {}) const {
        rdmad_lease *it = nullptr;
        auto bytes = std::as_writable_bytes(memory);
        check(rdmad_lease_grant(get(), bytes.data(), bytes.size(), &terms, &it));
        return {it, get()};
    }
    lease attach(const std::string &uri, int timeout_ms = 0) const {
        rdmad_lease *it = nullptr;
        check(rdmad_lease_attach(get(), uri.c_str(), timeout_ms, &it));
        return {it, get()};
    }
    lease request(const std::string &service_uri, std::size_t bytes, const lease_terms &terms = {},
                  int timeout_ms = 0) const {
        rdmad_lease *it = nullptr;
        check(rdmad_lease_request(get(), service_uri.c_str(), bytes, &terms, timeout_ms, &it));
        return {it, get()};
    }
    service listen(const std::string &name, const service_terms &terms = {}) const {
        rdmad_service *it = nullptr;
        check(rdmad_listen(get(), name.c_str(), &terms, &it));
        return {it, get()};
    }
    channel connect(const std::string &uri, rdmad_channel_kind kind = RDMAD_CHANNEL_RELIABLE,
                    int timeout_ms = 0) const {
        rdmad_channel *it = nullptr;
        check(rdmad_connect(get(), uri.c_str(), kind, timeout_ms, &it));
        return {it, get()};
    }
    /* All names that begin with prefix, of the daemon at where ("": this one). */
    std::vector<rdmad_name> names(const std::string &where = {}, const std::string &prefix = {},
                                  int timeout_ms = 0) const {
        constexpr std::size_t a_call = 64;
        std::vector<rdmad_name> all;
        for (std::size_t count = a_call; count == a_call;) {
            const std::size_t before = all.size();
            const std::string after = before ? all.back().name : "";
            all.resize(before + a_call);
            all[before] = rdmad_name RDMAD_NAME_INIT;
            check(rdmad_names_list(get(), where.empty() ? nullptr : where.c_str(), prefix.c_str(),
                                   before ? after.c_str() : nullptr, timeout_ms, &all[before],
                                   a_call, &count));
            all.resize(before + count);
        }
        return all;
    }
    std::uint64_t watch(const std::string &where = {}, const std::string &prefix = {},
                        int timeout_ms = 0) const {
        std::uint64_t it = 0;
        check(rdmad_names_watch(get(), where.empty() ? nullptr : where.c_str(), prefix.c_str(),
                                timeout_ms, &it));
        return it;
    }
    void unwatch(std::uint64_t watch) const { check(rdmad_names_unwatch(get(), watch)); }

  private:
    explicit session(const options *o) {
        rdmad_session *it = nullptr;
        detail::check(rdmad_open(o, &it), nullptr);
        session_.reset(it);
    }
    int check(int code) const { return detail::check(code, get()); }
    detail::handle<rdmad_session, rdmad_close> session_;
};

/* ---- rings --------------------------------------------------------------------------------- */

/* For one thread at a time. */
class ring {
  public:
    ring(const session &s, std::uint32_t entries) : session_(s.get()) {
        rdmad_ring *it = nullptr;
        detail::check(rdmad_ring_create(s.get(), entries, &it), session_);
        ring_.reset(it);
    }
    rdmad_ring *get() const noexcept { return ring_.get(); }
    int fd() const { return detail::check(rdmad_ring_fd(get()), session_); }

    /* Prepares an entry by one of rdmad_prep_*, which gets the ring, the entry and what follows.
     * Returns it, for flags and a deadline; nullptr: the ring is full. */
    template <class Prepare, class... Arguments>
    rdmad_sqe *prepare(Prepare how, Arguments... arguments) const {
        rdmad_sqe *sqe = rdmad_ring_reserve(get());
        if (!sqe)
            return nullptr;
        const int code = how(get(), sqe, arguments...);
        if (code) {
            const std::string sentence = rdmad_last_error(session_);
            rdmad_ring_unreserve(get(), sqe);
            detail::raise(code, sentence);
        }
        return sqe;
    }
    int submit() const { return detail::check(rdmad_ring_submit(get()), session_); }
    /* The next completion; it was seen. timeout_ms: -1 for ever, 0 not at all. RDMAD_E_INVAL:
     * nothing is in flight that could complete. */
    std::optional<rdmad_cqe> next(int timeout_ms = -1) const {
        const rdmad_cqe *it = nullptr;
        const int code =
            timeout_ms ? rdmad_ring_wait(get(), timeout_ms, &it) : rdmad_ring_peek(get(), &it);
        if (code == RDMAD_E_AGAIN || !detail::waited(code, timeout_ms, session_))
            return {};
        const rdmad_cqe cqe = *it;
        if (cqe.status)
            rdmad_ring_explain(get(), it, why_, sizeof(why_));
        rdmad_ring_seen(get(), it);
        return cqe;
    }
    /* Throws what the completion that next brought last says, if its op failed. */
    void check(const rdmad_cqe &last) const {
        if (last.status)
            detail::raise(last.status, why_, static_cast<rdmad_outcome>(last.outcome));
    }
    /* Returns when nothing touches the op's buffers any more; empty: no such op is in flight. */
    std::optional<rdmad_cqe> cancel(std::uint64_t user_data) const {
        rdmad_cqe cqe{};
        const int code = rdmad_ring_cancel(get(), user_data, &cqe);
        if (code == RDMAD_E_HANDLE)
            return {};
        detail::check(code, session_);
        return cqe;
    }
    /* Whether it is armed; if not, completions are there. */
    bool arm() const {
        const int code = rdmad_ring_arm(get());
        return code != RDMAD_E_AGAIN && detail::check(code, session_) >= 0;
    }

  private:
    detail::handle<rdmad_ring, rdmad_ring_destroy> ring_;
    rdmad_session *session_;
    mutable char why_[512] = "";
};

} // namespace rdmad

#endif
