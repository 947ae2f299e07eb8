/* SPDX-License-Identifier: MIT */
/*
 * tsan_plane.c - real workers, client threads and the control thread, on one mapping of each ring.
 *
 * A plain main, because ThreadSanitizer does not start under Criterion; one mapping, because two
 * mappings of the same pages would hide races from it. Clients spin, sleep, flood their wakeup or
 * never read it; meanwhile the control thread counts, asks for life, changes the spin bounds, gives
 * lanes new links, and ends leases and sessions in mid-traffic; a lessee on one worker notifies an
 * owner on the other; and links of two fabrics take turns. Whatever order that comes in, bytes are
 * right, every op is answered once, and whoever sleeps is woken.
 */
#include "common/ringword.h"
#include "daemon/base/clock.h"
#include "daemon/base/guard.h"
#include "daemon/ipc/ring.h"
#include "daemon/plane/plane.h"
#include <poll.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#define HANDLE (UINT64_C(1) << 32)
#define BYTES 65536u
#define PATIENCE_MS 20000

#define CHECK(condition)                                                              \
    do {                                                                              \
        if (!(condition)) {                                                           \
            fprintf(stderr, "%s:%d: not true: %s\n", __FILE__, __LINE__, #condition); \
            abort();                                                                  \
        }                                                                             \
    } while (0)

enum manner { SPINS, SLEEPS, NEVER_READS_WAKEUPS, FLOODS, MANNERS };

struct client {
    enum manner manner;
    pthread_t thread;
    struct plane_session *session;
    struct ring *ring;
    int fds[RING_FDS];
    struct rdmad_ring_client *words; /* the daemon's own mapping, made writable */
    struct rdmad_sqe *sqe;
    uint32_t sq_tail, cq_head;
    uint8_t *pool, *target;
    struct fabric_audit audit;
    unsigned rounds, ended;
    unsigned lease; /* HANDLE, or so many after it */
    bool finished;  /* atomic */
};

static struct mailbox control;
static struct plane *plane;
static unsigned answers;

static void on_done(void *arg, const struct error *result) {
    CHECK(result->code == 0);
    answers++;
    if (arg)
        *(bool *)arg = true;
}

static void on_violated(void *user, void *cookie, const struct error *why) {
    (void)user;
    (void)cookie;
    fprintf(stderr, "%s\n", why->text);
    abort();
}

static void await(unsigned count) {
    while (answers < count) {
        struct pollfd p = {.fd = control.fd, .events = POLLIN};
        CHECK(poll(&p, 1, PATIENCE_MS) == 1);
        mailbox_drain(&control);
    }
}

/* ---- the client's side ------------------------------------------------------------------- */

static void put(struct client *c, const struct rdmad_sqe *sqe) {
    c->sqe[c->sq_tail & (c->ring->sq_entries - 1)] = *sqe;
    if (ringword_publish_and_ask(&c->words->sq_tail, ++c->sq_tail, &c->ring->daemon->sq_wait))
        eventfd_write(c->fds[3], 1);
    if (c->manner == FLOODS)
        for (int i = 0; i < 20; i++)
            eventfd_write(c->fds[3], 1);
}

static void sleep_for_completion(struct client *c) {
    char bin[64];
    struct pollfd p = {.fd = c->fds[2], .events = POLLIN};
    recv(c->fds[2], bin, sizeof(bin), MSG_DONTWAIT);
    if (ringword_arm_and_peek(&c->words->cq_wait, &c->ring->daemon->cq_tail) == c->cq_head)
        CHECK(poll(&p, 1, PATIENCE_MS) == 1);
    ringword_disarm(&c->words->cq_wait);
}

static struct rdmad_cqe take(struct client *c) {
    uint64_t limit = clock_now_ns() + PATIENCE_MS * NSEC_PER_MSEC;
    while (ringword_peek(&c->ring->daemon->cq_tail) == c->cq_head) {
        if (c->manner == SLEEPS)
            sleep_for_completion(c);
        else
            sched_yield();
        CHECK(clock_now_ns() < limit);
    }
    struct rdmad_cqe cqe = c->ring->cqe[c->cq_head & (c->ring->cq_entries - 1)];
    ringword_publish(&c->words->cq_head, ++c->cq_head);
    return cqe;
}

static struct rdmad_cqe run(struct client *c, uint8_t opcode, uint64_t length, uint64_t tag) {
    struct rdmad_sqe sqe = {.opcode = opcode, .user_data = tag};
    if (opcode != RDMAD_OP_NOP) {
        sqe.pool = HANDLE;
        sqe.lease = HANDLE + c->lease;
        sqe.length = length;
    }
    put(c, &sqe);
    struct rdmad_cqe cqe = take(c);
    CHECK(cqe.user_data == tag && cqe.opcode == opcode);
    return cqe;
}

static void *client_main(void *arg) {
    struct client *c = arg;
    if (c->manner == NEVER_READS_WAKEUPS)
        __atomic_store_n(&c->words->cq_wait, 1, __ATOMIC_SEQ_CST);
    for (unsigned i = 0; i < c->rounds; i++) {
        uint64_t length = i % 50 == 0 ? BYTES : i % 200;
        CHECK(run(c, RDMAD_OP_NOP, 0, i).status == 0);
        memset(c->pool, (int)i, length);
        int status = run(c, RDMAD_OP_WRITE, length, i).status;
        if (status == 0) {
            memset(c->pool, 0, length);
            status = run(c, RDMAD_OP_READ, length, i).status;
        }
        if (status) {
            CHECK(status == RDMAD_E_LEASE_REVOKED);
            c->ended++;
            continue;
        }
        CHECK(length == 0 || (c->pool[0] == (uint8_t)i && c->pool[length - 1] == (uint8_t)i));
        if (c->manner == SLEEPS && i % 100 == 0)
            usleep(1000); /* long enough for the worker to sleep, too */
    }
    __atomic_store_n(&c->finished, true, __ATOMIC_RELEASE);
    return NULL;
}

/* ---- the control thread's side ----------------------------------------------------------- */

static void lease(struct client *c) {
    struct plane_lease_spec spec = {.lease_id = 7,
                                    .length = BYTES,
                                    .rights = RDMAD_RIGHTS_ALL,
                                    .deadline_ns = CLOCK_NEVER,
                                    .base = c->target,
                                    .audit = &c->audit};
    plane_lease_add(c->session, HANDLE, &spec, on_done, NULL);
}

static void client_up(struct client *c, enum manner manner, unsigned rounds) {
    struct error err;
    *c = (struct client){.manner = manner, .rounds = rounds};
    CHECK(ring_create(16, 0, &c->ring, c->fds, &err) == 0);
    c->words = (void *)(uintptr_t)c->ring->client;
    c->sqe = (void *)(uintptr_t)c->ring->sqe;
    CHECK(mprotect(c->words, c->ring->client_bytes, PROT_READ | PROT_WRITE) == 0);
    c->pool = calloc(1, BYTES);
    c->target = calloc(1, BYTES);
    c->session = plane_session_add(plane, manner, (struct user_id){0}, c);
    unsigned before = answers;
    plane_ring_add(c->session, HANDLE, c->ring, on_done, NULL);
    plane_pool_add(c->session, HANDLE, c->pool, BYTES, NULL, on_done, NULL);
    lease(c);
    await(before + 3);
    CHECK(pthread_create(&c->thread, NULL, client_main, c) == 0);
}

static void client_down(struct client *c) {
    unsigned before = answers;
    plane_session_drop(c->session, on_done, NULL);
    await(before + 1);
    for (int i = 0; i < RING_FDS; i++)
        close(c->fds[i]);
    ring_destroy(c->ring);
    free(c->pool);
    free(c->target);
}

/* The lease ends under a running client; when that is answered the range is ours. */
static void revoke_once(struct client *c) {
    unsigned before = answers;
    plane_lease_end(c->session, HANDLE, RDMAD_E_LEASE_REVOKED, on_done, NULL);
    await(before + 1);
    memset(c->target, 0xaa, BYTES); /* a copy still running would be a race */
    plane_lease_forget(c->session, HANDLE);
    lease(c);
    await(before + 2);
}

static void meddle(struct client *clients, unsigned count) {
    struct plane_counters counters;
    for (unsigned turn = 0;; turn++) {
        bool all = true;
        for (unsigned i = 0; i < count; i++)
            all &= __atomic_load_n(&clients[i].finished, __ATOMIC_ACQUIRE);
        if (all)
            return;
        plane_count(plane, &counters);
        plane_worker_turns(plane, 0);
        plane_set_spin(plane, turn % 3 * 1000, turn % 5 * 10000);
        mailbox_drain(&control);
        usleep(500);
    }
}

/* The worker sleeps after every op, and so does one of two clients; the other one publishes just
 * when the worker is about to. Whoever misses the other's word sleeps for ever. */
static void nobody_misses_a_wake_up(enum manner manner, unsigned rounds) {
    struct client c;
    plane_set_spin(plane, 0, 0);
    client_up(&c, manner, 0);
    pthread_join(c.thread, NULL);
    for (unsigned i = 0; i < rounds; i++)
        CHECK(run(&c, RDMAD_OP_NOP, 0, i).status == 0);
    client_down(&c);
}

/* Writes on and on, whatever becomes of its lease. */
static void *steady_writes(void *arg) {
    struct client *c = arg;
    for (unsigned i = 0; i < c->rounds; i++) {
        int status = run(c, RDMAD_OP_WRITE, BYTES, i).status;
        CHECK(status == 0 || status == RDMAD_E_LEASE_REVOKED || status == RDMAD_E_NO_LEASE);
        if (status)
            c->ended++;
    }
    __atomic_store_n(&c->finished, true, __ATOMIC_RELEASE);
    return NULL;
}

/* A client that writes so often, by a thread of its own. */
static void steady_up(struct client *c, unsigned rounds) {
    client_up(c, SPINS, 0);
    pthread_join(c->thread, NULL);
    c->rounds = rounds;
    c->finished = false;
    CHECK(pthread_create(&c->thread, NULL, steady_writes, c) == 0);
}

static void revocations_are_no_races(unsigned rounds) {
    struct client c;
    steady_up(&c, rounds);
    while (!__atomic_load_n(&c.finished, __ATOMIC_ACQUIRE))
        revoke_once(&c);
    pthread_join(c.thread, NULL);
    client_down(&c);
}

/* ---- lanes, over the local fabric -------------------------------------------------------- */

struct blob_answer {
    struct fabric_blob blob;
};

static void on_blob(void *arg, const struct error *result, const struct fabric_blob *blob) {
    ((struct blob_answer *)arg)->blob = *blob;
    on_done(NULL, result);
}

static void connect_lane(struct plane_lane *lane, unsigned fabric, uint64_t peer) {
    struct blob_answer hello, offer;
    unsigned before = answers;
    plane_lane_hello(lane, on_blob, &hello);
    await(before + 1);
    plane_offer(plane, fabric, peer, false, &hello.blob, on_blob, &offer);
    await(before + 2);
    plane_lane_open(lane, "127.0.0.1", &offer.blob, on_done, NULL);
    await(before + 3);
    CHECK(plane_lane_number(lane) != 0);
}

/* The lane's link is exchanged again and again; its lessee notices nothing but the time. */
static void links_change_under_running_clients(unsigned rounds) {
    struct client c;
    struct blob_answer key;
    client_up(&c, SPINS, 0);
    pthread_join(c.thread, NULL);
    uint64_t peer = 100 + plane_worker_of_session(c.session); /* of two: on the same worker */
    CHECK(plane_worker_of_peer(plane, peer) == plane_worker_of_session(c.session));
    struct plane_lane *lane =
        plane_lane_new(plane, 0, plane_worker_of_session(c.session), false, NULL);
    struct fabric_window_spec window_spec = {.peer = peer,
                                             .base = c.target,
                                             .length = BYTES,
                                             .rights = RDMAD_RIGHTS_ALL,
                                             .deadline_ns = CLOCK_NEVER,
                                             .audit = &c.audit};
    struct plane_lease_spec spec = {.lease_id = 8,
                                    .length = BYTES,
                                    .rights = RDMAD_RIGHTS_ALL,
                                    .deadline_ns = CLOCK_NEVER,
                                    .lane = lane};
    unsigned before = answers;
    struct plane_window *window = plane_window_open(plane, 0, &window_spec, NULL, on_blob, &key);
    plane_lease_end(c.session, HANDLE, RDMAD_E_LEASE_REVOKED, on_done, NULL);
    plane_lease_forget(c.session, HANDLE);
    plane_lease_add(c.session, HANDLE, &spec, on_done, NULL);
    await(before + 3);
    c.rounds = rounds;
    c.finished = false;
    CHECK(pthread_create(&c.thread, NULL, client_main, &c) == 0);
    while (!__atomic_load_n(&c.finished, __ATOMIC_ACQUIRE)) {
        connect_lane(lane, 0, peer);
        before = answers;
        plane_window_reopen(window, plane_lane_number(lane), on_blob, &key);
        await(before + 1);
        plane_lease_key(c.session, HANDLE, &key.blob);
        usleep(200);
    }
    pthread_join(c.thread, NULL);
    CHECK(c.ended == 0);
    before = answers;
    plane_lease_end(c.session, HANDLE, RDMAD_E_LEASE_RELEASED, on_done, NULL);
    plane_lane_drop(lane, on_done, NULL);
    plane_window_close(window, RDMAD_E_LEASE_RELEASED, on_done, NULL);
    await(before + 3);
    client_down(&c);
}

/* ---- two fabrics ------------------------------------------------------------------------- */

struct far {
    struct plane_lane *lane;
    struct plane_window *window;
};

/* A lease under HANDLE + 1 + fabric, over a link of that fabric. */
static void far_up(struct client *c, struct far *far, unsigned fabric) {
    unsigned worker = plane_worker_of_session(c->session), before;
    uint64_t peer = 100 + worker + fabric; /* of two: over tcp to the other worker */
    struct blob_answer key;
    far->lane = plane_lane_new(plane, fabric, worker, false, NULL);
    connect_lane(far->lane, fabric, peer);
    const struct fabric_window_spec window = {.peer = peer,
                                              .via = plane_lane_number(far->lane),
                                              .base = c->target,
                                              .length = BYTES,
                                              .rights = RDMAD_RIGHTS_ALL,
                                              .deadline_ns = CLOCK_NEVER,
                                              .audit = &c->audit};
    before = answers;
    far->window = plane_window_open(plane, fabric, &window, NULL, on_blob, &key);
    await(before + 1);
    const struct plane_lease_spec spec = {.lease_id = 8,
                                          .length = BYTES,
                                          .rights = RDMAD_RIGHTS_ALL,
                                          .deadline_ns = CLOCK_NEVER,
                                          .lane = far->lane,
                                          .key = key.blob};
    plane_lease_add(c->session, HANDLE + 1 + fabric, &spec, on_done, NULL);
    await(before + 2);
}

static void far_down(struct client *c, struct far *far, unsigned fabric) {
    unsigned before = answers;
    plane_lease_end(c->session, HANDLE + 1 + fabric, RDMAD_E_LEASE_RELEASED, on_done, NULL);
    plane_lane_drop(far->lane, on_done, NULL);
    plane_window_close(far->window, RDMAD_E_LEASE_RELEASED, on_done, NULL);
    await(before + 3);
}

/* Workers that sleep at once are woken by whichever fabric has something; busy ones find both. */
static void links_of_two_fabrics_take_turns(unsigned rounds, uint64_t spin_max_ns) {
    struct client c;
    struct far far[2];
    client_up(&c, SLEEPS, 0);
    pthread_join(c.thread, NULL);
    plane_set_spin(plane, 0, spin_max_ns);
    for (unsigned fabric = 0; fabric < 2; fabric++)
        far_up(&c, &far[fabric], fabric);
    for (unsigned i = 0; i < rounds; i++) {
        const uint64_t length = i % 50 == 0 ? BYTES : 1 + i % 200;
        c.lease = 1 + i % 2;
        memset(c.pool, (int)i, length);
        CHECK(run(&c, RDMAD_OP_WRITE, length, i).status == 0);
        memset(c.pool, 0, length);
        CHECK(run(&c, RDMAD_OP_READ, length, i).status == 0);
        CHECK(c.pool[0] == (uint8_t)i && c.pool[length - 1] == (uint8_t)i);
    }
    for (unsigned fabric = 0; fabric < 2; fabric++)
        far_down(&c, &far[fabric], fabric);
    client_down(&c);
}

/* A session dropped while its client keeps publishing. */
static void drops_in_mid_traffic(unsigned count) {
    for (unsigned i = 0; i < count; i++) {
        struct client c;
        client_up(&c, SPINS, 0);
        pthread_join(c.thread, NULL);
        struct rdmad_sqe sqe = {
            .opcode = RDMAD_OP_WRITE, .pool = HANDLE, .lease = HANDLE, .length = BYTES};
        for (int n = 0; n < 10; n++)
            put(&c, &sqe);
        client_down(&c);
    }
}

/* ---- traces, which come and go ----------------------------------------------------------- */

/* One is read, one is not, while a client writes on; one is there before its first op and is read
 * after its last, so that something is seen however late this thread runs. */
static void traces_come_and_go(unsigned rounds) {
    static struct plane_traced seen[64];
    const struct plane_trace_filter all = {.begun = true};
    struct client c;
    struct plane_trace *whole = plane_trace_begin(plane, &all);
    CHECK(whole);
    steady_up(&c, rounds);
    while (!__atomic_load_n(&c.finished, __ATOMIC_ACQUIRE)) {
        struct plane_trace *lazy = plane_trace_begin(plane, &all);
        struct plane_trace *t = plane_trace_begin(plane, &all);
        CHECK(lazy && t);
        for (unsigned i = 0; i < 50; i++) {
            unsigned count = plane_trace_read(t, seen, 64);
            for (unsigned n = 0; n < count; n++)
                CHECK(seen[n].opcode == RDMAD_OP_WRITE && seen[n].bytes == BYTES);
            (void)plane_trace_dropped(lazy);
        }
        plane_trace_end(t);
        plane_trace_end(lazy);
    }
    CHECK(plane_trace_read(whole, seen, 64) > 0);
    plane_trace_end(whole);
    pthread_join(c.thread, NULL);
    client_down(&c);
}

/* ---- notices, from one worker to the other ----------------------------------------------- */

#define SLOT 64u
#define SLOTS (2 * RDMAD_NOTIFY_DEPTH) /* more than can be written and not looked at */

static void *notifies(void *arg) {
    struct client *c = arg;
    for (unsigned i = 0; i < c->rounds; i++) {
        struct rdmad_sqe sqe = {.opcode = RDMAD_OP_NOTIFY,
                                .imm = i,
                                .pool = HANDLE,
                                .length = SLOT,
                                .lease = HANDLE,
                                .lease_offset = (uint64_t)(i % SLOTS) * SLOT,
                                .user_data = i};
        memset(c->pool, (int)i, SLOT);
        int status;
        do {
            put(c, &sqe);
            status = take(c).status;
        } while (status == RDMAD_E_NO_WAITER);
        CHECK(status == 0);
    }
    __atomic_store_n(&c->finished, true, __ATOMIC_RELEASE);
    return NULL;
}

static void *is_notified(void *arg) {
    struct client *c = arg;
    for (unsigned i = 0; i < c->rounds; i++) {
        struct rdmad_sqe sqe = {.opcode = RDMAD_OP_NOTIFIED, .lease = 9, .user_data = i};
        put(c, &sqe);
        struct rdmad_cqe cqe = take(c);
        CHECK(cqe.status == 0 && cqe.imm == i && cqe.bytes == SLOT);
        const uint8_t *slot = c->target + (size_t)(i % SLOTS) * SLOT;
        for (unsigned n = 0; n < SLOT; n++)
            CHECK(slot[n] == (uint8_t)i);
    }
    __atomic_store_n(&c->finished, true, __ATOMIC_RELEASE);
    return NULL;
}

static void notices_cross_workers(unsigned rounds) {
    struct client c[2]; /* the lessee and the owner */
    client_up(&c[0], SPINS, 0);
    client_up(&c[1], SLEEPS, 0);
    CHECK(plane_worker_of_session(c[0].session) != plane_worker_of_session(c[1].session));
    struct plane_lease_spec spec = {.lease_id = 9,
                                    .length = BYTES,
                                    .rights = RDMAD_RIGHTS_ALL,
                                    .deadline_ns = CLOCK_NEVER,
                                    .base = c[1].target,
                                    .audit = &c[0].audit,
                                    .owner = c[1].session,
                                    .notify_lease = 9};
    unsigned before = answers;
    plane_grant_add(c[1].session, 9, on_done, NULL);
    plane_lease_end(c[0].session, HANDLE, RDMAD_E_LEASE_RELEASED, on_done, NULL);
    plane_lease_forget(c[0].session, HANDLE);
    plane_lease_add(c[0].session, HANDLE, &spec, on_done, NULL);
    await(before + 3);
    for (unsigned i = 0; i < 2; i++) {
        pthread_join(c[i].thread, NULL);
        c[i].rounds = rounds;
        c[i].finished = false;
        CHECK(pthread_create(&c[i].thread, NULL, i ? is_notified : notifies, &c[i]) == 0);
    }
    meddle(c, 2);
    for (unsigned i = 0; i < 2; i++)
        pthread_join(c[i].thread, NULL);
    before = answers;
    plane_grant_drop(c[1].session, 9, RDMAD_E_LEASE_RELEASED, on_done, NULL);
    await(before + 1);
    client_down(&c[1]); /* before its lessee: what is on its way finds nobody */
    client_down(&c[0]);
}

int main(void) {
    struct plane_settings settings = {.workers = 2,
                                      .spin_max_ns = 20000,
                                      .default_timeout_ns = 60 * NSEC_PER_SEC,
                                      .max_timeout_ns = 60 * NSEC_PER_SEC,
                                      .max_session_ops = 8,
                                      .max_uid_ops = 16384,
                                      .max_ops = 32768,
                                      .max_session_waits = 8192,
                                      .max_uid_waits = 16384,
                                      .max_waits = 32768,
                                      .fabrics = {&fabric_local, &fabric_tcp},
                                      .fabric_settings = {.listen_host = "127.0.0.1",
                                                          .max_inflight = 64,
                                                          .send_buffer_bytes = 4 << 20,
                                                          .token_ttl_ns = 60 * NSEC_PER_SEC,
                                                          .connect_timeout_ns = 60 * NSEC_PER_SEC,
                                                          .dead_peer_ns = 60 * NSEC_PER_SEC,
                                                          .max_strangers = 16}};
    struct plane_events events = {.session_violated = on_violated};
    struct client clients[MANNERS];
    struct error err;
    CHECK(guard_install() == 0);
    CHECK(mailbox_init(&control) == 0);
    CHECK(plane_start(&settings, &events, &control, &plane, &err) == 0);

    for (unsigned i = 0; i < MANNERS; i++)
        client_up(&clients[i], (enum manner)i, 1500);
    meddle(clients, MANNERS);
    for (unsigned i = 0; i < MANNERS; i++) {
        pthread_join(clients[i].thread, NULL);
        CHECK(clients[i].ended == 0);
        client_down(&clients[i]);
    }
    nobody_misses_a_wake_up(SLEEPS, 10000);
    nobody_misses_a_wake_up(SPINS, 20000);
    revocations_are_no_races(500);
    drops_in_mid_traffic(50);
    traces_come_and_go(3000);
    links_change_under_running_clients(3000);
    notices_cross_workers(5000);
    links_of_two_fabrics_take_turns(2000, 0);
    links_of_two_fabrics_take_turns(2000, 20000);

    struct plane_counters counters;
    plane_count(plane, &counters);
    CHECK(counters.ops_inflight == 0 && counters.ops > 10000);
    mailbox_drain(&control);
    plane_stop(plane);
    mailbox_fini(&control);
    puts("the data plane: no race seen");
    return 0;
}
