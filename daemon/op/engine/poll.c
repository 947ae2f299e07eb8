/* SPDX-License-Identifier: MIT */
/*
 * poll.c - what a fabric has brought, before something there closes.
 */
#include "daemon/op/engine/poll.h"
#include <assert.h>

void poll_before_close(struct worker *w, struct seat *seat) {
    assert(seat->fabric && seat->heard_turn <= w->turns);
    if (seat->heard_turn == w->turns)
        return;
    seat->heard_turn = w->turns;
    seat_wake(seat, w->now_ns);
    poll_seat(w, seat);
}
