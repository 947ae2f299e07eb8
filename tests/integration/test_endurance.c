/* SPDX-License-Identifier: MIT */
/*
 * test_endurance.c - sessions, leases, channels, programs that are killed and peers come and go,
 * with upgrades and restarts of the daemons in between; at rest each daemon holds what it held
 * before.
 *
 * Some rounds; with RDMAD_SOAK_MINUTES as long as that says (tests/soak --minutes).
 */
#include "tests/integration/endurance.h"
#include "tests/integration/far_pair.h"
#include "tests/support/client.h"
#include "tests/support/procs.h"

#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

enum { VISITORS = 3, BYTES = 64 << 10, SHORT_ROUNDS = 18, LIVES = 3, LONG_LIVES = 6 };
enum { LEASE_MS = 4 * 3600 * 1000 }; /* longer than anybody has patience */

struct scene {
    struct far_pair pair;
    struct endurance *far, *near;
    char uri[RDMAD_URI_MAX + 1];
};

/* ---- who comes and goes ------------------------------------------------------------------------
 */

struct visitor {
    const struct scene *scene;
    const struct tdaemon *daemon;
    rdmad_session *session;
    rdmad_pool *pool;
    char *memory;
};

static void visit(struct visitor *v) {
    v->session = client_with_pool(v->daemon, BYTES, &v->pool);
    v->memory = rdmad_pool_base(v->pool);
}

/* A lease of its own, and one of the owner's. */
static void use_leases(struct visitor *v) {
    struct rdmad_lease_terms t = RDMAD_LEASE_TERMS_INIT;
    rdmad_lease *own, *again, *other;
    t.rights = RDMAD_RIGHT_READ | RDMAD_RIGHT_WRITE;
    CHECK(rdmad_lease_grant(v->session, v->memory, BYTES / 2, &t, &own) == 0, "%s",
          rdmad_last_error(v->session));
    again = client_attach(v->session, rdmad_lease_uri(own));
    CHECK(rdmad_write(again, 0, v->memory + BYTES / 2, 4096) == 0, "%s",
          rdmad_last_error(v->session));
    other = client_attach(v->session, v->scene->uri);
    CHECK(rdmad_write(other, 0, v->memory, 4096) == 0, "%s", rdmad_last_error(v->session));
    rdmad_lease_free(other);
    rdmad_lease_free(again);
    rdmad_lease_free(own);
}

struct meeting {
    struct visitor *host;
    rdmad_service *service;
};

static void *be_host(void *arg) {
    struct meeting *m = arg;
    rdmad_session *s = m->host->session;
    rdmad_channel *c;
    CHECK(rdmad_accept(m->service, NULL, (int)TEST_PATIENCE_MS, &c) == 0, "%s",
          rdmad_last_error(s));
    CHECK(rdmad_recv(c, m->host->memory, 4096, (int)TEST_PATIENCE_MS, NULL) == 0, "%s",
          rdmad_last_error(s));
    rdmad_channel_abort(c);
    return NULL;
}

static void use_channel(struct visitor *host, struct visitor *guest) {
    struct meeting m = {.host = host};
    rdmad_channel *c;
    pthread_t thread;
    CHECK(rdmad_listen(host->session, "meeting", NULL, &m.service) == 0, "%s",
          rdmad_last_error(host->session));
    CHECK(pthread_create(&thread, NULL, be_host, &m) == 0, "no thread");
    CHECK(rdmad_connect(guest->session, rdmad_service_uri(m.service), RDMAD_CHANNEL_RELIABLE, 0,
                        &c) == 0,
          "%s", rdmad_last_error(guest->session));
    CHECK(rdmad_send(c, guest->memory, 1000) == 0, "%s", rdmad_last_error(guest->session));
    pthread_join(thread, NULL);
    (void)rdmad_channel_close(c);
    (void)rdmad_service_close(m.service);
}

static void visitors_come_and_go(const struct scene *s) {
    for (unsigned i = 0; i < VISITORS; i++) {
        struct visitor a = {.scene = s, .daemon = s->pair.far};
        struct visitor b = {.scene = s, .daemon = s->pair.near};
        visit(&a);
        visit(&b);
        use_leases(&a);
        use_leases(&b);
        use_channel(i % 2 ? &a : &b, i % 2 ? &b : &a);
        rdmad_close(a.session);
        rdmad_close(b.session);
    }
}

/* A program that is killed in the midst of it. */
static void work_until_killed(void *arg) {
    struct visitor *v = arg;
    visit(v);
    for (;;)
        use_leases(v);
}

static void programs_are_killed(const struct scene *s) {
    struct visitor a = {.scene = s, .daemon = s->pair.far};
    struct visitor b = {.scene = s, .daemon = s->pair.near};
    pid_t one = client_fork(work_until_killed, &a), two = client_fork(work_until_killed, &b);
    sleep_ms(20 + (unsigned)test_random() % 60);
    client_kill(one);
    client_kill(two);
}

static void a_peer_comes_and_goes(const struct scene *s, bool killed) {
    struct tdaemon *d = tdaemon_start("127.0.0.3", s->pair.args);
    struct visitor v = {.scene = s, .daemon = d};
    visit(&v);
    use_leases(&v);
    if (killed)
        tdaemon_kill(d);
    rdmad_close(v.session);
    if (killed)
        tdaemon_restart(d);
    tdaemon_stop(d);
}

/* ---- rounds
 * -------------------------------------------------------------------------------------- */

static void upgrade(struct tdaemon *d) {
    char path[512], said[4096];
    const char *argv[] = {build_path("rdmactl/rdmactl", path, sizeof(path)), "-d", tdaemon_dir(d),
                          "upgrade", NULL};
    CHECK(run_program(argv, said, sizeof(said)) == 0, "%s", said);
}

/* By an upgrade and by a restart in turn, of either daemon. */
static void begin_life(struct scene *s, unsigned life) {
    struct tdaemon *d = life % 2 ? s->pair.near : s->pair.far;
    if (life % 4 < 2) {
        upgrade(d);
    } else {
        tdaemon_end(d);
        tdaemon_restart(d);
    }
    far_pair_works(&s->pair, life); /* the lease is there again */
}

static void round_of(struct scene *s, unsigned n) {
    visitors_come_and_go(s);
    programs_are_killed(s);
    if (n % 6 == 0)
        a_peer_comes_and_goes(s, n % 12 == 0);
    far_pair_works(&s->pair, n);
    endurance_sample(s->far, s->pair.far);
    endurance_sample(s->near, s->pair.near);
}

static uint64_t minutes(void) {
    const char *text = getenv("RDMAD_SOAK_MINUTES");
    return text ? strtoull(text, NULL, 10) : 0;
}

/* Whether another life is to begin before round n. */
static bool life_is_over(uint64_t began_ms, unsigned n, unsigned life) {
    uint64_t for_ms = 60000 * minutes();
    if (!for_ms)
        return n > 0 && n % (SHORT_ROUNDS / LIVES) == 0;
    return now_ms() - began_ms >= (life + 1) * for_ms / LONG_LIVES;
}

static bool goes_on(uint64_t began_ms, unsigned n) {
    return minutes() ? now_ms() - began_ms < 60000 * minutes() : n < SHORT_ROUNDS;
}

/* For visitors: what one wrote that was killed may come late. */
static void grant_more(struct scene *s) {
    struct rdmad_lease_terms t = RDMAD_LEASE_TERMS_INIT;
    rdmad_lease *lease;
    void *at = rdmad_alloc(s->pair.pool, BYTES);
    t.rights = RDMAD_RIGHT_READ | RDMAD_RIGHT_WRITE;
    t.ttl_ms = LEASE_MS;
    CHECK(at && rdmad_lease_grant(s->pair.owner, at, BYTES, &t, &lease) == 0, "%s",
          rdmad_last_error(s->pair.owner));
    snprintf(s->uri, sizeof(s->uri), "%s", rdmad_lease_uri(lease));
}

static void at_rest_a_daemon_holds_what_it_held_before(void) {
    struct scene s;
    uint64_t began_ms = now_ms();
    bool verbs = !strcmp(test_fabric(), "verbs");
    unsigned n, life = 0;
    far_pair_up(&s.pair, "{}", LEASE_MS, 1);
    grant_more(&s);
    s.far = endurance_new("far", verbs ? "rxe0" : NULL);
    s.near = endurance_new("near", verbs ? "rxe1" : NULL);
    for (n = 0; goes_on(began_ms, n); n++) {
        if (life_is_over(began_ms, n, life))
            begin_life(&s, life++);
        round_of(&s, n);
    }
    printf("  %u rounds, %u upgrades and restarts\n", n, life);
    endurance_judge(s.far);
    endurance_judge(s.near);
    far_pair_down(&s.pair);
}

TEST_MAIN(CASE(at_rest_a_daemon_holds_what_it_held_before))
