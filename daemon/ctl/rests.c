/* SPDX-License-Identifier: MIT */
/*
 * rests.c - see rests.h. Of a uid whose connections have gone the place is kept until another one
 * needs it, and then that which owes least is taken.
 */
#include "daemon/ctl/rests.h"
#include <assert.h>
#include <stddef.h>

struct uid_rest *rests_join(struct rests *r, uid_t uid) {
    struct uid_rest *place = NULL;
    for (unsigned i = 0; i < RESTS_MAX; i++) {
        struct uid_rest *u = &r->of[i];
        if (u->uid == uid) {
            u->conns++;
            return u;
        }
        if (!u->conns && (!place || u->paid_ns < place->paid_ns))
            place = u;
    }
    assert(place);
    *place = (struct uid_rest){.uid = uid, .conns = 1};
    return place;
}

void rests_leave(struct uid_rest *u) {
    assert(u->conns);
    u->conns--;
}

uint64_t rests_left_ns(const struct uid_rest *u, uint64_t now_ns) {
    return clock_left(clock_after(now_ns, REST_BEYOND_NS), u->paid_ns);
}

/* What it owed before is not paid while it is served. */
void rests_took(struct uid_rest *u, uint64_t began_ns, uint64_t now_ns, uint64_t took_ns) {
    const uint64_t owed_ns = clock_left(began_ns, u->paid_ns) + took_ns;
    u->paid_ns = clock_after(now_ns, owed_ns < REST_MOST_NS ? owed_ns : REST_MOST_NS);
}
