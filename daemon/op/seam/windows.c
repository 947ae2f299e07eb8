/* SPDX-License-Identifier: MIT */
/*
 * windows.c - what peers may reach here: opened, opened anew for another link, closed.
 *
 * Hardware takes its time for either, so a window is in one of four states: none, being opened,
 * open, being closed. A reopen is a close and an open, in this order: when the new key is told, the
 * old one is good for nothing. The final close may come in any state. It answers an open or reopen
 * under way first, and is itself answered when the fabric has nothing of the window any more.
 *
 * Each of these calls may give the fabric something to do, so each takes its seat out of its sleep.
 */
#include "daemon/op/seam/windows.h"
#include "daemon/op/channel/channel.h"
#include "daemon/op/channel/doors.h"
#include "daemon/op/channel/rendezvous.h"
#include "daemon/op/engine/poll.h"
#include "daemon/op/notify/notify_peer.h"
#include "daemon/op/seam/call.h"
#include <stdlib.h>

static const struct fabric_ops *awake_ops(struct op_window *ow) {
    seat_wake(ow->seat, ow->worker->now_ns);
    return ow->seat->ops;
}

static void answer_window(struct op_window *ow) {
    struct call *c = ow->opening;
    ow->opening = NULL;
    call_finish(c);
}

/* There is none now: opens one for the call that waits for it. */
static void open_one(struct op_window *ow) {
    const struct fabric_ops *ops = awake_ops(ow);
    struct call *c = ow->opening;
    ow->extended = false;
    int rc = ops->window_open(ow->seat->fabric, &ow->spec, &ow->window, &c->blob, &c->result);
    if (rc == FABRIC_PENDING) {
        ow->state = WINDOW_OPENING;
        return;
    }
    ow->state = rc < 0 ? WINDOW_NONE : WINDOW_OPEN;
    answer_window(ow);
}

/* There is one, or one is being opened. Returns whether it is gone at once. */
static bool close_one(struct op_window *ow, int reason) {
    bool gone = awake_ops(ow)->window_close(ow->window, reason);
    ow->state = gone ? WINDOW_NONE : WINDOW_CLOSING;
    return gone;
}

static void open_window(struct call *c) {
    struct op_window *ow = &call_window_open(c)->window->op;
    ow->opening = c;
    open_one(ow);
}

static void reopen_window(struct call *c) {
    struct op_window *ow = &call_window_open(c)->window->op;
    if (ow->state == WINDOW_OPENING || ow->state == WINDOW_CLOSING) {
        call_fail(c, RDMAD_E_INVAL, "a window is opened anew after the last opening was answered");
        return;
    }
    ow->spec.via = call_window_open(c)->via;
    ow->opening = c;
    /* Its lessee gave the former link up; who still uses it gets no more out of it. */
    if (ow->state == WINDOW_OPEN && !close_one(ow, RDMAD_E_LEASE_RELEASED))
        return;
    open_one(ow);
}

void window_key_came(void *worker, void *cookie, const struct fabric_blob *key,
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
            awake_ops(ow)->window_extend(ow->window, ow->spec.deadline_ns);
    }
    answer_window(ow);
}

void window_is_gone(void *worker, void *cookie) {
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

static void extend_window(struct call *c) {
    const struct call_window_extend *about = call_window_extend(c);
    struct op_window *ow = &about->window->op;
    ow->spec.deadline_ns = about->deadline_ns;
    ow->extended = true;
    if (ow->state == WINDOW_OPEN)
        awake_ops(ow)->window_extend(ow->window, about->deadline_ns);
    call_finish(c);
}

static void close_window(struct call *c) {
    const struct call_window_close *about = call_window_close(c);
    struct op_window *ow = &about->window->op;
    c->garbage = about->window;
    if (ow->notifier)
        poll_before_close(ow->worker, ow->seat);
    notifier_window_closed(ow->worker, ow);
    if (ow->opening) {
        error_set(&ow->opening->result, RDMAD_E_CANCELED, "the window was closed meanwhile");
        answer_window(ow);
    }
    bool gone = ow->state == WINDOW_NONE;
    if (ow->state == WINDOW_OPENING || ow->state == WINDOW_OPEN)
        gone = close_one(ow, about->reason);
    if (gone)
        call_finish(c);
    else
        ow->closing = c;
}

/* ---- control thread ---------------------------------------------------------------------- */

struct plane_window *plane_window_open(struct plane *p, unsigned fabric,
                                       const struct fabric_window_spec *spec, plane_blob_done *done,
                                       void *arg) {
    struct plane_window *window = calloc(1, sizeof(*window));
    if (!window)
        return NULL;
    window->plane = p;
    window->worker = window->op.worker = &p->worker[plane_worker_of_peer(p, spec->peer)];
    window->op.seat = &window->worker->links[fabric];
    window->op.spec = *spec;
    window->op.spec.cookie = &window->op;

    struct call *c = call_prepare(p, window->worker, CALL_WINDOW_OPEN, open_window, NULL, arg);
    call_window_open(c)->window = window;
    c->blob_done = done;
    call_post(c);
    return window;
}

void plane_window_reopen(struct plane_window *w, uint64_t via, plane_blob_done *done, void *arg) {
    struct call *c = call_prepare(w->plane, w->worker, CALL_WINDOW_OPEN, reopen_window, NULL, arg);
    c->blob_done = done;
    *call_window_open(c) = (struct call_window_open){.window = w, .via = via};
    call_post(c);
}

void plane_window_extend(struct plane_window *w, uint64_t deadline_ns) {
    struct call *c =
        call_prepare(w->plane, w->worker, CALL_WINDOW_EXTEND, extend_window, NULL, NULL);
    *call_window_extend(c) = (struct call_window_extend){.window = w, .deadline_ns = deadline_ns};
    call_post(c);
}

void plane_window_close(struct plane_window *w, int reason, plane_done *done, void *arg) {
    struct call *c = call_prepare(w->plane, w->worker, CALL_WINDOW_CLOSE, close_window, done, arg);
    *call_window_close(c) = (struct call_window_close){.window = w, .reason = reason};
    call_post(c);
}
