/* SPDX-License-Identifier: MIT */
/*
 * former.c - what an earlier connection of the same daemon has left here is ended before the next
 * is answered.
 *
 * A connection can be over at the daemon that dialled it long before we notice: the daemon was
 * killed and started again, or gave it up because it heard nothing. Bytes of it can still be on the
 * way, among them writes that the daemon has reported as of unknown outcome, or had no time to
 * report. If they arrived after writes of the next connection, they would overwrite newer data.
 *
 * So a HELLO is answered only when nothing is left of the connections that it replaces: they, their
 * links and the windows that they could use are closed, and the workers have said so. A connection
 * replaces those of earlier lives of its node, which the key of its life proves to be over
 * (base/life.h), and earlier connections of its own life with the same line, which only its dialler
 * can name. A made-up or repeated HELLO replaces nothing. A HELLO that arrives after a later one of
 * the same dialler is refused, and so is one that has waited for peer.dead_ms.
 */
#include "daemon/peer/connect/former.h"
#include "daemon/base/log.h"
#include "daemon/peer/control/conn.h"
#include <assert.h>
#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

void former_line(const struct peer *p, uint8_t line[PEER_LINE_BYTES]) {
    uint8_t hash[HASH_BYTES];
    struct {
        uint8_t secret[sizeof(p->peers->state->line_secret)];
        uint16_t port;
        char host[RDMAD_HOST_MAX + 1];
    } way;
    memset(&way, 0, sizeof(way));
    memcpy(way.secret, p->peers->state->line_secret, sizeof(way.secret));
    way.port = p->port;
    for (size_t i = 0; p->host[i]; i++) /* as peers_find_dialled tells them apart */
        way.host[i] = (char)tolower((unsigned char)p->host[i]);
    hash_bytes(&way, sizeof(way), hash);
    memcpy(line, hash, PEER_LINE_BYTES);
}

/* Whether q is an earlier connection of the life of p, by the same line. */
static bool former_goes_before(const struct peer *q, const struct peer *p) {
    return q != p && q->greeted && life_is(&q->life, &p->life) &&
           memcmp(q->line, p->line, sizeof(q->line)) == 0 && q->serial < p->serial;
}

/* Whether p replaces q; past is what p's life shows of those before. */
static bool former_replaces(const struct peer *p, const struct life_past *past,
                            const struct peer *q) {
    if (q->outgoing || !q->greeted)
        return false;
    return former_goes_before(q, p) ||
           (q->life.number < p->life.number && life_follows(past, &q->life));
}

static bool former_is_late(struct peer *p) {
    list_for_each (node, &p->peers->all) {
        const struct peer *q = list_entry(node, struct peer, node);
        if (!former_goes_before(p, q))
            continue;
        peer_refuse(p, RDMAD_E_PEER_LOST, "a later connection of this daemon is here already");
        return true;
    }
    return false;
}

static void former_expel(struct peer *q, const struct peer *p) {
    if (q->stage == PEER_LOST || q->ending)
        return;
    LOG_LIMITED_OF(
        peer_log(q), INFO,
        ("%s at %s has connected anew from %s: what is left of its former connection ends", q->name,
         q->address, p->address),
        FIELD_U64("PEER", q->id));
    peer_refuse(q, RDMAD_E_PEER_LOST, "its daemon has connected anew");
}

/* Ends all that p replaces. Returns one of which something is left; NULL: nothing is left of any.
 */
static struct peer *former_expel_all(struct peer *p) {
    struct life_past past;
    struct peer *left = NULL;
    life_recall(&p->life, &past);
    list_for_each (node, &p->peers->all) {
        struct peer *q = list_entry(node, struct peer, node);
        if (!former_replaces(p, &past, q))
            continue;
        former_expel(q, p);
        if (!peer_is_spent(q))
            left = q;
    }
    return left;
}

bool former_gone(struct peer *p) {
    assert(p->stage == PEER_WAITING && p->go_on && list_empty(&p->waiter_node));
    if (former_is_late(p))
        return false;
    struct peer *left = former_expel_all(p);
    if (left)
        list_append(&left->waiters, &p->waiter_node);
    return !left;
}
