/* SPDX-License-Identifier: MIT */
/*
 * slice.h - a thread that sleeps often and does little each time asks to run soon when it is woken.
 *
 * Since Linux 6.6 (EEVDF) a thread that is woken waits until the one that has its processor has
 * used up a slice, which is looked at once a tick: up to 4 ms beside a thread that never sleeps.
 * Linux 6.12 and later let a thread have shorter slices. It gets no more time by them, but gets it
 * sooner. Linux before 6.6 let a woken thread run at once, by itself.
 */
#ifndef RDMAD_BASE_SLICE_H
#define RDMAD_BASE_SLICE_H

/* The shortest that the kernel has. */
#define SLICE_SHORT_NS 100000u

enum slice {
    SLICE_SHORT,   /* the calling thread has short slices */
    SLICE_UNKNOWN, /* this kernel has no such thing, or the thread is of another class (chrt(1)) */
    SLICE_REFUSED  /* a filter of system calls forbids it, errno */
};

/* For the calling thread; threads that it starts from now on have short slices, too. Nothing else
 * of its scheduling changes (sched_setattr(2)). */
enum slice slice_shorten(void);
/* For a thread that one with short slices may have started, and that works for long. */
void slice_default(void);

#endif
