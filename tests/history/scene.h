/* SPDX-License-Identifier: MIT */
/*
 * scene.h - who takes part in a history, and what they share.
 *
 * All objects lie at daemon 0. Programs of two daemons use them: at daemon 0 by the local route, at
 * daemon 1 over a link. Each program is a process with one session and one book of records. What
 * they need to know of each other is on the board, a page of shared memory that no daemon sees.
 *
 *   owner      grants the memory that counters, registers, keys and blocks lie in (memory.c)
 *   user       adds, compares and swaps, puts and gets, writes and reads blocks (user.c)
 *   ringer     has many adds and swaps in flight at once (ringer.c)
 *   receiver   has a service, and receives from one channel at a time (channels.c)
 *   sender     sends numbered messages to it
 *   lessor     grants leases of a short life, and looks at the memory after their end (leases.c)
 *   lessee     writes into them as long as it can, and a little longer
 *   cache      serves a key-value cache, the one of examples/ (cache.c)
 *   reader     puts and gets there
 *
 * Numbers are drawn from the seed and from the program's own number, so a seed that is given again
 * draws the same faults in the same order, and each program the same numbers. Where it uses one
 * more or less of them (a ring that is full, a call that failed) depends on the machine, as does
 * what comes of each op: a seed makes the same kind of history, not the same history.
 */
#ifndef RDMAD_TEST_SCENE_H
#define RDMAD_TEST_SCENE_H

#include "tests/history/record.h"

#include <rdmad/rdmad.h>
#include <stdbool.h>

enum {
    DAEMONS = 2,
    COUNTERS = 4,
    KEYS = 4096,        /* of registers, and as many of the key-value store */
    KEYS_AT_A_TIME = 4, /* few, so that programs meet; */
    KEYS_TIME_MS = 250, /* not for long, so that a key's history is short */
    MOST_CLIENTS = 128,
    BLOCKS = 2 * MOST_CLIENTS, /* two of each program */
    BLOCK = 8192,
    LESSEES = 2,
    LEASE_PART = 16384 /* of each lessee */
};

/* An add's amount at most: so many different ones that a sum tells which adds it is of. */
#define MOST_ADDED (UINT64_C(1) << 40)

/* Offsets in the owner's lease. */
enum {
    AT_COUNTERS = 0,
    AT_REGISTERS = 4096,
    AT_KEYS = AT_REGISTERS + 8 * KEYS,
    AT_BLOCKS = AT_KEYS + 8 * KEYS,
    MEMORY = AT_BLOCKS + BLOCKS * BLOCK
};

/* Lies that a program tells or does, so that the checker must find them. */
enum lie {
    LIE_NONE,
    LIE_ADD_TWICE,
    LIE_ADD_LOST,
    LIE_CAS_LOST,
    LIE_PUT_LOST,
    LIE_BLOCK_LOST,
    LIE_SEND_TWICE,
    LIE_SEND_LOST,
    LIE_WRITE_AFTER_END,
    LIE_CACHE_LOST,
    LIES
};

struct board {
    uint64_t seed, begun_ns;
    enum lie lie;
    char dir[128];             /* of the records */
    char runtime[DAEMONS][64]; /* of the daemons */
    char host[32], path[32];   /* of daemon 0, and by which daemon 1 reaches it */
    uint32_t clients;          /* atomic: so many have been started, */
    uint32_t begun;            /* atomic: and have had a session */
    bool stop;                 /* atomic: programs end their op and leave */
    bool finish;               /* atomic: all have left but the owner, who reads what there is */
    bool granted;              /* atomic: uri is there */
    char uri[RDMAD_URI_MAX + 1];
    char service[2][RDMAD_URI_MAX + 1];
    bool listening[2]; /* atomic: service is there */
    bool heard[2];     /* atomic: a message has come to it */
    char cache[RDMAD_URI_MAX + 1], cache_puts[RDMAD_URI_MAX + 1];
    bool cached;                    /* atomic: these are there */
    bool cache_read;                /* atomic: a get has found a value */
    uint32_t resumed[MOST_CLIENTS]; /* atomic: how often each client's session went on, and */
    uint32_t away_ms[MOST_CLIENTS]; /* for how long it was away, the last time */
    uint32_t handles_ended;         /* atomic: of those that users wanted to use on */
    uint32_t channels_went_on;      /* atomic: a send was done after one that failed */
    uint32_t channels_lost, channels_unaccepted; /* atomic: by a daemon, after sends, or before */
    uint32_t writing, lease;           /* atomic: the number of the lease that is to be used */
    char lease_uri[RDMAD_URI_MAX + 1]; /* valid if writing is lease before and after it is read */
};

/* One program, as it is started. */
struct program {
    struct board *board;
    uint32_t client;   /* its number, which no other had */
    unsigned daemon;   /* where its session is */
    unsigned instance; /* which of its role */

    /* what it has when it runs */
    struct record_book book;
    rdmad_session *session;
    rdmad_pool *pool;
    char *buffer;
    uint64_t random;
    char ended[RDMAD_TEXT_MAX + 1]; /* of the lease that ended last: why */
};

/* Opens book, session and pool, of which bytes are buffer. */
void program_begin(struct program *p, size_t bytes);
void program_end(struct program *p);
bool program_goes_on(const struct program *p);
uint64_t program_draw(struct program *p, uint64_t below);
void program_pause(struct program *p, unsigned below_us);
/* Takes events until ms have passed, or of one that ends lease (may be NULL): true then. That a
 * session is lost ends the process with a word. */
bool program_events(struct program *p, int ms, const rdmad_lease *lease);
/* A URI of daemon 0 as the program reaches it: at daemon 1 by the path that can be cut. */
const char *program_uri(const struct program *p, const char *uri, char through[RDMAD_URI_MAX + 1]);
/* Attaches to the lease, again and again, until it is there or the program is to leave. */
rdmad_lease *program_attach(struct program *p, const char *uri);
/* After an op that failed: the same lease, or if that has ended the one that is attached anew by
 * uri. */
rdmad_lease *program_mend(struct program *p, rdmad_lease *lease, const char *uri);
/* The first of the keys that are in use now. */
uint32_t program_key(const struct program *p);

/* A word that depends on all that is written, in its place. */
void pattern_fill(void *at, size_t length, uint64_t object, uint64_t version);
/* The version, and enum record_whole: TORN if some of it is of another. */
uint64_t pattern_read(const void *at, size_t length, uint64_t object, uint64_t *whole);

/* The roles. */
void owner_run(void *program);
void user_run(void *program);
void ringer_run(void *program);
void receiver_run(void *program);
void sender_run(void *program);
void lessor_run(void *program);
void lessee_run(void *program);
void cache_run(void *program);
void reader_run(void *program);

#endif
