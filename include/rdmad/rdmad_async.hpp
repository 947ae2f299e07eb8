/* SPDX-License-Identifier: MIT */
/*
 * rdmad_async.hpp - ops of a ring as awaitables of C++20's coroutines.
 *
 *     rdmad::async_ring ring(s, 64);
 *     auto copy = [&](std::uint64_t from, std::uint64_t to) -> task { // any coroutine type
 *         co_await ring.read(there, from, buf.bytes());
 *         co_await ring.write(there, to, buf.bytes());
 *     };
 *     task copying = copy(0, 4096);
 *     while (ring.in_flight())
 *         ring.run(); // resumes those that are done
 *
 * A ring belongs to one thread: ops are begun in it, and coroutines are resumed by run there. What
 * was begun since the last run is submitted by the next. When the ring is full an op waits for an
 * entry, in its turn. A failed op throws from its co_await, as the blocking call would.
 *
 * A coroutine that is destroyed while it awaits an op ends that first: its end returns when nothing
 * can touch the op's buffers any more (rdmad_ring_cancel).
 *
 * An event loop of your own: watch ring.fd(), and sleep only after arm() was true; then run(0).
 * Sleep no longer than call_timeout_ms at a time: a daemon that hangs wakes nobody, and arm() asks
 * whether it is there.
 */
#ifndef RDMAD_RDMAD_ASYNC_HPP
#define RDMAD_RDMAD_ASYNC_HPP

#include <rdmad/rdmad.hpp>

#include <coroutine>
#include <deque>
#include <exception>

namespace rdmad {

class async_ring;

/* One op. It is awaited once, where it is made. */
class async_op {
  public:
    async_op(const async_op &) = delete;
    async_op &operator=(const async_op &) = delete;

    bool await_ready() const noexcept { return false; }
    inline bool await_suspend(std::coroutine_handle<> who);
    /* What its completion says: bytes, value, imm. */
    inline rdmad_cqe await_resume();

  protected:
    explicit async_op(async_ring &ring) noexcept : ring_(ring) {}
    inline ~async_op();
    std::uint64_t token() const noexcept { return reinterpret_cast<std::uintptr_t>(this); }

  private:
    friend class async_ring;
    enum class state { made, waits, in_flight, over };
    virtual rdmad_sqe *prepare(const ring &) = 0;

    async_ring &ring_;
    state state_ = state::made;
    std::coroutine_handle<> who_;
    rdmad_cqe cqe_{};
    std::exception_ptr failed_;
};

namespace detail {

template <class Prepare> class prepared_op final : public async_op {
  public:
    prepared_op(async_ring &ring, Prepare how) : async_op(ring), how_(std::move(how)) {}

  private:
    rdmad_sqe *prepare(const ring &r) override { return how_(r, token()); }
    Prepare how_;
};

} // namespace detail

/* It stays where it is as long as an op of it does. What it returns is awaited. */
class async_ring {
  public:
    async_ring(const session &s, std::uint32_t entries) : ring_(s, entries) {}
    async_ring(const async_ring &) = delete;
    async_ring &operator=(const async_ring &) = delete;

    template <plain T>
    requires(!std::is_const_v<T>) auto read(const lease &from, std::uint64_t offset,
                                            std::span<T> into) {
        return op([l = from.get(), offset,
                   bytes = std::as_writable_bytes(into)](const ring &r, std::uint64_t token) {
            return r.prepare(rdmad_prep_read, l, offset, bytes.data(), bytes.size(), token);
        });
    }
    template <plain T> auto write(const lease &to, std::uint64_t offset, std::span<T> from) {
        return op([l = to.get(), offset, bytes = std::as_bytes(from)](const ring &r,
                                                                      std::uint64_t token) {
            return r.prepare(rdmad_prep_write, l, offset, bytes.data(), bytes.size(), token);
        });
    }
    template <plain T>
    auto write_notify(const lease &to, std::uint64_t offset, std::span<T> from, std::uint32_t imm) {
        return op([l = to.get(), offset, bytes = std::as_bytes(from), imm](const ring &r,
                                                                           std::uint64_t token) {
            return r.prepare(rdmad_prep_write_notify, l, offset, bytes.data(), bytes.size(), imm,
                             token);
        });
    }
    auto cas(const lease &at, std::uint64_t offset, std::uint64_t expected, std::uint64_t desired) {
        return op([=, l = at.get()](const ring &r, std::uint64_t token) {
            return r.prepare(rdmad_prep_cas, l, offset, expected, desired, token);
        });
    }
    auto fetch_add(const lease &at, std::uint64_t offset, std::uint64_t add) {
        return op([=, l = at.get()](const ring &r, std::uint64_t token) {
            return r.prepare(rdmad_prep_fetch_add, l, offset, add, token);
        });
    }
    auto notified(const lease &of) {
        return op([l = of.get()](const ring &r, std::uint64_t token) {
            return r.prepare(rdmad_prep_notified, l, token);
        });
    }
    template <plain T> auto send(const channel &to, std::span<T> from) {
        return op([c = to.get(), bytes = std::as_bytes(from)](const ring &r, std::uint64_t token) {
            return r.prepare(rdmad_prep_send, c, bytes.data(), bytes.size(), token);
        });
    }
    template <plain T>
    requires(!std::is_const_v<T>) auto recv(const channel &from, std::span<T> into) {
        return op([c = from.get(), bytes = std::as_writable_bytes(into)](const ring &r,
                                                                         std::uint64_t token) {
            return r.prepare(rdmad_prep_recv, c, bytes.data(), bytes.size(), token);
        });
    }

    /* Ops that are not over, with those that wait for an entry. */
    std::size_t in_flight() const noexcept { return in_flight_ + waiting_.size(); }
    int fd() const { return ring_.fd(); }
    /* Whether fd() becomes readable at the next completion; if not, run(0) has something to do. */
    bool arm() {
        if (begin_waiting())
            return false;
        submit();
        return in_flight_ == 0 || ring_.arm();
    }
    /* Submits what was begun, waits for a first completion, and resumes all whose ops are over.
     * Returns how many; 0 when the time was over, or nothing is in flight. */
    unsigned run(int timeout_ms = -1) {
        unsigned resumed = begin_waiting();
        submit();
        while (in_flight_) {
            std::optional<rdmad_cqe> cqe = ring_.next(resumed ? 0 : timeout_ms);
            if (!cqe)
                break;
            resumed += 1;
            end(*cqe);
            resumed += begin_waiting();
        }
        submit();
        return resumed;
    }

  private:
    friend class async_op;

    template <class Prepare> detail::prepared_op<Prepare> op(Prepare how) {
        return detail::prepared_op<Prepare>(*this, std::move(how));
    }
    /* What is submitted to a session that is lost completes with that, and is told there. */
    void submit() {
        try {
            ring_.submit();
        } catch (const error_of<RDMAD_E_DAEMON_LOST> &) {
        }
    }
    void end(const rdmad_cqe &cqe) {
        auto *op = reinterpret_cast<async_op *>(static_cast<std::uintptr_t>(cqe.user_data));
        in_flight_ -= 1;
        op->state_ = async_op::state::over;
        op->cqe_ = cqe;
        try {
            ring_.check(cqe);
        } catch (...) {
            op->failed_ = std::current_exception();
        }
        op->who_.resume(); /* which may end op, and begin others */
    }
    /* False: the ring is full. */
    bool begin(async_op &op) {
        if (!op.prepare(ring_))
            return false;
        in_flight_ += 1;
        op.state_ = async_op::state::in_flight;
        return true;
    }
    /* How many failed at once, and were resumed. */
    unsigned begin_waiting() {
        unsigned resumed = 0;
        while (!waiting_.empty()) {
            async_op *op = waiting_.front();
            try {
                if (!begin(*op))
                    break;
                waiting_.pop_front();
                continue;
            } catch (...) {
                op->failed_ = std::current_exception();
            }
            waiting_.pop_front();
            op->state_ = async_op::state::over;
            resumed += 1;
            op->who_.resume();
        }
        return resumed;
    }

    ring ring_;
    std::size_t in_flight_ = 0;
    std::deque<async_op *> waiting_;
};

inline bool async_op::await_suspend(std::coroutine_handle<> who) {
    who_ = who;
    try {
        if (!ring_.waiting_.empty() || !ring_.begin(*this)) {
            state_ = state::waits;
            ring_.waiting_.push_back(this);
        }
        return true;
    } catch (...) {
        state_ = state::over;
        failed_ = std::current_exception();
        return false; /* and await_resume throws it */
    }
}

inline rdmad_cqe async_op::await_resume() {
    if (failed_)
        std::rethrow_exception(failed_);
    return cqe_;
}

inline async_op::~async_op() {
    if (state_ == state::waits)
        std::erase(ring_.waiting_, this);
    if (state_ != state::in_flight)
        return;
    ring_.in_flight_ -= 1;
    /* Without an answer the session is lost, and nothing is known of the buffers. */
    static_cast<void>(rdmad_ring_cancel(ring_.ring_.get(), token(), nullptr));
}

} // namespace rdmad

#endif
