/* SPDX-License-Identifier: MIT */
/*
 * procs.h - what /proc says about a process; and one that is stopped, or a thread of it.
 */
#ifndef RDMAD_TEST_PROCS_H
#define RDMAD_TEST_PROCS_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/types.h>

uint64_t process_rss_bytes(pid_t pid);
uint64_t process_peak_bytes(pid_t pid); /* the most that was ever resident */
uint64_t process_cpu_ticks(pid_t pid);  /* utime + stime */

/* How long its threads, all together, were ready to run and somebody else ran: what a busy machine
 * adds to whatever they do. 0 where the kernel does not say. */
uint64_t process_crowded_ns(pid_t pid);

/* How often its threads have gone to sleep so far. */
uint64_t process_sleeps(pid_t pid);
/* Prints of each of its threads the name, the state and the system call, as /proc has them: of one
 * that hangs that may tell why. */
void process_show_threads(pid_t pid, FILE *to);
/* The same of it, of its children, and of theirs. */
void process_show_tree(pid_t pid, FILE *to);
/* Of that name; fails if there is none. */
pid_t process_find_thread(pid_t pid, const char *name);

/* Of how many descriptors an epoll of this process tells. */
unsigned epoll_watches(int epoll);
/* A child that does nothing and has all descriptors, as each has until it calls exec; no handlers
 * of pthread_atfork have run. It ends with this process. */
pid_t holder_fork(void);
void holder_end(pid_t pid);

/* SIGSTOP. It need not be a child; each of its threads stands still when this returns, which one
 * may not that is in the kernel, or waits for the processor, when kill() does. */
void process_stop(pid_t pid);
void process_go_on(pid_t pid);
bool process_is_stopped(pid_t pid);

/* Stops one thread of a child where it sleeps for events, as if it never woke; the others go on,
 * for it holds no lock there. name is what it is called (/proc/PID/task/TID/comm), NULL the first
 * thread. Returns its number for thread_go_on. */
pid_t thread_stop(pid_t pid, const char *name);
void thread_go_on(pid_t tid);

#endif
