/* SPDX-License-Identifier: MIT */
/*
 * windows.c - windows that peers have leases by: opened, opened anew for another link, closed.
 *
 * engine/window.h opens and closes; here each opening answers its call. The final close may come in
 * any state. It answers an open or reopen under way first, and is itself answered when the fabric
 * has nothing of the window any more.
 */
#include "daemon/op/engine/poll.h"
#include "daemon/op/notify/notify_peer.h"
#include "daemon/op/seam/call.h"
#include "daemon/op/seam/objects.h"
#include <stdlib.h>

/* ---- opening ----------------------------------------------------------------------------- */

/* Answers the opening, with the key unless c->result says why there is none. */
static void answer_window(struct plane_window *pw) {
    struct call *c = pw->opening;
    pw->opening = NULL;
    if (!c->result.code)
        c->blob = pw->op.key;
    call_finish(c);
}

static void window_changed(struct op_window *ow, const struct error *err) {
    struct plane_window *pw = container_of(ow, struct plane_window, op);
    assert(!pw->opening != !pw->closing);
    if (pw->closing) {
        call_finish(pw->closing); /* which frees pw, later */
        return;
    }
    if (err)
        pw->opening->result = *err;
    answer_window(pw);
}

static void begin_window(struct call *c) {
    struct plane_window *pw = call_window_open(c)->window;
    assert(!pw->opening && !pw->closing);
    pw->opening = c;
    if (op_window_want(&pw->op, &c->result) != FABRIC_PENDING)
        answer_window(pw);
}

/* Who has the key may notify at once, so the notifier is there before the window is. If it came by
 * a call of its own, the worker might take that after the first notice, and nobody would hear of
 * it. */
static void open_window(struct call *c) {
    const struct call_window_open *about = call_window_open(c);
    struct op_notifier *n = about->notifier;
    int rc = n ? notifier_attach(c->worker, &about->window->op, n) : 0;
    if (rc < 0)
        call_fail(c, rc, "notifications of a lessee: no room in the worker's table");
    else
        begin_window(c);
}

static struct op_notifier *window_notifier(const struct plane_window_notify *notify) {
    struct op_notifier *n = notifier_new(&notify->owner->op, notify->lease_id);
    if (n)
        n->ref = notify->ref;
    return n;
}

struct plane_window *plane_window_open(struct plane *p, unsigned fabric,
                                       const struct fabric_window_spec *spec,
                                       const struct plane_window_notify *notify,
                                       plane_blob_done *done, void *arg) {
    struct plane_window *window = calloc(1, sizeof(*window));
    struct op_notifier *notifier = notify ? window_notifier(notify) : NULL;
    if (!window || (notify && !notifier)) {
        notifier_drop(notifier);
        free(window);
        return NULL;
    }
    window->plane = p;
    window->worker = &p->worker[plane_worker_of_peer(p, spec->peer)];
    op_window_init(&window->op, window->worker, &window->worker->links[fabric], window_changed);
    window->op.spec = *spec;

    struct call *c = call_prepare(p, window->worker, CALL_WINDOW_OPEN, open_window, NULL, arg);
    *call_window_open(c) = (struct call_window_open){.window = window, .notifier = notifier};
    c->blob_done = done;
    call_post(c);
    return window;
}

/* The lessee gave up its former link; nothing can be reached by that one any more. */
static void renew_window(struct call *c) {
    const struct call_window_open *about = call_window_open(c);
    struct op_window *ow = &about->window->op;
    if (ow->state == OP_WINDOW_OPENING || ow->state == OP_WINDOW_CLOSING) {
        call_fail(c, RDMAD_E_INVAL, "a window is opened anew after the last opening was answered");
        return;
    }
    ow->spec.via = about->via;
    begin_window(c);
}

void plane_window_reopen(struct plane_window *w, uint64_t via, plane_blob_done *done, void *arg) {
    struct call *c = call_prepare(w->plane, w->worker, CALL_WINDOW_OPEN, renew_window, NULL, arg);
    c->blob_done = done;
    *call_window_open(c) = (struct call_window_open){.window = w, .via = via};
    call_post(c);
}

/* ---- open -------------------------------------------------------------------------------- */

static void extend_window(struct call *c) {
    const struct call_window_extend *about = call_window_extend(c);
    op_window_extend(&about->window->op, about->deadline_ns);
    call_finish(c);
}

void plane_window_extend(struct plane_window *w, uint64_t deadline_ns) {
    struct call *c =
        call_prepare(w->plane, w->worker, CALL_WINDOW_EXTEND, extend_window, NULL, NULL);
    *call_window_extend(c) = (struct call_window_extend){.window = w, .deadline_ns = deadline_ns};
    call_post(c);
}

/* ---- closing ----------------------------------------------------------------------------- */

static void end_window(struct call *c) {
    const struct call_window_close *about = call_window_close(c);
    struct plane_window *pw = about->window;
    assert(!pw->closing);
    c->garbage = pw;
    if (pw->op.notifier)
        poll_before_close(pw->worker, pw->op.fabric);
    notifier_window_closed(pw->worker, &pw->op);
    if (pw->opening) {
        error_set(&pw->opening->result, RDMAD_E_CANCELED, "the window was closed meanwhile");
        answer_window(pw);
    }
    if (op_window_want_none(&pw->op, about->reason))
        call_finish(c);
    else
        pw->closing = c;
}

void plane_window_close(struct plane_window *w, int reason, plane_done *done, void *arg) {
    struct call *c = call_prepare(w->plane, w->worker, CALL_WINDOW_CLOSE, end_window, done, arg);
    *call_window_close(c) = (struct call_window_close){.window = w, .reason = reason};
    call_post(c);
}
