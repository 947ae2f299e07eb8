/* SPDX-License-Identifier: MIT */
/*
 * shared_memory.h - memory that a client pays for and that nobody can take away, in two steps.
 *
 * First we make a memfd that is empty and of a sealed size, and map it (shared_memory_make), or map
 * one of the client's (shared_memory_take). Nobody has touched a page of it for us. The client
 * populates it, so that its pages are charged to its own memory cgroup, and seals it with
 * F_SEAL_FUTURE_WRITE and F_SEAL_SEAL: from then on nobody can make a page vanish, while all
 * mappings that exist go on. Then we look (shared_memory_settle), and only after that may anybody
 * use it.
 *
 * Looking never waits for the client: on a memfd that a client has or had, no call is made here
 * that takes the inode's lock, which a client can hold for as long as it likes (fallocate,
 * F_ADD_SEALS, MADV_REMOVE, ftruncate, read, write, lseek; with huge pages even mmap). F_GET_SEALS,
 * fstat, and a page fault on a page that is there do not take it.
 *
 * Failures: what is not sealed, or not all there, is refused, in words that say what to do, and can
 * be settled again. Pages past the end count, too, so a hole can hide from the first look. It shows
 * when the count grows as we touch the pages, and then we have paid for at most 64 KiB of it
 * (lied). A client does that on purpose, and whoever does it often is not served.
 */
#ifndef RDMAD_BASE_SHARED_MEMORY_H
#define RDMAD_BASE_SHARED_MEMORY_H

#include "daemon/base/error.h"
#include <stdbool.h>
#include <stddef.h>

/* How much is mapped, locked or unmapped at a time, in whole pages: it takes some milliseconds, in
 * which nobody else's memory can be mapped. */
#define SHARED_MEMORY_SLICE ((size_t)16 << 20)

struct shared_memory { /* zero: none */
    const char *what;  /* in sentences: "pool" */
    void *base;
    size_t bytes;
    int fd;        /* for the client and for looking, until it is settled; then -1 */
    bool readable; /* our mapping is not for writing */
    bool ours;     /* sealed by us: the client cannot write it */
    bool loose;    /* the client can take pages away; a hole is SIGBUS */
    bool settled;
    bool locked; /* all of it: no touch of ours waits for a disk */
    bool lied;   /* it looked whole and had a hole, of which we have paid for some */
};

/* SHARED_HUGE: in huge pages. SHARED_READ: we only read it. SHARED_OURS: only we write it.
 * SHARED_LOOSE: it may be mapped again later, so F_SEAL_FUTURE_WRITE is not asked for
 * (hole_guard.h); never with SHARED_HUGE. */
enum { SHARED_HUGE = 1, SHARED_READ = 2, SHARED_OURS = 4, SHARED_LOOSE = 8 };
int shared_memory_make(struct shared_memory *m, const char *what, const char *name, size_t bytes,
                       unsigned flags, struct error *err);

/* Whether fd is a memfd of small pages: a look that waits for nobody. */
int shared_memory_check_kind(const char *what, int fd, struct error *err);
/* Takes over fd, a memfd of exactly bytes whose size is sealed and that can be mapped writable.
 * flags: 0 or SHARED_LOOSE. */
int shared_memory_take(struct shared_memory *m, const char *what, int fd, size_t bytes,
                       unsigned flags, struct error *err);

/* Looks whether it is sealed and all there, puts it into our page tables and locks it where the
 * limit allows. May take seconds, so not on a shared thread. wanted (may be NULL) is asked now and
 * then; false ends it with RDMAD_E_SHUTDOWN. */
int shared_memory_settle(struct shared_memory *m, bool (*wanted)(const void *arg), const void *arg,
                         struct error *err);

/* Unmaps and closes; harmless when there is none. Its pages may be freed here: not on a shared
 * thread. */
void shared_memory_end(struct shared_memory *m);

#endif
