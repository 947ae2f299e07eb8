/* SPDX-License-Identifier: MIT */
/*
 * test_resume.c - a daemon is killed and started again, and its clients go on: pools with their
 * contents, leases with their URIs and deadlines, handles, services. What was in flight has one
 * outcome, and nothing is done twice.
 */
#include "tests/support/harness.h"

#include <errno.h>
#include <pthread.h>
#include <rdmad/rdmad.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum { BYTES = 1 << 20 };

static rdmad_session *session_of(struct tdaemon *d, int64_t call_timeout_ms) {
    struct rdmad_options o = RDMAD_OPTIONS_INIT;
    rdmad_session *s;
    need_hole_guard();
    o.runtime_dir = tdaemon_dir(d);
    o.call_timeout_ms = call_timeout_ms;
    CHECK(rdmad_open(&o, &s) == 0, "%s", rdmad_last_error(NULL));
    return s;
}

static void *buffer_of(rdmad_session *s, rdmad_pool **pool) {
    CHECK(rdmad_pool_create(s, BYTES, 0, pool) == 0, "%s", rdmad_last_error(s));
    void *at = rdmad_alloc(*pool, BYTES / 2);
    CHECK(at, "%s", rdmad_last_error(s));
    return at;
}

/* Promised within 2 s after the start. Other events come before it. */
static void expect_resumed(rdmad_session *s) {
    struct rdmad_event e = RDMAD_EVENT_INIT;
    do
        CHECK(rdmad_next_event(s, (int)TEST_PATIENCE_MS, &e) == 0, "%s", rdmad_last_error(s));
    while (e.type != RDMAD_EVENT_SESSION_RESUMED && e.type != RDMAD_EVENT_SESSION_LOST);
    CHECK(e.type == RDMAD_EVENT_SESSION_RESUMED, "the session is lost: %s", e.text);
}

static void fill(void *at, unsigned seed) {
    for (unsigned i = 0; i < BYTES / 2 / sizeof(unsigned); i++)
        ((unsigned *)at)[i] = seed * 2654435761u + i;
}

static bool filled(const void *at, unsigned seed) {
    for (unsigned i = 0; i < BYTES / 2 / sizeof(unsigned); i++)
        if (((const unsigned *)at)[i] != seed * 2654435761u + i)
            return false;
    return true;
}

/* An owner and a lessee of one daemon, in one process. */
struct pair {
    struct tdaemon *d;
    rdmad_session *owner, *lessee;
    rdmad_pool *pool, *mine;
    char *memory, *buffer;
    rdmad_lease *granted, *attached;
    char uri[RDMAD_URI_MAX + 1];
};

static void pair_up(struct pair *p, const char *name) {
    struct rdmad_lease_terms t = RDMAD_LEASE_TERMS_INIT;
    *p = (struct pair){.d = tdaemon_start("127.0.0.1", NULL)};
    p->owner = session_of(p->d, 0);
    p->lessee = session_of(p->d, 0);
    p->memory = buffer_of(p->owner, &p->pool);
    p->buffer = buffer_of(p->lessee, &p->mine);
    t.name = name;
    t.rights = RDMAD_RIGHT_READ | RDMAD_RIGHT_WRITE | RDMAD_RIGHT_ATOMIC;
    CHECK(rdmad_lease_grant(p->owner, p->memory, BYTES / 2, &t, &p->granted) == 0, "%s",
          rdmad_last_error(p->owner));
    snprintf(p->uri, sizeof(p->uri), "%s", rdmad_lease_uri(p->granted));
    CHECK(rdmad_lease_attach(p->lessee, p->uri, 0, &p->attached) == 0, "%s",
          rdmad_last_error(p->lessee));
}

static void pair_down(struct pair *p) {
    rdmad_close(p->lessee);
    rdmad_close(p->owner);
    tdaemon_stop(p->d);
}

static void restart(struct tdaemon *d) {
    tdaemon_kill(d);
    tdaemon_restart(d);
}

static void works(struct pair *p, unsigned seed) {
    fill(p->memory, seed);
    memset(p->buffer, 0, BYTES / 2);
    CHECK(rdmad_read(p->attached, 0, p->buffer, BYTES / 2) == 0, "%s", rdmad_last_error(p->lessee));
    CHECK(filled(p->buffer, seed), "the read brought other bytes");
    fill(p->buffer, seed + 1);
    CHECK(rdmad_write(p->attached, 0, p->buffer, BYTES / 2) == 0, "%s",
          rdmad_last_error(p->lessee));
    CHECK(filled(p->memory, seed + 1), "the write landed elsewhere");
}

static void a_killed_daemons_clients_go_on(void) {
    struct pair p;
    struct rdmad_lease_info info = RDMAD_LEASE_INFO_INIT;
    pair_up(&p, NULL);
    works(&p, 1);
    for (unsigned i = 0; i < test_count(20); i++) {
        fill(p.memory, i);
        restart(p.d);
        expect_resumed(p.owner);
        expect_resumed(p.lessee);
        CHECK(filled(p.memory, i), "the pool's contents have changed");
        CHECK(strcmp(rdmad_lease_uri(p.granted), p.uri) == 0, "the lease's URI has changed");
        works(&p, i + 100);
        rdmad_lease_get_info(p.granted, &info);
        CHECK(!info.ended && info.ttl_ms > 0, "the lease has ended: %d", info.ended);
    }
    pair_down(&p);
}

/* As by systemctl restart: ops are seen to their end first, so there is none of unknown outcome
 * here. */
static void a_stopped_daemons_clients_go_on(void) {
    struct pair p;
    pair_up(&p, NULL);
    for (unsigned i = 0; i < test_count(20); i++) {
        works(&p, i);
        tdaemon_end(p.d);
        tdaemon_restart(p.d);
        works(&p, i + 100);
        expect_resumed(p.owner);
        expect_resumed(p.lessee);
    }
    pair_down(&p);
}

static void a_published_lease_keeps_its_name(void) {
    struct pair p;
    pair_up(&p, "resumed");
    restart(p.d);
    expect_resumed(p.owner);
    expect_resumed(p.lessee);
    works(&p, 7);
    rdmad_lease *again;
    CHECK(rdmad_lease_attach(p.lessee, "resumed", 0, &again) == 0, "%s",
          rdmad_last_error(p.lessee));
    CHECK(rdmad_lease_revoke(p.granted) == 0, "%s", rdmad_last_error(p.owner));
    CHECK(rdmad_read(p.attached, 0, p.buffer, 8) == RDMAD_E_LEASE_REVOKED, "%s",
          rdmad_last_error(p.lessee));
    pair_down(&p);
}

/* The lease is of another node, and its owner lives on. */
static void a_lessee_of_another_node_goes_on(void) {
    struct tdaemon *far = tdaemon_start("127.0.0.2", NULL);
    rdmad_session *owner = session_of(far, 0);
    rdmad_pool *pool;
    rdmad_lease *granted, *attached;
    char *memory = buffer_of(owner, &pool);
    struct pair p = {.d = tdaemon_start("127.0.0.1", NULL)};
    p.lessee = session_of(p.d, 0);
    p.buffer = buffer_of(p.lessee, &p.mine);
    CHECK(rdmad_lease_grant(owner, memory, BYTES / 2, NULL, &granted) == 0, "%s",
          rdmad_last_error(owner));
    CHECK(rdmad_lease_attach(p.lessee, rdmad_lease_uri(granted), 0, &attached) == 0, "%s",
          rdmad_last_error(p.lessee));
    p.attached = attached;
    p.memory = memory;
    for (unsigned i = 0; i < test_count(20); i++) {
        works(&p, i);
        restart(p.d);
        expect_resumed(p.lessee);
        works(&p, i + 100);
    }
    rdmad_close(p.lessee);
    rdmad_close(owner);
    tdaemon_stop(p.d);
    tdaemon_stop(far);
}

/* What is done with the object of one that is gone does nothing to a new one. */
static void a_number_that_does_not_come_back_is_given_to_nobody(void) {
    struct pair p;
    struct rdmad_lease_info info = RDMAD_LEASE_INFO_INIT;
    struct rdmad_event e = RDMAD_EVENT_INIT;
    pair_up(&p, NULL);
    tdaemon_kill(p.d);
    rdmad_close(p.owner); /* it is not handed back */
    tdaemon_restart(p.d);
    expect_resumed(p.lessee);
    p.owner = session_of(p.d, 0);
    p.memory = buffer_of(p.owner, &p.pool);
    rdmad_lease *old = p.attached;
    CHECK(rdmad_lease_grant(p.owner, p.memory, BYTES / 2, NULL, &p.granted) == 0, "%s",
          rdmad_last_error(p.owner));
    CHECK(strcmp(rdmad_lease_uri(p.granted), p.uri) != 0, "the old URI names a new lease");
    CHECK(rdmad_lease_attach(p.lessee, rdmad_lease_uri(p.granted), 0, &p.attached) == 0, "%s",
          rdmad_last_error(p.lessee));
    CHECK(rdmad_read(old, 0, p.buffer, 8) != 0, "the old handle reads the new lease");
    works(&p, 1);
    rdmad_lease_free(old);
    works(&p, 2);
    rdmad_lease_get_info(p.attached, &info);
    CHECK(!info.ended, "the new lease ended with the old: %d", info.ended);
    CHECK(rdmad_next_event(p.lessee, 0, &e) == RDMAD_E_TIMEOUT, "event %u: %s", e.type, e.text);
    pair_down(&p);
}

/* Its program does nothing at all meanwhile. */
static void an_idle_owner_comes_back_by_itself(void) {
    struct pair p;
    rdmad_lease *l = NULL;
    pair_up(&p, NULL);
    restart(p.d);
    rdmad_session *other = session_of(p.d, 0);
    uint64_t until = now_ms() + TEST_PATIENCE_MS;
    while (!l && now_ms() < until && rdmad_lease_attach(other, p.uri, 0, &l) != 0)
        sleep_ms(5);
    CHECK(l, "the lease has not come back: %s", rdmad_last_error(other));
    rdmad_close(other);
    pair_down(&p);
}

struct call {
    rdmad_session *s;
    void *memory;
    rdmad_lease *lease;
    int rc;
};

static void *grant_one(void *arg) {
    struct call *c = arg;
    c->rc = rdmad_lease_grant(c->s, c->memory, 4096, NULL, &c->lease);
    return NULL;
}

static void a_call_waits_for_the_next_daemon(void) {
    struct pair p;
    pthread_t thread;
    pair_up(&p, NULL);
    struct call c = {.s = p.owner, .memory = p.memory};
    tdaemon_kill(p.d);
    CHECK(pthread_create(&thread, NULL, grant_one, &c) == 0, "thread");
    sleep_ms(100);
    tdaemon_restart(p.d);
    pthread_join(thread, NULL);
    CHECK(c.rc == 0, "%s", rdmad_strerror(c.rc));
    CHECK(rdmad_lease_revoke(c.lease) == 0, "%s", rdmad_last_error(p.owner));
    pair_down(&p);
}

static void submit_write(struct pair *p, rdmad_ring *ring, uint64_t offset, uint64_t name) {
    struct rdmad_sqe *sqe = rdmad_ring_reserve(ring);
    CHECK(sqe, "no entry");
    CHECK(rdmad_prep_write(ring, sqe, p->attached, offset, p->buffer + offset, 8, name) == 0, "%s",
          rdmad_last_error(p->lessee));
    CHECK(rdmad_ring_submit(ring) == 1, "%s", rdmad_last_error(p->lessee));
}

static void expect_done(struct pair *p, rdmad_ring *ring, uint64_t name) {
    const struct rdmad_cqe *cqe;
    CHECK(rdmad_ring_wait(ring, (int)TEST_PATIENCE_MS, &cqe) == 0, "%s",
          rdmad_last_error(p->lessee));
    CHECK(cqe->user_data == name && cqe->status == 0, "op %llu ended with %d",
          (unsigned long long)cqe->user_data, cqe->status);
    rdmad_ring_seen(ring, cqe);
}

/* An entry that is reserved before the daemon goes, one that is submitted while there is none, and
 * one after: all are done, once, and the first stays where the program has it. */
static void what_is_submitted_meanwhile_waits(void) {
    struct rdmad_lease_info info = RDMAD_LEASE_INFO_INIT;
    struct pair p;
    rdmad_ring *ring;
    pair_up(&p, NULL);
    memset(p.memory, 0, BYTES / 2);
    fill(p.buffer, 3);
    CHECK(rdmad_ring_create(p.lessee, 8, &ring) == 0, "%s", rdmad_last_error(p.lessee));
    for (unsigned i = 0; i < 5; i++) { /* so that the ring stands in its midst */
        submit_write(&p, ring, 0, i);
        expect_done(&p, ring, i);
    }
    struct rdmad_sqe *early = rdmad_ring_reserve(ring);
    CHECK(early, "no entry");
    CHECK(rdmad_prep_write(ring, early, p.attached, 8, p.buffer + 8, 8, 100) == 0, "%s",
          rdmad_last_error(p.lessee));
    tdaemon_kill(p.d);
    rdmad_lease_get_info(p.attached, &info); /* looks at the socket: from now on it is away */
    CHECK(rdmad_ring_submit(ring) == 1, "%s", rdmad_last_error(p.lessee));
    submit_write(&p, ring, 16, 101);
    early = rdmad_ring_reserve(ring);
    CHECK(rdmad_prep_write(ring, early, p.attached, 24, p.buffer + 24, 8, 102) == 0, "%s",
          rdmad_last_error(p.lessee));
    tdaemon_restart(p.d);
    expect_done(&p, ring, 100);
    expect_done(&p, ring, 101);
    CHECK(rdmad_ring_submit(ring) == 1, "%s", rdmad_last_error(p.lessee));
    expect_done(&p, ring, 102);
    CHECK(memcmp(p.memory + 8, p.buffer + 8, 24) == 0, "other bytes landed");
    rdmad_ring_destroy(ring);
    pair_down(&p);
}

/* An event loop that knows nothing but the ring's descriptor. */
static void a_ring_in_an_event_loop_goes_on(void) {
    struct pair p;
    rdmad_ring *ring;
    const struct rdmad_cqe *cqe;
    pair_up(&p, NULL);
    CHECK(rdmad_ring_create(p.lessee, 8, &ring) == 0, "%s", rdmad_last_error(p.lessee));
    int loop = epoll_create1(EPOLL_CLOEXEC);
    struct epoll_event e = {.events = EPOLLIN};
    CHECK(epoll_ctl(loop, EPOLL_CTL_ADD, rdmad_ring_fd(ring), &e) == 0, "%s", strerror(errno));
    for (unsigned i = 0; i < 5; i++) {
        bool away = i == 2;
        if (away)
            tdaemon_kill(p.d);
        submit_write(&p, ring, 0, i);
        if (away) {
            sleep_ms(20);
            bool lost = false; /* it may have been given to a daemon that was dead */
            while (rdmad_ring_arm(ring) == RDMAD_E_AGAIN) {
                if (rdmad_ring_peek(ring, &cqe) == 0) {
                    CHECK(cqe->status == RDMAD_E_DAEMON_LOST, "%d", cqe->status);
                    rdmad_ring_seen(ring, cqe);
                    lost = true;
                }
            }
            if (lost)
                submit_write(&p, ring, 0, i);
            CHECK(rdmad_ring_arm(ring) == 0, "%s", rdmad_last_error(p.lessee));
            CHECK(epoll_wait(loop, &e, 1, 50) == 0, "there is no daemon, and the loop is woken");
            tdaemon_restart(p.d);
        }
        for (unsigned turns = 0; rdmad_ring_peek(ring, &cqe) == RDMAD_E_AGAIN; turns++) {
            CHECK(turns < 100, "the loop is woken for nothing");
            if (rdmad_ring_arm(ring) == 0)
                CHECK(epoll_wait(loop, &e, 1, (int)TEST_PATIENCE_MS) == 1, "op %u: not woken", i);
        }
        CHECK(cqe->user_data == i && cqe->status == 0, "op %u ended with %d",
              (unsigned)cqe->user_data, cqe->status);
        rdmad_ring_seen(ring, cqe);
    }
    close(loop);
    rdmad_ring_destroy(ring);
    pair_down(&p);
}

/* Threads that add to one word, and know of each add whether it was done, was not, or may have
 * been: the word lies between what is sure and what is possible. */
struct adder {
    struct pair *p;
    bool *stop;
    uint64_t done, unknown;
};

static void *add(void *arg) {
    struct adder *a = arg;
    uint64_t was;
    while (!__atomic_load_n(a->stop, __ATOMIC_RELAXED)) {
        int rc = rdmad_fetch_add(a->p->attached, 0, 1, &was);
        if (rc == 0)
            a->done++;
        else if (rdmad_last_outcome() == RDMAD_UNKNOWN)
            a->unknown++;
        else if (rdmad_last_outcome() != RDMAD_FAILED_UNTOUCHED)
            abort();
    }
    return NULL;
}

static void every_op_has_one_outcome(void) {
    enum { THREADS = 4 };
    struct pair p;
    struct adder a[THREADS];
    pthread_t thread[THREADS];
    uint64_t done = 0, unknown = 0;
    bool stop = false;
    pair_up(&p, NULL);
    memset(p.memory, 0, 8);
    for (unsigned i = 0; i < THREADS; i++) {
        a[i] = (struct adder){.p = &p, .stop = &stop};
        CHECK(pthread_create(&thread[i], NULL, add, &a[i]) == 0, "thread");
    }
    for (unsigned i = 0; i < test_count(50); i++) {
        sleep_ms((unsigned)(test_random() % 50));
        restart(p.d);
        expect_resumed(p.owner);
        expect_resumed(p.lessee);
    }
    sleep_ms(50);
    __atomic_store_n(&stop, true, __ATOMIC_RELAXED);
    for (unsigned i = 0; i < THREADS; i++) {
        pthread_join(thread[i], NULL);
        done += a[i].done;
        unknown += a[i].unknown;
    }
    uint64_t word;
    memcpy(&word, p.memory, sizeof(word));
    CHECK(word >= done && word <= done + unknown,
          "%llu adds were done and %llu may have been, but the word says %llu",
          (unsigned long long)done, (unsigned long long)unknown, (unsigned long long)word);
    CHECK(done > 0, "nothing was done at all");
    pair_down(&p);
}

struct acceptor {
    rdmad_service *service;
    rdmad_channel *channel;
    char *memory;
    int rc;
};

static void *accept_one(void *arg) {
    struct acceptor *a = arg;
    a->rc = rdmad_accept(a->service, NULL, (int)TEST_PATIENCE_MS, &a->channel);
    return NULL;
}

static void *receive_one(void *arg) {
    struct acceptor *a = arg;
    a->rc = rdmad_recv(a->channel, a->memory, 64, (int)TEST_PATIENCE_MS, NULL);
    return NULL;
}

static rdmad_channel *connect_to(struct pair *p, struct acceptor *a) {
    rdmad_channel *c;
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, accept_one, a) == 0, "thread");
    CHECK(rdmad_connect(p->lessee, "rdmad:///echo", RDMAD_CHANNEL_RELIABLE, 0, &c) == 0, "%s",
          rdmad_last_error(p->lessee));
    pthread_join(thread, NULL);
    CHECK(a->rc == 0, "%s", rdmad_strerror(a->rc));
    return c;
}

static void say_by(struct pair *p, rdmad_channel *c, struct acceptor *a, const char *what) {
    pthread_t thread;
    memset(p->memory, 0, 8);
    memcpy(p->buffer, what, 8);
    a->memory = p->memory;
    CHECK(pthread_create(&thread, NULL, receive_one, a) == 0, "thread");
    CHECK(rdmad_send(c, p->buffer, 8) == 0, "%s", rdmad_last_error(p->lessee));
    pthread_join(thread, NULL);
    CHECK(a->rc == 0 && memcmp(p->memory, what, 8) == 0, "another message came: %s",
          rdmad_strerror(a->rc));
}

/* Its name is there again, and takes new channels; those that were open go on, and are not taken
 * for the new ones. */
static void a_service_listens_again_and_its_channels_go_on(void) {
    struct pair p;
    struct rdmad_channel_info info = RDMAD_CHANNEL_INFO_INIT;
    pair_up(&p, NULL);
    struct acceptor a = {.rc = 0}, b = {.rc = 0};
    CHECK(rdmad_listen(p.owner, "echo", NULL, &a.service) == 0, "%s", rdmad_last_error(p.owner));
    b.service = a.service;
    rdmad_channel *old = connect_to(&p, &a);
    say_by(&p, old, &a, "before!");
    restart(p.d);
    expect_resumed(p.owner);
    expect_resumed(p.lessee);
    rdmad_channel *new = connect_to(&p, &b);
    rdmad_channel_get_info(old, &info);
    CHECK(info.closed == 0, "the old channel says %d", info.closed);
    say_by(&p, new, &b, "by new!");
    say_by(&p, old, &a, "by old!");
    CHECK(rdmad_channel_close(old) == 0, "%s", rdmad_last_error(p.lessee));
    say_by(&p, new, &b, "again!!");
    pair_down(&p);
}

/* It has no thread of the library, and nothing of its parent's session. */
static void a_child_of_fork_leaves_the_session_to_its_parent(void) {
    struct pair p;
    pair_up(&p, NULL);
    fflush(NULL);
    pid_t child = fork();
    CHECK(child >= 0, "fork");
    if (child == 0) {
        rdmad_session *own;
        struct rdmad_options o = RDMAD_OPTIONS_INIT;
        o.runtime_dir = tdaemon_dir(p.d);
        bool good = rdmad_read(p.attached, 0, p.buffer, 8) == RDMAD_E_DAEMON_LOST &&
                    rdmad_open(&o, &own) == 0;
        if (good)
            rdmad_close(own);
        _exit(good ? 0 : 1);
    }
    int status;
    CHECK(waitpid(child, &status, 0) == child && status == 0, "the child ended with %d", status);
    restart(p.d);
    expect_resumed(p.owner);
    expect_resumed(p.lessee);
    works(&p, 5);
    pair_down(&p);
}

static void without_a_thread(void *arg) {
    const struct rlimit none = {0, 0};
    rdmad_pool *pool;
    CHECK(setrlimit(RLIMIT_NPROC, &none) == 0 && setgid(65534) == 0 && setuid(65534) == 0, "%s",
          strerror(errno));
    rdmad_session *s = session_of(arg, 0);
    memset(buffer_of(s, &pool), 1, BYTES / 2);
    rdmad_close(s);
}

static void where_no_thread_can_be_made_sessions_are_as_ever(void) {
    if (geteuid() || test_sanitized())
        skip("only root can be another user, and a sanitizer has threads of its own");
    struct tdaemon *d = tdaemon_start("127.0.0.1", NULL);
    CHECK(chmod(tdaemon_dir(d), 0755) == 0, "%s", strerror(errno));
    client_expect_ok(client_fork(without_a_thread, d));
    tdaemon_stop(d);
}

static void without_it_the_session_is_lost(void) {
    struct tdaemon *d = tdaemon_start("127.0.0.1", NULL);
    struct rdmad_options o = RDMAD_OPTIONS_INIT;
    struct rdmad_event e = RDMAD_EVENT_INIT;
    rdmad_session *s;
    o.runtime_dir = tdaemon_dir(d);
    o.resume = 0;
    CHECK(rdmad_open(&o, &s) == 0, "%s", rdmad_last_error(NULL));
    restart(d);
    CHECK(rdmad_next_event(s, (int)TEST_PATIENCE_MS, &e) == 0, "%s", rdmad_last_error(s));
    CHECK(e.type == RDMAD_EVENT_SESSION_LOST, "event %u", e.type);
    rdmad_close(s);
    tdaemon_stop(d);
}

static void if_no_daemon_comes_the_session_is_lost_in_time(void) {
    struct tdaemon *d = tdaemon_start("127.0.0.1", NULL);
    rdmad_session *s = session_of(d, 2000), *closed = session_of(d, 0);
    struct rdmad_event e = RDMAD_EVENT_INIT;
    rdmad_pool *pool;
    tdaemon_kill(d);
    CHECK(rdmad_pool_create(s, BYTES, 0, &pool) == RDMAD_E_DAEMON_LOST, "a pool of no daemon");
    CHECK(rdmad_next_event(s, (int)TEST_PATIENCE_MS, &e) == 0, "%s", rdmad_last_error(s));
    CHECK(e.type == RDMAD_EVENT_SESSION_LOST && strstr(e.text, "none has come"), "event %u: %s",
          e.type, e.text);
    rdmad_close(s);
    rdmad_close(closed); /* while it is away */
    tdaemon_restart(d);
    tdaemon_stop(d);
}

TEST_MAIN(CASE(a_killed_daemons_clients_go_on), CASE(a_stopped_daemons_clients_go_on),
          CASE(a_published_lease_keeps_its_name), CASE(a_lessee_of_another_node_goes_on),
          CASE(a_number_that_does_not_come_back_is_given_to_nobody),
          CASE(an_idle_owner_comes_back_by_itself), CASE(a_call_waits_for_the_next_daemon),
          CASE(what_is_submitted_meanwhile_waits), CASE(a_ring_in_an_event_loop_goes_on),
          CASE(every_op_has_one_outcome), CASE(a_service_listens_again_and_its_channels_go_on),
          CASE(a_child_of_fork_leaves_the_session_to_its_parent),
          CASE(where_no_thread_can_be_made_sessions_are_as_ever),
          CASE(without_it_the_session_is_lost),
          CASE(if_no_daemon_comes_the_session_is_lost_in_time))
