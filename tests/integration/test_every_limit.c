/* SPDX-License-Identifier: MIT */
/*
 * test_every_limit.c - a hundred sessions of one user ask for ten times of everything that limits.*
 * counts: each session gets what one may have, the user what a user may, and a second user gets its
 * share meanwhile. When they are gone all is as it was, and a second time they get the same.
 *
 * Of the table of settings, here: pools, rings, leases, attaches, services, channels, waits and
 * pool bytes by session and by user; mappings; and, with another daemon that is stopped,
 * questions, ops and registered bytes. Of all together: waits, mappings, ops and registered bytes.
 * Sessions, pool bytes of all together and calls a second are test_limits's. What has no number of
 * its own: huge pages are pool bytes, published names are leases or services, and watches of
 * another daemon's names are questions. Beside it: watches of this daemon's names, and
 * notifications that nobody takes. What a peer's sessions may have here is test_peer_limits's.
 */
#include "tests/integration/greedy.h"
#include "tests/support/procs.h"
#include <errno.h>
#include <jansson.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define GREEDY 65528u
#define OTHER 65527u
/* Of a hundred sessions of one user and one of another. */
#define OPS_GREEDY (GREEDY_SESSIONS * OPS_FREE + OPS_USER)
#define OPS_MOST (OPS_GREEDY + OPS_SESSION)

/* ---- what the daemon counts ----------------------------------------------------------------- */

/* Of it, as it is counted in sum, when each of so many sessions asks for all. */
static uint64_t most_of(const struct limit *l, unsigned sessions) {
    uint64_t most = sessions * l->session;
    return (most < l->user ? most : l->user) * l->unit * l->ends;
}

static unsigned ops_in_flight(const json_t *status) {
    return (unsigned)json_integer_value(
        json_object_get(json_object_get(status, "objects"), "ops_inflight"));
}

/* Until the user has come to its next step, nothing is above what it and those before may have. */
static void hear(struct user *u, struct tdaemon *d, const uint64_t before[WHATS]) {
    struct pollfd fd = {.fd = u->tell[0], .events = POLLIN};
    char c;
    while (poll(&fd, 1, 1) == 0) {
        json_t *status = tdaemon_call(d, "status", NULL);
        json_t *of = json_object_get(status, "limits");
        for (enum what what = 0; what < WHATS; what++) {
            const struct limit *l = &limits[what];
            json_int_t n =
                json_integer_value(json_object_get(json_object_get(of, l->name), "used"));
            if (u->asks & ASKS(what))
                CHECK((uint64_t)n <= before[what] + most_of(l, u->sessions), "%s: %lld", l->name,
                      (long long)n);
        }
        CHECK(ops_in_flight(status) <= OPS_MOST, "%u ops are in flight", ops_in_flight(status));
        json_decref(status);
    }
    CHECK(read(u->tell[0], &c, 1) == 1, "uid %u ended", (unsigned)u->uid);
}

/* Exactly what it may have, by the daemon's count, too; and it was told whose limit it is. */
static void expect_limits(struct user *u, struct tdaemon *d, const uint64_t before[WHATS]) {
    char words[128];
    for (enum what what = 0; what < WHATS; what++) {
        const struct limit *l = &limits[what];
        uint64_t most = most_of(l, u->sessions), all = most / l->unit / l->ends;
        if (!(u->asks & ASKS(what)))
            continue;
        printf("  uid %u: %u %s, %u a session; %s\n", (unsigned)u->uid, u->got[what], l->name,
               u->most[what], u->no_user[what]);
        CHECK(u->got[what] == all, "%u %s, not %lu", u->got[what], l->name, (unsigned long)all);
        CHECK(tdaemon_used(d, l->name) == before[what] + most, "%lu %s are counted",
              (unsigned long)tdaemon_used(d, l->name), l->name);
        if (l->key) {
            snprintf(words, sizeof(words), "limits.%s", l->key);
            CHECK(u->most[what] == l->session && strstr(u->no_session[what], words), "%u, %s",
                  u->most[what], u->no_session[what]);
        }
        if (all < l->user)
            continue;
        snprintf(words, sizeof(words), "uid %u may have %u ", (unsigned)u->uid, l->user * l->unit);
        CHECK(strstr(u->no_user[what], words), "said: %s", u->no_user[what]);
        snprintf(words, sizeof(words), "limits.%s", l->all);
        CHECK(strstr(u->no_user[what], words), "said: %s", u->no_user[what]);
    }
}

static void count(struct tdaemon *d, uint64_t out[WHATS]) {
    for (enum what what = 0; what < WHATS; what++)
        out[what] = tdaemon_used(d, limits[what].name);
}

static void expect_back(struct tdaemon *d, json_t *objects, unsigned fds,
                        const uint64_t before[WHATS]) {
    uint64_t after[WHATS];
    tdaemon_expect_objects(d, json_incref(objects));
    tdaemon_expect_fds(d, fds);
    count(d, after);
    for (enum what what = 0; what < WHATS; what++)
        CHECK(after[what] == before[what], "%lu %s are left", (unsigned long)after[what],
              limits[what].name);
}

/* ---- cases ---------------------------------------------------------------------------------- */

#define OF_SESSIONS                                                                           \
    "\"pools_per_session\": 6, \"rings_per_session\": 4, \"leases_per_session\": 4, "         \
    "\"attaches_per_session\": 4, \"services_per_session\": 4, \"channels_per_session\": 4, " \
    "\"questions_per_session\": 4, \"waits_per_session\": 64, \"waits_per_uid\": 2048, "      \
    "\"registered_bytes_per_session\": 16384, \"registered_bytes_per_uid\": 1228800, "        \
    "\"ops_per_uid\": 640"

/* A daemon in which those limits hold for both users. */
static struct tdaemon *start(const char *settings, const char *of_users) {
    char path[] = "/tmp/rdmad-limits-XXXXXX";
    int file = mkstemp(path);
    if (geteuid() != 0)
        skip("only root can be several users");
    CHECK(file >= 0 && dprintf(file, "{%s \"policy\": {\"users\": [", settings) > 0, "%s",
          strerror(errno));
    for (unsigned uid = OTHER; uid <= GREEDY; uid++)
        CHECK(dprintf(file,
                      "%s{\"match\": {\"uid\": %u}, \"limits\": {\"sessions_per_uid\": %u, "
                      "\"calls_per_second_per_uid\": 1000000, %s}}",
                      uid == OTHER ? "" : ", ", uid, GREEDY_SESSIONS, of_users) > 0,
              "%s", strerror(errno));
    CHECK(dprintf(file, "]}}") > 0 && !close(file), "%s", strerror(errno));
    struct tdaemon *d = tdaemon_start("127.0.0.1", (const char *[]){"--config", path, NULL});
    unlink(path);
    return d;
}

static void expect_waits(const struct user *u, unsigned all) {
    printf("  uid %u: %u waits, %u a session\n", (unsigned)u->uid, u->waits, u->most_waits);
    CHECK(u->waits == all && u->most_waits == WAITS_SESSION, "%u waits, %u of one session",
          u->waits, u->most_waits);
}

static void expect_watches(const struct user *u) {
    printf("  uid %u: %u watches, %u a session; %s\n", (unsigned)u->uid, u->watches,
           u->most_watches, u->no_watch);
    CHECK(u->watches == u->sessions * WATCHES_SESSION && u->most_watches == WATCHES_SESSION,
          "%u watches, %u of one session", u->watches, u->most_watches);
    CHECK(strstr(u->no_watch, "at most 16; end some"), "said: %s", u->no_watch);
}

static void expect_notices(const struct user *u, unsigned all) {
    printf("  uid %u: %u notifications, %u of one lease, %u by one attach\n", (unsigned)u->uid,
           u->notices, u->most_of_lease, u->most_notices);
    CHECK(u->notices == all && u->most_of_lease == NOTICES_LEASE &&
              u->most_notices == RDMAD_NOTIFY_DEPTH,
          "%u notifications, not %u", u->notices, all);
}

static struct user *user_come(uid_t uid, unsigned sessions, unsigned asks, struct tdaemon *d,
                              const char *service) {
    struct user *u = user_new(uid, sessions, asks, d);
    snprintf(u->service, sizeof(u->service), "%s", service);
    user_start(u);
    return u;
}

/* waits: what the greedy one may let wait; 0: nothing does. */
static void two_users(struct tdaemon *d, unsigned asks, unsigned waits, const char *service) {
    uint64_t before[WHATS], with_greedy[WHATS];
    json_t *objects = tdaemon_objects(d);
    unsigned fds = tdaemon_fds(d);
    count(d, before);
    for (unsigned round = 0; round < 2; round++) {
        struct user *greedy = user_come(GREEDY, GREEDY_SESSIONS, asks, d, service);
        hear(greedy, d, before);
        expect_limits(greedy, d, before);
        count(d, with_greedy);
        struct user *other = user_come(OTHER, 1, asks, d, service);
        hear(other, d, with_greedy);
        expect_limits(other, d, with_greedy);
        if (waits) {
            expect_waits(greedy, waits);
            expect_waits(other, WAITS_SESSION);
        }
        user_stop(greedy);
        user_stop(other);
        expect_back(d, objects, fds, before);
    }
    json_decref(objects);
}

static void what_sessions_make_is_limited_by_session_and_user(void) {
    struct tdaemon *d = start("", OF_SESSIONS);
    int host = raw_session(tdaemon_dir(d));
    struct rdmad_service_listen_req req = {.backlog = 1024, .name = "host"};
    struct rdmad_service_listen_rep rep;
    struct raw_packet reply;
    CHECK(raw_request(host, RDMAD_MSG_SERVICE_LISTEN, &req, sizeof(req), &reply) == 0, "%s",
          raw_text(&reply));
    memcpy(&rep, raw_body(&reply), sizeof(rep));
    two_users(d, WITH_OBJECTS, WAITS_USER, rep.uri);
    close(host);
    tdaemon_stop(d);
}

static void pool_bytes_are_limited_by_session_and_user(void) {
    struct tdaemon *d =
        start("", "\"pool_bytes_per_session\": 16384, \"pool_bytes_per_uid\": 1228800");
    two_users(d, ASKS(BYTES), 0, "");
    tdaemon_stop(d);
}

static void mappings_are_limited_by_user(void) {
    struct tdaemon *d = start("", "\"mappings_per_uid\": 300, \"pools_per_session\": 30, "
                                  "\"rings_per_session\": 30");
    two_users(d, ASKS(MAPPINGS), 0, "");
    tdaemon_stop(d);
}

static void watches_are_limited_by_session(void) {
    struct tdaemon *d = start("", OF_SESSIONS);
    json_t *objects = tdaemon_objects(d);
    unsigned fds = tdaemon_fds(d);
    const uint64_t none[WHATS] = {0};
    for (unsigned round = 0; round < 2; round++) {
        struct user *greedy = user_come(GREEDY, GREEDY_SESSIONS, ASKS_WATCHES, d, "");
        hear(greedy, d, none);
        struct user *other = user_come(OTHER, 1, ASKS_WATCHES, d, "");
        hear(other, d, none);
        expect_watches(greedy);
        expect_watches(other);
        user_stop(greedy);
        user_stop(other);
        expect_back(d, objects, fds, none);
    }
    json_decref(objects);
    tdaemon_stop(d);
}

/* The first time they take them, the second time their sessions end with them. */
static void notifications_are_limited_by_attach_lease_and_user(void) {
    struct tdaemon *d = start("", "\"leases_per_session\": 1");
    json_t *objects = tdaemon_objects(d);
    unsigned fds = tdaemon_fds(d);
    const uint64_t none[WHATS] = {0};
    for (unsigned round = 0; round < 2; round++) {
        struct user *greedy = user_new(GREEDY, GREEDY_SESSIONS, ASKS_NOTICES, d);
        struct user *other = user_new(OTHER, 1, ASKS_NOTICES, d);
        greedy->takes = other->takes = round == 0;
        user_start(greedy);
        hear(greedy, d, none);
        expect_notices(greedy, NOTICES_USER);
        user_start(other);
        hear(other, d, none);
        expect_notices(other, NOTICES_LEASE);
        for (unsigned i = 0; i < 2 && round == 0; i++) {
            user_go_on(i ? other : greedy);
            hear(i ? other : greedy, d, none);
        }
        user_stop(greedy);
        user_stop(other);
        expect_back(d, objects, fds, none);
    }
    json_decref(objects);
    tdaemon_stop(d);
}

/* An eighth of all waits is for others, who then get what a session may have. */
static void the_last_part_of_all_waits_is_for_others(void) {
    struct tdaemon *d = start("\"limits\": {\"waits\": 1024},", OF_SESSIONS);
    two_users(d, ASKS(LEASES), 1024 / 8 * 7, "");
    tdaemon_stop(d);
}

static void the_last_part_of_all_mappings_is_for_others(void) {
    const uint64_t none[WHATS] = {0};
    struct tdaemon *d = start("\"limits\": {\"mappings\": 320, \"mappings_per_uid\": 320, "
                              "\"pools_per_session\": 100, \"rings_per_session\": 20},",
                              "\"pools_per_session\": 30");
    json_t *objects = tdaemon_objects(d);
    unsigned fds = tdaemon_fds(d);
    struct user *greedy = user_come(GREEDY, GREEDY_SESSIONS, ASKS(MAPPINGS), d, "");
    hear(greedy, d, none);
    struct user *other = user_come(OTHER, 1, ASKS(MAPPINGS), d, "");
    hear(other, d, (const uint64_t[WHATS]){[MAPPINGS] = greedy->got[MAPPINGS]});
    printf("  %u and %u mappings; %s\n", greedy->got[MAPPINGS], other->got[MAPPINGS],
           greedy->no_user[MAPPINGS]);
    CHECK(greedy->got[MAPPINGS] == 280 && strstr(greedy->no_user[MAPPINGS], "limits.mappings") &&
              strstr(greedy->no_user[MAPPINGS], "so that some are left"),
          "%u, %s", greedy->got[MAPPINGS], greedy->no_user[MAPPINGS]);
    CHECK(other->got[MAPPINGS] == 20, "%u of the 40 that are left", other->got[MAPPINGS]);
    user_stop(greedy);
    user_stop(other);
    expect_back(d, objects, fds, none);
    json_decref(objects);
    tdaemon_stop(d);
}

/* ---- with another daemon -------------------------------------------------------------------- */

/* A session at the far daemon attaches to the leases of each of the user's, again and again. */
static void attach_from_afar(struct user *u, int lessee) {
    for (unsigned i = 0; i < u->sessions; i++) {
        unsigned got = 0;
        for (unsigned n = 0; n < GREEDY_TIMES * limits[REGISTERED].session; n++) {
            struct rdmad_lease_attach_rep rep;
            char text[RDMAD_TEXT_MAX + 1];
            int status = raw_attach(lessee, u->s[i].lease.uri, &rep, text);
            got += status == 0;
            if (status)
                user_refused(u, REGISTERED, text);
        }
        u->got[REGISTERED] += got;
        u->most[REGISTERED] = got > u->most[REGISTERED] ? got : u->most[REGISTERED];
    }
}

static void expect_ops(struct tdaemon *d, unsigned all) {
    unsigned n = 0;
    for (unsigned ms = 0; n != all; ms += 10) {
        json_t *status = tdaemon_call(d, "status", NULL);
        n = ops_in_flight(status);
        json_decref(status);
        CHECK(n <= all && ms < TEST_PATIENCE_MS, "%u ops are in flight, not %u", n, all);
        sleep_ms(n != all ? 10 : 0);
    }
    printf("  %u ops are in flight\n", n);
}

struct far {
    struct tdaemon *d;
    int lessee, owner;
    struct raw_pool pool;
    struct rdmad_lease_grant_rep lease;
};

#define PATIENT                                                              \
    "\"peer\": {\"dead_ms\": 120000}, \"tcp\": {\"dead_peer_ms\": 120000}, " \
    "\"op\": {\"default_timeout_ms\": 120000, \"max_per_session\": 128},"

static void far_start(struct far *far) {
    char text[RDMAD_TEXT_MAX + 1];
    far->d = start(PATIENT, OF_SESSIONS);
    far->lessee = raw_session(tdaemon_dir(far->d));
    far->owner = raw_session(tdaemon_dir(far->d));
    CHECK(raw_pool_create(far->owner, GREEDY_PAGE, 0, &far->pool) == 0, "no pool");
    CHECK(raw_grant(far->owner, &far->pool, GREEDY_LONG_NS, &far->lease, text) == 0, "%s", text);
}

static struct user *far_user(uid_t uid, unsigned sessions, struct tdaemon *d,
                             const struct far *far) {
    struct user *u = user_new(uid, sessions, ASKS(QUESTIONS) | ASKS(REGISTERED), d);
    memcpy(u->far_lease, far->lease.uri, sizeof(u->far_lease));
    snprintf(u->far, sizeof(u->far), "rdmad://%s/", tdaemon_listen(far->d));
    user_start(u);
    return u;
}

/* All that waited is done, and both users go. */
static void far_goes_on(struct tdaemon *d, const struct far *far, struct user *users[2],
                        const uint64_t most[WHATS]) {
    process_go_on(tdaemon_pid(far->d));
    for (unsigned i = 0; i < 2; i++) {
        user_go_on(users[i]);
        hear(users[i], d, most);
    }
    for (unsigned i = 0; i < 2; i++)
        user_stop(users[i]);
}

static void far_round(struct tdaemon *d, const struct far *far) {
    uint64_t before[WHATS], with_greedy[WHATS];
    int sock = raw_session(tdaemon_dir(far->d));
    count(d, before);
    struct user *greedy = far_user(GREEDY, GREEDY_SESSIONS, d, far);
    hear(greedy, d, before);
    attach_from_afar(greedy, sock);
    count(d, with_greedy);
    struct user *other = far_user(OTHER, 1, d, far);
    hear(other, d, with_greedy);
    attach_from_afar(other, sock);
    process_stop(tdaemon_pid(far->d));
    with_greedy[REGISTERED] = before[REGISTERED] + most_of(&limits[REGISTERED], 1);
    user_go_on(greedy);
    hear(greedy, d, with_greedy);
    expect_limits(greedy, d, with_greedy);
    expect_ops(d, OPS_GREEDY);
    count(d, with_greedy);
    with_greedy[REGISTERED] -= most_of(&limits[REGISTERED], 1);
    user_go_on(other);
    hear(other, d, with_greedy);
    expect_limits(other, d, with_greedy);
    expect_ops(d, OPS_MOST);
    far_goes_on(d, far, (struct user *[]){greedy, other}, with_greedy);
    close(sock);
}

/* A worker counts its lanes a moment after the attach by them was answered. */
static void expect_lane(struct tdaemon *d) {
    tdaemon_expect_objects(d, json_pack("{s: i}", "lanes_in", 1));
}

/* Both ways stay, so that there is the same in both rounds. */
static void keep_ways(struct tdaemon *d, const struct far *far, struct raw_pool *pool) {
    struct rdmad_lease_grant_rep lease;
    struct rdmad_lease_attach_rep rep;
    char text[RDMAD_TEXT_MAX + 1];
    int keeps = raw_session(tdaemon_dir(d));
    CHECK(raw_pool_create(keeps, GREEDY_PAGE, 0, pool) == 0, "no pool");
    CHECK(raw_attach(keeps, far->lease.uri, &rep, text) == 0, "%s", text);
    CHECK(raw_grant(keeps, pool, GREEDY_LONG_NS, &lease, text) == 0, "%s", text);
    CHECK(raw_attach(far->lessee, lease.uri, &rep, text) == 0, "%s", text);
    expect_lane(d);
}

static void what_waits_at_another_daemon_is_limited_by_session_and_user(void) {
    struct tdaemon *d = start(PATIENT, OF_SESSIONS);
    struct raw_pool pool;
    uint64_t before[WHATS];
    struct far far;
    far_start(&far);
    keep_ways(d, &far, &pool);
    json_t *objects = tdaemon_objects(d);
    unsigned fds = tdaemon_fds(d);
    count(d, before);
    for (unsigned round = 0; round < 2; round++) {
        far_round(d, &far);
        expect_back(d, objects, fds, before);
    }
    json_decref(objects);
    raw_pool_unmap(&pool);
    raw_pool_unmap(&far.pool);
    tdaemon_stop(d);
    tdaemon_stop(far.d);
}

/* Seven eighths of 512 ops, beside the first of each session, and of 320 pages; of what is left the
 * other may have half. */
static void the_last_part_of_all_ops_and_registered_bytes_is_for_others(void) {
    struct tdaemon *d =
        start(PATIENT "\"limits\": {\"ops\": 512, \"registered_bytes\": 1310720},", OF_SESSIONS);
    uint64_t before[WHATS];
    struct far far;
    far_start(&far);
    count(d, before);
    struct user *greedy = far_user(GREEDY, GREEDY_SESSIONS, d, &far);
    hear(greedy, d, before);
    attach_from_afar(greedy, far.lessee);
    count(d, before);
    struct user *other = far_user(OTHER, 1, d, &far);
    hear(other, d, before);
    attach_from_afar(other, far.lessee);
    printf("  %u and %u pages; %s\n", greedy->got[REGISTERED], other->got[REGISTERED],
           greedy->no_user[REGISTERED]);
    CHECK(greedy->got[REGISTERED] == 280 &&
              strstr(greedy->no_user[REGISTERED], "so that some are left"),
          "%u pages, %s", greedy->got[REGISTERED], greedy->no_user[REGISTERED]);
    CHECK(other->got[REGISTERED] == limits[REGISTERED].session, "%u", other->got[REGISTERED]);
    process_stop(tdaemon_pid(far.d));
    count(d, before);
    user_go_on(greedy);
    hear(greedy, d, before);
    expect_ops(d, GREEDY_SESSIONS * OPS_FREE + 448);
    count(d, before);
    user_go_on(other);
    hear(other, d, before);
    expect_ops(d, GREEDY_SESSIONS * OPS_FREE + 448 + OPS_FREE + 32);
    far_goes_on(d, &far, (struct user *[]){greedy, other}, before);
    raw_pool_unmap(&far.pool);
    tdaemon_stop(d);
    tdaemon_stop(far.d);
}

TEST_MAIN(CASE(what_sessions_make_is_limited_by_session_and_user),
          CASE(pool_bytes_are_limited_by_session_and_user), CASE(mappings_are_limited_by_user),
          CASE(watches_are_limited_by_session),
          CASE(notifications_are_limited_by_attach_lease_and_user),
          CASE(the_last_part_of_all_waits_is_for_others),
          CASE(the_last_part_of_all_mappings_is_for_others),
          CASE(what_waits_at_another_daemon_is_limited_by_session_and_user),
          CASE(the_last_part_of_all_ops_and_registered_bytes_is_for_others))
