/* SPDX-License-Identifier: MIT */
/*
 * samples.h - what the programs of bench/compare measure with: a clock, and samples with a median.
 */
#ifndef RDMAD_BENCH_SAMPLES_H
#define RDMAD_BENCH_SAMPLES_H

#include <stddef.h>

struct samples {
    double *us;
    size_t count, room;
};

double samples_now_us(void); /* CLOCK_MONOTONIC */
/* Adds one; ends the program when there is no memory for it. */
void samples_add(struct samples *s, double us);
/* Sorts, and returns the middle one; 0 without any. */
double samples_median(struct samples *s);
void samples_free(struct samples *s);

#endif
