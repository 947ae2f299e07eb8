/* SPDX-License-Identifier: MIT */
/*
 * record.h - what a client of a history writes down: for every op one record, when it is begun and
 * what became of it.
 *
 *     struct record *r = record_begin(&b, RECORD_ADD, counter, 1, 0);
 *     int rc = rdmad_fetch_add(lease, at, 1, &was);
 *     record_end(r, rc ? record_outcome() : RECORD_DONE, rc, was, 0);
 *
 * A record is in the file before its op is submitted, and the outcome is the last that is written
 * of it: so a client may be killed anywhere, and what it had begun is there, without an outcome.
 * Each client has a file of its own, mapped, so that a record costs no system call. Times are of
 * CLOCK_MONOTONIC, which all processes of a machine have in common. history.py reads the files.
 */
#ifndef RDMAD_TEST_RECORD_H
#define RDMAD_TEST_RECORD_H

#include <stdint.h>

/* As history.py has them. */
enum record_kind {
    RECORD_ADD = 1, /* object: counter; arg: what is added; result: what was there */
    RECORD_COUNT,   /* result: what the counter says */
    RECORD_CAS,     /* object: register; arg: expected; arg2: desired; result: what was there */
    RECORD_LOOK,    /* result: what the register says */
    RECORD_PUT,     /* object: key; arg: value, 0 deletes; result: what was there, unless arg2 is
                       RECORD_UNSEEN */
    RECORD_GET,     /* result: the key's value */
    RECORD_BLOCK_WRITE, /* object: block; arg: which version of it */
    RECORD_BLOCK_READ,  /* result: the version; result2: enum record_whole */
    RECORD_SEND,        /* object: channel; arg: which message of it */
    RECORD_RECEIVE,     /* object: channel, 0 if none came yet; result: which; result2: as above */
    RECORD_GRANT,       /* object: lease; arg: its ttl in ms */
    RECORD_LEASE_WRITE, /* object: lease; arg: the word that it is filled with */
    RECORD_LEASE_END,   /* object: lease; its owner has been told: the memory is its own again */
    RECORD_LEASE_LOOK,  /* object: lease; arg: the owner's word; result: the word that is there */
    RECORD_FAULT,       /* object: of enum record_fault; arg: which daemon or client; arg2: ms */
    RECORD_RESUMED,     /* a session goes on with the next daemon */
    RECORD_KINDS
};

enum record_outcome { RECORD_OPEN, RECORD_DONE, RECORD_NOT_DONE, RECORD_PARTLY, RECORD_UNKNOWN };

enum { RECORD_UNSEEN = 1 }; /* who puts is not told what was there */

/* What a reader finds: one version as a whole, a mix, or what nobody wrote there. */
enum record_whole { RECORD_WHOLE, RECORD_TORN, RECORD_FOREIGN };

/* HANG: it is stopped by a signal for a while; HANG_KILL: and then killed. CUT: all connections
 * between the daemons end; LATE: what is on them comes later, when there may be others. */
enum record_fault {
    FAULT_KILL = 1,
    FAULT_END,
    FAULT_HANG,
    FAULT_CLIENT,
    FAULT_HANG_KILL,
    FAULT_CUT,
    FAULT_LATE
};

struct record {
    uint32_t client, number; /* of the client's ops, from 0 */
    uint8_t kind, outcome;
    int16_t code; /* RDMAD_E_* */
    uint32_t object;
    uint64_t arg, arg2;
    uint64_t begun_ns, over_ns; /* over: 0 until it is */
    uint64_t result, result2;
};
_Static_assert(sizeof(struct record) == 64, "history.py reads 64 bytes");

struct record_book {
    struct record *records;
    uint32_t client, used;
};

/* Makes DIR/CLIENT.rec. As everywhere in tests, what goes wrong ends the process. */
void record_open(struct record_book *b, const char *dir, uint32_t client);
void record_close(struct record_book *b);

struct record *record_begin(struct record_book *b, enum record_kind kind, uint32_t object,
                            uint64_t arg, uint64_t arg2);
void record_end(struct record *r, enum record_outcome outcome, int code, uint64_t result,
                uint64_t result2);

/* Of the calling thread's last blocking transfer, which returned an error. */
enum record_outcome record_outcome(void);

uint64_t record_now_ns(void);

#endif
