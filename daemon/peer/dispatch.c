/* SPDX-License-Identifier: MIT */
/*
 * dispatch.c - which message goes to whom: one table.
 *
 * wire/ has judged the message already: its length, its fields, and that it comes from the side
 * that may send it. Until hello was said both ways there is nothing but HELLO and BYE.
 */
#include "daemon/peer/dispatch.h"
#include "daemon/peer/channel/chan_accept.h"
#include "daemon/peer/channel/chan_alive.h"
#include "daemon/peer/channel/chan_connect.h"
#include "daemon/peer/channel/chan_peer.h"
#include "daemon/peer/connect/hello.h"
#include "daemon/peer/connect/renewed.h"
#include "daemon/peer/control/conn.h"
#include "daemon/peer/lane/lane.h"
#include "daemon/peer/lane/offer.h"
#include "daemon/peer/lessee/attach.h"
#include "daemon/peer/lessee/key.h"
#include "daemon/peer/lessee/part.h"
#include "daemon/peer/lessee/return.h"
#include "daemon/peer/lessee/told.h"
#include "daemon/peer/names/answer.h"
#include "daemon/peer/names/question.h"
#include "daemon/peer/owner/grant.h"
#include "daemon/peer/owner/lend.h"
#include "daemon/peer/owner/opening.h"
#include "daemon/peer/tables.h"
#include "daemon/peer/wire/wire.h"
#include <assert.h>

static void dispatch_bye(struct peer *p, const struct peer_msg *msg) {
    const struct peer_bye *m = &msg->bye;
    struct error why;
    bool greeting = p->stage == PEER_GREETING;
    /* Before hello the peer's reason is the answer; later, what matters is that it left. */
    error_set(&why, greeting && m->code ? m->code : RDMAD_E_PEER_LOST, "%s at %s said: %s",
              p->name[0] ? p->name : "the daemon", p->address,
              m->text[0] ? m->text : error_text(m->code));
    bool leaves = m->code == RDMAD_E_SHUTDOWN;
    if (!greeting && leaves && return_rest(p, &why))
        return;
    if (!greeting && !leaves && m->code)
        tables_of(p)->returning.unwanted = true;
    p->unused = !greeting && !m->code && !p->used;
    peer_end(p, &why);
}

static void dispatch_ping(struct peer *p, const struct peer_msg *msg) {
    struct peer_msg pong = {.type = PEER_MSG_PONG, .ping = msg->ping};
    peer_send(p, &pong);
}

static void dispatch_pong(struct peer *p, const struct peer_msg *msg) {
    (void)p; /* that it came is what counts */
    (void)msg;
}

static void dispatch_second_hello(struct peer *p, const struct peer_msg *msg) {
    (void)msg;
    peer_refuse(p, RDMAD_E_PROTOCOL, "a second HELLO");
}

/* Of a peer that is UP. */
static peer_handler *const table[PEER_MSG_COUNT] = {
    [PEER_MSG_HELLO] = dispatch_second_hello,
    [PEER_MSG_BYE] = dispatch_bye,
    [PEER_MSG_PING] = dispatch_ping,
    [PEER_MSG_PONG] = dispatch_pong,
    [PEER_MSG_ATTACH_REQ] = opening_take_attach_req,
    [PEER_MSG_ATTACH_REP] = attach_take_rep,
    [PEER_MSG_RELEASE] = grant_take_release,
    [PEER_MSG_REVOKED] = told_take_revoked,
    [PEER_MSG_STOPPED] = grant_take_stopped,
    [PEER_MSG_RENEWED] = told_take_renewed,
    [PEER_MSG_TTL_REQ] = grant_take_ttl_req,
    [PEER_MSG_TTL_REP] = told_take_ttl_rep,
    [PEER_MSG_LINK_REQ] = offer_take_link_req,
    [PEER_MSG_LINK_REP] = lane_take_link_rep,
    [PEER_MSG_KEY_REQ] = opening_take_key_req,
    [PEER_MSG_KEY_REP] = key_take_rep,
    [PEER_MSG_LINK_GONE] = offer_take_link_gone,
    [PEER_MSG_CHAN_REQ] = chan_take_req,
    [PEER_MSG_CHAN_AGAIN] = chan_take_again,
    [PEER_MSG_CHAN_REFUSE] = chan_take_refuse,
    [PEER_MSG_CHAN_BIND] = chan_take_bind,
    [PEER_MSG_CHAN_OPEN] = chan_take_open,
    [PEER_MSG_CHAN_END] = chan_take_end,
    [PEER_MSG_CHAN_ALIVE] = chan_take_alive,
    [PEER_MSG_DELEGATE_REQ] = lend_take_delegate_req,
    [PEER_MSG_DELEGATE_REP] = part_take_delegate_rep,
    [PEER_MSG_REQUEST_REQ] = lend_take_request_req,
    [PEER_MSG_NAMES_REQ] = answer_take_names_req,
    [PEER_MSG_NAMES_REP] = question_take_names_rep,
    [PEER_MSG_WATCH_REQ] = answer_take_watch_req,
    [PEER_MSG_UNWATCH] = answer_take_unwatch,
    [PEER_MSG_NAME_EV] = question_take_name_ev,
    [PEER_MSG_WATCH_MORE] = answer_take_watch_more,
    [PEER_MSG_USED] = grant_take_used,
    [PEER_MSG_KEEP_REQ] = lend_take_keep_req,
    [PEER_MSG_KEEP_REP] = told_take_keep_rep,
    [PEER_MSG_CERTIFICATE] = renewed_take,
};

void dispatch_message(struct peer *p, const struct peer_msg *m) {
    assert(m->type < PEER_MSG_COUNT && table[m->type]); /* wire/ knows it */
    if (p->stage == PEER_UP) {
        table[m->type](p, m);
        p->told = false; /* it is about this message alone */
    } else if (m->type == PEER_MSG_HELLO)
        hello_take(p, m);
    else if (m->type == PEER_MSG_BYE)
        dispatch_bye(p, m);
    else
        peer_refuse(p, RDMAD_E_PROTOCOL, "a %s before HELLO", peer_wire_name(m->type));
}
