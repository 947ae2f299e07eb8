/* SPDX-License-Identifier: MIT */
/*
 * test_resume_watch.c - a program that watches names knows what there is, though daemons are killed
 * and started again: what came or went while there was none is not passed over in silence.
 */
#include "tests/support/client.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { BYTES = 1 << 16, NAMES = 8 };

/* Who publishes names at a daemon, one session each, and who watches them at another or there. */
struct world {
    struct tdaemon *names, *watcher; /* may be one */
    rdmad_session *owner[NAMES], *asker;
    char where[64];
    uint64_t watch;
    bool known[NAMES]; /* by its events */
    unsigned anew;
};

static void publish(struct world *w, unsigned n) {
    struct rdmad_lease_terms terms = RDMAD_LEASE_TERMS_INIT;
    char name[16];
    rdmad_pool *pool;
    rdmad_lease *l;
    snprintf(name, sizeof(name), "watched-%u", n);
    terms.name = name;
    w->owner[n] = client_with_pool(w->names, BYTES, &pool);
    CHECK(!rdmad_lease_grant(w->owner[n], rdmad_pool_base(pool), 4096, &terms, &l), "%s",
          rdmad_last_error(w->owner[n]));
}

static void take_back(struct world *w, unsigned n) {
    rdmad_close(w->owner[n]);
    w->owner[n] = NULL;
}

static void world_begin(struct world *w, bool far) {
    need_hole_guard();
    *w = (struct world){.names = tdaemon_start("127.0.0.1", NULL)};
    w->watcher = far ? tdaemon_start("127.0.0.2", NULL) : w->names;
    if (far)
        snprintf(w->where, sizeof(w->where), "rdmad://%s/", tdaemon_listen(w->names));
    w->asker = client_open(w->watcher);
    for (unsigned n = 0; n < NAMES; n += 2)
        publish(w, n);
    CHECK(!rdmad_names_watch(w->asker, w->where, "watched-", 0, &w->watch), "%s",
          rdmad_last_error(w->asker));
}

static void world_end(struct world *w) {
    rdmad_close(w->asker);
    for (unsigned n = 0; n < NAMES; n++)
        rdmad_close(w->owner[n]);
    if (w->watcher != w->names)
        tdaemon_stop(w->watcher);
    tdaemon_stop(w->names);
}

static void hear(struct world *w, const struct rdmad_event *e) {
    unsigned n;
    if (e->type == RDMAD_EVENT_SESSION_RESUMED)
        return;
    CHECK(e->watch == w->watch && !e->reason, "event %u of watch %llu: %s", e->type,
          (unsigned long long)e->watch, e->text);
    if (e->type == RDMAD_EVENT_NAMES_ANEW) {
        memset(w->known, 0, sizeof(w->known));
        w->anew++;
        return;
    }
    CHECK(sscanf(e->name.name, "watched-%u", &n) == 1 && n < NAMES, "event %u: %s", e->type,
          e->text);
    w->known[n] = e->type == RDMAD_EVENT_NAME_THERE;
}

static bool knows_all(const struct world *w) {
    for (unsigned n = 0; n < NAMES; n++)
        if (w->known[n] != !!w->owner[n])
            return false;
    return true;
}

/* Takes events until it has begun anew so often and knows what there is; and then no more come that
 * say otherwise. */
static void expect_known(struct world *w, unsigned anew) {
    struct rdmad_event e = RDMAD_EVENT_INIT;
    while (w->anew < anew || !knows_all(w)) {
        int rc = rdmad_next_event(w->asker, (int)TEST_PATIENCE_MS, &e);
        if (rc == RDMAD_E_TIMEOUT)
            for (unsigned n = 0; n < NAMES; n++)
                CHECK(w->known[n] == !!w->owner[n], "name %u is %s, and known as %s", n,
                      w->owner[n] ? "there" : "gone", w->known[n] ? "there" : "gone");
        CHECK(!rc, "it began anew %u times, not %u", w->anew, anew);
        hear(w, &e);
    }
    while (!rdmad_next_event(w->asker, 20, &e))
        hear(w, &e);
    CHECK(w->anew == anew && knows_all(w), "it knows otherwise later; anew %u times, not %u",
          w->anew, anew);
}

static void end(struct tdaemon *d, bool in_order) {
    if (in_order)
        tdaemon_end(d);
    else
        tdaemon_kill(d);
}

/* One name goes and one comes each time while nobody can tell of it. */
static void through_restarts(bool far, bool in_order) {
    struct world w;
    world_begin(&w, far);
    expect_known(&w, 0);
    for (unsigned i = 0; i < test_count(10); i++) {
        unsigned gone = 2 * (i % (NAMES / 2)), come = gone + 1;
        end(w.watcher, in_order);
        take_back(&w, gone);
        if (far) /* else there is nobody to publish it at */
            publish(&w, come);
        tdaemon_restart(w.watcher);
        if (!far)
            publish(&w, come);
        expect_known(&w, i + 1);
        take_back(&w, come); /* and it goes on */
        publish(&w, gone);
        expect_known(&w, i + 1);
    }
    world_end(&w);
}

static void a_killed_daemons_watch_begins_anew(void) {
    through_restarts(false, false);
}

static void a_stopped_daemons_watch_begins_anew(void) {
    through_restarts(false, true);
}

static void a_watch_of_another_nodes_names_begins_anew(void) {
    through_restarts(true, false);
    through_restarts(true, true);
}

/* What was told before the end and not taken is void, and is dropped: however many daemons come and
 * go before a program takes its events, it is told once what there is. */
static void news_that_nobody_took_is_dropped(void) {
    struct rdmad_name name = RDMAD_NAME_INIT;
    struct world w;
    size_t count;
    world_begin(&w, false);
    for (unsigned i = 0; i < 3; i++) {
        tdaemon_kill(w.names);
        if (i == 1)
            take_back(&w, 0);
        tdaemon_restart(w.names);
        CHECK(!rdmad_names_list(w.asker, NULL, NULL, NULL, 0, &name, 1, &count), "%s",
              rdmad_last_error(w.asker)); /* waits until it is open again */
    }
    expect_known(&w, 1);
    world_end(&w);
}

/* The program ends it while there is no daemon: no later one is asked for it. */
static void a_watch_that_was_ended_stays_away(void) {
    struct rdmad_event e = RDMAD_EVENT_INIT;
    struct world w;
    uint64_t other;
    world_begin(&w, false);
    expect_known(&w, 0);
    CHECK(!rdmad_names_watch(w.asker, NULL, "other-", 0, &other), "%s", rdmad_last_error(w.asker));
    tdaemon_kill(w.names);
    while (rdmad_next_event(w.asker, 0, &e) == 0) /* looks at the socket: now it is away */
        ;
    tdaemon_restart(w.names);
    CHECK(!rdmad_names_unwatch(w.asker, w.watch), "%s", rdmad_last_error(w.asker));
    client_refused(w.asker, rdmad_names_unwatch(w.asker, w.watch), RDMAD_E_HANDLE, "watch");
    publish(&w, 1);
    while (!rdmad_next_event(w.asker, 100, &e))
        CHECK(e.watch != w.watch, "event %u: %s", e.type, e.text);
    w.watch = other;
    tdaemon_kill(w.names);
    tdaemon_restart(w.names);
    do
        CHECK(!rdmad_next_event(w.asker, (int)TEST_PATIENCE_MS, &e), "no event");
    while (e.type != RDMAD_EVENT_NAMES_ANEW);
    CHECK(e.watch == other, "watch %llu begins anew", (unsigned long long)e.watch);
    CHECK(!rdmad_names_unwatch(w.asker, other), "%s", rdmad_last_error(w.asker));
    world_end(&w);
}

/* The other daemon does not come back with ours: the watch ends, and says so. */
static void a_watch_of_a_daemon_that_stays_away_ends(void) {
    struct rdmad_event e = RDMAD_EVENT_INIT;
    struct world w;
    world_begin(&w, true);
    expect_known(&w, 0);
    tdaemon_kill(w.watcher);
    tdaemon_kill(w.names);
    tdaemon_restart(w.watcher);
    do {
        CHECK(!rdmad_next_event(w.asker, (int)TEST_PATIENCE_MS, &e), "no event");
        CHECK(e.type == RDMAD_EVENT_SESSION_RESUMED || e.watch == w.watch, "event %u: %s", e.type,
              e.text);
    } while (!e.reason);
    CHECK(e.type == RDMAD_EVENT_NAME_GONE && e.reason == RDMAD_E_PEER_LOST, "event %u: %s", e.type,
          e.text);
    tdaemon_restart(w.names);
    client_refused(w.asker, rdmad_names_unwatch(w.asker, w.watch), RDMAD_E_HANDLE, "watch");
    world_end(&w);
}

TEST_MAIN(CASE(a_killed_daemons_watch_begins_anew), CASE(a_stopped_daemons_watch_begins_anew),
          CASE(a_watch_of_another_nodes_names_begins_anew), CASE(news_that_nobody_took_is_dropped),
          CASE(a_watch_that_was_ended_stays_away), CASE(a_watch_of_a_daemon_that_stays_away_ends))
