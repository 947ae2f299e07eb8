/* SPDX-License-Identifier: MIT */
/*
 * pace.c - when a user's next request is due.
 */
#include "daemon/serve/pace.h"

uint64_t pace_rate(const struct session *s) {
    const struct policy_value *own = &s->policy.value[RULE_CALLS_PER_SECOND_PER_UID];
    return own->rule ? own->number : s->state->config->max_calls_uid;
}

void pace_charge(struct session *s, uint64_t calls) {
    struct quota_account *a = s->uid_account;
    uint64_t rate = pace_rate(s);
    if (!rate)
        return;
    uint64_t from = clock_left(PACE_BURST_NS, state_now(s->state));
    if (a->calls_due_ns < from)
        a->calls_due_ns = from;
    a->calls_due_ns = clock_after(a->calls_due_ns, calls * (NSEC_PER_SEC / rate));
}

uint64_t pace_count(struct session *s) {
    if (!pace_rate(s))
        return 0;
    pace_charge(s, 1);
    return clock_left(state_now(s->state), s->uid_account->calls_due_ns);
}
