/* SPDX-License-Identifier: MIT */
/*
 * poll.c - what a fabric has brought, before something there closes.
 */
#include "daemon/op/engine/poll.h"
#include <assert.h>

void poll_before_close(struct worker *w, struct op_fabric *fabric) {
    assert(fabric->instance && fabric->heard_turn <= w->turns);
    if (fabric->heard_turn == w->turns)
        return;
    fabric->heard_turn = w->turns;
    poll_came(w, fabric, op_fabric_poll_all(fabric, w->now_ns));
}
