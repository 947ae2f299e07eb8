/* SPDX-License-Identifier: MIT */
/*
 * hello.c - who the other daemon is, and whether we fit together.
 *
 * The dialler says hello first, the acceptor answers with its own; then both are up. When there is
 * no version or no fabric in common (agree.c), or no place for one more peer (room.c), the answer
 * is BYE with the reason, which the dialler hands to whoever wanted the connection. A daemon that
 * has dialled itself under another name notices by the node id. Where this node has an identity,
 * all of that is said over TLS, and both names are those of certificates (certificate.c). Our
 * answer to a dialler waits for the end of what it had here before (former.c).
 */
#include "daemon/peer/connect/hello.h"
#include "daemon/peer/connect/agree.h"
#include "daemon/peer/connect/certificate.h"
#include "daemon/peer/connect/former.h"
#include "daemon/peer/connect/join.h"
#include "daemon/peer/connect/judge.h"
#include "daemon/peer/connect/renewed.h"
#include "daemon/peer/connect/rights.h"
#include "daemon/peer/connect/room.h"
#include "daemon/peer/control/conn.h"
#include "daemon/peer/control/liveness.h"
#include <assert.h>
#include <string.h>

static void hello_send(struct peer *p) {
    const struct state *st = p->peers->state;
    struct peer_msg m = {.type = PEER_MSG_HELLO};
    m.hello.magic = PEER_WIRE_MAGIC;
    m.hello.listen_port = st->listen_port;
    memcpy(m.hello.node_id, st->node_id, sizeof(m.hello.node_id));
    m.hello.life = st->life;
    m.hello.serial = p->id;
    m.hello.newest = p->version ? p->version : peer_versions.highest;
    if (p->outgoing)
        former_line(p, m.hello.line);
    memcpy(m.hello.node, st->node_name, sizeof(m.hello.node));
    agree_offer(p->peers, &m.hello);
    peer_send(p, &m);
}

void hello_begin(struct peer *p) {
    if (p->joins) {
        join_take(p);
        return;
    }
    if (p->secured && !certificate_take(p))
        return;
    judge_begin(p);
    if (p->outgoing)
        hello_send(p);
}

/* Both ends have said hello. */
static void hello_said(struct peer *p) {
    peer_enter(p, PEER_UP);
    renewed_tell(p);
    p->peers->ops->up(p);
}

/* WAITING, and something of what it replaces is gone. */
static void hello_go_on(struct peer *p) {
    struct error why;
    assert(p->stage == PEER_WAITING);

    if (p->ending || !former_gone(p))
        return;
    if (rights_to_place(p, &why) || room_make(p, &why)) {
        peer_refuse(p, why.code, "%s", why.text);
        return;
    }
    hello_send(p);
    hello_said(p);
}

/* Of a connection that we accepted. */
static void hello_of_dialler(struct peer *p, const struct peer_hello *hello) {
    struct error why;
    if (p->stage == PEER_WAITING) {
        peer_refuse(p, RDMAD_E_PROTOCOL, "a second HELLO");
        return;
    }
    peer_enter(p, PEER_WAITING);
    p->go_on = hello_go_on;
    p->greeted = true;
    p->life = hello->life;
    p->serial = hello->serial;
    memcpy(p->line, hello->line, sizeof(p->line));
    if (rights_to_connect(p, &why)) {
        peer_refuse(p, why.code, "%s", why.text);
        return;
    }
    if (!agree_on(p, hello))
        return;
    liveness_wait(p);
    hello_go_on(p);
}

/* The connection is of no use, unless a lease is wanted that is reached by link only (self.c). */
static void hello_of_self(struct peer *p) {
    struct error why;
    if (p->peers->ops->self(p)) {
        p->is_self = true;
        hello_said(p);
        return;
    }
    error_set(&why, RDMAD_E_INVAL, "%s is this very daemon", p->dialled);
    peer_end(p, &why);
}

/* The id alone is no proof: our own HELLO has just told it. */
static bool hello_is_ours(const struct peer *p, const struct peer_hello *hello) {
    const struct state *st = p->peers->state;
    return memcmp(hello->node_id, st->node_id, sizeof(st->node_id)) == 0 &&
           (!p->secured || strcmp(p->certificate.name, st->node_name) == 0);
}

void hello_take(struct peer *p, const struct peer_msg *msg) {
    const struct peer_hello *hello = &msg->hello;
    struct error why;

    assert(p->stage == PEER_GREETING || p->stage == PEER_WAITING);
    if (!agree_on_version(p, hello))
        return;
    if (!certificate_names(p, hello->node))
        return;
    memcpy(p->name, hello->node, sizeof(p->name));
    memcpy(p->node_id, hello->node_id, sizeof(p->node_id));
    if (!p->outgoing)
        hello_of_dialler(p, hello);
    else if (hello_is_ours(p, hello))
        hello_of_self(p);
    else if (rights_to_connect(p, &why))
        peer_refuse(p, why.code, "%s", why.text);
    else if (agree_on(p, hello))
        hello_said(p);
}
