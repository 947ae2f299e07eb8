/* SPDX-License-Identifier: MIT */
/*
 * requests_moves.h - what fuzz_requests reads, and requests_seeds writes: a byte that says how
 * things are (REQUESTS_*), then what happens, a byte each (the move, and above it whom it concerns)
 * and what follows it.
 *
 * A body is zero but for its runs. A run is where it begins, in words of four bytes, and how many
 * bytes follow, which are those; or, from RUN_THING on, what kind of thing stands there: one that
 * an answer has told of, and how many such were told of after it.
 */
#ifndef RDMAD_TESTS_FUZZ_REQUESTS_MOVES_H
#define RDMAD_TESTS_FUZZ_REQUESTS_MOVES_H

/* Of the first byte. */
#define REQUESTS_POLICY 1u     /* there are rules for users */
#define REQUESTS_GRANTS 2u     /* the data plane takes its time with what it is told of leases */
#define REQUESTS_BY_LINK 4u    /* the device's atomics are not the CPU's */
#define REQUESTS_RATE 8u       /* calls are counted */
#define REQUESTS_STRANGERS 16u /* nobody has said HELLO yet */
#define REQUESTS_NO_LIFE 32u   /* sessions end with their daemon */
#define REQUESTS_NO_RETURN 64u /* peer.return_ms is 0 */
#define REQUESTS_GROUP 128u    /* members of a group may connect, alone */

enum {
    MOVE_PACKET,  /* type, seq, how (PACKET_*), count of runs; the runs */
    MOVE_ANSWER,  /* which: the data plane answers a call */
    MOVE_REFUSE,  /* which: the same, and cannot do it */
    MOVE_WORK,    /* a registration thread goes on by as many steps */
    MOVE_PEER,    /* which, how (PEER_*): another daemon answers, or something comes of it */
    MOVE_TIME,    /* 2 to the power of so many microseconds pass */
    MOVE_CONNECT, /* a program opens a session */
    MOVE_GO,      /* a program ends; an odd byte: because its descriptors were lost */
    MOVE_PREPARE, /* which memory, how (PREPARE_*) */
    MOVE_LAG,     /* a program does not read any more, or does again */
    MOVE_UNSENT,  /* the next descriptors for the program cannot be sent */
    MOVE_LIFE,    /* the daemon is started again */
    MOVE_DRAIN,   /* the daemon is drained, or no more */
    MOVE_SETTLE,  /* all that is under way is done */
    MOVE_REFUSED, /* a program finds no place for a session */
    MOVE_STOP,    /* the daemon stops, until MOVE_LIFE or the end */
    MOVES
};
#define MOVE_WHO 32u /* times whom it concerns */

#define PACKET_FDS 3u       /* 0: what its type comes with; 1: another number; 2, 3: see fds_of */
#define PACKET_SHORT 4u     /* the body lacks a byte */
#define PACKET_STRANGE 8u   /* the type is as it stands there, whether there is one or not */
#define PACKET_KEPT 16u     /* its memory is the last that was made */
#define PACKET_UNSEALED 32u /* its memory is not sealed */
#define PACKET_OLD 64u      /* in the oldest version */

#define PEER_LOST 1u   /* the answer is an error, or what there is is lost */
#define PEER_THERE 2u  /* no answer: something happens to what there is */
#define PEER_COMES 4u  /* no answer: a program there comes to something here (LOST: for memory), */
#define PEER_LEAVES 8u /* leaves it, */
#define PEER_STOPS 16u /* or says that it uses a lease no more */

#define PREPARE_NO_SEAL 1u
#define PREPARE_NO_PAGES 2u
#define PREPARE_HOLE 4u

/* What an answer tells of, and a later request may name. */
enum thing {
    THING_RING, /* these are numbers */
    THING_POOL,
    THING_HANDLE,
    THING_LEASE,
    THING_SERVICE,
    THING_INCOMING,
    THING_CHANNEL,
    THING_WATCH,
    THING_NUMBERS, /* and these are not: */
    THING_LEASE_URI = THING_NUMBERS,
    THING_SERVICE_URI,
    THING_PROOF,
    THING_PART,
    THING_CHANNEL_KEY,
    THING_LEASE_KEY,
    THINGS
};
#define RUN_THING 0xf0u
#define RUN_MOST 0xefu

#endif
