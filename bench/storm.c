/* SPDX-License-Identifier: MIT */
/*
 * storm.c - a user who asks as often as it can, and moves hardly a byte. What its neighbour keeps
 * is measured beside it.
 *
 * bench_storm RUNTIME_DIR URI KIND says "ready" when a first round has gone well, and storms in
 * PROCESSES processes until it is killed. KIND is what a round is: "doorbell" rings those of 16
 * rings in which there is nothing, "cancel" submits a write and cancels it, "attach" attaches to
 * the lease and ends that, "session" opens a session with a pool and a ring and closes it, and
 * "request" asks for the daemon's names. "compute" asks for nothing: what a storm costs its
 * neighbour beyond that is rdmad's doing. What is refused, by a limit or a rate, is tried again,
 * after a nap as when the ring is full: a storm takes the daemon's time, not the processors'.
 *
 * They run with SCHED_IDLE: the processors that they take by themselves are the kernel's to share
 * out (CPUWeight=, cpu.weight), and would hide what they take of the daemon.
 */
#include <rdmad/rdmad.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

#define PROCESSES 4
#define NAP_NS 50000
#define RINGS 16
#define BELLS 64
#define DEPTH 64u
#define BYTES (256u << 10)
#define POOL (2u << 20)
#define OFFSET 4096 /* into the lease: rdmactl bench serve has its own words before it */

struct storm {
    const char *dir, *uri;
    rdmad_session *session;
    rdmad_lease *lease;
    char *from;
    rdmad_ring *ring[RINGS];
    int bell[BELLS], bells;
};

static int storm_up(struct storm *s, int attach, int rings) {
    struct rdmad_options options = RDMAD_OPTIONS_INIT;
    rdmad_pool *pool;
    options.runtime_dir = s->dir;
    int rc = rdmad_open(&options, &s->session);
    if (rc)
        return rc;
    rc = rdmad_pool_create(s->session, POOL, 0, &pool);
    s->from = rc ? NULL : rdmad_alloc(pool, BYTES);
    if (!rc && attach)
        rc = rdmad_lease_attach(s->session, s->uri, 0, &s->lease);
    for (int i = 0; !rc && i < rings; i++)
        rc = rdmad_ring_create(s->session, DEPTH, &s->ring[i]);
    return rc;
}

static void reap(rdmad_ring *ring) {
    const struct rdmad_cqe *cqe;
    while (rdmad_ring_peek(ring, &cqe) == 0)
        rdmad_ring_seen(ring, cqe);
}

/* The library would ring only for a worker that sleeps. */
static int round_doorbell(struct storm *s) {
    for (int i = 0; i < s->bells; i++)
        eventfd_write(s->bell[i], 1);
    return s->bells ? 0 : RDMAD_E_INVAL;
}

static void find_bells(struct storm *s) {
    char path[32], is[32];
    for (int fd = 3; fd < 1024 && s->bells < BELLS; fd++) {
        snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
        ssize_t n = readlink(path, is, sizeof is - 1);
        is[n > 0 ? n : 0] = 0;
        if (strcmp(is, "anon_inode:[eventfd]") == 0)
            s->bell[s->bells++] = fd;
    }
}

static int round_cancel(struct storm *s) {
    static uint64_t last;
    struct rdmad_sqe *sqe = rdmad_ring_reserve(s->ring[0]);
    if (sqe) {
        if (rdmad_prep_write(s->ring[0], sqe, s->lease, OFFSET, s->from, BYTES, ++last) == 0)
            rdmad_ring_submit(s->ring[0]);
        else
            rdmad_ring_unreserve(s->ring[0], sqe);
    }
    sqe = rdmad_ring_reserve(s->ring[0]);
    int rc = sqe ? 0 : RDMAD_E_BUSY; /* the ring is full */
    if (sqe) {
        if (rdmad_prep_cancel(s->ring[0], sqe, last, 0) == 0)
            rdmad_ring_submit(s->ring[0]);
        else
            rdmad_ring_unreserve(s->ring[0], sqe);
    }
    reap(s->ring[0]);
    return rc;
}

static int round_attach(struct storm *s) {
    rdmad_lease *lease;
    int rc = rdmad_lease_attach(s->session, s->uri, 0, &lease);
    if (!rc)
        rdmad_lease_free(lease);
    return rc;
}

static int round_session(struct storm *s) {
    struct storm one = {.dir = s->dir};
    int rc = storm_up(&one, 0, 1);
    if (one.session)
        rdmad_close(one.session);
    return rc;
}

static int round_request(struct storm *s) {
    struct rdmad_name names[4];
    size_t count;
    for (int i = 0; i < 4; i++)
        names[i] = (struct rdmad_name)RDMAD_NAME_INIT;
    return rdmad_names_list(s->session, NULL, "", NULL, 0, names, 4, &count);
}

static int round_compute(struct storm *s) {
    static volatile unsigned long turns;
    (void)s;
    turns++;
    return 0;
}

static const struct kind {
    const char *name;
    int attach, rings;
    int (*round)(struct storm *);
} kinds[] = {{"doorbell", 0, RINGS, round_doorbell}, {"cancel", 1, 1, round_cancel},
             {"attach", 0, 0, round_attach},         {"session", 0, 0, round_session},
             {"request", 0, 0, round_request},       {"compute", 0, 0, round_compute}};

static const struct kind *kind_of(const char *name) {
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++)
        if (strcmp(kinds[i].name, name) == 0)
            return &kinds[i];
    return NULL;
}

static int storm_on(struct storm *s, const struct kind *k, int tell) {
    int rc = storm_up(s, k->attach, k->rings);
    find_bells(s);
    if (!rc)
        rc = k->round(s);
    if (rc) {
        fprintf(stderr, "bench_storm: %s: %s: %s\n", k->name, rdmad_errname(rc),
                rdmad_last_error(s->session));
        return 1;
    }
    if (tell) {
        printf("ready\n");
        fflush(stdout);
    }
    for (;;)
        if (k->round(s))
            nanosleep(&(struct timespec){.tv_nsec = NAP_NS}, NULL);
}

int main(int argc, char **argv) {
    const struct kind *k = argc == 4 ? kind_of(argv[3]) : NULL;
    if (!k) {
        fprintf(stderr,
                "usage: %s RUNTIME_DIR URI doorbell|cancel|attach|session|request|compute\n",
                argv[0]);
        return 2;
    }
    struct storm s = {.dir = argv[1], .uri = argv[2]};
    sched_setscheduler(0, SCHED_IDLE, &(struct sched_param){0});
    pid_t parent = getpid();
    for (int i = 1; i < PROCESSES; i++) {
        if (fork() != 0)
            continue;
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        return getppid() == parent ? storm_on(&s, k, 0) : 1;
    }
    return storm_on(&s, k, 1);
}
