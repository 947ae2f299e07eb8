/* SPDX-License-Identifier: MIT */
/*
 * record.c - records of peers: made, needed, found, freed.
 *
 * A peer is freed when its connection is gone and nothing of it is left: nothing above that needed
 * it, no callback under way.
 */
#include "daemon/peer/control/record.h"
#include "daemon/base/address.h"
#include "daemon/base/clock.h"
#include "daemon/base/log_limit.h"
#include <arpa/inet.h>
#include <assert.h>
#include <errno.h>
#include <event2/event.h>
#include <stdio.h>
#include <strings.h>

/* Output that waits for a peer to read: well above the largest burst of our own, one message for
 * each attach that it may have. */
#define OUTPUT_MIN (4u * 1024u * 1024u)
#define OUTPUT_EACH 1024u

static size_t record_output_max(const struct state *st) {
    size_t burst = (size_t)(uint32_t)st->config->max_peer_attaches * OUTPUT_EACH;
    return burst > OUTPUT_MIN ? burst : OUTPUT_MIN;
}

static void record_end_comes(evutil_socket_t fd, short what, void *arg) {
    struct peer *p = arg;
    (void)fd;
    (void)what;
    assert(p->ending && p->stage != PEER_LOST);
    p->peers->ops->lose(p);
}

struct peer *peer_new(struct peers *ps, bool outgoing) {
    struct peer *p = ps->ops->make(ps);
    if (!p)
        return NULL;
    p->peers = ps;
    p->end_event = event_new(ps->state->base, -1, 0, record_end_comes, p);
    if (!p->end_event) {
        ps->ops->free(p);
        return NULL;
    }
    p->id = ps->next_id++;
    p->outgoing = outgoing;
    p->stage = outgoing ? PEER_CONNECTING : PEER_GREETING;
    ps->ungreeted += !outgoing;
    p->since_ns = state_now(ps->state);
    p->output_max = record_output_max(ps->state);
    list_init(&p->askers);
    list_init(&p->turn_node);
    list_init(&p->judge_node);
    list_init(&p->shown_node);
    list_init(&p->waiters);
    list_init(&p->waiter_node);
    slots_init(&p->asks, PEER_ASKS_MAX);
    list_append(&ps->all, &p->node);
    ps->count++;
    return p;
}

void peer_enter(struct peer *p, enum peer_stage stage) {
    static const unsigned from[] = {
        [PEER_GREETING] = 1u << PEER_CONNECTING,
        [PEER_WAITING] = 1u << PEER_GREETING,
        [PEER_UP] = 1u << PEER_GREETING | 1u << PEER_WAITING,
        [PEER_LOST] =
            1u << PEER_CONNECTING | 1u << PEER_GREETING | 1u << PEER_WAITING | 1u << PEER_UP,
    };
    assert(from[stage] & 1u << p->stage);
    p->peers->ungreeted -= peer_is_ungreeted(p);
    p->stage = stage;
    p->peers->ungreeted += peer_is_ungreeted(p);
}

/* ---- who needs it ------------------------------------------------------------------------ */

void peer_need(struct peer *p, enum peer_need need) {
    p->needs[need]++;
}

void peer_unneed(struct peer *p, enum peer_need need) {
    assert(p->needs[need]);
    p->needs[need]--;
}

bool peer_is_needed(const struct peer *p) {
    return p->needs[PEER_NEED_ACCESS] || p->needs[PEER_NEED_FIRM] || p->needs[PEER_NEED_LOOSE];
}

bool peer_is_relied_on(const struct peer *p) {
    return p->outgoing || p->needs[PEER_NEED_ACCESS] || p->needs[PEER_NEED_FIRM];
}

bool peer_is_spent(const struct peer *p) {
    return p->stage == PEER_LOST && !p->holds && !p->needs[PEER_NEED_ACCESS];
}

bool peer_is_ungreeted(const struct peer *p) {
    return !p->outgoing && (p->stage == PEER_GREETING || p->stage == PEER_WAITING);
}

void peer_hold(struct peer *p) {
    p->holds++;
}

void peer_release(struct peer *p) {
    assert(p->holds);
    p->holds--;
    peer_check_free(p);
}

static void record_wake_waiters(struct peer *p) {
    struct list *node;
    if (!peer_is_spent(p))
        return;
    while ((node = list_pop(&p->waiters))) {
        struct peer *waiter = list_entry(node, struct peer, waiter_node);
        waiter->go_on(waiter);
    }
}

void peer_check_free(struct peer *p) {
    struct peers *ps = p->peers;
    record_wake_waiters(p);
    if (p->stage != PEER_LOST || p->holds || peer_is_needed(p))
        return;
    assert(!p->asks.used && list_empty(&p->askers) && list_empty(&p->waiters));
    list_remove(&p->node);
    ps->count--;
    slots_fini(&p->asks);
    event_free(p->end_event);
    assert(!p->rates);
    ps->ops->free(p);
}

/* ---- which it is ------------------------------------------------------------------------- */

struct peer *peers_find_dialled(struct peers *ps, const char *host, uint16_t port) {
    list_for_each (node, &ps->all) {
        struct peer *p = list_entry(node, struct peer, node);
        if (p->outgoing && !p->ending && p->port == port && strcasecmp(p->host, host) == 0)
            return p;
    }
    return NULL;
}

const struct fabric_ops *peer_fabric(const struct peer *p) {
    return plane_fabric(p->peers->state->plane, p->fabric);
}

void peer_note_address(struct peer *p, const struct sockaddr *sa) {
    const struct sockaddr_in *v4 = (const struct sockaddr_in *)sa;
    const struct sockaddr_in6 *v6 = (const struct sockaddr_in6 *)sa;
    bool six = sa->sa_family == AF_INET6;
    const void *ip = six ? (const void *)&v6->sin6_addr : (const void *)&v4->sin_addr;
    unsigned port = ntohs(six ? v6->sin6_port : v4->sin_port);

    if (!inet_ntop(sa->sa_family, ip, p->ip, sizeof(p->ip)))
        p->ip[0] = '\0';
    snprintf(p->address, sizeof(p->address), six ? "[%s]:%u" : "%s:%u", p->ip, port);
}

struct audit_who peer_who(const struct peer *p) {
    return audit_peer(p->certificate.name, p->address);
}

uint64_t peer_log(const struct peer *p) {
    if (p->certificate.name[0])
        return log_of_name(p->certificate.name);
    if (p->outgoing && !p->name[0] && p->dialler.uid != PEER_NOBODY.uid)
        return log_of_user(p->dialler);
    struct in6_addr source = address_source(p->ip);
    return log_of_bytes(&source, sizeof(source));
}

const char *peer_text(const struct peer *p, char buf[PEER_TEXT]) {
    snprintf(buf, PEER_TEXT, "peer %s%sat %s", p->name, p->name[0] ? " " : "", p->address);
    return buf;
}

static bool peer_is_stranger(const struct peer *p) {
    return !p->outgoing && !p->greeted && !p->certificate.name[0];
}

void peer_why_closed(const struct peer *p, struct error *why) {
    error_set(why, RDMAD_E_PEER_LOST,
              peer_is_stranger(p) ? "a connection from %s that never said who it is was closed"
                                  : "the daemon at %s closed the connection",
              p->address);
}

void peer_why_broke(const struct peer *p, int system_error, struct error *why) {
    errno = system_error;
    error_errno(why, RDMAD_E_PEER_LOST,
                peer_is_stranger(p) ? "a connection from %s that never said who it is broke"
                                    : "the connection to the daemon at %s broke",
                p->address);
}
