/* SPDX-License-Identifier: MIT */
/*
 * handover.h - what one life of the daemon hands to the next in the same process: its listening
 * sockets, and a few words in the environment.
 *
 * The happy path: handover_exec() becomes the program file with the same arguments and the same
 * pid; handover_take(), first thing in the next life, reads the words and removes them. Of what a
 * process inherits without being told (signal mask, limits, working directory) nothing has changed,
 * but for SIGTERM, SIGINT and SIGHUP: one that comes in between waits, blocked, for the next life.
 */
#ifndef RDMAD_HANDOVER_H
#define RDMAD_HANDOVER_H

#include "daemon/config/config.h"
#include "daemon/ipc/kept.h"
#include <stdint.h>
#include <sys/types.h>

struct event_base;
struct reaper;

struct handover {
    unsigned times;    /* how often since the process was started; 0: there was no life before */
    char from[32];     /* its version */
    uint64_t began_ns; /* when it began to stop, as clock_now_ns */
    uint16_t port;     /* where peers reached it */
    pid_t porter;      /* its child, which ends by itself; 0: none */
};

/* Once, before there are threads. What is not as it was written is as if it were not there; what
 * a later version has added behind it is not looked at. */
void handover_take(struct handover *out);
/* Where the settings leave the port to the kernel, peers find this life at the one they know. */
void handover_keep_port(const struct handover *h, struct config *c);

/* The environment for a trial of the next life: with the words that it would find, and the sockets
 * that the life that is would leave to it, or make way for. To be freed; NULL: out of memory. */
char **handover_for_trial(const struct handover *h, const struct kept *kept);
/* Those sockets, in the trial, which has not got their descriptors (-1). */
void handover_take_told(struct kept *out);

/* Waits in the loop for the end of the porter of the life before. NULL: there is none, or no memory
 * (then it stays in the table of processes until the end). */
struct reaper *reaper_new(struct event_base *base, const struct handover *h);
void reaper_free(struct reaper *r); /* NULL is allowed */

/* With one thread that matters, or none that exec would not end. Returns only when it cannot be:
 * the exit code, and it was logged why. */
int handover_exec(const char *program, char **argv, struct kept *kept, const struct handover *h);

#endif
