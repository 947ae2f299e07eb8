/* SPDX-License-Identifier: MIT */
/*
 * bystander.c - rounds of a session, timed.
 *
 * What is being waited for when the neighbour is stopped counts too: the time at which the call
 * began is in the memory that both processes share.
 */
#include "tests/support/bystander.h"
#include "tests/support/procs.h"

#include <grp.h>
#include <rdmad/rdmad.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

enum { OPS_A_ROUND = 200, CALLS_A_ROUND = 20, BYTES = 64, POOL = 1 << 20 };

enum kind { OP, CALL, KINDS };

struct bystander { /* shared by both processes */
    uint64_t worst_ns[KINDS], count[KINDS];
    uint64_t began_ns;              /* of what is under way; 0: nothing */
    uint64_t crowded_ns, looked_ns; /* the machine's part of all waits until then */
    uint32_t kind;
    uint32_t rounds;
    const char *runtime_dir;
    pid_t pid, served_by[2]; /* the daemon and its porter */
};

enum { BOUND_NS = BYSTANDER_BOUND_MS * 1000000u };

static uint64_t now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static uint64_t crowded_ns(const struct bystander *b) {
    return process_crowded_ns(b->pid) + process_crowded_ns(b->served_by[0]) +
           process_crowded_ns(b->served_by[1]);
}

/* What a wait was without the machine's part, which is asked for when it is beyond the bound. */
static uint64_t without_crowd(const struct bystander *b, uint64_t took) {
    uint64_t before = __atomic_load_n(&b->crowded_ns, __ATOMIC_RELAXED), now;
    if (took <= BOUND_NS || (now = crowded_ns(b)) <= before)
        return took;
    return now - before < took ? took - (now - before) : 0;
}

static void begin(struct bystander *b, enum kind kind) {
    uint64_t now = now_ns();
    if (now - b->looked_ns > BOUND_NS / 4) {
        __atomic_store_n(&b->crowded_ns, crowded_ns(b), __ATOMIC_RELAXED);
        b->looked_ns = now = now_ns();
    }
    __atomic_store_n(&b->kind, kind, __ATOMIC_RELAXED);
    __atomic_store_n(&b->began_ns, now, __ATOMIC_RELEASE);
}

static void end(struct bystander *b, enum kind kind, int rc, const char *what) {
    uint64_t took = without_crowd(b, now_ns() - b->began_ns);
    __atomic_store_n(&b->began_ns, 0, __ATOMIC_RELEASE);
    CHECK(!rc, "the bystander's %s: %s", what, rdmad_last_error(NULL));
    if (took > b->worst_ns[kind])
        __atomic_store_n(&b->worst_ns[kind], took, __ATOMIC_RELAXED);
    b->count[kind]++;
}

#define TIMED(b, kind, what, call)    \
    do {                              \
        begin(b, kind);               \
        int timed_rc = (call);        \
        end(b, kind, timed_rc, what); \
    } while (0)

static void one_round(struct bystander *b) {
    struct rdmad_options options = RDMAD_OPTIONS_INIT;
    rdmad_session *s;
    rdmad_pool *pool;
    rdmad_lease *lease, *there;
    struct rdmad_lease_audit audit = RDMAD_LEASE_AUDIT_INIT;

    options.runtime_dir = b->runtime_dir;
    options.name = "bystander";
    TIMED(b, CALL, "open", rdmad_open(&options, &s));
    TIMED(b, CALL, "pool", rdmad_pool_create(s, POOL, 0, &pool));
    char *near = rdmad_alloc(pool, BYTES), *far = rdmad_alloc(pool, BYTES);
    CHECK(near && far, "the bystander has no memory: %s", rdmad_last_error(s));
    TIMED(b, CALL, "grant", rdmad_lease_grant(s, far, BYTES, NULL, &lease));
    TIMED(b, CALL, "attach", rdmad_lease_attach(s, rdmad_lease_uri(lease), 0, &there));
    TIMED(b, CALL, "first write", rdmad_write(there, 0, near, BYTES)); /* makes a ring first */
    for (unsigned i = 0; i < CALLS_A_ROUND; i++) {
        TIMED(b, CALL, "audit", rdmad_lease_get_audit(lease, &audit));
        for (unsigned k = 0; k < OPS_A_ROUND / CALLS_A_ROUND; k++)
            TIMED(b, OP, "write", rdmad_write(there, 0, near, BYTES));
    }
    rdmad_lease_free(there);
    TIMED(b, CALL, "revoke", rdmad_lease_revoke(lease));
    rdmad_lease_free(lease);
    rdmad_close(s);
}

static void live(void *arg) {
    struct bystander *b = arg;
    b->pid = getpid();
    if (getuid() == 0)
        CHECK(!setgroups(0, NULL) && !setresgid(BYSTANDER_UID, BYSTANDER_UID, BYSTANDER_UID) &&
                  !setresuid(BYSTANDER_UID, BYSTANDER_UID, BYSTANDER_UID),
              "cannot become uid %u", BYSTANDER_UID);
    for (;;) {
        one_round(b);
        __atomic_add_fetch(&b->rounds, 1, __ATOMIC_RELEASE);
    }
}

struct bystander *bystander_start(struct tdaemon *d) {
    struct bystander *b =
        mmap(NULL, sizeof(*b), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CHECK(b != MAP_FAILED, "no memory to share with the bystander");
    b->runtime_dir = tdaemon_dir(d);
    b->served_by[0] = tdaemon_pid(d);
    b->served_by[1] = tdaemon_porter(d);
    b->pid = client_fork(live, b);
    for (uint64_t since = now_ms(); !__atomic_load_n(&b->rounds, __ATOMIC_ACQUIRE);) {
        CHECK(client_running(b->pid), "the bystander ended at once");
        CHECK(now_ms() - since < TEST_PATIENCE_MS, "the bystander's first round takes for ever");
        sleep_ms(1);
    }
    for (unsigned i = 0; i < KINDS; i++) /* what came before the attack is not its doing */
        __atomic_store_n(&b->worst_ns[i], 0, __ATOMIC_RELAXED);
    return b;
}

static double worst_ms(const struct bystander *b, enum kind kind) {
    uint64_t worst = __atomic_load_n(&b->worst_ns[kind], __ATOMIC_RELAXED);
    uint64_t began = __atomic_load_n(&b->began_ns, __ATOMIC_ACQUIRE);
    uint64_t under_way = now_ns() - began;
    if (began && __atomic_load_n(&b->kind, __ATOMIC_RELAXED) == kind && under_way > worst) {
        under_way = without_crowd(b, under_way);
        worst = under_way > worst ? under_way : worst;
    }
    return (double)worst / 1e6;
}

double bystander_worst_op_ms(const struct bystander *b) {
    return worst_ms(b, OP);
}

double bystander_worst_call_ms(const struct bystander *b) {
    return worst_ms(b, CALL);
}

void bystander_stop(struct bystander *b, const char *attack) {
    const double bound = 10.0 * BYSTANDER_BOUND_MS * test_patience();
    bool running = client_running(b->pid);
    double op = bystander_worst_op_ms(b), call = bystander_worst_call_ms(b);
    double crowded = (double)crowded_ns(b) / 1e6;
    client_kill(b->pid);
    printf("  %s: a bystander's worst op %.1f ms of %llu, worst control call %.1f ms of %llu\n",
           attack, op, (unsigned long long)b->count[OP], call, (unsigned long long)b->count[CALL]);
    printf("    (in all it and the daemon were ready to run for %.0f ms while others ran)\n",
           crowded);
    CHECK(running, "%s: the bystander failed", attack);
    CHECK(b->count[OP] && b->count[CALL], "%s: the bystander did nothing", attack);
    CHECK(op < bound && call < bound, "%s: a bystander waited %.0f ms for an op, %.0f for a call",
          attack, op, call);
    munmap(b, sizeof(*b));
}
