/* SPDX-License-Identifier: MIT */
/*
 * greedy.c - each session in turn asks for all, so the first ones have what a session may have when
 * the user's own limit is reached.
 */
#include "tests/integration/greedy.h"
#include <errno.h>
#include <grp.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define ENTRIES 1024u

const struct limit limits[WHATS] = {
    [LEASES] = {"leases", "leases_per_session", "leases_per_uid", 1, 4, 256, 1},
    [ATTACHES] = {"attaches", "attaches_per_session", "attaches_per_uid", 1, 4, 256, 1},
    [SERVICES] = {"services", "services_per_session", "services_per_uid", 1, 4, 256, 1},
    [CHANNELS] = {"channels", "channels_per_session", "channels_per_uid", 1, 4, 256, 2},
    [POOLS] = {"pools", "pools_per_session", "pools_per_uid", 1, 6, 384, 1},
    [RINGS] = {"rings", "rings_per_session", "rings_per_uid", 1, 4, 256, 1},
    [BYTES] = {"pool_bytes", "pool_bytes_per_session", "pool_bytes_per_uid", GREEDY_PAGE, 4, 300,
               1},
    [MAPPINGS] = {"mappings", NULL, "mappings_per_uid", 1, 30, 300, 1},
    [QUESTIONS] = {"questions", "questions_per_session", "questions_per_uid", 1, 4, 256, 1},
    [REGISTERED] = {"registered_bytes", "registered_bytes_per_session", "registered_bytes_per_uid",
                    GREEDY_PAGE, 4, 300, 1},
};

static int ask_once(struct user *u, struct user_session *s, enum what what, unsigned n,
                    struct raw_packet *reply) {
    struct rdmad_pool_create_req pool = {.bytes = GREEDY_PAGE};
    struct rdmad_ring_create_req ring = {.sq_entries = 16};
    struct rdmad_service_listen_req service = {.backlog = 1};
    struct rdmad_lease_attach_req attach = {0};
    struct rdmad_lease_grant_req grant = {.pool = s->pool.handle,
                                          .length = GREEDY_PAGE,
                                          .ttl_ns = GREEDY_LONG_NS,
                                          .rights = RDMAD_RIGHTS_DEFAULT};
    switch (what) {
    case LEASES:
        return raw_request(s->sock, RDMAD_MSG_LEASE_GRANT, &grant, sizeof(grant), reply);
    case ATTACHES:
        memcpy(attach.uri, s->lease.uri, sizeof(attach.uri));
        return raw_request(s->sock, RDMAD_MSG_LEASE_ATTACH, &attach, sizeof(attach), reply);
    case SERVICES:
        snprintf(service.name, sizeof(service.name), "of-%u-%u-%u", (unsigned)u->uid,
                 (unsigned)(s - u->s), n);
        return raw_request(s->sock, RDMAD_MSG_SERVICE_LISTEN, &service, sizeof(service), reply);
    case RINGS:
        return raw_request(s->sock, RDMAD_MSG_RING_CREATE, &ring, sizeof(ring), reply);
    default:
        return raw_request(s->sock, RDMAD_MSG_POOL_CREATE, &pool, sizeof(pool), reply);
    }
}

void user_refused(struct user *u, enum what what, const char *text) {
    if (!*u->no_session[what])
        snprintf(u->no_session[what], RDMAD_TEXT_MAX + 1, "%s", text);
    snprintf(u->no_user[what], RDMAD_TEXT_MAX + 1, "%s", text);
}

/* Requests that nobody answers as long as they are not refused. How many were is known when what
 * was asked behind them is answered. */
static unsigned ask_and_wait(struct user *u, struct user_session *s, enum what what,
                             unsigned asks) {
    struct rdmad_channel_connect_req connect = {.timeout_ns = GREEDY_LONG_NS};
    struct rdmad_names_list_req list = {.timeout_ns = GREEDY_LONG_NS}, last = {0};
    struct {
        struct rdmad_msg_header header;
        uint8_t body[sizeof(connect) + sizeof(list)];
    } m = {0};
    bool connects = what == CHANNELS;
    memcpy(connect.uri, u->service, sizeof(connect.uri));
    memcpy(list.where, u->far, sizeof(list.where));
    size_t size = connects ? sizeof(connect) : sizeof(list);
    memcpy(m.body, connects ? (void *)&connect : (void *)&list, size);
    unsigned got = asks;
    for (unsigned n = 0; n <= asks; n++) {
        if (n == asks) {
            size = sizeof(last);
            memcpy(m.body, &last, size);
        }
        raw_header(&m.header,
                   connects && n < asks ? RDMAD_MSG_CHANNEL_CONNECT : RDMAD_MSG_NAMES_LIST, size);
        CHECK(raw_send(s->sock, &m, sizeof(m.header) + size, NULL, 0) == 0, "send");
    }
    for (;;) {
        struct raw_packet p;
        CHECK(raw_recv(s->sock, &p, (int)TEST_PATIENCE_MS) && p.size, "no answer");
        if (p.header.seq == m.header.seq && p.header.type & RDMAD_MSG_REPLY)
            return got;
        if (!p.header.status)
            continue;
        user_refused(u, what, raw_text(&p));
        got--;
    }
}

static unsigned ask_for(struct user *u, struct user_session *s, enum what what, unsigned asks) {
    struct raw_packet reply;
    unsigned got = 0;
    if (what == CHANNELS || what == QUESTIONS)
        return ask_and_wait(u, s, what, asks);
    for (unsigned n = 0; n < asks; n++) {
        int status = ask_once(u, s, what, n, &reply);
        got += status == 0;
        if (status)
            user_refused(u, what, raw_text(&reply));
        raw_drop(&reply);
    }
    return got;
}

static void ask_for_all(struct user *u, enum what what) {
    unsigned had = what == POOLS || what == RINGS || what == LEASES;
    for (unsigned i = 0; i < u->sessions; i++) {
        unsigned asks = GREEDY_TIMES * limits[what].session;
        unsigned got = had + ask_for(u, &u->s[i], what, asks);
        u->got[what] += got;
        u->most[what] = got > u->most[what] ? got : u->most[what];
    }
}

/* One that is ended makes room for one more. */
static void ask_for_watches(struct user *u) {
    struct rdmad_names_watch_req watch = {0};
    struct rdmad_names_unwatch_req end = {0};
    struct raw_packet reply;
    for (unsigned i = 0; i < u->sessions; i++) {
        unsigned got = 0;
        int sock = u->s[i].sock;
        for (unsigned n = 0; n < GREEDY_TIMES * WATCHES_SESSION; n++) {
            if (raw_request(sock, RDMAD_MSG_NAMES_WATCH, &watch, sizeof(watch), &reply) == 0) {
                end.watch = ((const struct rdmad_names_watch_rep *)raw_body(&reply))->watch;
                got++;
            } else {
                snprintf(u->no_watch, sizeof(u->no_watch), "%s", raw_text(&reply));
            }
        }
        CHECK(raw_request(sock, RDMAD_MSG_NAMES_UNWATCH, &end, sizeof(end), &reply) == 0, "%s",
              raw_text(&reply));
        for (unsigned n = 0; n < 2; n++)
            CHECK(raw_request(sock, RDMAD_MSG_NAMES_WATCH, &watch, sizeof(watch), &reply) ==
                      (n ? RDMAD_E_LIMIT : 0),
                  "watch %u after one has ended: %s", n, raw_text(&reply));
        u->watches += got;
        u->most_watches = got > u->most_watches ? got : u->most_watches;
    }
}

/* ---- ops that wait ----------------------------------------------------------------------------
 */

static void post(struct user_session *s, const struct rdmad_sqe *sqe, unsigned count) {
    static struct rdmad_sqe all[ENTRIES];
    CHECK(count <= ENTRIES, "%u", count);
    for (unsigned n = 0; n < count; n++)
        all[n] = *sqe;
    raw_ring_put(&s->ring, all, count);
}

/* Waits for notifications that nobody sends: those that are too many end at once. */
static void let_wait(struct user *u) {
    for (unsigned i = 0; i < u->sessions; i++) {
        struct user_session *s = &u->s[i];
        struct rdmad_sqe sqe = {.opcode = RDMAD_OP_NOTIFIED, .lease = s->lease.lease};
        struct rdmad_cqe cqe;
        unsigned waits = GREEDY_TIMES * WAITS_SESSION;
        post(s, &sqe, waits);
        for (unsigned ms = 0;
             __atomic_load_n(&s->ring.daemon->sq_head, __ATOMIC_ACQUIRE) != s->ring.sq_tail; ms++) {
            CHECK(ms < TEST_PATIENCE_MS, "a ring is not served");
            sleep_ms(1);
        }
        while (raw_ring_take(&s->ring, &cqe, 0)) {
            CHECK(cqe.status == RDMAD_E_LIMIT, "%d", cqe.status);
            waits--;
        }
        u->waits += waits;
        u->most_waits = waits > u->most_waits ? waits : u->most_waits;
    }
}

/* ---- notifications that nobody takes -------------------------------------------------------- */

/* The first session has so many attaches that its lease is full, all together so many that the user
 * is. */
#define ATTACHES(i) ((i) ? 21u : NOTICES_LEASE / RDMAD_NOTIFY_DEPTH + 2)

/* How many of them are let in, by one attach. */
static unsigned notify(struct user_session *s, uint64_t handle, unsigned asks) {
    unsigned got = 0;
    struct rdmad_cqe cqe;
    post(s,
         &(struct rdmad_sqe){
             .opcode = RDMAD_OP_NOTIFY, .pool = s->pool.handle, .lease = handle, .length = 8},
         asks);
    for (unsigned n = 0; n < asks; n++) {
        CHECK(raw_ring_take(&s->ring, &cqe, (int)TEST_PATIENCE_MS), "a NOTIFY does not end");
        CHECK(cqe.status == 0 || cqe.status == RDMAD_E_NO_WAITER, "%d", cqe.status);
        got += cqe.status == 0;
    }
    return got;
}

static void leave_notices(struct user *u) {
    struct rdmad_lease_attach_rep rep;
    char text[RDMAD_TEXT_MAX + 1];
    for (unsigned i = 0; i < u->sessions; i++) {
        struct user_session *s = &u->s[i];
        for (unsigned n = 0; n < ATTACHES(i); n++) {
            CHECK(raw_attach(s->sock, s->lease.uri, &rep, text) == 0, "%s", text);
            unsigned got = notify(s, rep.handle, GREEDY_TIMES * RDMAD_NOTIFY_DEPTH);
            s->notices += got;
            s->notifies = n ? s->notifies : rep.handle;
            u->most_notices = got > u->most_notices ? got : u->most_notices;
        }
        u->notices += s->notices;
        u->most_of_lease = s->notices > u->most_of_lease ? s->notices : u->most_of_lease;
    }
}

/* As many as were let in, and no other is behind them: the next one taken comes now, by the first
 * attach, which has room again. */
static void take_notices(struct user *u) {
    enum { LAST = 4711 };
    for (unsigned i = 0; i < u->sessions; i++) {
        struct user_session *s = &u->s[i];
        struct rdmad_sqe sqe = {.opcode = RDMAD_OP_NOTIFIED, .lease = s->lease.lease};
        struct rdmad_cqe cqe = {0};
        for (unsigned left = s->notices, some; left; left -= some) {
            some = left < WAITS_SESSION ? left : WAITS_SESSION;
            post(s, &sqe, some);
            for (unsigned n = 0; n < some; n++)
                CHECK(raw_ring_take(&s->ring, &cqe, (int)TEST_PATIENCE_MS) && cqe.status == 0 &&
                          cqe.imm == 0,
                      "session %u: %u are left to be taken", i, left - n);
        }
        post(s,
             &(struct rdmad_sqe){.opcode = RDMAD_OP_NOTIFY,
                                 .pool = s->pool.handle,
                                 .lease = s->notifies,
                                 .imm = LAST,
                                 .length = 8},
             1);
        CHECK(raw_ring_take(&s->ring, &cqe, (int)TEST_PATIENCE_MS) && cqe.status == 0,
              "none is let in after all were taken: %d", cqe.status);
        post(s, &sqe, 1);
        CHECK(raw_ring_take(&s->ring, &cqe, (int)TEST_PATIENCE_MS) && cqe.imm == LAST,
              "session %u: more were left than were let in", i);
    }
}

/* ---- with another daemon --------------------------------------------------------------------- */

/* READs of a lease whose daemon is stopped: what is too much stays in its ring. */
static void read_far(struct user *u) {
    for (unsigned i = 0; i < u->sessions; i++)
        post(&u->s[i],
             &(struct rdmad_sqe){.opcode = RDMAD_OP_READ,
                                 .pool = u->s[i].pool.handle,
                                 .lease = u->s[i].far,
                                 .length = 8},
             GREEDY_TIMES * OPS_FREE);
}

static void take_all(struct user *u) {
    struct rdmad_cqe cqe;
    for (unsigned i = 0; i < u->sessions; i++)
        for (unsigned n = 0; n < GREEDY_TIMES * OPS_FREE; n++) {
            CHECK(raw_ring_take(&u->s[i].ring, &cqe, (int)TEST_PATIENCE_MS), "session %u: %u", i,
                  n);
            CHECK(cqe.status == 0, "session %u, op %u: %d", i, n, cqe.status);
            u->done_ops++;
        }
}

/* ---- the user -------------------------------------------------------------------------------- */

static void become(uid_t uid) {
    CHECK(!setgroups(0, NULL) && !setresgid(uid, uid, uid) && !setresuid(uid, uid, uid),
          "cannot become uid %u", (unsigned)uid);
}

static void equip(struct user *u, struct user_session *s) {
    char text[RDMAD_TEXT_MAX + 1];
    struct rdmad_lease_attach_rep far;
    CHECK(raw_pool_create(s->sock, GREEDY_PAGE, 0, &s->pool) == 0, "no pool");
    CHECK(raw_ring_create(s->sock, ENTRIES, &s->ring) == 0, "no ring");
    CHECK(raw_grant(s->sock, &s->pool, GREEDY_LONG_NS, &s->lease, text) == 0, "%s", text);
    if (!*u->far)
        return;
    CHECK(raw_attach(s->sock, u->far_lease, &far, text) == 0, "%s", text);
    s->far = far.handle;
}

static void step(struct user *u) {
    char c;
    CHECK(write(u->tell[1], "", 1) == 1 && read(u->go[0], &c, 1) == 1, "the test ended");
}

static void user_main(void *arg) {
    struct user *u = arg;
    close(u->tell[0]); /* so that it ends with the test */
    close(u->go[1]);
    become(u->uid);
    for (unsigned i = 0; i < u->sessions; i++) {
        u->s[i].sock = raw_session(u->dir);
        if (u->asks & (WITH_OBJECTS | ASKS_NOTICES) || *u->far)
            equip(u, &u->s[i]);
    }
    if (*u->far)
        step(u); /* the other daemon is stopped */
    for (enum what what = 0; what < WHATS; what++)
        if (u->asks & ASKS(what) && what != REGISTERED)
            ask_for_all(u, what);
    if (u->asks & ASKS_WATCHES)
        ask_for_watches(u);
    if (u->asks & ASKS_NOTICES)
        leave_notices(u);
    if (u->asks & WITH_OBJECTS)
        let_wait(u);
    if (*u->far)
        read_far(u);
    step(u);
    if (*u->far) {
        take_all(u);
        step(u);
    }
    if (u->asks & ASKS_NOTICES && u->takes) {
        take_notices(u);
        step(u);
    }
}

struct user *user_new(uid_t uid, unsigned sessions, unsigned asks, struct tdaemon *d) {
    struct user *u =
        mmap(NULL, sizeof(*u), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CHECK(u != MAP_FAILED && pipe(u->tell) == 0 && pipe(u->go) == 0, "%s", strerror(errno));
    u->uid = uid;
    u->sessions = sessions;
    u->asks = asks;
    snprintf(u->dir, sizeof(u->dir), "%s", tdaemon_dir(d));
    return u;
}

void user_go_on(struct user *u) {
    CHECK(write(u->go[1], "", 1) == 1, "uid %u ended", (unsigned)u->uid);
}

void user_start(struct user *u) {
    u->pid = client_fork(user_main, u);
    close(u->tell[1]);
    close(u->go[0]);
}

void user_stop(struct user *u) {
    user_go_on(u);
    client_expect_ok(u->pid);
    close(u->tell[0]);
    close(u->go[1]);
    munmap(u, sizeof(*u));
}
