/* SPDX-License-Identifier: MIT */
/*
 * test_hpp - rdmad.hpp and rdmad_async.hpp against two daemons: argv[1] and argv[2] are their
 * runtime directories, argv[3] the second's process, which is stopped for a while. Run by
 * tests/integration/test_cpp.sh.
 */
#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <numeric>
#include <rdmad/rdmad_async.hpp>
#include <string_view>
#include <sys/mman.h>
#include <thread>
#include <unistd.h>

#define CHECK(condition, ...)                                           \
    do {                                                                \
        if (!(condition)) {                                             \
            std::printf("%s:%d: %s: ", __FILE__, __LINE__, #condition); \
            std::printf(__VA_ARGS__);                                   \
            std::puts("");                                              \
            std::exit(1);                                               \
        }                                                               \
    } while (0)

/* What it throws; an error of that code. */
template <int Code, class F> static rdmad::error_of<Code> thrown(F &&f) {
    try {
        f();
    } catch (const rdmad::error_of<Code> &e) {
        return e;
    }
    CHECK(false, "nothing was thrown, not %s", rdmad_errname(Code));
    std::abort();
}

static const char *there_dir, *here_dir;
static pid_t here_process;
static constexpr int LONG_MS = 60000;

static rdmad::session session_at(const char *dir) {
    rdmad::options o;
    o.runtime_dir = dir;
    return rdmad::session(o);
}

/* An owner and a lessee of 64 KiB. */
struct pair {
    rdmad::session owner = session_at(there_dir), lessee = session_at(here_dir);
    rdmad::pool theirs = owner.make_pool(1 << 20), mine = lessee.make_pool(1 << 20);
    rdmad::buffer box = theirs.alloc(1 << 16), piece = mine.alloc(1 << 16);
    rdmad::lease lease, there;

    static rdmad::lease_terms everything() {
        rdmad::lease_terms t;
        t.rights = RDMAD_RIGHTS_ALL;
        return t;
    }
    pair() : lease(clean().grant(box.bytes(), everything())), there(lessee.attach(lease.uri())) {}

  private:
    rdmad::session &clean() {
        std::ranges::fill(box.bytes(), std::byte{0});
        std::ranges::fill(piece.bytes(), std::byte{0});
        return owner;
    }
};

static void transfers() {
    pair p;
    auto numbers = p.box.as<std::uint32_t>();
    auto got = p.piece.as<std::uint32_t>();
    std::iota(numbers.begin(), numbers.end(), 1u);
    p.there.read(0, got);
    CHECK(std::ranges::equal(numbers, got), "read");
    got[3] = 77;
    p.there.write(12, got.subspan(3, 1));
    CHECK(numbers[3] == 77 && numbers[4] == 5, "write");
    std::uint64_t plain = 99;
    p.there.write_copy(16, std::span<const std::uint64_t>(&plain, 1));
    CHECK(p.there.fetch_add(16, 1) == 99 && p.there.cas(16, 100, 5) == 100, "atomics");
    p.there.read_copy(16, std::span(&plain, 1));
    CHECK(plain == 5, "read_copy");
    const rdmad_segment parts[] = {rdmad::segment(0, got.first(1)),
                                   rdmad::segment(400, got.subspan(1, 1))};
    got[0] = 8, got[1] = 9;
    p.there.writev(parts);
    CHECK(numbers[0] == 8 && numbers[100] == 9, "writev");
    p.there.write_notify(0, got.first(1), 42);
    auto told = p.lease.wait_notified(LONG_MS);
    CHECK(told && told->imm == 42 && told->bytes == 4, "notification");
    CHECK(!p.lease.wait_notified(0), "nothing comes");
    CHECK(p.there.info().length == 1 << 16 && !std::strcmp(p.there.info().fabric, "tcp"), "info");
    auto part = p.lessee.attach(p.there.delegate(8, 16));
    CHECK(part.info().length == 16, "delegate");
}

static void errors() {
    pair p;
    auto range = thrown<RDMAD_E_RANGE>([&] { p.there.read(1, p.piece.bytes()); });
    CHECK(range.code() == RDMAD_E_RANGE && !std::strcmp(range.name(), "RDMAD_E_RANGE"), "code");
    CHECK(range.outcome() == RDMAD_FAILED_UNTOUCHED, "outcome");
    CHECK(std::string_view(range.what()).find("lease") != std::string_view::npos, "%s",
          range.what());
    CHECK(!thrown<RDMAD_E_NAME>([&] { p.owner.listen("no/name"); }).outcome(), "of no transfer");
    thrown<RDMAD_E_NO_DAEMON>([] { session_at("/nonexistent"); });
    thrown<RDMAD_E_NOMEM>([&] { p.mine.alloc(1 << 21); });
    CHECK(!p.lessee.next_event(0), "no event");
    p.lease.revoke();
    thrown<RDMAD_E_LEASE_REVOKED>([&] { p.there.read(0, p.piece.bytes()); });
    for (auto e = p.lessee.next_event(LONG_MS);; e = p.lessee.next_event(LONG_MS)) {
        CHECK(e, "no event");
        if (e->type == RDMAD_EVENT_LEASE_ENDED && e->lease == p.there.get()) {
            CHECK(e->reason == RDMAD_E_LEASE_REVOKED, "%d", e->reason);
            break;
        }
    }
    thrown<RDMAD_E_BUSY>([&] { /* a piece is under a lease that lives */
                               rdmad::lease again = p.owner.grant(p.box.bytes());
                               p.theirs.destroy();
    });
    {
        auto lock = p.mine.lock_write(p.piece.bytes().first(1));
        rdmad::buffer_lock moved = std::move(*lock);
        CHECK(!p.mine.lock_read(p.piece.bytes(), 0), "a second lock");
    }
    CHECK(p.mine.lock_read(p.piece.bytes(), 0), "it was not unlocked");
}

static void moves() {
    rdmad::session a = session_at(there_dir);
    rdmad::session b = std::move(a);
    CHECK(!a.get() && b.get(), "a session is moved");
    rdmad::pool pool = b.make_pool(1 << 16), other = b.make_pool(4096);
    for (int i = 0; i < 100; i++) { /* or the pool has no room */
        rdmad::buffer one = pool.alloc(1 << 16);
        rdmad::buffer two = std::move(one);
        CHECK(!one.data() && two.data(), "a buffer is moved");
    }
    rdmad::buffer whole = pool.alloc(1 << 16);
    whole = other.alloc(64);
    rdmad::buffer again = pool.alloc(1 << 16); /* what was there went back */
    static_assert(!std::is_copy_constructible_v<rdmad::session> &&
                  !std::is_copy_constructible_v<rdmad::lease> &&
                  !std::is_copy_constructible_v<rdmad::buffer> &&
                  !std::is_copy_constructible_v<rdmad::buffer_lock> &&
                  !std::is_copy_constructible_v<rdmad::channel>);
    static_assert(std::is_nothrow_move_constructible_v<rdmad::session> &&
                  std::is_nothrow_move_constructible_v<rdmad::lease> &&
                  std::is_nothrow_move_constructible_v<rdmad::buffer>);
}

static void messages() {
    pair p;
    rdmad::service service = p.owner.listen("hpp");
    std::optional<rdmad::channel> near;
    std::thread caller([&] { near = p.lessee.connect(service.uri()); });
    auto far = service.accept(LONG_MS);
    caller.join();
    CHECK(far, "nobody came");
    CHECK(!far->recv(p.box.bytes(), 0), "nothing was sent");
    std::thread sender([&] {
        std::memcpy(p.piece.data(), "message", 8);
        near->send(p.piece.bytes().first(8), 5);
        near->send_lease(p.there.uri());
    });
    auto m = far->recv(p.box.bytes(), LONG_MS);
    CHECK(m && m->length == 8 && m->imm == 5 && (m->flags & RDMAD_CQE_IMM), "message");
    CHECK(!std::strcmp(p.box.as<char>().data(), "message"), "its bytes");
    auto lease = far->recv_lease(LONG_MS);
    sender.join();
    CHECK(lease && lease->info().length == 1 << 16, "a lease in a message");
    std::thread refused([&] {
        auto e = thrown<RDMAD_E_REFUSED>([&] { p.lessee.connect(service.uri()); });
        CHECK(std::string_view(e.what()).find("no more") != std::string_view::npos, "%s", e.what());
    });
    auto who = service.next_incoming(LONG_MS);
    CHECK(who && who->uid == getuid(), "incoming");
    service.reject(*who, "no more");
    refused.join();
    bool found = false;
    for (const rdmad_name &name : p.owner.names())
        found = found || !std::strcmp(name.name, "hpp");
    CHECK(found, "names");
    near->close();
    thrown<RDMAD_E_CLOSED>([&] { far->recv(p.box.bytes()); });
}

/* ---- coroutines ---------------------------------------------------------------------------- */

struct task {
    struct promise_type {
        task get_return_object() {
            return task{std::coroutine_handle<promise_type>::from_promise(*this)};
        }
        std::suspend_never initial_suspend() noexcept { return {}; }
        std::suspend_always final_suspend() noexcept { return {}; }
        void return_void() {}
        void unhandled_exception() { std::terminate(); }
    };
    explicit task(std::coroutine_handle<promise_type> it) : it_(it) {}
    task(task &&other) noexcept : it_(std::exchange(other.it_, {})) {}
    ~task() {
        if (it_)
            it_.destroy();
    }

  private:
    std::coroutine_handle<promise_type> it_;
};

static task count(rdmad::async_ring &ring, pair &p, unsigned times, unsigned &done) {
    for (unsigned i = 0; i < times; i++)
        co_await ring.fetch_add(p.there, 0, 1);
    done += 1;
}

static task ask_too_much(rdmad::async_ring &ring, pair &p, bool &failed) {
    try {
        co_await ring.read(p.there, 1, p.piece.bytes());
    } catch (const rdmad::error_of<RDMAD_E_RANGE> &e) {
        failed = e.outcome() == RDMAD_FAILED_UNTOUCHED;
    }
}

static task wait_told(rdmad::async_ring &ring, const rdmad::lease &lease, std::uint64_t &imm) {
    imm = (co_await ring.notified(lease)).imm;
}

static void coroutines() {
    pair p;
    rdmad::async_ring ring(p.lessee, 8), owners(p.owner, 8);
    unsigned done = 0;
    bool failed = false;
    {
        std::vector<task> tasks; /* more than there are entries */
        for (unsigned i = 0; i < 100; i++)
            tasks.push_back(count(ring, p, 5, done));
        tasks.push_back(ask_too_much(ring, p, failed));
        CHECK(ring.in_flight() == 101, "%zu ops", ring.in_flight());
        while (ring.in_flight())
            CHECK(ring.run(LONG_MS), "nothing completes");
        CHECK(done == 100 && failed && p.box.as<std::uint64_t>()[0] == 500, "%u tasks", done);
    }
    std::uint64_t imm = 0;
    {
        task canceled = wait_told(owners, p.lease, imm);
        CHECK(owners.run(0) == 0 && owners.in_flight() == 1, "it waits");
    }
    CHECK(owners.in_flight() == 0, "a coroutine that ended is in flight");
    task told = wait_told(owners, p.lease, imm);
    owners.run(0);
    p.there.write_notify(0, p.piece.bytes().first(0), 7);
    while (owners.in_flight())
        CHECK(owners.run(LONG_MS), "nothing is told");
    CHECK(imm == 7, "the one that was canceled has taken it");

    /* Half of them end while they wait for an entry, or are in flight. */
    done = 0;
    std::vector<task> some, others;
    for (unsigned i = 0; i < 20; i++)
        (i % 2 ? some : others).push_back(count(ring, p, 3, done));
    some.clear();
    while (ring.in_flight())
        CHECK(ring.run(LONG_MS), "nothing completes");
    CHECK(done == 10, "%u of the others are done", done);
}

static void rings() {
    pair p;
    rdmad::ring ring(p.lessee, 4);
    for (std::uint64_t i = 1; i <= 4; i++)
        CHECK(ring.prepare(rdmad_prep_read, p.there.get(), i, p.piece.data() + 64 * i,
                           std::size_t{8}, i),
              "entry");
    CHECK(!ring.prepare(rdmad_prep_nop, std::uint64_t{9}), "a fifth entry");
    CHECK(ring.submit() == 4, "submit");
    std::uint64_t sum = 0;
    for (int i = 0; i < 4; i++) {
        auto cqe = ring.next(LONG_MS);
        CHECK(cqe && cqe->bytes == 8, "completion");
        ring.check(*cqe);
        sum += cqe->user_data;
    }
    CHECK(sum == 10 && !ring.next(0) && ring.arm(), "that was all");
    CHECK(!ring.cancel(5), "nothing to cancel");
    thrown<RDMAD_E_RANGE>([&] {
        char in_no_pool[8];
        ring.prepare(rdmad_prep_read, p.there.get(), std::uint64_t{0}, in_no_pool,
                     sizeof(in_no_pool), std::uint64_t{1});
    });
    ring.prepare(rdmad_prep_read, p.there.get(), std::uint64_t{65535}, p.piece.data(),
                 std::size_t{8}, std::uint64_t{1});
    ring.submit();
    auto cqe = ring.next(LONG_MS);
    auto e = thrown<RDMAD_E_RANGE>([&] { ring.check(*cqe); });
    CHECK(std::string_view(e.what()).find("lease") != std::string_view::npos, "%s", e.what());
}

/* ---- a daemon that hangs -------------------------------------------------------------------- */

/* Returns when it is stopped. */
static void stop_daemon() {
    const std::string path = "/proc/" + std::to_string(here_process) + "/stat";
    CHECK(kill(here_process, SIGSTOP) == 0, "process %d", here_process);
    for (char state = 0; state != 'T';) {
        std::FILE *f = std::fopen(path.c_str(), "r");
        CHECK(f && std::fscanf(f, "%*d %*s %c", &state) == 1, "%s", path.c_str());
        std::fclose(f);
    }
}

static task wait_lost(rdmad::async_ring &ring, const rdmad::lease &lease, unsigned &failed) {
    try {
        co_await ring.notified(lease);
    } catch (const rdmad::error_of<RDMAD_E_DAEMON_LOST> &e) {
        failed += e.outcome() == RDMAD_FAILED_UNTOUCHED;
    }
}

static void silence() {
    const char *patience = std::getenv("RDMAD_TEST_PATIENCE");
    rdmad::options o;
    o.runtime_dir = here_dir;
    o.call_timeout_ms = 2000 * (patience ? std::atoi(patience) : 1);
    rdmad::session s(o);
    rdmad::pool pool = s.make_pool(1 << 16);
    rdmad::buffer box = pool.alloc(4096);
    rdmad::lease lease = s.grant(box.bytes());
    rdmad::async_ring ring(s, 8);
    stop_daemon();
    auto e = thrown<RDMAD_E_TIMEOUT>([&] { lease.wait_notified(); }); /* by a ring to be made */
    kill(here_process, SIGCONT);
    CHECK(std::string_view(e.what()).find("has said nothing") != std::string_view::npos, "%s",
          e.what());
    unsigned failed = 0;
    try {
        task first = wait_lost(ring, lease, failed);
        CHECK(ring.run(LONG_MS) == 1 && failed == 1, "%u have failed", failed);
        task second = wait_lost(ring, lease, failed);
        CHECK(!ring.arm() && ring.run(0) == 1 && failed == 2, "%u have failed", failed);
    } catch (const rdmad::error &thrown) {
        CHECK(false, "what a lost session has is thrown out of the loop: %s", thrown.what());
    }
}

int main(int argc, char **argv) {
    CHECK(argc == 4, "usage: test_hpp DIR DIR PROCESS");
    there_dir = argv[1];
    here_dir = argv[2];
    here_process = std::atoi(argv[3]);
    const struct {
        const char *name;
        void (*run)();
    } cases[] = {{"transfers", transfers}, {"errors", errors}, {"moves", moves},
                 {"messages", messages},   {"rings", rings},   {"coroutines", coroutines},
                 {"silence", silence}};
    for (const auto &each : cases) {
        std::printf("%s\n", each.name);
        std::fflush(stdout);
        each.run();
    }
    std::puts("all is well");
    return 0;
}
