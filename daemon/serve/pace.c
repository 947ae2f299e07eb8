/* SPDX-License-Identifier: MIT */
/*
 * pace.c - when a user's next request is due.
 */
#include "daemon/serve/pace.h"

uint64_t pace_rate(const struct session *s) {
    const struct policy_value *own = &s->policy.value[RULE_CALLS_PER_SECOND_PER_UID];
    return own->rule ? own->number : s->state->config->max_calls_uid;
}

/* Returns for how long the user is ahead now. */
static uint64_t pace_add(struct session *s, uint64_t calls) {
    struct quota_account *a = s->uid_account;
    uint64_t rate = pace_rate(s), now = state_now(s->state);
    if (!rate)
        return 0;
    uint64_t from = clock_left(PACE_BURST_NS, now);
    if (a->calls_due_ns < from)
        a->calls_due_ns = from;
    a->calls_due_ns = clock_after(a->calls_due_ns, calls * (NSEC_PER_SEC / rate));
    return clock_left(now, a->calls_due_ns);
}

uint64_t pace_count(struct session *s) {
    return pace_add(s, 1);
}

void pace_charge(struct session *s, uint64_t calls) {
    (void)pace_add(s, calls);
}
