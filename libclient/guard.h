/* SPDX-License-Identifier: MIT */
/*
 * guard.h - guard mode: accesses by the CPU that conflict with an op in flight, or use a buffer
 * that was freed, end the program with a sentence.
 *
 * The happy path: with RDMAD_GUARD=1 in the environment, rdmad_alloc puts each buffer on pages of
 * its own. While an op reads a buffer its pages can only be read, while one fills it they cannot be
 * touched, and after rdmad_free neither, until the pages are handed out again, which is as late as
 * the pool's room allows. Whoever touches them nevertheless gets a SIGSEGV; its handler
 * (guard_fault.c) finds buffer and op, prints the sentence, and aborts. The daemon has a mapping of
 * its own, so transfers notice nothing.
 *
 * Exact where the op's range is not: on a page that an op holds in part, an access beside its range
 * is no conflict. It opens the page (until an op begins or ends on it) and goes on; so a conflict
 * that comes after it on the same page can be missed, but nothing is reported that is none. Memory
 * that the program lays out itself (rdmad_pool_base) is protected only in pages that an op covers
 * as a whole. A system call that is given protected memory fails with EFAULT, as the kernel does
 * not signal.
 *
 * Buffers begin at their first page's start. The rest of the last page is filled with a pattern
 * that is looked at when the buffer is freed.
 *
 * Pools of huge pages cannot be protected so finely: rdmad_pool_create makes them of small ones,
 * imported ones are not guarded, which is said on standard error.
 */
#ifndef RDMAD_LIBCLIENT_GUARD_H
#define RDMAD_LIBCLIENT_GUARD_H

#include "libclient/hold.h"

#define RDMAD_GUARD_PAGE 4096u
#define RDMAD_GUARD_NEW 0xa5u   /* handed out, and not written yet */
#define RDMAD_GUARD_SLACK 0xfbu /* from a buffer's end to its page's */
#define RDMAD_GUARD_FREED 0xddu

enum rdmad_guard_state {
    RDMAD_GUARD_UNUSED, /* by rdmad_alloc; perhaps laid out by the program */
    RDMAD_GUARD_LIVE,
    RDMAD_GUARD_DEAD, /* freed, not handed out again */
};

struct rdmad_guard_page {
    uint32_t readers, writers; /* ops that protect it */
    uint32_t first;            /* page of its buffer */
    uint8_t state;
    uint8_t prot;   /* PROT_* now */
    uint64_t bytes; /* of the first: asked for */
    uint32_t pages; /* of the first */
    uint32_t next;  /* of the first, dead: the one freed after it; page + 1 */
};

/* An op in flight. */
struct rdmad_guard_op {
    struct rdmad_guard_op *next;
    struct rdmad_hold hold;
};

struct rdmad_guard {
    struct rdmad_guard *next; /* of all in the process */
    struct rdmad_pool *pool;
    char *base;
    uint64_t bytes;
    uint64_t number; /* the pool's, for sentences */
    struct rdmad_guard_page *page;
    uint32_t pages;
    struct rdmad_guard_op *ops;
    uint32_t dead_first, dead_last; /* pages + 1 of buffers, oldest first */
    uint32_t dead_pages, dead_buffers;
};

/* NULL: out of memory, or the pool's pages cannot be protected, which is no error. */
struct rdmad_guard *rdmad_guard_new(struct rdmad_pool *pool);
void rdmad_guard_free(struct rdmad_guard *g); /* NULL is allowed */

/* In rdmad_alloc's and rdmad_free's place. offset was retired from the arena. */
uint64_t rdmad_guard_take(struct rdmad_pool *pool, size_t bytes);
void rdmad_guard_give(struct rdmad_pool *pool, uint64_t offset);
/* Says what is wrong with freeing offset, which is no live buffer, if guard mode knows more. */
void rdmad_guard_explain_free(struct rdmad_pool *pool, uint64_t offset);

/* An op begins and ends. */
void rdmad_guard_hold(struct rdmad_pool *pool, const struct rdmad_hold *hold);
void rdmad_guard_release(struct rdmad_pool *pool, const struct rdmad_hold *hold);

/* guard_fault.c: one lock for all of guard mode, which the handler can take, too. */
void rdmad_guard_lock(void);
void rdmad_guard_unlock(void);
/* With it. From now on the handler knows the guard, or no more. */
void rdmad_guard_register(struct rdmad_guard *g);
void rdmad_guard_unregister(struct rdmad_guard *g);

/* Sentences made where no library function may be called. */
struct rdmad_guard_text {
    char buf[512];
    size_t used;
};
void rdmad_guard_say(struct rdmad_guard_text *t, const char *words);
void rdmad_guard_say_number(struct rdmad_guard_text *t, uint64_t number, unsigned base);
/* "buffer 0x... (64 bytes, allocated by rdmad_alloc)", of the page's */
void rdmad_guard_say_buffer(struct rdmad_guard_text *t, const struct rdmad_guard *g,
                            const struct rdmad_guard_page *page);
/* "op WRITE (user_data 7) of lease 3" */
void rdmad_guard_say_op(struct rdmad_guard_text *t, const struct rdmad_hold *hold);
/* Prints it, on standard error. */
void rdmad_guard_print(struct rdmad_guard_text *t);
/* Prints it and aborts. */
_Noreturn void rdmad_guard_abort(struct rdmad_guard_text *t);

#endif
