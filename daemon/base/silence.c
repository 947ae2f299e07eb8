/* SPDX-License-Identifier: MIT */
/*
 * silence.c - a sum of steps.
 */
#include "daemon/base/silence.h"

enum silence_news silence_look(struct silence *s, bool answered, uint64_t since_ns,
                               uint64_t every_ns, uint64_t bound_ns) {
    bool was = s->told;
    if (answered) {
        *s = (struct silence){0};
        return was ? SILENCE_ENDED : SILENCE_NO_NEWS;
    }
    s->silent_ns += since_ns > 2 * every_ns ? every_ns : since_ns;
    s->told = s->silent_ns >= bound_ns;
    return s->told && !was ? SILENCE_BEGAN : SILENCE_NO_NEWS;
}
