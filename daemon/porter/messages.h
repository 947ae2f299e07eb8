/* SPDX-License-Identifier: MIT */
/*
 * messages.h - what the daemon and the porter say to each other, and what the porter is for.
 *
 * A descriptor that a client sends may be one whose close waits for that client: a socket that
 * lingers, a file of a file system that it serves. Whoever receives such a descriptor, or lets go
 * of the last reference to a socket in which one is queued, waits. So the daemon does neither. It
 * looks before it receives (ipc/client_socket.h), and where it sees a descriptor it hands a
 * reference to the socket to the porter: a small process without privileges that can be killed at
 * any time.
 *
 * A descriptor that a client was sent may be one, too: the client has had it watched by an epoll,
 * and the last close waits for that epoll's mutex, which its owner holds while a file of a file
 * system that he serves is asked for its events. So the porter also closes what clients share.
 *
 * Both speak over one SOCK_SEQPACKET pair. The daemon keeps both ends for its whole life: what is
 * queued there belongs to the next porter if one dies, and is never dropped by the daemon.
 */
#ifndef RDMAD_PORTER_MESSAGES_H
#define RDMAD_PORTER_MESSAGES_H

#include <rdmad/wire.h>

#define PORTER_OPTION "--porter" /* argv[1] of the process */
#define PORTER_FD 3              /* its end of the pair */

/* From the daemon. */
enum porter_ask {
    PORTER_TAKE = 1,  /* with a socket: receive its next packet, answer with TAKEN */
    PORTER_END = 2,   /* with a descriptor: hold it; TAKEs of id are void */
    PORTER_GO = 3,    /* the daemon has closed its own: drop the last reference */
    PORTER_PING = 4,  /* answer with PONG */
    PORTER_CLOSE = 5, /* as END, and answer with CLOSED when it is closed, after GO */
};
struct porter_request {
    uint32_t ask, unused;
    uint64_t user; /* whose the descriptor is: only descriptors of the same user may be made to
                      wait for it */
    uint64_t id;
};

/* From the porter. */
enum porter_word {
    PORTER_TAKEN = 1, /* with a memfd if exactly one descriptor came and is of one */
    PORTER_LOST = 2,  /* what was in that packet is not known any more */
    PORTER_PONG = 3,
    PORTER_CLOSED = 4, /* or it has gone to another process that may wait for it */
};
struct porter_answer {
    uint32_t word;
    uint32_t nfds; /* that came: RDMAD_MSG_MAX_FDS + 1 stands for more */
    uint64_t id;
    uint32_t size;                         /* of data; RDMAD_MSG_MAX + 1 stands for more */
    unsigned char data[RDMAD_MSG_MAX + 1]; /* the packet; only so much of it is sent */
};

#endif
