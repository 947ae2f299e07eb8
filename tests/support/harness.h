/* SPDX-License-Identifier: MIT */
/*
 * harness.h - real daemons and real client processes for tests.
 *
 *     struct tdaemon *d = tdaemon_start("127.0.0.1", NULL);
 *     json_t *before = tdaemon_objects(d);
 *     ... clients come and go ...
 *     tdaemon_expect_objects(d, before);      (drops the reference)
 *     tdaemon_stop(d);                        (SIGTERM, exit 0, no sanitizer report)
 *
 * Nothing here returns an error: what goes wrong ends the case with a sentence and the daemon's
 * log. The daemon is $RDMAD_BUILD/daemon/rdmad, in a directory of its own that stop removes. It
 * dies with the test.
 *
 * With RDMAD_TEST_FABRIC=verbs (in the guest of tests/vm) the daemons of a case use rxe0 and rxe1
 * in turns, so that two of them are two hosts.
 */
#ifndef RDMAD_TEST_HARNESS_H
#define RDMAD_TEST_HARNESS_H

#include "tests/support/runner.h"

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* What the promises of time are multiplied with before a test on a busy machine fails. */
#define TEST_PATIENCE_MS (10000u * test_patience())

struct tdaemon;

/* Starts one listening on host (127.0.0.N), any port, which is kept for it until stop, and waits
 * until it answers. args: further arguments, NULL-terminated, or NULL. */
struct tdaemon *tdaemon_start(const char *host, const char *const *args);
void tdaemon_stop(struct tdaemon *d); /* SIGTERM, must exit 0 in time; frees d */
void tdaemon_end(struct tdaemon *d);  /* the same; d stays, for restart or stop */
void tdaemon_kill(struct tdaemon *d); /* SIGKILL and reaped; d stays, for restart or stop */
/* SIGKILL; its end is the caller's to wait for, who gets its pid; d is as after a kill. */
pid_t tdaemon_kill_and_leave(struct tdaemon *d);
void tdaemon_restart(struct tdaemon *d); /* after end or kill: the same directory and port */
/* Like restart, but it may also end by itself: then its wait status. 0: it runs. said: what it has
 * logged so far. */
int tdaemon_try_restart(struct tdaemon *d, char *said, size_t size);

/* The daemons that are started from now on are another program: of the build directory, or, if it
 * begins with a slash, anywhere. */
void tdaemon_use(const char *relative);

/* Links of the daemons that are started from now on are given up after half a second of silence, as
 * the settings have it; else, in the guest, after one. */
void tdaemon_notice_silence_soon(void);

const char *tdaemon_dir(const struct tdaemon *d);    /* --runtime-dir */
const char *tdaemon_listen(const struct tdaemon *d); /* "127.0.0.1:40123" */
pid_t tdaemon_pid(const struct tdaemon *d);
/* What links between its daemons use: $RDMAD_TEST_FABRIC, else "tcp". */
const char *test_fabric(void);
/* Whether a line of its log contains text, or will: promised within a second, waited for as long as
 * TEST_PATIENCE_MS. */
bool tdaemon_logged(const struct tdaemon *d, const char *text);
/* Whether none does, nor will in a second. */
bool tdaemon_silent(const struct tdaemon *d, const char *text);
/* The same of any daemon's log. */
bool log_tells(const char *path, const char *text);
bool log_is_silent(const char *path, const char *text);

/* Says skipped where the kernel has no userfaultfd, or does not let us have it: sessions end with
 * their daemon there. */
void need_hole_guard(void);

/* One JSON-RPC call over control.sock; result must be there (call) or an error code (error). */
json_t *tdaemon_call(struct tdaemon *d, const char *method, json_t *params);
/* How much of that limit is used, by its status: "sessions", "leases". */
uint64_t tdaemon_used(struct tdaemon *d, const char *limit);
json_t *tdaemon_status(struct tdaemon *d);
/* status's "objects": how many of everything the daemon holds. */
json_t *tdaemon_objects(struct tdaemon *d);
/* Those without peers and what belongs to them, which stay for a while after their last use. */
json_t *tdaemon_objects_of_clients(struct tdaemon *d);
/* Waits until the objects that before names are as there. Promised within 1 s; fails after
 * TEST_PATIENCE_MS. Drops the reference to before. */
void tdaemon_expect_objects(struct tdaemon *d, json_t *before);

pid_t tdaemon_porter(struct tdaemon *d);
void tdaemon_kill_porter(struct tdaemon *d); /* SIGKILL; returns when there is another */
/* Waits until it has no session any more: their clients have gone. */
void tdaemon_expect_no_session(struct tdaemon *d);
unsigned tdaemon_fds(const struct tdaemon *d);
uint64_t tdaemon_rss_bytes(const struct tdaemon *d);
uint64_t tdaemon_cpu_ticks(const struct tdaemon *d); /* utime + stime */
/* Waits until the daemon has at most that many descriptors. */
void tdaemon_expect_fds(struct tdaemon *d, unsigned at_most);

/* ---- client processes ---------------------------------------------------------------------- */

/* Runs fn(arg) in a child that dies with the test; exit code 0 when it returns. */
pid_t client_fork(void (*fn)(void *arg), void *arg);
void client_expect_ok(pid_t pid); /* waits for exit code 0 */
void client_kill(pid_t pid);      /* SIGKILL and reaped; it may have ended already */
bool client_running(pid_t pid);   /* not yet ended; does not reap */

/* Runs a program with arguments (NULL-terminated, argv[0] a path), waits, returns its exit code.
 * out (may be NULL) gets what it wrote to standard output and error. */
int run_program(const char *const *argv, char *out, size_t size);

/* ---- little things ------------------------------------------------------------------------- */

const char *build_path(const char *relative, char *buf, size_t size); /* under $RDMAD_BUILD */
void sleep_ms(unsigned ms);
uint64_t now_ms(void);
/* xorshift, seeded with $RDMAD_TEST_SEED or the clock; the seed is printed once. */
uint64_t test_random(void);
unsigned open_fds(pid_t pid); /* 0: this process */

#endif
