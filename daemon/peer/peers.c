/* SPDX-License-Identifier: MIT */
/*
 * peers.c - the table of peers, and how each of them comes to its end.
 *
 * A peer is freed when its connection is gone and nothing of it is left: no claim whose handle
 * still drains, no lane, no attachment whose window is still being closed, no callback under way.
 */
#include "daemon/base/clock.h"
#include "daemon/base/log.h"
#include "daemon/peer/control/transport.h"
#include "daemon/peer/internal.h"
#include <event2/event.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

static const struct error ok;

/* ---- one peer ---------------------------------------------------------------------------- */

static void expelled(void *arg, const struct error *result) {
    struct peer *p = arg;
    (void)result;
    p->holds--;
    peer_check_free(p);
}

static void tell_adders(struct peer *p, const struct error *result);

/* The connection is over: close it, and everything that went over it. */
static void peer_lose(struct peer *p) {
    enum peer_stage was = p->stage;
    struct error why = p->why;

    p->holds++;
    p->stage = PEER_LOST;
    liveness_stop(p);
    dial_stop(p);
    turn_forget(p);
    if (p->bev)
        transport_close(p->bev);
    p->bev = NULL;
    list_remove(&p->heir_node);
    p->peers->strangers -= p->stranger;
    p->stranger = false;
    if (was == PEER_UP)
        LOG_LIMITED(INFO, ("peer %s at %s is gone: %s", p->name, p->address, why.text),
                    FIELD_U64("PEER", p->id));
    else
        LOG_LIMITED(INFO, ("no peer at %s: %s", p->address, why.text), FIELD_U64("PEER", p->id));

    tell_adders(p, &why);
    claims_lost(p, &why);
    asks_lost(p, &why);
    names_lost(p);
    chans_lost(p, &why);
    lanes_lost(p);
    grants_lost(p);
    if (!p->outgoing && was == PEER_UP)
        plane_expel(p->peers->state->plane, p->fabric, p->id, expelled,
                    p); /* ends the hold above */
    else
        expelled(p, &ok);
}

static void doom_comes(evutil_socket_t fd, short what, void *arg) {
    (void)fd;
    (void)what;
    peer_lose(arg);
}

struct peer *peer_new(struct peers *ps, bool outgoing) {
    struct peer *p = calloc(1, sizeof(*p));
    if (!p)
        return NULL;
    p->doom_event = event_new(ps->state->base, -1, 0, doom_comes, p);
    if (!p->doom_event) {
        free(p);
        return NULL;
    }
    p->peers = ps;
    p->id = ps->next_id++;
    p->outgoing = outgoing;
    p->since_ns = state_now(ps->state);
    list_init(&p->adders);
    list_init(&p->lanes);
    list_init(&p->seen);
    list_init(&p->chans_out);
    list_init(&p->chans_in);
    list_init(&p->turn_node);
    list_init(&p->heirs);
    list_init(&p->heir_node);
    /* Unanswered requests count, so this also bounds what a peer can have pending. */
    slots_init(&p->claims, (uint32_t)ps->state->config->max_peer_attaches);
    slots_init(&p->grants, (uint32_t)ps->state->config->max_peer_attaches);
    slots_init(&p->asks, PEER_ASKS_MAX);
    list_append(&ps->all, &p->node);
    ps->count++;
    liveness_start(p);
    return p;
}

static void check_stopped(struct peers *ps) {
    if (!ps->stopping || ps->count || !ps->stopped.done)
        return;
    struct session_waiter w = ps->stopped;
    ps->stopped.done = NULL;
    w.done(w.arg, &ok);
}

void peer_check_free(struct peer *p) {
    struct peers *ps = p->peers;
    former_check(p);
    if (p->stage != PEER_LOST || p->holds || p->claims.used || p->grants.used || p->asks.used ||
        p->chans || !list_empty(&p->lanes))
        return;
    list_remove(&p->node);
    ps->count--;
    slots_fini(&p->claims);
    slots_fini(&p->grants);
    slots_fini(&p->asks);
    event_free(p->doom_event);
    free(p);
    check_stopped(ps);
}

/* ---- the table --------------------------------------------------------------------------- */

int peers_new(struct state *st, struct peers **out, struct error *err) {
    struct peers *ps = calloc(1, sizeof(*ps));
    if (!ps)
        return error_set(err, RDMAD_E_NOMEM, "out of memory for the table of peers");
    ps->state = st;
    ps->next_id = 1;
    ps->next_ref = 1;
    list_init(&ps->all);
    int rc = turn_start(ps, err);
    if (!rc)
        rc = accept_start(ps, err);
    if (rc) {
        turn_stop(ps);
        free(ps);
        return rc;
    }
    *out = ps;
    return 0;
}

void peers_stop(struct peers *ps, plane_done *done, void *arg) {
    ps->stopping = true;
    ps->stopped = (struct session_waiter){done, arg};
    accept_stop(ps);
    list_for_each (node, &ps->all) {
        struct peer *p = list_entry(node, struct peer, node);
        if (p->stage != PEER_LOST)
            peer_refuse(p, RDMAD_E_SHUTDOWN, "%s is stopping", ps->state->node_name);
    }
    check_stopped(ps);
}

void peers_free(struct peers *ps) {
    if (!ps)
        return;
    accept_stop(ps);
    turn_stop(ps);
    resolver_free(ps->resolver);
    free(ps);
}

unsigned peers_count(const struct peers *ps) {
    return ps->count;
}

unsigned peers_fallen_back(const struct peers *ps) {
    unsigned n = 0;
    list_for_each (node, &ps->all) {
        const struct peer *p = list_entry(node, struct peer, node);
        n += p->stage == PEER_UP && p->fabric > 0;
    }
    return n;
}

bool peers_is_self(const struct peers *ps, const struct rdmad_uri *uri) {
    const struct state *st = ps->state;
    return !uri->host[0] ||
           (uri->port == st->listen_port && (strcasecmp(uri->host, st->listen_host) == 0 ||
                                             strcasecmp(uri->host, st->node_name) == 0));
}

/* ---- rdmactl peer add -------------------------------------------------------------------- */

struct adder {
    struct list node;
    plane_done *done;
    void *arg;
};

static void tell_adders(struct peer *p, const struct error *result) {
    struct list *node;
    while ((node = list_pop(&p->adders))) {
        struct adder *a = list_entry(node, struct adder, node);
        a->done(a->arg, result);
        free(a);
    }
}

void peer_is_up(struct peer *p) {
    p->stage = PEER_UP;
    LOG(INFO,
        ("peer %s at %s is up, %s, over %s", p->name, p->address,
         p->outgoing ? "dialled" : "accepted", peer_fabric(p)->name),
        FIELD_U64("PEER", p->id));
    liveness_update(p);
    tell_adders(p, &ok);
    if (p->outgoing) {
        claims_begin(p);
        asks_begin(p);
        chans_begin(p);
    }
}

struct peer *peers_dialled(struct peers *ps, const char *host, uint16_t port) {
    list_for_each (node, &ps->all) {
        struct peer *p = list_entry(node, struct peer, node);
        if (p->outgoing && !p->doomed && p->port == port && strcasecmp(p->host, host) == 0)
            return p;
    }
    return NULL;
}

static struct peer *dial_anew(struct peers *ps, const char *host, uint16_t port, uid_t uid,
                              struct error *err) {
    if (port == 0) {
        error_set(err, RDMAD_E_URI, "port 0 of %.100s cannot be dialled", host);
        return NULL;
    }
    struct peer *p = peer_new(ps, true);
    if (!p) {
        error_set(err, RDMAD_E_NOMEM, "out of memory for a peer");
        return NULL;
    }
    snprintf(p->host, sizeof(p->host), "%s", host);
    p->port = port;
    p->dialler = uid;
    rdmad_hostport_print(host, port, p->dialled, sizeof(p->dialled));
    snprintf(p->address, sizeof(p->address), "%.*s", (int)sizeof(p->address) - 1, p->dialled);
    if (room_make(p, err)) {
        peer_doom(p, err);
        return NULL;
    }
    dial_start(p);
    return p;
}

int peer_dial(struct peers *ps, const char *host, uint16_t port, uid_t uid, struct peer **out,
              struct error *err) {
    if (ps->stopping)
        return error_set(err, RDMAD_E_SHUTDOWN, "rdmad is stopping and dials nobody");
    *out = peers_dialled(ps, host, port);
    if (*out)
        dial_wanted_by(*out, uid);
    else
        *out = dial_anew(ps, host, port, uid, err);
    return *out ? 0 : err->code;
}

void peer_add(struct peers *ps, const char *host, uint16_t port, plane_done *done, void *arg) {
    struct error err;
    struct peer *p;
    struct adder *a = malloc(sizeof(*a));

    if (!a) {
        error_set(&err, RDMAD_E_NOMEM, "out of memory for a peer");
        done(arg, &err);
        return;
    }
    if (peer_dial(ps, host, port, PEER_NOBODY, &p, &err)) {
        free(a);
        done(arg, &err);
        return;
    }
    *a = (struct adder){.done = done, .arg = arg};
    list_append(&p->adders, &a->node);
    if (p->stage == PEER_UP)
        tell_adders(p, &ok);
}

/* ---- for show ---------------------------------------------------------------------------- */

void peers_view(struct peers *ps, void (*each)(void *arg, const struct peer_view *v), void *arg) {
    list_for_each (node, &ps->all) {
        struct peer *p = list_entry(node, struct peer, node);
        struct peer_view v = {
            .id = p->id,
            .direction = p->outgoing ? "out" : "in",
            .state = p->stage == PEER_UP     ? "up"
                     : p->stage == PEER_LOST ? "closing"
                                             : "connecting",
            .address = p->address,
            .node = p->name,
            .fabric = p->stage == PEER_UP ? peer_fabric(p)->name : "",
            .fabric_why = p->fabric_why,
            .attachments = p->outgoing ? p->claims.used : p->grants.used,
            .channels = p->chans,
            .since_ns = p->since_ns,
        };
        each(arg, &v);
    }
}

void links_view(struct peers *ps, void (*each)(void *arg, const struct link_view *v), void *arg) {
    list_for_each (node, &ps->all)
        lanes_each(list_entry(node, struct peer, node), each, arg);
}
