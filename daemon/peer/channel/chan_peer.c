/* SPDX-License-Identifier: MIT */
/*
 * chan_peer.c - what becomes of the channels with a peer: it is UP, it is this very daemon, it says
 * that one has ended, it is lost.
 */
#include "daemon/peer/channel/chan_peer.h"
#include "daemon/peer/channel/chan.h"
#include "daemon/peer/channel/chan_accept.h"
#include "daemon/peer/channel/chan_connect.h"
#include "daemon/peer/control/admit.h"
#include "daemon/peer/tables.h"
#include <assert.h>

void chans_begin(struct peer *p) {
    struct error why;
    assert(p->stage == PEER_UP);
    list_for_each_safe (node, &tables_of(p)->chans_out) {
        struct chan *c = list_entry(node, struct chan, out_node);
        if (c->stage == CHAN_WAITING && admit_session(p, c->channel->session, &why))
            chan_fail(c, &why);
        else if (c->stage == CHAN_WAITING)
            chan_ask(c);
        else if (c->stage == CHAN_DIALLING)
            chan_bind_back(c);
    }
}

void chans_become_local(struct peer *p) {
    struct error err;
    list_for_each_safe (node, &tables_of(p)->chans_out) {
        struct chan *c = list_entry(node, struct chan, out_node);
        if (!c->acceptor) {
            chan_become_local(c);
            continue;
        }
        error_set(&err, RDMAD_E_UNREACHABLE,
                  "the address that %s gave to dial back is that of this very daemon", c->in->name);
        chan_fail(c, &err);
    }
}

/* The way of a peer that gives up connecting, and does not know our number yet. */
static struct chan *chan_of_asker(struct peer *p, uint64_t ref) {
    list_for_each (node, &tables_of(p)->chans_in) {
        struct chan *c = list_entry(node, struct chan, in_node);
        if (c->acceptor && c->other == ref && c->stage != CHAN_LIVE)
            return c;
    }
    return NULL;
}

/* What the end of c's way is to its program, for what its peer says. Who connects is told why it
 * does not come to a channel; whoever accepts asks nobody, and has only to hear that this one does
 * not come: an accept ends for what is wrong here, and with CLOSED if its service was closed. */
static int chan_reason(const struct chan *c, int said) {
    bool open = c->stage >= CHAN_LIVE;
    if (said == RDMAD_E_CANCELED || (said == RDMAD_E_CLOSED && (open || c->again || !c->acceptor)))
        return said;
    return open || c->acceptor ? RDMAD_E_PEER_LOST : said;
}

void chan_take_end(struct peer *p, const struct peer_msg *msg) {
    const struct peer_chan_end *m = &msg->chan_end;
    struct chan *c = m->mine ? chan_of_asker(p, m->ref) : chan_by_number(p, m->ref);
    bool known = m->reason == RDMAD_E_CLOSED || m->reason == RDMAD_E_CANCELED;
    struct error why;
    if (!c || (c->in != p && c->out != p))
        return;
    c->other_gone = true;
    if (c->stage == CHAN_OFFERED) {
        incoming_withdraw(&c->incoming);
        chan_free(c);
        return;
    }
    error_set(&why, known ? m->reason : RDMAD_E_PEER_LOST, "%s", m->text);
    if (!known && chan_leave(c, &why))
        return;
    channel_end(c->channel, chan_reason(c, m->reason), m->text);
}

/* The way ends, since one of its connections is lost: maybe by what its peer says in a BYE, which
 * an accept believes if it is that the peer is not reached. */
static void chan_lose(struct chan *c, const struct error *lost) {
    bool young = c->stage == CHAN_WAITING || c->stage == CHAN_DIALLING;
    bool told = young && (!c->acceptor || lost->code == RDMAD_E_UNREACHABLE);
    if (c->stage == CHAN_OFFERED) {
        incoming_withdraw(&c->incoming);
        chan_free(c);
        return;
    }
    if (!chan_leave(c, lost))
        channel_end(c->channel, told ? lost->code : RDMAD_E_PEER_LOST, lost->text);
}

void chans_lose(struct peer *p, const struct error *why) {
    struct error lost = *why;
    assert(p->stage == PEER_LOST);
    if (lost.code == RDMAD_OK)
        lost.code = RDMAD_E_PEER_LOST;
    list_for_each_safe (node, &tables_of(p)->chans_out)
        chan_lose(list_entry(node, struct chan, out_node), &lost);
    list_for_each_safe (node, &tables_of(p)->chans_in)
        chan_lose(list_entry(node, struct chan, in_node), &lost);
}
