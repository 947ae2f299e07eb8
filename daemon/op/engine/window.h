/* SPDX-License-Identifier: MIT */
/*
 * window.h - what a peer may reach here: one window of a fabric at a time, as its owner wants.
 *
 * Hardware takes its time to open and to close, so a window is in one of four states:
 *
 *               open                      opened
 *      NONE -----------> OPENING --------------------> OPEN
 *       ^                   |                            |
 *       |  closed           | close                      | close
 *       +<------- CLOSING <-+<---------------------------+
 *
 * What the fabric does at once passes over OPENING and CLOSING; an opening that fails ends at NONE.
 *
 * In any state the owner may say what it wants: a new window, or none. The call tells if it is so
 * at once; else changed tells later. A window that is there is closed before the new one is opened:
 * so as soon as there is a new key, the old one is good for nothing. A window that cannot be opened
 * is not wanted any more.
 */
#ifndef RDMAD_OP_WINDOW_H
#define RDMAD_OP_WINDOW_H

#include "daemon/op/engine/worker.h"

enum op_window_state { OP_WINDOW_NONE, OP_WINDOW_OPENING, OP_WINDOW_OPEN, OP_WINDOW_CLOSING };

struct op_window {
    struct worker *worker;
    struct op_fabric *fabric; /* the peer's */
    enum op_window_state state;
    bool wanted;                  /* in OPENING and OPEN: this one; in CLOSING: another */
    bool extended;                /* in OPENING: the deadline has changed since it was asked for */
    struct fabric_window *window; /* in OPENING and OPEN */
    struct fabric_window_spec spec; /* of this one, or of the one that is wanted instead */
    struct fabric_blob key;         /* in OPEN */
    /* What was under way is over: it is OPEN as wanted, or NONE. err: why it is NONE though one was
     * wanted. May free the window, for nothing touches it after this call. */
    void (*changed)(struct op_window *ow, const struct error *err);
    struct op_notifier *notifier; /* its lessee may notify; notify.h */
};

void op_window_init(struct op_window *ow, struct worker *w, struct op_fabric *fabric,
                    void (*changed)(struct op_window *ow, const struct error *err));
/* Wants a new one as ow->spec says, of which the owner has filled in all but the cookie. 0: it is
 * OPEN. FABRIC_PENDING: changed will tell. Else why there is none. */
int op_window_want(struct op_window *ow, struct error *err);
/* Wants none. reason: what those who still use it are told. True: it is NONE. False: changed will
 * tell. */
bool op_window_want_none(struct op_window *ow, int reason);
/* Sets the deadline of the window that is there and of those that are opened later. */
void op_window_extend(struct op_window *ow, uint64_t deadline_ns);

/* fabric_env's window_opened and window_closed. */
void op_window_opened(void *worker, void *cookie, const struct fabric_blob *key,
                      const struct error *err);
void op_window_closed(void *worker, void *cookie);

#endif
