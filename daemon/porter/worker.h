/* SPDX-License-Identifier: MIT */
/*
 * worker.h - a process that takes packets of one user's sockets.
 */
#ifndef RDMAD_PORTER_WORKER_H
#define RDMAD_PORTER_WORKER_H

/* Its main: tasks is its end of the pair. */
_Noreturn void worker_run(int tasks);

#endif
