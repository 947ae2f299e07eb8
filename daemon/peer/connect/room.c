/* SPDX-License-Identifier: MIT */
/*
 * room.c - which connections stay when there are too many.
 *
 * Half of peer.max is for peers that connect to us, half for those that we dial, so neither keeps
 * the other out. Of its half, one source has at most half of what the other sources leave free: the
 * first gets half, the second a quarter, and there is always a place for another. A source is an
 * address (of IPv6 a /64 network), or the user of ours for whom we dial. When all places are taken
 * all the same, the source that has most gives one to a source that would have less: first a
 * connection that is not in use, then one that only watches names, and its newest in the end.
 * A connection that is not in use may go whoever's it is, since a daemon dials again when it needs
 * one.
 *
 * Descriptors may run out before places do. The last of them are for clients of this daemon: a peer
 * that would take one of those is not let in, and an idle connection goes to make room for the
 * next.
 *
 * Connections that have not said hello have places of their own. When those are taken, the source
 * that has most of them loses its oldest, of those first that have never answered us: neither a
 * slow peer nor one at the same address is locked out by one that opens many.
 */
#include "daemon/peer/connect/room.h"
#include "daemon/base/upper_fd.h"
#include "daemon/peer/control/conn.h"
#include "daemon/peer/control/handshake.h"
#include <assert.h>
#include <inttypes.h>
#include <string.h>

#define ROOM_WAITING_MAX (2 * PEER_UNGREETED_MAX) /* accept.c lets no more in */

/* A peer that connects is known by its address, one that we dial by the user who wanted it. */
static bool room_same_source(const struct peer *a, const struct peer *b) {
    if (a->outgoing)
        return user_id_same(a->dialler, b->dialler);
    return memcmp(&a->source, &b->source, sizeof(a->source)) == 0;
}

static bool room_has_place(const struct peer *p, bool outgoing) {
    return p->outgoing == outgoing && !p->ending && !peer_is_ungreeted(p) && p->stage != PEER_LOST;
}

static unsigned room_places(const struct peers *ps) {
    return (unsigned)((ps->state->config->max_peers + 1) / 2);
}

static unsigned room_taken(const struct peer *newcomer, bool by_its_source) {
    unsigned n = 0;
    list_for_each (node, &newcomer->peers->all) {
        const struct peer *p = list_entry(node, struct peer, node);
        n += p != newcomer && room_has_place(p, newcomer->outgoing) &&
             (!by_its_source || room_same_source(p, newcomer));
    }
    return n;
}

/* How ready a connection is to go; 0: only when its source has too many. */
static unsigned room_idleness(const struct peer *p) {
    if (p->stage != PEER_UP)
        return 0;
    if (!p->used)
        return 2;
    return !peer_is_relied_on(p);
}

/* The oldest of the most idle ones, of newcomer's source or of all; NULL: all are needed. */
static struct peer *room_idlest(const struct peer *newcomer, bool of_its_source) {
    struct peer *found = NULL;
    list_for_each (node, &newcomer->peers->all) {
        struct peer *p = list_entry(node, struct peer, node);
        if (p != newcomer && room_has_place(p, newcomer->outgoing) && room_idleness(p) &&
            (!of_its_source || room_same_source(p, newcomer)) &&
            (!found || room_idleness(p) > room_idleness(found)))
            found = p;
    }
    return found;
}

/* The newest of the source that has most places, if that is more than newcomer's would have. */
static struct peer *room_newest_of_greediest(const struct peer *newcomer) {
    unsigned most = room_taken(newcomer, true) + 1;
    struct peer *found = NULL;
    list_for_each (node, &newcomer->peers->all) {
        struct peer *p = list_entry(node, struct peer, node);
        if (p == newcomer || !room_has_place(p, newcomer->outgoing))
            continue;
        unsigned n = room_taken(p, true) + 1;
        if (n > most || (found && room_same_source(p, found))) {
            most = n;
            found = p;
        }
    }
    return found;
}

static void room_give_way(struct peer *p) {
    const struct state *st = p->peers->state;
    if (!p->used)
        peer_refuse(p, RDMAD_OK, "nobody uses it");
    else if (room_idleness(p))
        peer_refuse(p, RDMAD_E_LIMIT,
                    "you only watch names here, and %s has as many peers as its peer.max, %" PRIu64
                    ", allows: another needs the room",
                    st->node_name, st->config->max_peers);
    else
        peer_refuse(p, RDMAD_E_LIMIT,
                    "%s has as many peers as its peer.max, %" PRIu64
                    ", allows, and your address more of them than others: another needs the room",
                    st->node_name, st->config->max_peers);
}

/* Gives p a place within what its source may have, perhaps that of another peer of the source. */
static bool room_fits_share(const struct peer *p, unsigned free, struct error *err) {
    const struct state *st = p->peers->state;
    unsigned own = room_taken(p, true), share = (free + own) / 2;
    struct peer *idle;
    if (own < share || own == 0 || (p->outgoing && user_id_same(p->dialler, PEER_NOBODY)))
        return true;
    if ((idle = room_idlest(p, true))) {
        room_give_way(idle);
        return true;
    }
    if (p->outgoing)
        error_set(
            err, RDMAD_E_LIMIT,
            "%u daemons are dialled for uid %u, which is its share of half of peer.max (%" PRIu64
            "); release leases of some first",
            own, (unsigned)p->dialler.uid, st->config->max_peers);
    else
        error_set(err, RDMAD_E_LIMIT,
                  "%u daemons are connected to %s from %s, which is its share of half of peer.max "
                  "(%" PRIu64 "); end some of them, or raise peer.max at %s",
                  own, st->node_name, p->ip, st->config->max_peers, st->node_name);
    return false;
}

int room_make(struct peer *p, struct error *err) {
    const struct state *st = p->peers->state;
    assert(p->outgoing ? p->stage == PEER_CONNECTING : p->stage == PEER_WAITING);
    unsigned all = room_places(p->peers), used = room_taken(p, false);
    if (!room_fits_share(p, used < all ? all - used : 0, err))
        return err->code;
    if (room_taken(p, false) < all)
        return 0;
    struct peer *other = room_idlest(p, false);
    if (!other && !p->outgoing)
        other = room_newest_of_greediest(p);
    if (!other)
        return error_set(err, RDMAD_E_LIMIT,
                         "%u daemons are %s, half of peer.max is %u (peer.max is %" PRIu64
                         "), and none is idle; release leases of some first",
                         used, p->outgoing ? "dialled" : "connected", all, st->config->max_peers);
    room_give_way(other);
    return 0;
}

/* ---- those that have not said hello
 * ----------------------------------------------------------------------------- */

/* Also those that have said hello, and wait for the end of a former connection. */
static bool room_waits(const struct peer *p) {
    return peer_is_ungreeted(p) && !p->ending;
}

/* Oldest first. They are few, whoever else is connected. */
static unsigned room_waiting(const struct peers *ps, struct peer *out[ROOM_WAITING_MAX]) {
    unsigned n = 0;
    list_for_each (node, &ps->all) {
        struct peer *p = list_entry(node, struct peer, node);
        if (n < ROOM_WAITING_MAX && room_waits(p))
            out[n++] = p;
    }
    return n;
}

static unsigned room_count_of(const struct peer *one, struct peer *const waiting[],
                              unsigned count) {
    unsigned n = 0;
    for (unsigned i = 0; i < count; i++)
        n += room_same_source(waiting[i], one);
    return n;
}

/* Its end of a handshake, which takes more than to open a connection, or a hello. */
static bool room_has_answered(const struct peer *p) {
    return p->secured || p->greeted || handshake_has_reply(p);
}

void room_drop_ungreeted(struct peer *newcomer) {
    struct peer *waiting[ROOM_WAITING_MAX], *found = NULL;
    unsigned most = 0, count = room_waiting(newcomer->peers, waiting);
    for (unsigned i = 0; i < count; i++) {
        struct peer *p = waiting[i];
        unsigned n = p == newcomer ? 0 : room_count_of(p, waiting, count);
        if (n > most || (found && n == most && room_same_source(p, found) &&
                         room_has_answered(found) && !room_has_answered(p))) {
            most = n;
            found = p;
        }
    }
    if (found)
        peer_refuse(found, RDMAD_E_LIMIT, "too many connections that do not say hello");
}

/* ---- descriptors --------------------------------------------------------------------------- */

bool room_has_descriptor(const struct peers *ps, int fd) {
    uint64_t bound = ps->state->descriptors;
    return !bound || upper_fd_is_below(fd, bound);
}

void room_shed_idle(struct peers *ps) {
    struct peer *found = NULL;
    list_for_each (node, &ps->all) {
        struct peer *p = list_entry(node, struct peer, node);
        if (!p->ending && room_idleness(p) && (!found || room_idleness(p) > room_idleness(found)))
            found = p;
    }
    if (found)
        peer_refuse(found, RDMAD_OK, "nobody uses it, and %s has few descriptors left",
                    ps->state->node_name);
}
