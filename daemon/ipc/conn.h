/* SPDX-License-Identifier: MIT */
/*
 * conn.h - one accepted client socket: packets in, packets out, no meaning.
 *
 * Lives on the control thread's event loop. Who the client is comes from the kernel at accept
 * (SO_PEERCRED, SO_PEERGROUPS). Output that the socket does not take waits in a bounded queue; a
 * client that lets the queue overflow is closed, and while anything waits in it nothing more is
 * read. Of a client that has gone what it had sent is read, whatever became of its answers. Input
 * is read a few packets of each user in a pass of the loop (rota.h), so that one talkative user
 * does not starve the others.
 */
#ifndef RDMAD_IPC_CONN_H
#define RDMAD_IPC_CONN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct event_base;
struct conn;
struct porter;
struct rota; /* rota.h */

struct conn_peer {
    uid_t uid;
    gid_t gid;
    pid_t pid;
    gid_t *groups; /* supplementary, as SO_PEERGROUPS tells them */
    unsigned ngroups;
};

struct conn_events {
    /* One packet. nfds says how many descriptors came (RDMAD_MSG_MAX_FDS + 1: more). If it was one,
     * of a memfd, it is fds[0]: the callee keeps it by putting -1 there, else it is closed when
     * this returns. Any others are closed already, and fds[0] is -1 or PORTER_NO_PLACE. */
    void (*packet)(void *user, const void *data, size_t size, int *fds, unsigned nfds);
    /* A packet with descriptors is lost, because the porter ended while it looked. The callee
     * closes the connection. */
    void (*lost)(void *user);
    /* The descriptors of this packet could not be sent, and so the packet was not: what it tells of
     * must be undone. (The kernel bounds how many descriptors of our user, all together, are on
     * their way to clients that do not read.) why is a static text. NULL: the connection ends
     * instead. */
    void (*unsent)(void *user, const void *data, size_t size, const char *why);
    /* End of file, error or overflow; why is a static text. The conn is already freed. */
    void (*closed)(void *user, const char *why);
    /* All that waited has been sent. May be NULL. */
    void (*drained)(void *user);
    /* The client has been sent this descriptor's file: to be closed where that may last. NULL: it
     * is closed at once. */
    void (*sent_fd)(void *user, int fd);
};

/* Takes over fd, even if it fails. tenant: by whose socket it came (user_id.h). Returns 0 or
 * RDMAD_E_*. Nothing is called back before the next turn of the loop. */
int conn_new(struct event_base *base, struct porter *porter, struct rota *rota, int fd,
             uint32_t tenant, const struct conn_events *events, void *user, struct conn **out);
/* Sets the user that the callbacks get; call it before the next turn of the loop. */
void conn_set_user(struct conn *c, void *user);
const struct conn_peer *conn_peer(const struct conn *c);
bool conn_peer_in(const struct conn_peer *peer, gid_t group);
/* Queues or sends one packet; descriptors are duplicated if they have to wait. Calls nothing back:
 * if the client is lost, closed is called in a later turn. Returns whether the client has the
 * packet, or may have it later: if not, nobody has its descriptors but the caller. */
bool conn_send(struct conn *c, const void *data, size_t size, const int *fds, unsigned nfds);
/* Whether output waits for the client to read; drained tells when none does any more. */
bool conn_lags(const struct conn *c);
/* Nothing more is read of the client for so long; what it sends waits in its socket. One that has
 * gone does not rest. */
void conn_rest(struct conn *c, uint64_t ns);
/* Nothing more is read of the client until each wait(true) has had its wait(false): something of
 * what it sent is still to be done with. */
void conn_wait(struct conn *c, bool wait);
/* Flushes what can be sent, closes, frees. Calls nothing back. */
void conn_close(struct conn *c);

#endif
