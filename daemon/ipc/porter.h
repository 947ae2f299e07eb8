/* SPDX-License-Identifier: MIT */
/*
 * porter.h - the daemon's side of the porter (daemon/porter/): starts it, asks it, replaces it.
 *
 * Lives on the control thread's event loop and never waits. What cannot be sent to the porter now
 * waits in order; while much does, crowded tells that nobody else should be let in. A porter that
 * ends, or that does not answer for ANSWER_S, is replaced: at once, but not more often than once in
 * RESTART_S. Sessions do not notice, except those whose packet it was looking at.
 */
#ifndef RDMAD_IPC_PORTER_H
#define RDMAD_IPC_PORTER_H

#include "daemon/base/error.h"
#include "daemon/base/list.h"
#include "daemon/base/user_id.h"
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct event_base;
struct porter;

struct porter_spec {
    const char *program; /* that runs porter_run() when its first argument is PORTER_OPTION */
    void (*crowded)(void *user, bool crowded); /* may be NULL */
    void *user;
};

int porter_new(struct event_base *base, const struct porter_spec *spec, struct porter **out,
               struct error *err);
/* Gives the porter what waits for it, as far as it takes that. The process must not go on for long
 * afterwards. */
void porter_free(struct porter *p);

pid_t porter_pid(const struct porter *p); /* 0: none at this moment */
unsigned porter_restarts(const struct porter *p);

#define PORTER_NO_PLACE (-2) /* for a memfd: this process has no descriptor left */

/* What one socket wants of the porter. The memory is its owner's, zeroed before its first use. */
struct porter_visit {
    struct list waiting; /* in the porter's queue, to be sent */
    struct list asked;   /* in one of the porter's lists, to be answered */
    uint64_t id;
    struct user_id who;
    uint32_t ask;
    int fd;
    /* The packet that was received. nfds: how many descriptors it had (RDMAD_MSG_MAX_FDS + 1:
     * more). fd: the one of a memfd, which the callee closes, or -1, or PORTER_NO_PLACE. data NULL:
     * the packet is lost. */
    void (*taken)(struct porter_visit *v, const void *data, size_t size, int fd, unsigned nfds);
    /* The memory is not needed any more. */
    void (*ended)(struct porter_visit *v);
    bool closes; /* internal */
};

void porter_visit_init(struct porter *p, struct porter_visit *v, int fd, struct user_id who);
/* Has the next packet of v->fd received; taken is called in a later turn, once. */
void porter_take(struct porter *p, struct porter_visit *v);
/* Takes over v->fd, so that the daemon's reference to the socket is not the last, and calls ended,
 * now or later; taken is not called any more. */
void porter_end(struct porter *p, struct porter_visit *v);
/* Has v->fd closed, which may last as long as a client wants: ended is called when it is, and only
 * the same user's wait meanwhile. Of v nothing else was asked before. */
void porter_close(struct porter *p, struct porter_visit *v);
/* Gives up fd, of which it is not known whose it is: whatever its last close costs, the porter pays
 * it, and nobody is told. Only those of the same line wait for it. */
void porter_drop(struct porter *p, int fd, uint32_t line);
/* A stop does not wait for what is being closed: ended is called of all that the porter has, and
 * from now on as soon as the porter has it. Harmless with NULL. */
void porter_forget_closes(struct porter *p);

#endif
