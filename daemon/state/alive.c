/* SPDX-License-Identifier: MIT */
/*
 * alive.c - what the last looks at a session's rings have shown.
 *
 * The answer is what is known, and the look that it begins is for the next: so nobody waits, and
 * nothing is kept for who asks. A sign is taken to be as young as the look that has found it, so a
 * silence is never told longer than it was.
 */
#include "daemon/state/alive.h"

#define ALIVE_FORGET_NS (5 * ALIVE_ASK_NS)

static void alive_looked(void *arg, const struct error *result) {
    struct session *s = arg;
    s->alive.looking = false;
    if (!result || !result->code)
        s->alive.seen_ns = s->alive.looked_ns;
    session_release(s);
}

static void alive_look(struct session *s, uint64_t now_ns) {
    s->alive.looked_ns = now_ns;
    s->alive.looking = true;
    session_hold(s);
    plane_session_ask_alive(s->plane, alive_looked, s);
}

uint64_t alive_silent_ns(struct session *s) {
    struct session_alive *a = &s->alive;
    uint64_t now_ns = state_now(s->state), since_ns = clock_left(a->looked_ns, now_ns);
    if (!a->looked_ns || (since_ns > ALIVE_FORGET_NS && !a->looking))
        a->seen_ns = now_ns;
    if (!s->closing && !a->looking && (!a->looked_ns || since_ns >= ALIVE_LOOK_NS))
        alive_look(s, now_ns);
    return clock_left(a->seen_ns, now_ns);
}
