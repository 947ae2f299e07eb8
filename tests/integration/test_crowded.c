/* SPDX-License-Identifier: MIT */
/*
 * test_crowded.c - waiting where programs that only compute want every processor: never much worse
 * than sleeping at once.
 *
 * Two daemons that differ in their spin settings only, and one op at a time through each in turns.
 * How much better or worse is for bench/compare --loaded to say; here it is a tenth that fails.
 *
 * And a worker that is woken there is not left waiting: it has the kernel's shortest slices.
 */
#include "tests/support/harness.h"
#include "tests/support/procs.h"

#include <errno.h>
#include <rdmad/rdmad.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { ROUNDS = 3, ROUND_MS = 400, LOOPS_MAX = 256 };

static const struct way {
    const char *name, *config;
} by_default = {"by default", "{}"},
  never_spins = {"never spinning", "{\"spin\": {\"min_us\": 0, \"max_us\": 0, \"client_us\": 0}}"};

struct side {
    const struct way *way;
    struct tdaemon *d;
    rdmad_session *session;
    rdmad_ring *ring;
    uint64_t most; /* ops in the best of its rounds */
};

static void side_up(struct side *s, const struct way *way) {
    char path[160];
    const char *tmp = getenv("TMPDIR");
    snprintf(path, sizeof(path), "%s/crowded.json", tmp ? tmp : "/tmp");
    FILE *f = fopen(path, "we");
    CHECK(f && fputs(way->config, f) >= 0 && fclose(f) == 0, "%s", path);
    *s = (struct side){.way = way};
    s->d = tdaemon_start("127.0.0.1", (const char *[]){"--config", path, NULL});
    unlink(path);
    struct rdmad_options options = RDMAD_OPTIONS_INIT;
    options.runtime_dir = tdaemon_dir(s->d);
    CHECK(rdmad_open(&options, &s->session) == 0 &&
              rdmad_ring_create(s->session, 16, &s->ring) == 0,
          "%s", rdmad_last_error(NULL));
}

static void side_down(struct side *s) {
    rdmad_close(s->session);
    tdaemon_stop(s->d);
}

static void one_op(struct side *s) {
    const struct rdmad_cqe *cqe;
    struct rdmad_sqe *sqe = rdmad_ring_reserve(s->ring);
    CHECK(sqe && !rdmad_prep_nop(s->ring, sqe, 1), "%s", rdmad_last_error(s->session));
    CHECK(rdmad_ring_submit(s->ring) == 1, "%s", rdmad_last_error(s->session));
    CHECK(rdmad_ring_wait(s->ring, (int)TEST_PATIENCE_MS, &cqe) == 0 && cqe->status == 0,
          "an op %s: %s", s->way->name, rdmad_last_error(s->session));
    rdmad_ring_seen(s->ring, cqe);
}

static void a_round(struct side *s) {
    uint64_t count = 0;
    for (uint64_t end = now_ms() + ROUND_MS; now_ms() < end; count++)
        one_op(s);
    if (count > s->most)
        s->most = count;
}

static void compute(void *arg) {
    (void)arg;
    for (volatile unsigned long n = 0;; n++)
        ;
}

static void on_a_crowded_machine_waiting_is_not_much_worse_than_sleeping(void) {
    struct side side[2];
    pid_t loop[LOOPS_MAX];
    long loops = 2 * sysconf(_SC_NPROCESSORS_ONLN);
    if (test_sanitized())
        skip("a sanitizer's spinning is not ours");
    loops = loops < LOOPS_MAX ? loops : LOOPS_MAX;
    side_up(&side[0], &by_default);
    side_up(&side[1], &never_spins);
    for (long i = 0; i < loops; i++)
        loop[i] = client_fork(compute, NULL);
    for (int round = 0; round < ROUNDS; round++)
        for (int i = 0; i < 2; i++)
            a_round(&side[i]);
    for (long i = 0; i < loops; i++)
        client_kill(loop[i]);
    for (int i = 0; i < 2; i++)
        printf("%s: %lu ops in %d ms beside %ld busy loops\n", side[i].way->name,
               (unsigned long)side[i].most, ROUND_MS, loops);
    CHECK(side[0].most * 10 >= side[1].most, "%lu ops by default, %lu without spinning",
          (unsigned long)side[0].most, (unsigned long)side[1].most);
    for (int i = 0; i < 2; i++)
        side_down(&side[i]);
}
/* ---- slices -------------------------------------------------------------------------------- */

/* Nanoseconds; 0 where the kernel knows none. */
static unsigned long long slice_of(pid_t tid) {
    struct { /* sched_setattr(2); the kernel's header and older glibc's do not go together */
        uint32_t size, policy;
        uint64_t flags;
        uint32_t nice, priority;
        uint64_t runtime, deadline, period;
    } attr = {.size = sizeof(attr)};
    CHECK(!syscall(SYS_sched_getattr, tid, &attr, sizeof(attr), 0), "%s", strerror(errno));
    return attr.runtime;
}

static void a_worker_that_is_woken_has_the_shortest_slices(void) {
    if (!slice_of(0))
        skip("this kernel has no slices to ask for");
    struct side side;
    side_up(&side, &by_default);
    one_op(&side); /* its worker runs */
    unsigned long long ns = slice_of(process_find_thread(tdaemon_pid(side.d), "rdmad-worker-0"));
    CHECK(ns == 100000, "slices of %llu ns", ns);
    side_down(&side);
}

TEST_MAIN(CASE(on_a_crowded_machine_waiting_is_not_much_worse_than_sleeping),
          CASE(a_worker_that_is_woken_has_the_shortest_slices))
