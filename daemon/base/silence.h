/* SPDX-License-Identifier: MIT */
/*
 * silence.h - for how long a thread of ours has not answered, by who looks at a fixed pace.
 *
 * A stop of the whole process is nobody's silence. Who looks much later than it was due was stopped
 * itself, perhaps with the one it looks at, or had no processor: such a look counts as one step,
 * however long it was, and the next one judges. Knows no clock and no threads.
 */
#ifndef RDMAD_BASE_SILENCE_H
#define RDMAD_BASE_SILENCE_H

#include <stdbool.h>
#include <stdint.h>

enum silence_news { SILENCE_NO_NEWS, SILENCE_BEGAN, SILENCE_ENDED };

struct silence {        /* zero-initialised */
    uint64_t silent_ns; /* as of the last look */
    bool told;          /* it has reached the bound */
};

/* since_ns: the look before. every_ns: the pace. bound_ns: from when on it is one. */
enum silence_news silence_look(struct silence *s, bool answered, uint64_t since_ns,
                               uint64_t every_ns, uint64_t bound_ns);

#endif
