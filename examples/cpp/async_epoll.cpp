/* SPDX-License-Identifier: MIT */
/*
 * async_epoll URI - examples/async_epoll.c in C++: reads a whole lease, 16 pieces at a time, from
 * an epoll loop. Each of 16 coroutines reads one piece after another.
 *
 *     g++ -std=c++20 async_epoll.cpp -o async_epoll $(pkg-config --cflags --libs rdmad)
 */
#include <algorithm>
#include <cstdio>
#include <exception>
#include <numeric>
#include <rdmad/rdmad_async.hpp>
#include <string>
#include <sys/epoll.h>
#include <system_error>
#include <unistd.h>

/* The smallest type of coroutine: it begins at once, and keeps what it fails with. */
struct task {
    struct promise_type {
        std::exception_ptr failed;
        task get_return_object() { return {handle::from_promise(*this)}; }
        std::suspend_never initial_suspend() noexcept { return {}; }
        std::suspend_always final_suspend() noexcept { return {}; }
        void return_void() {}
        void unhandled_exception() { failed = std::current_exception(); }
    };
    using handle = std::coroutine_handle<promise_type>;

    task(handle it) : it_(it) {}
    task(task &&other) noexcept : it_(std::exchange(other.it_, {})) {}
    ~task() {
        if (it_)
            it_.destroy();
    }
    void check() const {
        if (it_.promise().failed)
            std::rethrow_exception(it_.promise().failed);
    }

  private:
    handle it_;
};

struct reader {
    std::uint64_t length, asked = 0, arrived = 0, sum = 0;
};

static task read_pieces(rdmad::async_ring &ring, const rdmad::lease &lease, reader &r,
                        std::span<unsigned char> piece) {
    while (r.asked < r.length) {
        const std::uint64_t at = r.asked;
        auto part = piece.first(std::min<std::uint64_t>(piece.size(), r.length - at));
        r.asked += part.size();
        r.arrived += (co_await ring.read(lease, at, part)).bytes;
        r.sum = std::accumulate(part.begin(), part.end(), r.sum);
    }
}

static void run(const char *uri) {
    constexpr unsigned depth = 16, bytes = 65536;
    constexpr int longest_ms = 30000; // a daemon that hangs wakes nobody, and arm() asks for it
    const int epoll = epoll_create1(EPOLL_CLOEXEC);
    rdmad::session s;
    rdmad::pool pool = s.make_pool(std::size_t{depth} * bytes);
    rdmad::lease lease = s.attach(uri);
    rdmad::async_ring ring(s, depth);
    std::vector<rdmad::buffer> buffers;
    std::vector<task> tasks;
    reader r{.length = lease.info().length};
    epoll_event interest{.events = EPOLLIN, .data = {}}, ready;

    if (epoll < 0 || epoll_ctl(epoll, EPOLL_CTL_ADD, s.fd(), &interest))
        throw std::system_error(errno, std::generic_category(), "epoll");
    for (unsigned i = 0; i < depth; i++) {
        buffers.push_back(pool.alloc(bytes));
        tasks.push_back(read_pieces(ring, lease, r, buffers.back().as<unsigned char>()));
    }
    while (ring.in_flight()) {
        if (ring.arm() && epoll_wait(epoll, &ready, 1, longest_ms) == 1) {
            while (auto event = s.next_event(0))
                if (event->type == RDMAD_EVENT_LEASE_ENDED)
                    throw std::runtime_error(event->text);
        }
        ring.run(0);
    }
    for (const task &t : tasks)
        t.check();
    close(epoll);
    std::printf("%llu bytes, their sum is %llu\n", static_cast<unsigned long long>(r.arrived),
                static_cast<unsigned long long>(r.sum));
}

int main(int argc, char **argv) {
    if (argc != 2) {
        std::fprintf(stderr, "usage: async_epoll URI\n");
        return 2;
    }
    try {
        run(argv[1]);
    } catch (const std::exception &e) {
        std::fprintf(stderr, "async_epoll: %s\n", e.what());
        return 1;
    }
    return 0;
}
