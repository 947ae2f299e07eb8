/* SPDX-License-Identifier: MIT */
/*
 * window.c - from one state of a window to the next.
 *
 * Whatever is asked of the fabric may give it something to do, so it is polled from then on.
 */
#include "daemon/op/engine/window.h"
#include <assert.h>

void op_window_init(struct op_window *ow, struct worker *w, struct op_fabric *fabric,
                    void (*changed)(struct op_window *ow, const struct error *err)) {
    *ow = (struct op_window){.worker = w, .fabric = fabric, .changed = changed};
}

static const struct fabric_ops *awake_fabric(struct op_window *ow) {
    op_fabric_wake(ow->fabric, ow->worker->now_ns);
    return ow->fabric->ops;
}

static void window_enter(struct op_window *ow, enum op_window_state state) {
    static const unsigned from[] = {
        [OP_WINDOW_NONE] = 1u << OP_WINDOW_OPENING | 1u << OP_WINDOW_OPEN | 1u << OP_WINDOW_CLOSING,
        [OP_WINDOW_OPENING] = 1u << OP_WINDOW_NONE,
        [OP_WINDOW_OPEN] = 1u << OP_WINDOW_NONE | 1u << OP_WINDOW_OPENING,
        [OP_WINDOW_CLOSING] = 1u << OP_WINDOW_OPENING | 1u << OP_WINDOW_OPEN,
    };
    assert(from[state] >> ow->state & 1);
    ow->state = state;
    if (state == OP_WINDOW_NONE || state == OP_WINDOW_CLOSING)
        ow->window = NULL;
}

/* Opens the one that is wanted. Returns what op_window_want does. */
static int open_it(struct op_window *ow, struct error *err) {
    assert(ow->state == OP_WINDOW_NONE && ow->wanted);
    ow->extended = false;
    int rc =
        awake_fabric(ow)->window_open(ow->fabric->instance, &ow->spec, &ow->window, &ow->key, err);
    if (rc == FABRIC_PENDING)
        window_enter(ow, OP_WINDOW_OPENING);
    else if (rc == 0)
        window_enter(ow, OP_WINDOW_OPEN);
    else {
        ow->wanted = false;
        ow->window = NULL;
    }
    return rc;
}

/* Closes the window if there is one, or one is being opened. */
static void close_it(struct op_window *ow, int reason) {
    if (ow->state != OP_WINDOW_OPEN && ow->state != OP_WINDOW_OPENING)
        return;
    bool gone = awake_fabric(ow)->window_close(ow->window, reason);
    window_enter(ow, gone ? OP_WINDOW_NONE : OP_WINDOW_CLOSING);
}

int op_window_want(struct op_window *ow, struct error *err) {
    close_it(ow, RDMAD_E_LEASE_RELEASED);
    ow->spec.cookie = ow;
    ow->wanted = true;
    return ow->state == OP_WINDOW_NONE ? open_it(ow, err) : FABRIC_PENDING;
}

bool op_window_want_none(struct op_window *ow, int reason) {
    ow->wanted = false;
    close_it(ow, reason);
    return ow->state == OP_WINDOW_NONE;
}

void op_window_extend(struct op_window *ow, uint64_t deadline_ns) {
    ow->spec.deadline_ns = deadline_ns;
    ow->extended = true;
    if (ow->state == OP_WINDOW_OPEN)
        awake_fabric(ow)->window_extend(ow->window, deadline_ns);
}

void op_window_opened(void *worker, void *cookie, const struct fabric_blob *key,
                      const struct error *err) {
    struct op_window *ow = cookie;
    assert(worker == ow->worker && ow->state == OP_WINDOW_OPENING && ow->wanted);
    if (err) {
        ow->wanted = false;
        window_enter(ow, OP_WINDOW_NONE);
    } else {
        ow->key = *key;
        window_enter(ow, OP_WINDOW_OPEN);
        if (ow->extended)
            awake_fabric(ow)->window_extend(ow->window, ow->spec.deadline_ns);
    }
    ow->changed(ow, err);
}

void op_window_closed(void *worker, void *cookie) {
    struct op_window *ow = cookie;
    struct error err;
    assert(worker == ow->worker && ow->state == OP_WINDOW_CLOSING);
    window_enter(ow, OP_WINDOW_NONE);
    int rc = ow->wanted ? open_it(ow, &err) : 0;
    if (rc != FABRIC_PENDING)
        ow->changed(ow, rc < 0 ? &err : NULL);
}
