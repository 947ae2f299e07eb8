/* SPDX-License-Identifier: MIT */
/*
 * test_peer_limits.c - a hundred sessions of one peer ask, all at once, for ten times of what its
 * sessions may have opened here: leases attached, bytes registered, notifications, channels
 * (limit set peer:NAME). The peer gets exactly that, never more, and another peer gets its share
 * meanwhile. When the sessions are gone all is as it was, and a second time it is the same.
 *
 * Connections and rates of a peer are unit_peer_rights's and unit_peer_turns's.
 */
#include "tests/support/harness.h"
#include "tests/support/identities.h"
#include "tests/support/rawclient.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define PAGE 4096u
#define LONG_NS UINT64_C(600000000000)

enum { SESSIONS = 100, EACH = 4, MOST = SESSIONS * EACH / 10, OTHERS = 4, TIMES = 10 };

static const struct limit {
    const char *key;
    unsigned unit; /* what one of them is counted as */
    bool channels;
} limits[] = {{"attaches", 1, false},
              {"registered_bytes", PAGE, false},
              {"notifications", RDMAD_NOTIFY_DEPTH, false},
              {"channels", 1, true}};
enum { LIMITS = sizeof(limits) / sizeof(limits[0]) };

/* What is asked for is the owner's; node-1 is greedy, node-2 is another. */
static struct world {
    char dir[64];
    struct tdaemon *owner, *greedy, *other;
    int host;
    struct raw_pool pool;
    struct rdmad_lease_grant_rep lease;
    struct rdmad_service_listen_rep service;
} w;

static struct tdaemon *start(const char *name) {
    char identity[128];
    snprintf(identity, sizeof(identity), "%s/%s", w.dir, name);
    return tdaemon_start("127.0.0.1", (const char *[]){"--identity", identity, NULL});
}

static void up(void) {
    struct rdmad_service_listen_req req = {.backlog = 1024, .name = "host"};
    struct raw_packet reply;
    char text[RDMAD_TEXT_MAX + 1];
    snprintf(w.dir, sizeof(w.dir), "/tmp/rdmad-peers-XXXXXX");
    CHECK(mkdtemp(w.dir), "no directory");
    make_identities(w.dir, 3);
    w.owner = start("node-0");
    w.greedy = start("node-1");
    w.other = start("node-2");
    w.host = raw_session(tdaemon_dir(w.owner));
    CHECK(raw_pool_create(w.host, PAGE, 0, &w.pool) == 0, "no pool");
    CHECK(raw_grant(w.host, &w.pool, LONG_NS, &w.lease, text) == 0, "%s", text);
    CHECK(raw_request(w.host, RDMAD_MSG_SERVICE_LISTEN, &req, sizeof(req), &reply) == 0, "%s",
          raw_text(&reply));
    memcpy(&w.service, raw_body(&reply), sizeof(w.service));
}

static void down(void) {
    char out[256];
    close(w.host);
    raw_pool_unmap(&w.pool);
    tdaemon_stop(w.greedy);
    tdaemon_stop(w.other);
    tdaemon_stop(w.owner);
    CHECK(run_program((const char *[]){"/bin/rm", "-rf", w.dir, NULL}, out, sizeof(out)) == 0, "%s",
          out);
}

/* ---- what the owner's daemon counts, and allows ------------------------------------------- */

static uint64_t used(const char *peer, const struct limit *l) {
    char who[80];
    uint64_t n = UINT64_MAX;
    snprintf(who, sizeof(who), "peer:%s", peer);
    json_t *shown = tdaemon_call(w.owner, "limit.show", json_pack("{s:s}", "who", who));
    const json_t *rows = json_object_get(shown, "limits");
    for (size_t i = 0; i < json_array_size(rows); i++) {
        const json_t *row = json_array_get(rows, i);
        if (!strcmp(json_string_value(json_object_get(row, "key")), l->key))
            n = (uint64_t)json_integer_value(json_object_get(row, "used"));
    }
    json_decref(shown);
    CHECK(n != UINT64_MAX, "limit show tells no %s of %s", l->key, who);
    return n;
}

static void allow(const char *peer, const struct limit *l, unsigned most) {
    char who[80], set[80];
    snprintf(who, sizeof(who), "peer:%s", peer);
    snprintf(set, sizeof(set), "%s=%u", l->key, most * l->unit);
    json_decref(
        tdaemon_call(w.owner, "limit.set", json_pack("{s:s, s:s}", "who", who, "set", set)));
}

/* Of one limit at a time: none of the others is in its way. */
static void allow_only(const struct limit *l) {
    for (unsigned i = 0; i < LIMITS; i++) {
        bool this = &limits[i] == l;
        allow("node-1", &limits[i], this ? MOST : SESSIONS * TIMES);
        allow("node-2", &limits[i], this ? OTHERS : SESSIONS * TIMES);
    }
}

/* ---- who asks ------------------------------------------------------------------------------ */

struct crowd {
    const char *peer;
    const struct limit *limit;
    unsigned sessions, most;
    unsigned got, refused;
    int sock[SESSIONS];
};

static void ask(struct crowd *c, int sock, unsigned times) {
    struct rdmad_channel_connect_req connect = {.timeout_ns = LONG_NS};
    struct rdmad_lease_attach_req attach = {.timeout_ns = LONG_NS};
    struct {
        struct rdmad_msg_header header;
        uint8_t body[sizeof(connect) + sizeof(attach)];
    } m = {0};
    bool channels = c->limit->channels;
    memcpy(connect.uri, w.service.uri, sizeof(connect.uri));
    memcpy(attach.uri, w.lease.uri, sizeof(attach.uri));
    size_t size = channels ? sizeof(connect) : sizeof(attach);
    memcpy(m.body, channels ? (void *)&connect : (void *)&attach, size);
    for (unsigned n = 0; n < times; n++) {
        raw_header(&m.header, channels ? RDMAD_MSG_CHANNEL_CONNECT : RDMAD_MSG_LEASE_ATTACH, size);
        CHECK(raw_send(sock, &m, sizeof(m.header) + size, NULL, 0) == 0, "send");
    }
}

static void never_above(const struct crowd *c) {
    uint64_t n = used(c->peer, c->limit), most = (uint64_t)c->most * c->limit->unit;
    CHECK(n <= most, "%s has %lu of %s, at most %lu", c->peer, (unsigned long)n, c->limit->key,
          (unsigned long)most);
}

/* Takes what has come; who is refused is told whose limit it is, and by which key. */
static void take_answers(struct crowd *c) {
    char key[64];
    snprintf(key, sizeof(key), "key \"%s\"", c->limit->key);
    for (unsigned i = 0; i < c->sessions; i++)
        for (struct raw_packet p; raw_recv(c->sock[i], &p, 0);) {
            CHECK(p.size, "session %u ended", i);
            raw_drop(&p);
            if (!(p.header.type & RDMAD_MSG_REPLY))
                continue;
            if (!p.header.status) {
                c->got++;
                continue;
            }
            CHECK(p.header.status == RDMAD_E_LIMIT && strstr(raw_text(&p), key) &&
                      strstr(raw_text(&p), c->peer),
                  "said: %s", raw_text(&p));
            c->refused++;
        }
}

/* Each session asks for ten times its part of the limit; a connection that waits to be accepted is
 * not answered, but counted. */
static void crowd_comes(struct crowd *c, struct tdaemon *d, const char *peer, const struct limit *l,
                        unsigned sessions, unsigned most) {
    unsigned each = TIMES * most / sessions, refused = each * sessions - most;
    *c = (struct crowd){.peer = peer, .limit = l, .sessions = sessions, .most = most};
    for (unsigned i = 0; i < sessions; i++)
        c->sock[i] = raw_session(tdaemon_dir(d));
    for (unsigned i = 0; i < sessions; i++)
        ask(c, c->sock[i], each);
    for (uint64_t end = now_ms() + TEST_PATIENCE_MS;
         c->refused < refused || (!l->channels && c->got < most) || used(peer, l) < most * l->unit;
         sleep_ms(1)) {
        CHECK(now_ms() < end, "%s: %u of %s, %u refused, %lu are counted", peer, c->got, l->key,
              c->refused, (unsigned long)used(peer, l));
        never_above(c);
        take_answers(c);
    }
    never_above(c);
    CHECK(c->refused == refused && (l->channels || c->got == most), "%s: %u got, %u refused", peer,
          c->got, c->refused);
    printf("  %s: %lu of %s, %u of %u were refused\n", peer, (unsigned long)used(peer, l), l->key,
           c->refused, each * sessions);
}

static void crowd_goes(struct crowd *c) {
    for (unsigned i = 0; i < c->sessions; i++)
        close(c->sock[i]);
}

static void expect_none(const char *peer, const struct limit *l) {
    uint64_t n, end = now_ms() + TEST_PATIENCE_MS;
    for (; (n = used(peer, l)) != 0; sleep_ms(1))
        CHECK(now_ms() < end, "%lu of %s are left", (unsigned long)n, l->key);
}

/* A peer that has nothing yet is known, and so are the ways to it. */
static void meet(struct tdaemon *d) {
    struct rdmad_lease_attach_rep rep;
    char text[RDMAD_TEXT_MAX + 1];
    int sock = raw_session(tdaemon_dir(d));
    CHECK(raw_attach(sock, w.lease.uri, &rep, text) == 0, "%s", text);
    close(sock);
}

static void of_each_limit_a_peer_has_no_more_than_its_own(void) {
    static struct crowd greedy, other;
    up();
    meet(w.greedy);
    meet(w.other);
    for (unsigned i = 0; i < LIMITS; i++) {
        const struct limit *l = &limits[i];
        allow_only(l);
        expect_none("node-1", l);
        expect_none("node-2", l);
        json_t *objects = tdaemon_objects_of_clients(w.owner);
        for (unsigned round = 0; round < 2; round++) {
            crowd_comes(&greedy, w.greedy, "node-1", l, SESSIONS, MOST);
            crowd_comes(&other, w.other, "node-2", l, 1, OTHERS);
            never_above(&greedy);
            crowd_goes(&greedy);
            crowd_goes(&other);
            expect_none("node-1", l);
            expect_none("node-2", l);
            tdaemon_expect_objects(w.owner, json_incref(objects));
        }
        json_decref(objects);
    }
    down();
}

TEST_MAIN(CASE(of_each_limit_a_peer_has_no_more_than_its_own))
