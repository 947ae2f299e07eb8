/* SPDX-License-Identifier: MIT */
/* send_cost.c - what was long rests, what was short is doubted no more. */
#include "daemon/base/send_cost.h"

void send_cost_judge(struct send_cost *c, uint64_t cpu_ns, uint64_t now_ns) {
    c->doubted = cpu_ns >= SEND_LONG_NS;
    if (!c->doubted || !c->rest)
        return;
    uint64_t rest_ns = SEND_REST_TIMES * (cpu_ns < SEND_COUNTS_NS ? cpu_ns : SEND_COUNTS_NS);
    uint64_t from_ns = c->rest->until_ns > now_ns ? c->rest->until_ns : now_ns;
    c->rest->until_ns = clock_after(from_ns, rest_ns);
}
