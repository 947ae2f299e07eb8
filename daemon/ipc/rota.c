/* SPDX-License-Identifier: MIT */
/*
 * rota.c - passes over those who wait.
 *
 * What a user has read is counted from one pass to the next. A pass is asked for when somebody
 * begins to wait, so a user who does not ask much is counted over many passes of the loop, and
 * waits for one now and then; in it nobody else is before it.
 */
#include "daemon/ipc/rota.h"
#include <assert.h>
#include <event2/event.h>
#include <rdmad/abi.h>
#include <stdint.h>
#include <stdlib.h>

struct rota {
    struct event *pass;
    struct list users;   /* of struct rota_user */
    struct list waiting; /* of struct rota_user: those of whom somebody waits */
    uint64_t number;     /* of the pass */
};

struct rota_user {
    struct rota *rota;
    struct list node, waiting;
    struct list members; /* that wait */
    unsigned count;      /* of all its members */
    struct user_id who;
    struct send_rest sends;
    unsigned used;   /* in the pass */
    uint64_t number; /* of this number */
};

static void ask_for_pass(struct rota *r) {
    static const struct timeval now;
    if (event_pending(r->pass, EV_TIMEOUT, NULL))
        return;
    if (event_add(r->pass, &now))
        event_active(r->pass, EV_TIMEOUT, 0); /* out of memory: in this pass of the loop, then */
}

static unsigned used(const struct rota_user *u) {
    return u->number == u->rota->number ? u->used : 0;
}

/* Each that is asked reads something, or waits no more: so it ends. */
static void serve(struct rota_user *u) {
    u->count++; /* keeps it while its members come and go */
    for (struct list *pos; used(u) < ROTA_PACKETS && (pos = list_pop(&u->members));) {
        struct rota_member *m = list_entry(pos, struct rota_member, node);
        m->go_on(m);
    }
    if (--u->count == 0) {
        assert(list_empty(&u->members));
        list_remove(&u->node);
        list_remove(&u->waiting);
        free(u);
    } else if (!list_empty(&u->members) && list_empty(&u->waiting)) {
        list_append(&u->rota->waiting, &u->waiting);
    }
}

static void pass(evutil_socket_t fd, short what, void *arg) {
    struct rota *r = arg;
    struct list now;
    (void)fd, (void)what;
    list_init(&now);
    list_splice(&now, &r->waiting);
    r->number++;
    for (unsigned users = 0; users < ROTA_OF_ALL / ROTA_PACKETS && !list_empty(&now); users++)
        serve(list_entry(list_pop(&now), struct rota_user, waiting));
    list_splice(&now, &r->waiting);
    list_splice(&r->waiting, &now);
    if (!list_empty(&r->waiting))
        ask_for_pass(r);
}

struct rota *rota_new(struct event_base *base) {
    struct rota *r = calloc(1, sizeof(*r));
    if (!r)
        return NULL;
    r->pass = event_new(base, -1, 0, pass, r);
    if (!r->pass) {
        free(r);
        return NULL;
    }
    list_init(&r->users);
    list_init(&r->waiting);
    return r;
}

void rota_free(struct rota *r) {
    if (!r)
        return;
    assert(list_empty(&r->users));
    event_free(r->pass);
    free(r);
}

static struct rota_user *rota_find_or_make(struct rota *r, struct user_id who) {
    list_for_each (pos, &r->users) {
        struct rota_user *u = list_entry(pos, struct rota_user, node);
        if (user_id_same(u->who, who))
            return u;
    }
    struct rota_user *u = calloc(1, sizeof(*u));
    if (!u)
        return NULL;
    u->rota = r;
    u->who = who;
    list_init(&u->waiting);
    list_init(&u->members);
    list_append(&r->users, &u->node);
    return u;
}

int rota_join(struct rota *r, struct rota_member *m, struct user_id who,
              void (*go_on)(struct rota_member *m)) {
    list_init(&m->node);
    m->go_on = go_on;
    m->user = rota_find_or_make(r, who);
    if (!m->user)
        return RDMAD_E_NOMEM;
    m->user->count++;
    return 0;
}

void rota_leave(struct rota_member *m) {
    struct rota_user *u = m->user;
    if (!u)
        return;
    m->user = NULL;
    list_remove(&m->node);
    if (--u->count)
        return;
    list_remove(&u->node);
    list_remove(&u->waiting);
    free(u);
}

unsigned rota_room(const struct rota_member *m) {
    unsigned n = used(m->user), left = n < ROTA_PACKETS ? ROTA_PACKETS - n : 0;
    return left < ROTA_AT_ONCE ? left : ROTA_AT_ONCE;
}

void rota_used(struct rota_member *m, unsigned packets) {
    struct rota_user *u = m->user;
    u->used = used(u) + packets;
    u->number = u->rota->number;
}

void rota_wait(struct rota_member *m) {
    struct rota_user *u = m->user;
    list_append(&u->members, &m->node);
    if (list_empty(&u->waiting))
        list_append(&u->rota->waiting, &u->waiting);
    ask_for_pass(u->rota);
}

struct send_rest *rota_sends(const struct rota_member *m) {
    return &m->user->sends;
}
