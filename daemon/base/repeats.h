/* SPDX-License-Identifier: MIT */
/*
 * repeats.h - what happens again and again is told once a minute, with how often it was.
 *
 * What happened has a name and a code; of each pair that is in the table one in a minute is told.
 * The table has a fixed size. A pair that finds no place, for all were told in the last minute, is
 * counted with all others of that sort as one more pair. So however many there are, at most
 * REPEATS_ROWS + 1 are told a minute. One that was not told in the last minute gives way to
 * another; how often it was since it was told is told then, beside the other. Not thread-safe.
 */
#ifndef RDMAD_BASE_REPEATS_H
#define RDMAD_BASE_REPEATS_H

#include <stddef.h>
#include <stdint.h>

#define REPEATS_ROWS 64u
#define REPEATS_AGAIN_NS 60000000000u
#define REPEATS_NAME 280u

struct repeats_row {
    char name[REPEATS_NAME];
    int code;
    uint64_t told_ns; /* 0: the row is free */
    uint64_t untold;  /* how many since */
};

struct repeats { /* all zero: nothing has happened */
    struct repeats_row row[REPEATS_ROWS];
    struct repeats_row others;
};

/* It has happened once more. Returns how many are to be told of now, this one among them; 0: none
 * is, it was counted. *since_ns: how long ago the first of several may have been. *gone: what gave
 * way to it; gone->untold of that are to be told of now, too, which happened since gone->told_ns.
 */
uint64_t repeats_count(struct repeats *r, const char *name, int code, uint64_t now_ns,
                       uint64_t *since_ns, struct repeats_row *gone);
/* It is over: the next of that name is told at once, whatever its code. */
void repeats_over(struct repeats *r, const char *name);

#endif
