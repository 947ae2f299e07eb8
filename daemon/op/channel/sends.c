/* SPDX-License-Identifier: MIT */
/*
 * sends.c - the SENDs of a channel: waiting for a receive, on their way, acknowledged.
 *
 * The happy path: send_take queues it (waiting); when the receiver's limit allows, sends_run gives
 * it a number and carries it (sent); a state whose next is beyond ends it (leaving, until neither
 * the fabric nor a window has its buffer).
 *
 * Going back: what the receiver refused, or may not have had before a new link, returns to the
 * front of waiting and gives up its number.
 *
 * A cancelled SEND that waits ends at once. One on its way can only be asked back (a large one), or
 * its fate be waited for: CHANNEL_SETTLE_NS at most, then the fabric is made to let go of the
 * buffer, the window is closed, and it ends UNKNOWN; its number stays behind without an op until
 * the receiver's state passes it. Within one daemon the answer always comes, and is waited for,
 * because only then the other worker is known to have let go of the buffer.
 */
#include "daemon/op/channel/sends.h"
#include "daemon/op/channel/carry.h"
#include "daemon/op/channel/core.h"
#include "daemon/op/channel/sync.h"
#include "daemon/op/engine/life.h"
#include "daemon/op/engine/user.h"
#include <assert.h>

#define BUDGET 64u           /* messages in a turn of the channel */
#define BUDGET_BYTES 262144u /* and of these in small ones */
#define AHEAD 8u             /* windows that are opened for messages still waiting */
#define LIMIT_MAX (UINT64_C(1) << 32)

void send_posted(struct op_send *s, const struct fabric_op *fop) {
    if (fop->status == RDMAD_E_FAULT && !s->cancel)
        s->cancel = RDMAD_E_FAULT;
    send_settle(s);
}

/* ---- what the other end says ------------------------------------------------------------- */

static void acknowledge(struct op_channel *ch, const struct channel_state *st) {
    for (struct list *pos; (pos = list_first(&ch->out.sent));) {
        struct op_send *s = list_entry(pos, struct op_send, node);
        if (s->seq >= st->next)
            return;
        uint64_t back = st->next - 1 - s->seq;
        uint64_t bit = back < CHANNEL_KEEPS_UP ? UINT64_C(1) << back : 0;
        if (st->small & bit)
            send_over(s, RDMAD_E_TOO_SMALL, RDMAD_FAILED_UNTOUCHED);
        else if (st->gone & bit)
            send_over(s, s->cancel ? s->cancel : RDMAD_E_FAULT, RDMAD_FAILED_UNTOUCHED);
        else
            send_over(s, RDMAD_OK, RDMAD_DONE);
    }
}

/* The receiver takes number expect next, and nothing that was sent before. */
static void go_back(struct op_channel *ch, uint64_t expect) {
    for (struct list *pos = ch->out.sent.prev, *before; pos != &ch->out.sent; pos = before) {
        struct op_send *s = list_entry(pos, struct op_send, node);
        before = pos->prev;
        if (s->seq < expect)
            break;
        send_return(s);
        if (!s->op)
            send_free(s);
        else if (s->cancel)
            send_over(s, s->cancel, RDMAD_FAILED_UNTOUCHED);
    }
    ch->out.next_seq = expect;
}

static const char *state_judge(const struct op_channel *ch, const struct channel_state *st,
                               bool back) {
    if (st->next < ch->out.acked || st->expect > ch->out.next_seq)
        return "it acknowledges what was never sent, or takes an acknowledgement back";
    if (!back && (st->expect < ch->out.expect || st->limit < ch->out.limit))
        return "it takes back a receive without a refusal";
    if (st->limit - st->expect > LIMIT_MAX)
        return "it has more receives than there can be";
    if (st->heard > ch->in.state.next || st->heard < ch->in.heard)
        return "it heard of what was never said";
    return NULL;
}

const char *sends_state(struct op_channel *ch, const struct channel_state *st) {
    bool synced = sync_echoed(ch, st);
    bool back = synced || st->refusals != ch->out.refusals;
    const char *wrong = state_judge(ch, st, back);
    if (wrong)
        return wrong;
    acknowledge(ch, st);
    if (st->next > ch->out.acked && (st->small || st->gone))
        ch->due.state = true; /* that we heard of it */
    ch->out.acked = st->next;
    ch->out.expect = st->expect;
    ch->out.limit = st->limit;
    ch->out.refusals = st->refusals;
    if (synced) {
        sync_done(ch);
        counter_add(&ch->stats->resent, ch->out.next_seq - st->expect);
    }
    if (back)
        go_back(ch, st->expect);
    if (synced)
        channel_anew(ch);
    return NULL;
}

/* Of those that wait, a window have some that were sent before, or may soon be. As many were before
 * them at most, and no others come there. */
unsigned sends_rekey(struct op_channel *ch) {
    unsigned looked = 1, waiting = 0;
    list_for_each (pos, &ch->out.sent) {
        looked++;
        struct op_send *s = list_entry(pos, struct op_send, node);
        send_owe(s, !s->large         ? SEND_DUE_NOTHING
                    : s->cancel       ? SEND_DUE_WITHDRAW
                    : s->wants_window ? SEND_DUE_KEY
                                      : SEND_DUE_NOTHING);
        send_settle(s);
    }
    list_for_each_safe (pos, &ch->out.waiting) {
        if (waiting++ == CHANNEL_WINDOW + AHEAD)
            break;
        send_settle(list_entry(pos, struct op_send, node));
    }
    return looked + waiting;
}

/* ---- cancellation ------------------------------------------------------------------------ */

/* Neither the fabric nor a window is to have its buffer any more. */
static void sends_let_go(struct op_send *s, int status) {
    struct op_channel *ch = s->channel;
    s->wants_window = false;
    send_drive_window(s);
    if (s->post.posted) {
        op_fabric_wake(ch->fabric,
                       ch->worker->now_ns); /* it may have set itself a time meanwhile */
        ch->fabric->ops->cancel(&s->post.part.fop, status);
    } else {
        send_settle(s);
    }
}

static void sends_give_up(struct op_send *s) {
    if (s->where == SEND_SENT)
        send_give_up(s);
    sends_let_go(s, s->cancel);
}

/* Nobody will say what became of it. */
static bool answer_lost(const struct op_channel *ch) {
    return channel_over(ch) || (ch->remote && (!ch->lane || ch->end.reason == RDMAD_E_PEER_LOST));
}

static void settle_later(struct op_send *s) {
    struct worker *w = s->channel->worker;
    s->op->deadline_ns = w->now_ns + CHANNEL_SETTLE_NS;
    op_set_due(w, s->op);
}

void send_cancel(struct op_channel *ch, struct op *op, int status) {
    struct op_send *s = op->channel_data;
    assert(s->channel == ch && !channel_weak(ch));
    bool again = s->asked;
    s->asked = true;
    if (!s->cancel)
        s->cancel = status;
    if (s->where == SEND_WAITING) {
        const uint32_t ops = ch->ops;
        send_over(s, s->cancel, RDMAD_FAILED_UNTOUCHED);
        if (ch->ops != ops)
            return; /* it has ended, and s has gone */
    }
    if (again && op->deadline_ns > ch->worker->now_ns && !answer_lost(ch))
        return; /* asked for twice: the first goes on */
    if (ch->remote && (again || answer_lost(ch))) {
        sends_give_up(s);
        return;
    }
    if (ch->remote)
        settle_later(s);
    if (s->where == SEND_SENT)
        send_ask_back(s);
    channel_touch(ch);
}

void sends_end(struct op_channel *ch) {
    int code = channel_end_code(ch);
    for (struct list *pos; (pos = list_first(&ch->out.waiting));) {
        if (!channel_may_end(ch))
            return;
        send_over(list_entry(pos, struct op_send, node), code, RDMAD_FAILED_UNTOUCHED);
    }
    list_for_each_safe (pos, &ch->out.sent) {
        struct op_send *s = list_entry(pos, struct op_send, node);
        bool ends = ch->end.other == OTHER_CLOSED || (ch->remote && answer_lost(ch));
        if (ends && s->where == SEND_SENT && !channel_may_end(ch))
            return;
        if (ch->end.other == OTHER_CLOSED) /* by its last state the other end did not take it */
            send_over(s, s->cancel ? s->cancel : code, RDMAD_FAILED_UNTOUCHED);
        else if (s->where == SEND_SENT && (!s->asked || answer_lost(ch)))
            send_cancel(ch, s->op, code);
    }
}

/* A key is good for one way only. What has not left stays; the fabric may still have a copy of what
 * was refused. */
void sends_rest(struct op_channel *ch) {
    list_for_each_safe (pos, &ch->out.waiting) {
        sends_let_go(list_entry(pos, struct op_send, node), RDMAD_E_PEER_LOST);
    }
}

void sends_give_up_all(struct op_channel *ch) {
    list_for_each_safe (pos, &ch->out.sent) {
        struct op_send *s = list_entry(pos, struct op_send, node);
        if (s->where != SEND_SENT)
            continue;
        if (!channel_may_end(ch))
            return;
        s->asked = true;
        if (!s->cancel)
            s->cancel = RDMAD_E_PEER_LOST;
        sends_give_up(s);
    }
}

bool sends_rested(const struct op_channel *ch) {
    if (!list_empty(&ch->out.leaving))
        return false;
    list_for_each (pos, &ch->out.sent) {
        if (list_entry(pos, struct op_send, node)->op)
            return false;
    }
    list_for_each (pos, &ch->out.waiting) {
        if (list_entry(pos, struct op_send, node)->window.state != OP_WINDOW_NONE)
            return false;
    }
    return true;
}

/* Those that were given up keep their numbers until now. */
void sends_begin_anew(struct op_channel *ch) {
    for (struct list *pos; (pos = list_first(&ch->out.sent));)
        send_free(list_entry(pos, struct op_send, node));
    struct channel_out *out = &ch->out;
    out->next_seq = out->acked = out->expect = out->limit = 0;
    out->refusals = 0;
}

/* ---- on the way -------------------------------------------------------------------------- */

/* The first of those that wait. AGAIN: it has to go on waiting. */
static int send_one(struct op_channel *ch, struct op_send *s) {
    s->large = s->op->length > channel_small_max(ch);
    if (s->post.posted)
        return RDMAD_E_AGAIN; /* the copy that was refused is still with the fabric */
    if (s->large && ch->remote && !send_window_ready(s))
        return RDMAD_E_AGAIN;
    struct channel_message *m = channel_begin(ch, s->large ? CHANNEL_OFFER : CHANNEL_DATA);
    if (!m)
        return RDMAD_E_AGAIN;
    s->seq = ch->out.next_seq;
    send_describe(s, m);
    int rc = channel_carry(ch, m, s);
    if (rc == 0) {
        ch->out.next_seq++;
        send_left(s);
    } else if (rc != RDMAD_E_AGAIN && rc != RDMAD_E_PEER_LOST) {
        send_over(s, rc, RDMAD_FAILED_UNTOUCHED); /* its memory vanished */
    }
    return rc;
}

/* For large messages that may soon be offered. */
static void open_ahead(struct op_channel *ch) {
    uint64_t seq = ch->out.next_seq;
    unsigned n = 0;
    list_for_each_safe (pos, &ch->out.waiting) {
        struct op_send *s = list_entry(pos, struct op_send, node);
        if (n++ == AHEAD || seq++ >= ch->out.limit || op_ending(s->op))
            return;
        if (s->op->length <= channel_small_max(ch) || s->cancel)
            continue;
        s->wants_window = true;
        send_settle(s); /* may end it */
    }
}

/* Keys and withdrawals of what is on its way. */
static unsigned say_more(struct op_channel *ch, bool *again) {
    unsigned said = 0;
    for (struct list *pos; (pos = list_first(&ch->out.due));) {
        struct op_send *s = list_entry(pos, struct op_send, due_node);
        bool key = s->due == SEND_DUE_KEY;
        if (key && !send_window_ready(s)) {
            list_remove(pos); /* until it is */
            continue;
        }
        struct channel_message *m = channel_begin(ch, key ? CHANNEL_KEY : CHANNEL_WITHDRAW);
        if (!m) {
            *again = true;
            return said;
        }
        m->seq = s->seq;
        if (key)
            m->key = (struct channel_key){s->window.key.bytes, s->window.key.size};
        if (channel_carry(ch, m, NULL) < 0) {
            *again = true;
            return said;
        }
        send_owe(s, SEND_DUE_NOTHING);
        said++;
    }
    return said;
}

static bool may_send(const struct op_channel *ch) {
    return ch->sync.state == SYNC_DONE && ch->out.next_seq < ch->out.limit &&
           ch->out.next_seq - ch->out.acked < CHANNEL_WINDOW;
}

/* What leaves the machine because its receiver READs it counts for its sender's rate, once, however
 * often it is offered; before that, and in pieces, or its user would be put aside for long. False:
 * the rest later. */
static bool pay_for_offer(struct op_channel *ch, struct op_send *s) {
    struct op_user *u = ch->session->user;
    uint64_t length = s->op->length;
    if (!ch->remote || length <= channel_small_max(ch))
        return true;
    while (u->limited && s->paid < length) {
        uint64_t left = length - s->paid;
        uint64_t piece = left < u->bytes_at_once ? left : u->bytes_at_once;
        if (channel_is_held(ch))
            return false;
        s->paid += piece;
        user_use_bytes(u, piece, false);
    }
    return true;
}

unsigned sends_run(struct op_channel *ch, bool *again) {
    unsigned count = say_more(ch, again);
    uint64_t bytes = 0;
    if (ch->remote && ch->sync.state == SYNC_DONE && !channel_stopped(ch))
        open_ahead(ch);
    struct op_send *s;
    for (unsigned n = 0; may_send(ch) && (s = send_first(ch)); n++) {
        if (channel_is_held(ch) || !pay_for_offer(ch, s))
            break;
        if (n == BUDGET || bytes > BUDGET_BYTES) {
            channel_touch(ch);
            break;
        }
        uint64_t length = s->op->length <= channel_small_max(ch) ? s->op->length : 0;
        int rc = send_one(ch, s);
        if (rc == RDMAD_E_AGAIN && !s->post.posted &&
            (!s->large || !ch->remote || send_window_ready(s)))
            *again = true; /* else something will come back */
        if (rc == RDMAD_E_AGAIN || rc == RDMAD_E_PEER_LOST)
            break;
        count++;
        bytes += length;
    }
    return count;
}
