/* SPDX-License-Identifier: MIT */
/*
 * secure.h - an encrypted stream on a connection's socket: read and write, as the plain calls do
 * for a connection in clear.
 *
 * What has come is given to the caller a record at a time, and only after its tag was found right;
 * so nothing that was changed, repeated or left out on the way is ever placed. What leaves is
 * copied from the send queue into records of our own, and sealed there: OpenSSL never touches
 * client memory, so memory that vanishes meets guard_copy and nothing else, and letting go of
 * memory is for outq.h what it always was. What is sealed is as good as sent, unless the connection
 * ends before it leaves (secure_kept).
 *
 * Bounded: one buffer each way, made with the stream.
 */
#ifndef RDMAD_FABRIC_TCP_SECURE_H
#define RDMAD_FABRIC_TCP_SECURE_H

#include "daemon/fabric/tcp/handshake.h"
#include "daemon/fabric/tcp/outq.h"

#define SECURE_IN_BYTES (128u << 10) /* sealed bytes that have come */

/* The most that Linux sends as one piece over Ethernet with packets of 1500 bytes; over loopback it
 * is 65483. What does not fill one at the end of a send costs as much as a whole one. */
#define SECURE_SEGMENT 65160u
#define SECURE_OUT_BYTES (4 * SECURE_SEGMENT) /* sealed for one send */
#define SECURE_RECORDS 20u                 /* that these are at most, changes of keys among them */
#define SECURE_RECORD_COST 256u            /* of a poll's budget; see share.h */
#define SECURE_HANDSHAKE_COST (128u << 10) /* likewise, a step of a handshake */

struct secure {
    struct handshake *handshake; /* of a dialler, until it is done */
    struct record_keys in, out;
    uint8_t *coming; /* sealed: read from the socket, not opened yet */
    uint32_t head, tail;
    bool drained;   /* the socket had no more than it gave last */
    uint8_t *going; /* sealed: not taken by the socket yet */
    uint32_t sent, end;
    struct {
        uint32_t end, content; /* where it ends, and how many bytes of the queue it has */
    } record[SECURE_RECORDS];
    uint32_t records;
    uint64_t key_life; /* records under one key */
    uint32_t cost;     /* of what was done since it was last asked, beyond the bytes */
    const char *wrong; /* why errno was EBADMSG */
};

/* Of a dialler: begins the handshake. NULL: no memory. */
struct secure *secure_dial(struct ssl_ctx_st *context, const uint8_t key[HANDSHAKE_KEY_BYTES]);
/* Of an acceptor, whose handshake is done. NULL: no memory. */
struct secure *secure_accept(struct handshake *h);
void secure_free(struct secure *s); /* wipes its keys; NULL is none */

/* Before the first read, once the socket is connected: sends the dialler's first bytes. False, with
 * errno or EBADMSG: the socket took none. */
bool secure_begin(struct secure *s, int fd);

/* The content of one record, into to, which has RECORD_INNER_MAX bytes of room. Returns as recv
 * does; errno EBADMSG: the connection is of no use, for the reason `wrong`. *asked is more than
 * what is returned if the next call would find nothing. */
ssize_t secure_read(struct secure *s, int fd, uint8_t *to, size_t *asked);

/* Seals what is queued, as much as there is room for, and sends. Returns how much left the queue,
 * which may be nothing, or -1 and errno: EFAULT if the first piece is client memory that is gone.
 * *asked is more than that if the socket takes no more. */
ssize_t secure_write(struct secure *s, int fd, struct outq *q, size_t *asked);

/* How many bytes of the queue are in records that have not left as a whole: if the socket is closed
 * now, nobody will ever see them. */
uint64_t secure_kept(const struct secure *s);

/* Whether it holds sealed bytes that the socket has not taken. */
static inline bool secure_unsent(const struct secure *s) {
    return s->sent != s->end;
}

#endif
