/* SPDX-License-Identifier: MIT */
/*
 * test_hang.c - a daemon that hangs: stopped by SIGSTOP, as if it waited for a dead disk. Its
 * clients' calls end, its peers see its leases lost, and when it goes on nothing moves that was
 * given up meanwhile.
 */
#include "tests/support/hang.h"
#include "tests/support/two.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { PATIENCE = 600 };

/* ---- calls --------------------------------------------------------------------------------- */

/* What a client has, each with a session of its own, before the daemon hangs. */
struct scene {
    struct tdaemon *d;
    rdmad_session *s;
    rdmad_pool *pool;
    rdmad_lease *own, *there;
    rdmad_service *service;
    rdmad_ring *ring;
    char service_uri[RDMAD_URI_MAX + 1];
    char *memory;
};

static bool scene_try(struct scene *c) {
    static unsigned tries; /* what was lost may have its name for a moment more */
    struct rdmad_lease_terms terms = RDMAD_LEASE_TERMS_INIT;
    char name[32];
    terms.ttl_ms = 3600000;
    snprintf(name, sizeof(name), "hung-%u", tries++);
    c->s = NULL;
    if (!hang_done(open_patient(c->d, PATIENCE, &c->s)) ||
        !hang_done(rdmad_pool_create(c->s, 1 << 20, 0, &c->pool)))
        return false;
    c->memory = rdmad_pool_base(c->pool);
    return hang_done(rdmad_lease_grant(c->s, c->memory, 4096, &terms, &c->own)) &&
           hang_done(rdmad_lease_attach(c->s, rdmad_lease_uri(c->own), 0, &c->there)) &&
           hang_done(rdmad_ring_create(c->s, 8, &c->ring)) &&
           hang_done(rdmad_listen(c->s, name, NULL, &c->service));
}

static void scene_up(struct scene *c) {
    unsigned tries = 0;
    while (!scene_try(c))
        hang_again(c->s, &tries);
}

static int call_pool(struct scene *c) {
    rdmad_pool *more;
    return rdmad_pool_create(c->s, 1 << 20, 0, &more);
}
static int call_grant(struct scene *c) {
    rdmad_lease *l;
    return rdmad_lease_grant(c->s, c->memory + 8192, 4096, NULL, &l);
}
static int call_attach(struct scene *c) {
    rdmad_lease *l;
    return rdmad_lease_attach(c->s, rdmad_lease_uri(c->own), 3600000, &l);
}
static int call_renew(struct scene *c) {
    return rdmad_lease_renew(c->own, 60000);
}
static int call_revoke(struct scene *c) {
    return rdmad_lease_revoke(c->own);
}
static int call_audit(struct scene *c) {
    struct rdmad_lease_audit a = RDMAD_LEASE_AUDIT_INIT;
    return rdmad_lease_get_audit(c->own, &a);
}
static int call_ring(struct scene *c) {
    rdmad_ring *r;
    return rdmad_ring_create(c->s, 8, &r);
}
static int call_listen(struct scene *c) {
    rdmad_service *service;
    return rdmad_listen(c->s, "more", NULL, &service);
}
static int call_connect(struct scene *c) {
    rdmad_channel *channel;
    return rdmad_connect(c->s, rdmad_service_uri(c->service), RDMAD_CHANNEL_RELIABLE, 3600000,
                         &channel);
}
static int call_watch(struct scene *c) {
    uint64_t watch;
    return rdmad_names_watch(c->s, NULL, "", 0, &watch);
}

static const struct {
    int (*call)(struct scene *c);
    const char *words;
} calls[] = {
    {call_pool, "make a pool"},          {call_grant, "grant a lease"},
    {call_attach, "attach to a lease"},  {call_renew, "renew a lease"},
    {call_revoke, "revoke a lease"},     {call_audit, "tell of a lease"},
    {call_ring, "make a ring"},          {call_listen, "listen"},
    {call_connect, "connect a channel"}, {call_watch, "watch names"},
};

/* Ended typed, in time, and said which call it was. */
static void ended(const rdmad_session *s, int rc, uint64_t since, const char *words) {
    uint64_t took = now_ms() - since;
    client_refused(s, rc, RDMAD_E_TIMEOUT, words);
    CHECK(strstr(rdmad_last_error(s), "said nothing for 600 ms"), "%s", rdmad_last_error(s));
    CHECK(took >= PATIENCE - 10 && took < PATIENCE + TEST_PATIENCE_MS, "%s took %lu ms", words,
          (unsigned long)took);
}

static void calls_of_a_daemon_that_hangs_end_and_leave_nothing_behind(void) {
    struct scene c = {.d = tdaemon_start("127.0.0.1", NULL)};
    json_t *before = tdaemon_objects(c.d);
    for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++) {
        struct rdmad_event e = RDMAD_EVENT_INIT;
        scene_up(&c);
        hang(c.d);
        uint64_t since = now_ms();
        ended(c.s, calls[i].call(&c), since, calls[i].words);
        since = now_ms();
        client_refused(c.s, call_pool(&c), RDMAD_E_DAEMON_LOST, calls[i].words);
        e = client_event(c.s, RDMAD_EVENT_SESSION_LOST);
        CHECK(e.reason == RDMAD_E_TIMEOUT, "%s", rdmad_errname(e.reason));
        rdmad_lease_free(c.there);
        rdmad_ring_destroy(c.ring);
        rdmad_close(c.s);
        CHECK(now_ms() - since < TEST_PATIENCE_MS, "what came after it waited");
        go_on(c.d);
        tdaemon_expect_objects(c.d, json_incref(before));
    }
    json_decref(before);
    tdaemon_stop(c.d);
}

static void a_session_is_not_opened_at_a_daemon_that_hangs(void) {
    struct tdaemon *d = tdaemon_start("127.0.0.1", NULL);
    json_t *before = tdaemon_objects(d);
    rdmad_session *s;
    hang(d);
    uint64_t since = now_ms();
    ended(NULL, open_patient(d, PATIENCE, &s), since, "open a session");
    go_on(d);
    tdaemon_expect_objects(d, before);
    tdaemon_stop(d);
}

static void a_close_does_not_wait_for_a_daemon_that_hangs(void) {
    struct scene c = {.d = tdaemon_start("127.0.0.1", NULL)};
    json_t *before = tdaemon_objects(c.d);
    scene_up(&c);
    hang(c.d);
    uint64_t since = now_ms();
    rdmad_close(c.s);
    CHECK(now_ms() - since < TEST_PATIENCE_MS, "rdmad_close took %lu ms",
          (unsigned long)(now_ms() - since));
    go_on(c.d);
    tdaemon_expect_objects(c.d, before);
    tdaemon_stop(c.d);
}

static char far[16]; /* a service */

static void accept_one(void *arg) {
    rdmad_session *s = client_open(arg);
    rdmad_service *service;
    rdmad_channel *channel;
    CHECK(!rdmad_listen(s, far, NULL, &service), "%s", rdmad_last_error(s));
    CHECK(!rdmad_accept(service, NULL, -1, &channel), "%s", rdmad_last_error(s));
    (void)client_event(s, RDMAD_EVENT_CHANNEL_CLOSED);
    rdmad_close(s);
}

static bool connect_far(struct scene *c, rdmad_channel **channel) {
    char uri[RDMAD_URI_MAX + 1];
    int rc;
    snprintf(uri, sizeof(uri), "rdmad://%s/%s", tdaemon_listen(c->d), far);
    for (uint64_t since = now_ms();
         (rc = rdmad_connect(c->s, uri, RDMAD_CHANNEL_RELIABLE, 0, channel)) &&
         rc != RDMAD_E_TIMEOUT && rc != RDMAD_E_DAEMON_LOST;
         sleep_ms(10))
        CHECK(now_ms() - since < TEST_PATIENCE_MS, "%s", rdmad_last_error(c->s));
    return hang_done(rc);
}

/* Returns who has the other end. */
static pid_t channel_up(struct scene *c, rdmad_channel **channel) {
    for (unsigned tries = 0;;) {
        snprintf(far, sizeof(far), "far-%u", tries);
        scene_up(c);
        pid_t other = client_fork(accept_one, c->d);
        if (connect_far(c, channel))
            return other;
        client_kill(other);
        hang_again(c->s, &tries);
    }
}

/* It waits first until the daemon has taken what was submitted. */
static void a_channel_is_closed_though_its_daemon_hangs(void) {
    struct scene c = {.d = tdaemon_start("127.0.0.1", NULL)};
    rdmad_channel *channel;
    pid_t other = channel_up(&c, &channel);
    hang(c.d);
    struct rdmad_sqe *e = rdmad_ring_reserve(c.ring);
    CHECK(e && !rdmad_prep_nop(c.ring, e, 0) && rdmad_ring_submit(c.ring) == 1, "%s",
          rdmad_last_error(c.s));
    uint64_t since = now_ms();
    client_refused(c.s, rdmad_channel_close(channel), RDMAD_E_DAEMON_LOST,
                   "said nothing for 600 ms");
    CHECK(now_ms() - since < 2 * PATIENCE + TEST_PATIENCE_MS, "it took %lu ms",
          (unsigned long)(now_ms() - since));
    rdmad_close(c.s);
    go_on(c.d);
    client_expect_ok(other);
    tdaemon_stop(c.d);
}

/* Nobody accepts, so the answer takes its time; but the daemon is there. */
static void a_daemon_that_takes_its_time_is_waited_for(void) {
    struct scene c = {.d = tdaemon_start("127.0.0.1", NULL)};
    rdmad_channel *channel;
    unsigned tries = 0;
    uint64_t took;
    int rc;
    for (;; hang_again(c.s, &tries)) {
        scene_up(&c);
        uint64_t since = now_ms();
        rc = rdmad_connect(c.s, rdmad_service_uri(c.service), RDMAD_CHANNEL_RELIABLE, 6 * PATIENCE,
                           &channel);
        took = now_ms() - since;
        if (hang_done(call_pool(&c)))
            break;
    }
    CHECK(rc && took >= 6 * PATIENCE - 10, "%s after %lu ms", rdmad_errname(rc),
          (unsigned long)took);
    rdmad_close(c.s);
    tdaemon_stop(c.d);
}

/* ---- leases -------------------------------------------------------------------------------- */

enum { SMALL = 64, MANY = 2048, LARGE = 4 << 20 };

/* Of a lease that is to run out; the guest of tests/vm needs some of it to begin. */
static unsigned ttl_ms(void) {
    return test_patience() > 1 ? 3000 : 1000;
}

/* A device writes to an owner's memory whether the owner's daemon runs or not. */
static bool by_device(void) {
    return strcmp(test_fabric(), "verbs") == 0;
}

/* So impatient that a peer that is silent is given up soon. */
static struct tdaemon *start_impatient(const char *host) {
    char path[128];
    const char *tmp = getenv("TMPDIR");
    snprintf(path, sizeof(path), "%s/impatient.json", tmp ? tmp : "/tmp");
    FILE *f = fopen(path, "we");
    CHECK(f &&
              fputs("{\"peer\": {\"ping_ms\": 300, \"dead_ms\": 1500, \"return_ms\": 5000}}\n", f) >
                  0 &&
              fclose(f) == 0,
          "%s", path);
    struct tdaemon *d = tdaemon_start(host, (const char *[]){"--config", path, NULL});
    unlink(path);
    return d;
}

/* An owner at one daemon, a lessee with a ring at another. */
struct pair_of {
    struct tdaemon *owners, *lessees;
    rdmad_session *owner, *lessee;
    rdmad_pool *far_pool, *near_pool;
    rdmad_lease *own, *there;
    rdmad_ring *ring;
    uint8_t *far, *near;
};

static void pair_up(struct pair_of *p, struct tdaemon *owners, struct tdaemon *lessees) {
    *p = (struct pair_of){.owners = owners, .lessees = lessees};
    p->owner = client_with_pool(owners, LARGE, &p->far_pool);
    p->lessee = client_with_pool(lessees, LARGE, &p->near_pool);
    p->far = rdmad_pool_base(p->far_pool);
    p->near = rdmad_pool_base(p->near_pool);
    p->ring = client_ring(p->lessee, MANY);
}

static void pair_lease(struct pair_of *p, uint64_t for_ms) {
    struct rdmad_lease_terms terms = RDMAD_LEASE_TERMS_INIT;
    terms.ttl_ms = for_ms;
    CHECK(!rdmad_lease_grant(p->owner, p->far, LARGE, &terms, &p->own), "%s",
          rdmad_last_error(p->owner));
    p->there = client_attach(p->lessee, rdmad_lease_uri(p->own));
}

static void pair_down(struct pair_of *p) {
    rdmad_close(p->lessee);
    rdmad_close(p->owner);
    tdaemon_stop(p->lessees);
    tdaemon_stop(p->owners);
}

static void submit_write(struct pair_of *p, unsigned index, size_t bytes, uint64_t timeout_ns) {
    struct rdmad_sqe *e = rdmad_ring_reserve(p->ring);
    CHECK(e, "no entry");
    CHECK(!rdmad_prep_write(p->ring, e, p->there, index * bytes, p->near + index * bytes, bytes,
                            index),
          "write: %s", rdmad_last_error(p->lessee));
    e->timeout_ns = timeout_ns;
    CHECK(rdmad_ring_submit(p->ring) >= 0, "submit: %s", rdmad_last_error(p->lessee));
}

static int reap(struct pair_of *p) {
    const struct rdmad_cqe *cqe;
    CHECK(!rdmad_ring_wait(p->ring, (int)TEST_PATIENCE_MS, &cqe), "no completion: %s",
          rdmad_last_error(p->lessee));
    int status = cqe->status;
    rdmad_ring_seen(p->ring, cqe);
    return status;
}

static void leases_of_an_owner_whose_daemon_hangs_are_seen_lost(void) {
    struct pair_of p;
    pair_up(&p, tdaemon_start("127.0.0.2", NULL), start_impatient("127.0.0.1"));
    pair_lease(&p, 3600000);
    submit_write(&p, 0, SMALL, 0);
    CHECK(!reap(&p), "the first write failed");
    hang(p.owners);
    uint64_t since = now_ms();
    submit_write(&p, 0, SMALL, 200 * UINT64_C(1000000));
    int status = reap(&p);
    CHECK(status == RDMAD_E_TIMEOUT || status == RDMAD_E_PEER_LOST ||
              (status == RDMAD_OK && by_device()),
          "a write ended with %s", rdmad_errname(status));
    struct rdmad_event e = client_event(p.lessee, RDMAD_EVENT_LEASE_ENDED);
    CHECK(e.reason == RDMAD_E_PEER_LOST, "%s: %s", rdmad_errname(e.reason), e.text);
    CHECK(now_ms() - since < 1500 + TEST_PATIENCE_MS, "that took %lu ms",
          (unsigned long)(now_ms() - since));
    submit_write(&p, 0, SMALL, 0);
    CHECK(reap(&p) == RDMAD_E_PEER_LOST, "a write by a lost lease");
    go_on(p.owners);
    pair_down(&p);
}

/* New bytes everywhere, each in one of so many writes, which are on their way then. */
static void write_all(struct pair_of *p, unsigned depth, size_t bytes) {
    memset(p->near, (int)(1 + test_random() % 255), depth * bytes);
    for (unsigned i = 0; i < depth; i++)
        submit_write(p, i, bytes, 0);
}

static uint64_t checksum(const uint8_t *bytes, size_t count) {
    uint64_t sum = UINT64_C(14695981039346656037);
    for (size_t i = 0; i < count; i++)
        sum = (sum ^ bytes[i]) * UINT64_C(1099511628211);
    return sum;
}

/* Whatever is still on its way ends, and not well. */
static unsigned reap_all(struct pair_of *p, unsigned depth) {
    unsigned failed = 0;
    for (unsigned i = 0; i < depth; i++)
        failed += reap(p) != 0;
    return failed;
}

static void settle_round(struct pair_of *p) {
    rdmad_lease_free(p->there);
    rdmad_lease_free(p->own);
    memset(p->far, 0, LARGE);
}

/* Its daemon goes on with what waited for it, and is stopped again as soon as some of that landed.
 */
static void hang_in_the_midst(const struct pair_of *p, struct tdaemon *d) {
    const volatile uint8_t *first = p->far;
    go_on(d);
    for (uint64_t since = now_ms(); !*first && now_ms() - since < 200;)
        ;
    hang(d);
}

/* Twice the lease's time, from then on. */
static void stay_away(uint64_t since) {
    while (now_ms() - since < 2 * ttl_ms())
        sleep_ms(10);
}

/* The owner's own daemon is there, tells the end, and from then on nothing changes. */
static void nothing_of_a_lessee_that_hung_lands_after_the_leases_end(void) {
    struct pair_of p;
    unsigned failed = 0;
    pair_up(&p, tdaemon_start("127.0.0.2", NULL), tdaemon_start("127.0.0.1", NULL));
    for (unsigned i = 0; i < test_count(40); i++) {
        size_t bytes = i % 2 ? LARGE / 4 : SMALL;
        unsigned depth = i % 2 ? 4 : MANY;
        pair_lease(&p, ttl_ms());
        uint64_t since = now_ms();
        hang(p.lessees);
        write_all(&p, depth, bytes);
        if (i % 4 < 2) /* else all of it is still in the ring */
            hang_in_the_midst(&p, p.lessees);
        struct rdmad_event e = client_event(p.owner, RDMAD_EVENT_LEASE_ENDED);
        CHECK(e.reason == RDMAD_E_LEASE_EXPIRED, "%s: %s", rdmad_errname(e.reason), e.text);
        uint64_t sum = checksum(p.far, LARGE);
        stay_away(since);
        go_on(p.lessees);
        failed += reap_all(&p, depth);
        CHECK(checksum(p.far, LARGE) == sum, "round %u: written after the lease's end was told", i);
        settle_round(&p);
    }
    CHECK(failed > 0, "nothing was on its way in any round");
    pair_down(&p);
}

/* How many small writes' worth differs. */
static unsigned changed(const uint8_t *was, const uint8_t *is) {
    unsigned count = 0;
    for (size_t i = 0; i < LARGE; i += SMALL)
        count += memcmp(was + i, is + i, SMALL) != 0;
    return count;
}

/* Its owner's daemon hangs with some of the writes landed, and some not, which takes some tries. */
static void write_and_hang(struct pair_of *p, unsigned depth, size_t bytes) {
    for (unsigned tries = 0;; tries++) {
        hang(p->owners);
        write_all(p, depth, bytes);
        sleep_ms(20);
        hang_in_the_midst(p, p->owners);
        if (!p->far[depth * bytes - 1] || tries == 10)
            return;
        go_on(p->owners);
        reap_all(p, depth);
        memset(p->far, 0, LARGE);
    }
}

/* The same by a device: the lessee's own daemon knows when the lease is over, and lets nothing in
 * that begins later. Returns how many of the writes had failed by then. */
static unsigned write_until_the_end(struct pair_of *p, uint64_t granted) {
    unsigned failed = 0;
    hang(p->owners);
    while (!failed) {
        bool over = now_ms() - granted > ttl_ms();
        write_all(p, MANY, SMALL);
        failed = reap_all(p, MANY);
        CHECK(failed == MANY || !over, "%u writes were done that began after the lease's end",
              MANY - failed);
    }
    return failed;
}

/*
 * What lay in the owner's sockets, and in its daemon, when that was stopped. One landing may have
 * been under way at that very instruction, the clock looked at and the bytes not all copied: of
 * TCP_SMALL at most.
 */
static void nothing_lands_under_a_lease_that_expired_while_its_owners_daemon_hung(void) {
    struct pair_of p;
    uint8_t *was = malloc(LARGE);
    unsigned failed = 0;
    CHECK(was, "no memory");
    pair_up(&p, tdaemon_start("127.0.0.2", NULL), tdaemon_start("127.0.0.1", NULL));
    for (unsigned i = 0; i < test_count(60); i++) {
        size_t bytes = i % 4 == 3 ? LARGE / 4 : SMALL;
        unsigned depth = i % 4 == 3 ? 4 : MANY;
        pair_lease(&p, ttl_ms());
        uint64_t granted = now_ms();
        if (by_device())
            failed += write_until_the_end(&p, granted);
        else
            write_and_hang(&p, depth, bytes);
        memcpy(was, p.far, LARGE);
        stay_away(now_ms());
        go_on(p.owners);
        if (!by_device())
            failed += reap_all(&p, depth);
        (void)client_event(p.owner, RDMAD_EVENT_LEASE_ENDED);
        unsigned late = changed(was, p.far);
        CHECK(late * SMALL <= (by_device() ? 0 : 2048),
              "round %u: %u bytes were written by a lease that had expired", i, late * SMALL);
        settle_round(&p);
    }
    CHECK(failed > 0, "nothing was on its way in any round");
    free(was);
    pair_down(&p);
}

TEST_MAIN(CASE(calls_of_a_daemon_that_hangs_end_and_leave_nothing_behind),
          CASE(a_session_is_not_opened_at_a_daemon_that_hangs),
          CASE(a_close_does_not_wait_for_a_daemon_that_hangs),
          CASE(a_channel_is_closed_though_its_daemon_hangs),
          CASE(a_daemon_that_takes_its_time_is_waited_for),
          CASE(leases_of_an_owner_whose_daemon_hangs_are_seen_lost),
          CASE(nothing_of_a_lessee_that_hung_lands_after_the_leases_end),
          CASE(nothing_lands_under_a_lease_that_expired_while_its_owners_daemon_hung))
