/* SPDX-License-Identifier: MIT */
/*
 * window.c - what peers may reach here: opened, opened anew for another link, closed.
 *
 * Hardware takes its time for either, so a window is in one of four states: none, being opened,
 * open, being closed. A reopen is a close and an open, in this order: when the new key is told, the
 * old one is good for nothing. The final close may come in any state. It answers an open or reopen
 * under way first, and is itself answered when the fabric has nothing of the window any more.
 *
 * Each of these calls may give the fabric something to do, so each takes its seat out of its sleep.
 */
#include "daemon/op/channel/channel.h"
#include "daemon/op/engine/route.h"
#include "daemon/op/notify/notify_peer.h"
#include "daemon/op/seam/call.h"

static const struct fabric_ops *wake(struct op_window *ow) {
    seat_wake(ow->seat, ow->worker->now_ns);
    return ow->seat->ops;
}

static void answer_opening(struct op_window *ow) {
    struct call *c = ow->opening;
    ow->opening = NULL;
    call_finish(c);
}

/* There is none now: opens one for the call that waits for it. */
static void open_one(struct op_window *ow) {
    const struct fabric_ops *ops = wake(ow);
    struct call *c = ow->opening;
    ow->extended = false;
    int rc = ops->window_open(ow->seat->fabric, &ow->spec, &ow->window, &c->blob, &c->result);
    if (rc == FABRIC_PENDING) {
        ow->state = WINDOW_OPENING;
        return;
    }
    ow->state = rc < 0 ? WINDOW_NONE : WINDOW_OPEN;
    answer_opening(ow);
}

/* There is one, or one is being opened. Returns whether it is gone at once. */
static bool close_one(struct op_window *ow, int reason) {
    bool gone = wake(ow)->window_close(ow->window, reason);
    ow->state = gone ? WINDOW_NONE : WINDOW_CLOSING;
    return gone;
}

void window_open(struct call *c) {
    struct op_window *ow = &c->window->op;
    ow->opening = c;
    open_one(ow);
}

void window_reopen(struct call *c) {
    struct op_window *ow = &c->window->op;
    if (ow->state == WINDOW_OPENING || ow->state == WINDOW_CLOSING) {
        call_fail(c, RDMAD_E_INVAL, "a window is opened anew after the last opening was answered");
        return;
    }
    ow->spec.via = c->via;
    ow->opening = c;
    /* Its lessee gave the former link up; who still uses it gets no more out of it. */
    if (ow->state == WINDOW_OPEN && !close_one(ow, RDMAD_E_LEASE_RELEASED))
        return;
    open_one(ow);
}

void window_opened(void *worker, void *cookie, const struct fabric_blob *key,
                   const struct error *err) {
    struct op_window *ow = cookie;
    (void)worker;
    if (ow->send) {
        send_window_opened(ow->send, key, err);
        return;
    }
    if (err) {
        ow->state = WINDOW_NONE;
        ow->opening->result = *err;
    } else {
        ow->state = WINDOW_OPEN;
        ow->opening->blob = *key;
        if (ow->extended)
            wake(ow)->window_extend(ow->window, ow->spec.deadline_ns);
    }
    answer_opening(ow);
}

void window_closed(void *worker, void *cookie) {
    struct op_window *ow = cookie;
    (void)worker;
    if (ow->send) {
        send_window_closed(ow->send);
        return;
    }
    ow->state = WINDOW_NONE;
    if (ow->closing)
        call_finish(ow->closing); /* which frees ow, later */
    else
        open_one(ow);
}

void window_extend(struct call *c) {
    struct op_window *ow = &c->window->op;
    ow->spec.deadline_ns = c->deadline_ns;
    ow->extended = true;
    if (ow->state == WINDOW_OPEN)
        wake(ow)->window_extend(ow->window, c->deadline_ns);
    call_finish(c);
}

void window_close(struct call *c) {
    struct op_window *ow = &c->window->op;
    c->garbage = c->window;
    if (ow->notifier)
        routes_poll_once(ow->worker, ow->seat);
    notifier_window_closed(ow->worker, ow);
    if (ow->opening) {
        error_set(&ow->opening->result, RDMAD_E_CANCELED, "the window was closed meanwhile");
        answer_opening(ow);
    }
    bool gone = ow->state == WINDOW_NONE;
    if (ow->state == WINDOW_OPENING || ow->state == WINDOW_OPEN)
        gone = close_one(ow, c->reason);
    if (gone)
        call_finish(c);
    else
        ow->closing = c;
}
