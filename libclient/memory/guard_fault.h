/* SPDX-License-Identifier: MIT */
/*
 * guard_fault.h - guard mode's records of a pool's pages and of the ops on them, and the handler of
 * SIGSEGV that judges by them.
 */
#ifndef RDMAD_LIBCLIENT_GUARD_FAULT_H
#define RDMAD_LIBCLIENT_GUARD_FAULT_H

#include "libclient/memory/hold_record.h"

#define RDMAD_GUARD_PAGE 4096u
#define RDMAD_GUARD_NEW 0xa5u   /* handed out, and not written yet */
#define RDMAD_GUARD_SLACK 0xfbu /* from a buffer's end to its page's */
#define RDMAD_GUARD_FREED 0xddu

/*
 *     UNUSED -- rdmad_alloc --> LIVE -- rdmad_free --> DEAD
 *       ^                                               |
 *       +---- room is needed, and nobody holds it ------+
 */
enum rdmad_guard_state {
    RDMAD_GUARD_UNUSED, /* not by rdmad_alloc, but perhaps by the program itself */
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
    uint32_t
        next; /* of the first page of a dead buffer: the buffer that was freed after it; page + 1 */
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

/* One lock for all of guard mode, which the handler can take, too. */
void rdmad_guard_lock(void);
void rdmad_guard_unlock(void);
/* In the child of a fork: nobody has it, whoever had it in the parent. */
void rdmad_guard_lock_in_child(void);
/* With the lock. From now on the handler knows the guard, or does not any more. */
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
