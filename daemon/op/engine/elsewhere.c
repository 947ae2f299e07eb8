/* SPDX-License-Identifier: MIT */
/*
 * elsewhere.c - two sums that forget, and what one is of the other.
 */
#include "daemon/op/engine/elsewhere.h"

void elsewhere_init(struct elsewhere *e, uint64_t *all) {
    *e = (struct elsewhere){
        .all = all, .all_before = __atomic_load_n(all, __ATOMIC_RELAXED), .times = ELSEWHERE_ONCE};
}

void elsewhere_tell(struct elsewhere *e) {
    __atomic_add_fetch(e->all, e->untold, __ATOMIC_RELAXED);
    e->here += e->untold;
    e->untold = 0;
}

static uint64_t forgets(uint64_t sum, uint64_t more) {
    return sum - sum / (ELSEWHERE_MEMORY / ELSEWHERE_LOOK) + more;
}

/* What is here is in all as well. */
static uint64_t times_of(const struct elsewhere *e) {
    if (e->all_sum / ELSEWHERE_MOST >= e->here_sum / ELSEWHERE_ONCE)
        return ELSEWHERE_MOST;
    uint64_t times = e->all_sum * ELSEWHERE_ONCE / e->here_sum;
    return times < ELSEWHERE_ONCE ? ELSEWHERE_ONCE : times;
}

bool elsewhere_look(struct elsewhere *e) {
    uint64_t all = __atomic_load_n(e->all, __ATOMIC_RELAXED), more = all - e->all_before;
    if (more < ELSEWHERE_LOOK)
        return false;
    e->all_before = all;
    for (; more > ELSEWHERE_MEMORY; more /= 2) /* nobody has looked for long */
        e->here /= 2;
    e->all_sum = forgets(e->all_sum, more);
    e->here_sum = forgets(e->here_sum, e->here);
    e->here = 0;
    uint64_t before = e->times;
    e->times = times_of(e);
    return e->times != before;
}
