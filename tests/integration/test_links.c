/* SPDX-License-Identifier: MIT */
/*
 * test_links.c - links between two real daemons: they break and come back without their leases
 * noticing, are shared or private by policy, and what an owner may have registered is bounded.
 */
#include "tests/support/harness.h"
#include "tests/support/procs.h"

#include <rdmad/rdmad.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BYTES = 256 << 10 };

struct side {
    struct tdaemon *daemon;
    rdmad_session *session;
    rdmad_pool *pool;
    uint8_t *memory;
};

static struct tdaemon *start(const char *host, const char *config) {
    char path[128];
    const char *tmp = getenv("TMPDIR");
    snprintf(path, sizeof(path), "%s/links-%s.json", tmp ? tmp : "/tmp", host);
    FILE *f = fopen(path, "we");
    CHECK(f && fputs(config, f) >= 0 && fclose(f) == 0, "%s", path);
    return tdaemon_start(host, (const char *[]){"--config", path, NULL});
}

static void open_session(struct side *s) {
    struct rdmad_options options = RDMAD_OPTIONS_INIT;
    options.runtime_dir = tdaemon_dir(s->daemon);
    CHECK(!rdmad_open(&options, &s->session), "%s", rdmad_last_error(NULL));
    CHECK(!rdmad_pool_create(s->session, BYTES, 0, &s->pool), "%s", rdmad_last_error(s->session));
    s->memory = rdmad_pool_base(s->pool);
}

static rdmad_lease *grant(const struct side *s, uint64_t length) {
    struct rdmad_lease_terms terms = RDMAD_LEASE_TERMS_INIT;
    rdmad_lease *l;
    terms.ttl_ms = 3600000;
    CHECK(!rdmad_lease_grant(s->session, s->memory, length, &terms, &l), "%s",
          rdmad_last_error(s->session));
    return l;
}

static rdmad_lease *attach(const struct side *s, const rdmad_lease *own) {
    rdmad_lease *l;
    CHECK(!rdmad_lease_attach(s->session, rdmad_lease_uri(own), 0, &l), "%s",
          rdmad_last_error(s->session));
    return l;
}

/* Its links; a sum over one member of them. */
static unsigned links(struct tdaemon *d, const char *member, json_int_t *sum) {
    json_t *result = tdaemon_call(d, "link.show", NULL), *row;
    json_t *rows = json_object_get(result, "links");
    size_t i;
    *sum = 0;
    json_array_foreach(rows, i, row) *sum += json_integer_value(json_object_get(row, member));
    unsigned n = (unsigned)json_array_size(rows);
    json_decref(result);
    return n;
}

/* ---- links that break ------------------------------------------------------------------------ */

struct stops {
    pid_t pid;
    unsigned times;
};

/* Long enough for the other side to give the link up, not for it to give the peer up. */
static void stop_and_go(void *arg) {
    const struct stops *stops = arg;
    for (unsigned i = 0; i < stops->times; i++) {
        sleep_ms((unsigned)(test_random() % 100));
        process_stop(stops->pid);
        sleep_ms(300);
        process_go_on(stops->pid);
    }
}

/* Writes another pattern and reads it back. A write under way when the link broke may have an end
 * that nobody knows; all else comes to its end as if nothing had been. */
static unsigned write_and_read(const struct side *lessee, rdmad_lease *l, uint8_t value) {
    memset(lessee->memory, value, BYTES);
    int rc = rdmad_write(l, 0, lessee->memory, BYTES);
    CHECK(!rc || (rc == RDMAD_E_PEER_LOST && rdmad_last_outcome() == RDMAD_UNKNOWN),
          "write: %s, outcome %d", rdmad_errname(rc), rdmad_last_outcome());
    memset(lessee->memory, 0, BYTES);
    int got = rdmad_read(l, 0, lessee->memory, BYTES);
    CHECK(!got, "read: %s", rdmad_errname(got));
    for (unsigned i = 0; !rc && i < BYTES; i++)
        CHECK(lessee->memory[i] == value, "byte %u is %u, not %u", i, lessee->memory[i], value);
    return rc != 0;
}

static void a_link_that_breaks_comes_back_and_its_leases_live_on(void) {
    if (strcmp(test_fabric(), "tcp") != 0)
        skip("over %s a stopped daemon's devices go on", test_fabric());
    struct side owner = {.daemon = tdaemon_start("127.0.0.1", NULL)};
    struct side lessee = {.daemon = start("127.0.0.2", "{\"tcp\": {\"dead_peer_ms\": 100}}")};
    open_session(&owner);
    open_session(&lessee);
    rdmad_lease *own = grant(&owner, BYTES), *l = attach(&lessee, own);
    struct rdmad_event e = RDMAD_EVENT_INIT;
    json_int_t rebuilds;
    unsigned turns = 0, unknown = 0;

    struct stops stops = {tdaemon_pid(owner.daemon), test_count(10)};
    pid_t stopper = client_fork(stop_and_go, &stops);
    while (client_running(stopper))
        unknown += write_and_read(&lessee, l, (uint8_t)(++turns % 251 + 1));
    client_expect_ok(stopper);
    unknown += write_and_read(&lessee, l, 252);
    CHECK(links(lessee.daemon, "rebuilds", &rebuilds) == 1, "a lane was left behind");
    printf("  %u turns, %u writes of unknown outcome, %lld links made anew\n", turns, unknown,
           (long long)rebuilds);
    CHECK(rebuilds > 0 && rebuilds >= stops.times / 2, "the link broke %lld times of %u",
          (long long)rebuilds, stops.times);
    CHECK(unknown <= stops.times, "%u writes were lost", unknown);
    CHECK(rdmad_next_event(lessee.session, 0, &e) == RDMAD_E_TIMEOUT, "event %u: %s", e.type,
          e.text);
    CHECK(!rdmad_lease_revoke(own), "%s", rdmad_last_error(owner.session));
    CHECK(rdmad_read(l, 0, lessee.memory, 8) == RDMAD_E_LEASE_REVOKED, "after the revoke");
    rdmad_close(lessee.session);
    rdmad_close(owner.session);
    tdaemon_stop(lessee.daemon);
    tdaemon_stop(owner.daemon);
}

/* ---- whose links ----------------------------------------------------------------------------- */

static void count_links(const char *config, unsigned expected) {
    struct side owner = {.daemon = tdaemon_start("127.0.0.1", NULL)}, lessee[3];
    struct tdaemon *b = start("127.0.0.2", config);
    json_t *before = tdaemon_objects(b);
    json_int_t handles;
    open_session(&owner);
    rdmad_lease *own = grant(&owner, BYTES);
    json_object_del(before, "peers"); /* stays for a while */
    json_object_del(before, "fds");
    for (unsigned i = 0; i < 3; i++) {
        lessee[i].daemon = b;
        open_session(&lessee[i]);
        for (unsigned n = 0; n < 2; n++)
            write_and_read(&lessee[i], attach(&lessee[i], own), (uint8_t)(1 + 2 * i + n));
    }
    unsigned n = links(b, "handles", &handles);
    CHECK(n == expected && handles == 6, "%u links for %lld leases with %s", n, (long long)handles,
          config);
    for (unsigned i = 0; i < 3; i++)
        rdmad_close(lessee[i].session);
    tdaemon_expect_objects(b, before); /* idle ones go as well */
    rdmad_close(owner.session);
    tdaemon_stop(b);
    tdaemon_stop(owner.daemon);
}

static void sessions_share_a_link(void) {
    count_links("{}", 1);
}

static void listed_users_have_links_of_their_own(void) {
    count_links("{\"peer\": {\"private_links\": \"*\"}}", 3);
}

/* ---- what an owner may have registered ------------------------------------------------------- */

static void leases_to_other_daemons_are_charged_to_their_owner(void) {
    struct side owner = {.daemon = start("127.0.0.1", "{\"limits\": {\"registered_bytes_per_session"
                                                      "\": 300000}}")};
    struct side lessee = {.daemon = tdaemon_start("127.0.0.2", NULL)};
    rdmad_lease *second;
    open_session(&owner);
    open_session(&lessee);
    rdmad_lease *own = grant(&owner, BYTES), *l = attach(&lessee, own);
    int rc = rdmad_lease_attach(lessee.session, rdmad_lease_uri(own), 0, &second);
    const char *why = rdmad_last_error(lessee.session);
    CHECK(rc == RDMAD_E_LIMIT, "%s: %s", rdmad_errname(rc), why);
    CHECK(strstr(why, "300000") && strstr(why, "262144") &&
              strstr(why, "limits.registered_bytes_per_session"),
          "%s", why);
    rdmad_lease_free(l); /* the owner's daemon hears of it a little later */
    uint64_t until = now_ms() + TEST_PATIENCE_MS;
    while ((rc = rdmad_lease_attach(lessee.session, rdmad_lease_uri(own), 0, &second)))
        CHECK(rc == RDMAD_E_LIMIT && now_ms() < until, "%s", rdmad_last_error(lessee.session));
    write_and_read(&lessee, second, 9);
    rdmad_close(lessee.session);
    rdmad_close(owner.session);
    tdaemon_stop(lessee.daemon);
    tdaemon_stop(owner.daemon);
}

TEST_MAIN(CASE(a_link_that_breaks_comes_back_and_its_leases_live_on), CASE(sessions_share_a_link),
          CASE(listed_users_have_links_of_their_own),
          CASE(leases_to_other_daemons_are_charged_to_their_owner))
