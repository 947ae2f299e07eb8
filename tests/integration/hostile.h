/* SPDX-License-Identifier: MIT */
/*
 * hostile.h - a lessee's daemon that is none: it speaks the peer protocol and the tcp engine's
 * frames itself, honestly until it holds a key, then writes and reads as fast as it can, whatever
 * the owner says.
 *
 *     hostile_connect, hostile_attach    as an honest daemon would
 *     hostile_read, hostile_write        one op by hand
 *     hostile_start ... hostile_stop     a thread that floods
 */
#ifndef RDMAD_TEST_HOSTILE_H
#define RDMAD_TEST_HOSTILE_H

#include "tests/integration/false_peer.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

enum hostile_habit {
    HOSTILE_DEAF,   /* hears no revoke and says nothing */
    HOSTILE_LIAR,   /* says STOPPED at once and goes on */
    HOSTILE_STALLS, /* is silent in the middle of a payload until the revoke is over, then ends it
                     */
};

struct hostile {
    struct false_peer control;
    int data;
    uint32_t next_op;
    uint32_t slot;
    uint64_t number; /* of its link */
    uint64_t key, length, owner_ref;
    enum hostile_habit habit;
    uint8_t secret; /* a byte that must never be read out */
    bool stop;      /* atomics from here */
    bool revoke_heard;
    bool resume; /* HOSTILE_STALLS: end the payload now */
    bool stalled;
    uint64_t written; /* bytes sent */
    uint64_t refused; /* answers that were errors */
    uint64_t secrets; /* bytes read that are the secret */
    bool lost;        /* the owner closed the data connection */
    pthread_t thread;
};

/* Each ends the case when the owner's daemon refuses. listen: "127.0.0.1:PORT". */
void hostile_connect(struct hostile *h, const char *listen);
/* And has a data connection, with a key that is good on it. */
void hostile_attach(struct hostile *h, const char *uri);

/* One op and its answer, of at most 64 KiB: a READ, whose bytes are counted if they are the secret,
 * or a WRITE of value. Returns the owner's status. */
int hostile_read(struct hostile *h, uint64_t offset, uint32_t length);
int hostile_write(struct hostile *h, uint64_t offset, uint32_t length, uint8_t value);

void hostile_start(struct hostile *h, enum hostile_habit habit);
void hostile_stop(struct hostile *h);
void hostile_close(struct hostile *h);

#endif
