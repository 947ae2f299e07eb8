/* SPDX-License-Identifier: MIT */
/*
 * test_verbs_fallback.c - three daemons: two with RDMA devices, one with none. Each two use the
 * best that both have, and say so; who forbids tcp refuses who has nothing else, in words; and who
 * has RDMA on both sides never falls back, whatever becomes of a link. In the guest of tests/vm
 * only.
 */
#include "tests/support/client.h"
#include "tests/support/rdma.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { BYTES = 1 << 20, HALF = BYTES / 2, DEADLINE_MS = 1500 };

static const char verbs_on_rxe0[] = "{\"fabric\": \"verbs\", \"verbs\": {\"device\": \"rxe0\"}}";
static const char verbs_on_rxe1[] = "{\"fabric\": \"verbs\", \"verbs\": {\"device\": \"rxe1\"}}";
static const char only_tcp[] = "{\"fabric\": \"tcp\"}";

/* What a daemon is told is all this test's: the harness, which knows of one fabric for all daemons
 * of a case, is told nothing of verbs. */
/* Its path, which stays. host: 127.0.0.N */
static const char *configure(const char *host, const char *config) {
    static char paths[4][128];
    char *path = paths[host[8] - '0'];
    const char *tmp = getenv("TMPDIR");
    snprintf(path, sizeof(paths[0]), "%s/fallback-%s.json", tmp ? tmp : "/tmp", host);
    FILE *f = fopen(path, "we");
    CHECK(f && fputs(config, f) >= 0 && fclose(f) == 0, "%s", path);
    return path;
}

static struct tdaemon *start(const char *host, const char *config, const char *option) {
    const char *path = configure(host, config);
    setenv("RDMAD_TEST_FABRIC", "tcp", 1);
    return tdaemon_start(host, (const char *[]){"--config", path, option, NULL});
}

/* A client with memory. */
struct side {
    struct tdaemon *daemon;
    rdmad_session *session;
    uint8_t *memory;
    rdmad_lease *lease; /* of its own memory, or attached */
};

static void open_session(struct side *s) {
    rdmad_pool *pool;
    s->session = client_open(s->daemon);
    CHECK(!rdmad_pool_create(s->session, BYTES, 0, &pool), "%s", rdmad_last_error(s->session));
    s->memory = rdmad_pool_base(pool);
}

static rdmad_lease *grant(const struct side *s, uint32_t rights, const char *name) {
    struct rdmad_lease_terms terms = RDMAD_LEASE_TERMS_INIT;
    rdmad_lease *l;
    terms.ttl_ms = 3600000;
    terms.rights = rights;
    terms.name = name;
    CHECK(!rdmad_lease_grant(s->session, s->memory, BYTES, &terms, &l), "%s",
          rdmad_last_error(s->session));
    return l;
}

static struct rdmad_lease_info info_of(const rdmad_lease *l) {
    struct rdmad_lease_info info = RDMAD_LEASE_INFO_INIT;
    rdmad_lease_get_info(l, &info);
    return info;
}

/* Attaches, and the client is told that it goes over that fabric. */
static rdmad_lease *attach(const struct side *s, const char *uri, const char *fabric) {
    rdmad_lease *l;
    CHECK(!rdmad_lease_attach(s->session, uri, (int)TEST_PATIENCE_MS, &l), "%s",
          rdmad_last_error(s->session));
    CHECK(!strcmp(info_of(l).fabric, fabric), "attached over %s, not %s", info_of(l).fabric,
          fabric);
    return l;
}

static void fill(uint8_t *p, size_t n, uint64_t seed) {
    for (size_t i = 0; i < n; i++) {
        seed = seed * UINT64_C(6364136223846793005) + 1442695040888963407;
        p[i] = (uint8_t)(seed >> 56);
    }
}

/* ---- what operators see -----------------------------------------------------------------------
 */

/* How many rows of a list are of that fabric. */
static unsigned rows(struct tdaemon *d, const char *method, const char *list, const char *fabric) {
    json_t *answer = tdaemon_call(d, method, NULL), *row;
    unsigned n = 0;
    size_t i;
    json_array_foreach(json_object_get(answer, list), i, row) {
        const char *is = json_string_value(json_object_get(row, "fabric"));
        n += is && !strcmp(is, fabric);
    }
    json_decref(answer);
    return n;
}

/* The reason that a peer of that fabric has in peer show. */
static void expect_peer_why(struct tdaemon *d, const char *fabric, const char *words) {
    json_t *answer = tdaemon_call(d, "peer.show", NULL), *row;
    size_t i;
    json_array_foreach(json_object_get(answer, "peers"), i, row) {
        const char *is = json_string_value(json_object_get(row, "fabric"));
        const char *why = json_string_value(json_object_get(row, "fabric_why"));
        if (strcmp(is, fabric) == 0)
            CHECK(why && (*words ? strstr(why, words) != NULL : !*why), "a peer over %s: \"%s\"",
                  fabric, why);
    }
    json_decref(answer);
}

static int fallen_back(struct tdaemon *d) {
    json_t *status = tdaemon_status(d);
    int n = (int)json_integer_value(
        json_object_get(json_object_get(status, "fabric"), "peers_fallen_back"));
    json_decref(status);
    return n;
}

static void ctl_says(struct tdaemon *d, const char *verb, const char *words) {
    static char said[65536];
    char path[256];
    run_program((const char *[]){build_path("rdmactl/rdmactl", path, sizeof(path)), "-d",
                                 tdaemon_dir(d), verb, NULL},
                said, sizeof(said));
    CHECK(strstr(said, words), "rdmactl %s does not say \"%s\": %s", verb, words, said);
}

/* ---- both at the same time --------------------------------------------------------------------
 */

struct writer {
    const struct side *side;
    rdmad_lease *lease;
    uint64_t offset;
    unsigned rounds;
    pthread_t thread;
};

static void *write_and_read(void *arg) {
    struct writer *w = arg;
    uint8_t *out = w->side->memory, *in = out + HALF;
    for (unsigned i = 0; i < w->rounds; i++) {
        fill(out, HALF, w->offset + i);
        CHECK(!rdmad_write(w->lease, w->offset, out, HALF), "%s",
              rdmad_last_error(w->side->session));
        memset(in, 0, HALF);
        CHECK(!rdmad_read(w->lease, w->offset, in, HALF), "%s", rdmad_last_error(w->side->session));
        CHECK(!memcmp(out, in, HALF), "round %u at %lu: other bytes came back", i,
              (unsigned long)w->offset);
    }
    return NULL;
}

static void begin(struct writer *w, const struct side *s, rdmad_lease *l, uint64_t offset,
                  unsigned rounds) {
    *w = (struct writer){.side = s, .lease = l, .offset = offset, .rounds = rounds};
    CHECK(!pthread_create(&w->thread, NULL, write_and_read, w), "no thread");
}

struct world {
    struct side a, b, c; /* a: verbs, b: tcp, c: verbs */
};

static void world_up(struct world *w) {
    *w = (struct world){.a.daemon = start("127.0.0.1", verbs_on_rxe0, NULL),
                        .b.daemon = start("127.0.0.2", only_tcp, NULL),
                        .c.daemon = start("127.0.0.3", verbs_on_rxe1, NULL)};
    open_session(&w->a);
    open_session(&w->b);
    open_session(&w->c);
}

static void world_down(struct world *w) {
    struct side *all[] = {&w->a, &w->b, &w->c};
    for (unsigned i = 0; i < 3; i++)
        rdmad_close(all[i]->session);
    for (unsigned i = 0; i < 3; i++)
        tdaemon_stop(all[i]->daemon);
}

static void expect_shown(const struct world *w) {
    CHECK(rows(w->a.daemon, "peer.show", "peers", "tcp") == 1 &&
              rows(w->a.daemon, "peer.show", "peers", "verbs") == 1,
          "the owner's peers");
    CHECK(rows(w->b.daemon, "link.show", "links", "tcp") == 1, "the link over tcp");
    CHECK(rows(w->c.daemon, "link.show", "links", "verbs") == 1, "the link over verbs");
    expect_peer_why(w->a.daemon, "tcp", "the setting fabric is \"tcp\"");
    expect_peer_why(w->a.daemon, "verbs", "");
    CHECK(tdaemon_logged(w->a.daemon, "agreed on tcp instead of verbs: it does not offer verbs: "
                                      "the setting fabric is \"tcp\""),
          "it was silent");
    CHECK(tdaemon_silent(w->c.daemon, "agreed on tcp"), "between two with verbs");
    CHECK(fallen_back(w->a.daemon) == 1 && fallen_back(w->b.daemon) == 0 &&
              fallen_back(w->c.daemon) == 0,
          "counted: %d %d %d", fallen_back(w->a.daemon), fallen_back(w->b.daemon),
          fallen_back(w->c.daemon));
    ctl_says(w->a.daemon, "status", "WARNING: 1 connection with peers over tcp");
    ctl_says(w->a.daemon, "doctor", "1 connection goes over tcp");
}

static void revoke_ends_both(struct world *w, rdmad_lease *own, rdmad_lease *over_tcp,
                             rdmad_lease *over_verbs) {
    CHECK(!rdmad_lease_revoke(own), "%s", rdmad_last_error(w->a.session));
    memset(w->a.memory, 0x5a, BYTES);
    CHECK(rdmad_write(over_tcp, 0, w->b.memory, HALF) == RDMAD_E_LEASE_REVOKED, "over tcp");
    CHECK(rdmad_write(over_verbs, HALF, w->c.memory, HALF) == RDMAD_E_LEASE_REVOKED, "over verbs");
    for (unsigned i = 0; i < BYTES; i++)
        CHECK(w->a.memory[i] == 0x5a, "byte %u was written after the revoke", i);
}

static void each_two_use_the_best_that_both_have_at_the_same_time(void) {
    const uint32_t rights = RDMAD_RIGHT_READ | RDMAD_RIGHT_WRITE;
    unsigned rounds = test_count(40);
    struct writer of_b, of_c;
    struct world w;
    char by_name[RDMAD_URI_MAX + 1];
    world_up(&w);
    rdmad_lease *own = grant(&w.a, rights, "of-a");
    snprintf(by_name, sizeof(by_name), "rdmad://%s/of-a", tdaemon_listen(w.a.daemon));
    rdmad_lease *b_has = attach(&w.b, by_name, "tcp");
    rdmad_lease *c_has = attach(&w.c, rdmad_lease_uri(own), "verbs");
    begin(&of_b, &w.b, b_has, 0, rounds);
    begin(&of_c, &w.c, c_has, HALF, rounds);
    pthread_join(of_b.thread, NULL);
    pthread_join(of_c.thread, NULL);
    CHECK(!memcmp(w.a.memory, w.b.memory, HALF), "what came over tcp");
    CHECK(!memcmp(w.a.memory + HALF, w.c.memory, HALF), "what came over verbs");
    expect_shown(&w);

    rdmad_lease *of_tcp = grant(&w.b, rights, NULL); /* and the other way */
    rdmad_lease *a_has = attach(&w.a, rdmad_lease_uri(of_tcp), "tcp");
    begin(&of_b, &w.a, a_has, 0, 2);
    pthread_join(of_b.thread, NULL);
    CHECK(!memcmp(w.a.memory, w.b.memory, HALF), "what came over tcp the other way");
    CHECK(rows(w.a.daemon, "link.show", "links", "tcp") == 1, "the verbs daemon's link over tcp");
    revoke_ends_both(&w, own, b_has, c_has);
    world_down(&w);
}

/* ---- channels ---------------------------------------------------------------------------------
 */

struct caller {
    const struct side *side;
    const char *uri, *fabric;
    pthread_t thread;
};

static const size_t sizes[] = {1, 700, 20000, 300000};

static void *call(void *arg) {
    const struct caller *c = arg;
    struct rdmad_channel_info info = RDMAD_CHANNEL_INFO_INIT;
    struct rdmad_message m = RDMAD_MESSAGE_INIT;
    rdmad_channel *ch;
    CHECK(!rdmad_connect(c->side->session, c->uri, RDMAD_CHANNEL_RELIABLE, (int)TEST_PATIENCE_MS,
                         &ch),
          "%s", rdmad_last_error(c->side->session));
    rdmad_channel_get_info(ch, &info);
    CHECK(!strcmp(info.fabric, c->fabric), "a channel over %s", info.fabric);
    for (unsigned i = 0; i < 4; i++) {
        fill(c->side->memory, sizes[i], i);
        CHECK(!rdmad_send(ch, c->side->memory, sizes[i]), "%s", rdmad_last_error(c->side->session));
        CHECK(!rdmad_recv(ch, c->side->memory + HALF, HALF, (int)TEST_PATIENCE_MS, &m), "%s",
              rdmad_last_error(c->side->session));
        CHECK(m.length == sizes[i] && !memcmp(c->side->memory, c->side->memory + HALF, sizes[i]),
              "message %u came back as another", i);
    }
    rdmad_channel_close(ch);
    return NULL;
}

static void echo(const struct side *s, rdmad_service *service, const char *fabric) {
    struct rdmad_channel_info info = RDMAD_CHANNEL_INFO_INIT;
    struct rdmad_message m = RDMAD_MESSAGE_INIT;
    rdmad_channel *ch;
    CHECK(!rdmad_accept(service, NULL, (int)TEST_PATIENCE_MS, &ch), "%s",
          rdmad_last_error(s->session));
    rdmad_channel_get_info(ch, &info);
    CHECK(!strcmp(info.fabric, fabric), "accepted over %s", info.fabric);
    CHECK(rows(s->daemon, "channel.show", "channels", fabric) == 1, "channel show");
    for (unsigned i = 0; i < 4; i++) {
        CHECK(!rdmad_recv(ch, s->memory, BYTES, (int)TEST_PATIENCE_MS, &m), "%s",
              rdmad_last_error(s->session));
        CHECK(!rdmad_send(ch, s->memory, m.length), "%s", rdmad_last_error(s->session));
    }
    CHECK(rdmad_recv(ch, s->memory, BYTES, (int)TEST_PATIENCE_MS, &m) == RDMAD_E_CLOSED, "its end");
    rdmad_channel_close(ch);
}

static void talk(const struct side *server, const struct side *client, const char *fabric) {
    struct rdmad_service_terms terms = RDMAD_SERVICE_TERMS_INIT;
    rdmad_service *service;
    CHECK(!rdmad_listen(server->session, "echo", &terms, &service), "%s",
          rdmad_last_error(server->session));
    struct caller c = {.side = client, .uri = rdmad_service_uri(service), .fabric = fabric};
    CHECK(!pthread_create(&c.thread, NULL, call, &c), "no thread");
    echo(server, service, fabric);
    pthread_join(c.thread, NULL);
    rdmad_service_close(service);
}

static void channels_go_over_the_fabric_that_was_agreed_on(void) {
    struct world w;
    world_up(&w);
    talk(&w.a, &w.b, "tcp");
    talk(&w.b, &w.a, "tcp");
    talk(&w.a, &w.c, "verbs");
    world_down(&w);
}

/* ---- who dies, and comes back ------------------------------------------------------------------
 */

static json_int_t rebuilds(struct tdaemon *d) {
    json_t *answer = tdaemon_call(d, "link.show", NULL), *row;
    json_int_t n = 0;
    size_t i;
    json_array_foreach(json_object_get(answer, "links"), i, row) n +=
        json_integer_value(json_object_get(row, "rebuilds"));
    json_decref(answer);
    return n;
}

static void await_peers(struct tdaemon *d, const char *fabric, unsigned n) {
    uint64_t end = now_ms() + TEST_PATIENCE_MS;
    while (rows(d, "peer.show", "peers", fabric) != n) {
        CHECK(now_ms() < end, "%u peers over %s, not %u", rows(d, "peer.show", "peers", fabric),
              fabric, n);
        sleep_ms(10);
    }
}

static void who_is_killed_and_returns_disturbs_nobody_on_the_other_fabric(void) {
    const uint32_t rights = RDMAD_RIGHT_READ | RDMAD_RIGHT_WRITE;
    struct writer of_b, of_c;
    struct world w;
    world_up(&w);
    rdmad_lease *own = grant(&w.a, rights, NULL);
    rdmad_lease *c_has = attach(&w.c, rdmad_lease_uri(own), "verbs");
    for (unsigned i = 0; i < test_count(10); i++) {
        begin(&of_b, &w.b, attach(&w.b, rdmad_lease_uri(own), "tcp"), 0, 2);
        pthread_join(of_b.thread, NULL);
        begin(&of_c, &w.c, c_has, HALF, 4);
        tdaemon_kill(w.b.daemon);
        await_peers(w.a.daemon, "tcp", 0);
        rdmad_close(w.b.session);
        tdaemon_restart(w.b.daemon);
        open_session(&w.b);
        pthread_join(of_c.thread, NULL);
        CHECK(!memcmp(w.a.memory + HALF, w.c.memory, HALF), "what came over verbs meanwhile");
    }
    CHECK(rebuilds(w.c.daemon) == 0, "the link over verbs was made anew");
    begin(&of_b, &w.b, attach(&w.b, rdmad_lease_uri(own), "tcp"), 0, 1);
    pthread_join(of_b.thread, NULL);
    CHECK(!memcmp(w.a.memory, w.b.memory, HALF), "what came over tcp in the end");
    world_down(&w);
}

/* What is left of its former life is on the other fabric. */
static void who_returns_without_its_device_is_reached_over_tcp_and_it_is_said(void) {
    const uint32_t rights = RDMAD_RIGHT_READ | RDMAD_RIGHT_WRITE;
    struct writer of_c;
    struct world w;
    world_up(&w);
    rdmad_lease *own = grant(&w.a, rights, NULL);
    begin(&of_c, &w.c, attach(&w.c, rdmad_lease_uri(own), "verbs"), 0, 1);
    pthread_join(of_c.thread, NULL);
    tdaemon_kill(w.c.daemon);
    rdmad_close(w.c.session);
    configure("127.0.0.3", only_tcp);
    tdaemon_restart(w.c.daemon);
    open_session(&w.c);
    CHECK(tdaemon_silent(w.a.daemon, "agreed on tcp"), "too early");
    begin(&of_c, &w.c, attach(&w.c, rdmad_lease_uri(own), "tcp"), 0, 2);
    pthread_join(of_c.thread, NULL);
    CHECK(!memcmp(w.a.memory, w.c.memory, HALF), "what came over tcp");
    CHECK(tdaemon_logged(w.a.daemon, "agreed on tcp instead of verbs"), "it was silent");
    await_peers(w.a.daemon, "verbs", 0);
    world_down(&w);
}

/* ---- policy -------------------------------------------------------------------------------------
 */

/* The refused hears of it first. */
static void await_logged(const struct tdaemon *d, const char *words) {
    uint64_t end = now_ms() + TEST_PATIENCE_MS;
    while (!tdaemon_logged(d, words)) {
        CHECK(now_ms() < end, "\"%s\" is not in the log of both", words);
        sleep_ms(10);
    }
}

static void expect_refused(const struct side *lessee, const struct side *owner,
                           const char *const *words) {
    rdmad_lease *own = grant(owner, RDMAD_RIGHT_READ, NULL), *l;
    int rc = rdmad_lease_attach(lessee->session, rdmad_lease_uri(own), (int)TEST_PATIENCE_MS, &l);
    const char *text = rdmad_last_error(lessee->session);
    CHECK(rc == RDMAD_E_FABRIC, "%s: %s", rdmad_errname(rc), text);
    for (; *words; words++) {
        CHECK(strstr(text, *words), "\"%s\" is not in: %s", *words, text);
        await_logged(lessee->daemon, *words);
        await_logged(owner->daemon, *words);
    }
}

static void refuses(const char *config, const char *option, const char *because) {
    const char *const words[] = {"only verbs",
                                 "only tcp",
                                 because,
                                 "the setting fabric is \"tcp\"",
                                 "fall back to tcp (peer.fallback_tcp",
                                 NULL};
    struct side a = {.daemon = start("127.0.0.1", config, option)};
    struct side b = {.daemon = start("127.0.0.2", only_tcp, NULL)};
    struct side c = {.daemon = start("127.0.0.3", verbs_on_rxe1, NULL)};
    open_session(&a);
    open_session(&b);
    open_session(&c);
    expect_refused(&b, &a, words);
    expect_refused(&a, &b, words);
    attach(&c, rdmad_lease_uri(grant(&a, RDMAD_RIGHT_READ, NULL)), "verbs");
    rdmad_close(a.session);
    rdmad_close(b.session);
    rdmad_close(c.session);
    tdaemon_stop(a.daemon);
    tdaemon_stop(b.daemon);
    tdaemon_stop(c.daemon);
}

static void who_forbids_tcp_refuses_who_has_nothing_else_in_words_on_both_sides(void) {
    refuses(verbs_on_rxe0, "--require-rdma", "require_rdma is true");
    refuses("{\"fabric\": \"verbs\", \"verbs\": {\"device\": \"rxe0\"}, \"peer\": "
            "{\"fallback_tcp\": false}}",
            NULL, "peer.fallback_tcp is false");
}

/* ---- atomics ------------------------------------------------------------------------------------
 */

/* Soft-RoCE's are atomic with one another only. */
static void atomics_over_tcp_are_refused_where_they_are_a_devices(void) {
    struct world w;
    uint64_t was;
    world_up(&w);
    rdmad_lease *own = grant(&w.a, RDMAD_RIGHTS_ALL, NULL), *none;
    rdmad_lease *b_has = attach(&w.b, rdmad_lease_uri(own), "tcp");
    rdmad_lease *c_has = attach(&w.c, rdmad_lease_uri(own), "verbs");
    CHECK(!(info_of(b_has).rights & RDMAD_RIGHT_ATOMIC), "the client is not told");
    CHECK(info_of(c_has).rights & RDMAD_RIGHT_ATOMIC, "over verbs they are there");
    CHECK(rdmad_cas(b_has, 0, 0, 7, &was) == RDMAD_E_RIGHTS, "over tcp");
    CHECK(!rdmad_cas(c_has, 0, 0, 9, &was), "%s", rdmad_last_error(w.c.session));
    CHECK(*(uint64_t *)(void *)w.a.memory == 9, "the device's");
    CHECK(!rdmad_write(b_has, 0, w.b.memory, 64), "it is good for all else");
    CHECK(tdaemon_logged(w.a.daemon, "has no atomics over tcp") &&
              tdaemon_logged(w.b.daemon, "has no atomics over tcp"),
          "it was silent");

    rdmad_lease *only = grant(&w.a, RDMAD_RIGHT_ATOMIC, NULL);
    int rc = rdmad_lease_attach(w.b.session, rdmad_lease_uri(only), (int)TEST_PATIENCE_MS, &none);
    CHECK(rc == RDMAD_E_UNSUPPORTED && strstr(rdmad_last_error(w.b.session), "no atomics over tcp"),
          "%s: %s", rdmad_errname(rc), rdmad_last_error(w.b.session));

    rdmad_lease *of_cpu = attach(&w.a, rdmad_lease_uri(grant(&w.b, RDMAD_RIGHTS_ALL, NULL)), "tcp");
    CHECK(!rdmad_cas(of_cpu, 8, 0, 11, &was), "%s", rdmad_last_error(w.a.session));
    world_down(&w);
}

/* ---- never by itself
 * ----------------------------------------------------------------------------- */

static int write_once(const struct side *s, rdmad_lease *l) {
    rdmad_ring *ring = client_ring(s->session, 4);
    struct rdmad_sqe *sqe = rdmad_ring_reserve(ring);
    const struct rdmad_cqe *cqe;
    CHECK(sqe && !rdmad_prep_write(ring, sqe, l, 0, s->memory, 64, 1), "prepare");
    rdmad_sqe_set_deadline(sqe, DEADLINE_MS);
    CHECK(rdmad_ring_submit(ring) == 1, "submit");
    CHECK(!rdmad_ring_wait(ring, (int)TEST_PATIENCE_MS, &cqe), "no end");
    int status = cqe->status;
    rdmad_ring_seen(ring, cqe);
    rdmad_ring_destroy(ring);
    return status;
}

static void two_with_verbs_never_fall_back_when_a_link_breaks(void) {
    struct world w;
    world_up(&w);
    rdmad_lease *own = grant(&w.a, RDMAD_RIGHT_READ | RDMAD_RIGHT_WRITE, NULL);
    rdmad_lease *l = attach(&w.c, rdmad_lease_uri(own), "verbs");
    CHECK(!write_once(&w.c, l), "before");
    shell(10000, "ip link set vb down");
    for (unsigned i = 0; i < 3; i++)
        CHECK(write_once(&w.c, l), "a write was done without the port");
    CHECK(rows(w.c.daemon, "link.show", "links", "tcp") == 0 &&
              rows(w.c.daemon, "peer.show", "peers", "tcp") == 0,
          "over tcp");
    shell(10000, "ip link set vb up");
    uint64_t end = now_ms() + TEST_PATIENCE_MS;
    while (write_once(&w.c, l))
        CHECK(now_ms() < end, "it does not come back");
    CHECK(rows(w.c.daemon, "link.show", "links", "verbs") == 1, "over verbs again");
    world_down(&w);
}

TEST_MAIN(CASE(each_two_use_the_best_that_both_have_at_the_same_time),
          CASE(channels_go_over_the_fabric_that_was_agreed_on),
          CASE(who_is_killed_and_returns_disturbs_nobody_on_the_other_fabric),
          CASE(who_returns_without_its_device_is_reached_over_tcp_and_it_is_said),
          CASE(who_forbids_tcp_refuses_who_has_nothing_else_in_words_on_both_sides),
          CASE(atomics_over_tcp_are_refused_where_they_are_a_devices),
          CASE(two_with_verbs_never_fall_back_when_a_link_breaks))
