/* SPDX-License-Identifier: MIT */
/*
 * samples.c - a clock, and samples with a median.
 */
#include "bench/samples.h"
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

double samples_now_us(void) {
    struct timespec ts;
    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (double)ts.tv_sec * 1e6 + (double)ts.tv_nsec * 1e-3;
}

void samples_add(struct samples *s, double us) {
    if (s->count == s->room) {
        size_t room = s->room ? 2 * s->room : 4096;
        double *more = realloc(s->us, room * sizeof(*more));
        if (!more) {
            fprintf(stderr, "no memory for %zu samples\n", room);
            exit(1);
        }
        s->us = more;
        s->room = room;
    }
    s->us[s->count++] = us;
}

static int compare(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

double samples_median(struct samples *s) {
    if (!s->count)
        return 0;
    qsort(s->us, s->count, sizeof(*s->us), compare);
    return s->us[s->count / 2];
}

void samples_free(struct samples *s) {
    free(s->us);
    *s = (struct samples){0};
}
