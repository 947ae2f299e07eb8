/* SPDX-License-Identifier: MIT */
/*
 * kept.h - listening sockets that stay open when one life of the daemon follows another in the same
 * process, so that who connects meanwhile waits in the backlog and is not refused.
 *
 * The happy path: the life that ends gives each of its sockets here (listener_keep) and passes them
 * on as systemd passes sockets (kept_pass). The next life knows by the name KEPT_NAME which of them
 * rdmad has bound itself, and whoever listens at the same path takes its socket from here
 * (listener_new).
 */
#ifndef RDMAD_IPC_KEPT_H
#define RDMAD_IPC_KEPT_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/un.h>

#define KEPT_NAME "kept"
#define KEPT_MAX 80u

struct kept_socket {
    int fd;
    char path[sizeof(((struct sockaddr_un *)0)->sun_path)];
    char name[16]; /* by which it is passed on: KEPT_NAME, or as systemd calls it */
};

struct kept { /* all zero: none */
    unsigned count;
    struct kept_socket socket[KEPT_MAX];
};

/* name: as it is passed on. false: there is no room, or it is no Unix socket with a path; fd stays
 * the caller's. */
bool kept_add(struct kept *k, int fd, const char *name);
/* The socket that is bound to path, the caller's from then on, or -1. */
int kept_take(struct kept *k, const char *path);

/* By which name it is passed on; NULL: it is not there. k may be NULL. */
const char *kept_name(const struct kept *k, const char *path);

/* Right before exec, with one thread: the sockets are where sd_listen_fds(3) expects them, with
 * these words for LISTEN_FDNAMES, and nothing else stays open across an exec but standard input,
 * output and error. false, with errno. */
bool kept_pass(struct kept *k, char *names, size_t size);

#endif
