/* SPDX-License-Identifier: MIT */
/*
 * test_verbs_faults.c - things happen to the devices in the middle of transfers: the port goes down
 * and up, the address goes and comes, every packet is lost for three seconds, the device itself is
 * taken away and given back. Each to either side's device in turns.
 *
 * Lessees write and read all the while, each in a range of its own, and check each of these:
 *   - every op ends, by its deadline plus the quiesce bound, in exactly one typed way;
 *   - a read brings, word by word, nothing older than the last write that is known to be done, and
 *     nothing that was not written;
 *   - transfers resume by themselves: the same lease, no new attach.
 * And the daemons: nothing of them crashes or hangs, what they held before they hold after.
 */
#include "tests/support/harness.h"
#include "tests/support/rdma.h"

#include <rdmad/rdmad.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum {
    LESSEES = 3,
    DEADLINE_MS = 4000,
    QUIESCE_MS = 1000, /* verbs.quiesce_ms */
    RANGE = 1 << 20,
    AT_ONCE = 64, /* entries of a lessee's ring */
};

/* What a lessee tells the test, in memory that both see. */
struct progress {
    uint64_t done, failed; /* ops */
    uint64_t longest_ms;   /* of an op */
    bool finish;           /* the test's: come to an end */
};

struct lessee {
    const struct tdaemon *daemon;
    const char *uri;
    unsigned number;
    bool reads_nothing; /* all that it does, but for the end */
    struct progress *progress;
    rdmad_session *session;
    rdmad_lease *lease;
    uint64_t *memory;
    /* In each word of the range, at least and at most; writes count up. */
    uint64_t known, tried;
};

struct scene {
    struct tdaemon *daemon[2]; /* the owner's on rxe0 over va, the lessees' on rxe1 over vb */
    rdmad_session *owner;
    char uri[RDMAD_URI_MAX + 1];
    json_t *before[2];
    struct progress *progress;
    struct lessee lessee[LESSEES];
    pid_t pid[LESSEES];
};

/* ---- a lessee at work ------------------------------------------------------------------------ */

/* One op of size bytes by a ring of its own, so that it has a deadline of its own. */
static struct rdmad_cqe op(struct lessee *l, rdmad_ring *ring, bool write, size_t size) {
    uint64_t start = now_ms(), offset = (uint64_t)l->number * RANGE;
    struct rdmad_sqe *sqe = rdmad_ring_reserve(ring);
    const struct rdmad_cqe *cqe;
    CHECK(sqe, "no room in the ring");
    int rc = write ? rdmad_prep_write(ring, sqe, l->lease, offset, l->memory, size, 1)
                   : rdmad_prep_read(ring, sqe, l->lease, offset, l->memory, size, 1);
    CHECK(rc == 0, "prepare: %d", rc);
    rdmad_sqe_set_deadline(sqe, DEADLINE_MS);
    CHECK(rdmad_ring_submit(ring) == 1, "submit: %s", rdmad_last_error(l->session));
    rc = rdmad_ring_wait(ring, DEADLINE_MS + QUIESCE_MS + (int)TEST_PATIENCE_MS, &cqe);
    uint64_t took = now_ms() - start;
    CHECK(rc == 0, "lessee %u: a %s without end after %lu ms: %s", l->number,
          write ? "write" : "read", (unsigned long)took, rdmad_strerror(rc));
    CHECK((cqe->status == 0) == (cqe->outcome == RDMAD_DONE) && cqe->outcome <= RDMAD_UNKNOWN,
          "status %d with outcome %u", cqe->status, cqe->outcome);
    char text[RDMAD_TEXT_MAX + 1];
    rdmad_ring_explain(ring, cqe, text, sizeof(text));
    if (cqe->status)
        printf("  lessee %u: after %lu ms: %s, outcome %u\n", l->number, (unsigned long)took, text,
               cqe->outcome);
    CHECK(cqe->status == 0 || cqe->status == RDMAD_E_TIMEOUT || cqe->status == RDMAD_E_PEER_LOST ||
              cqe->status == RDMAD_E_UNREACHABLE,
          "lessee %u: a %s ended with %s", l->number, write ? "write" : "read",
          rdmad_errname(cqe->status));
    if (took > l->progress->longest_ms)
        l->progress->longest_ms = took;
    struct rdmad_cqe copy = *cqe;
    rdmad_ring_seen(ring, cqe);
    __atomic_fetch_add(copy.status ? &l->progress->failed : &l->progress->done, 1,
                       __ATOMIC_RELAXED);
    return copy;
}

static void write_once(struct lessee *l, rdmad_ring *ring, size_t size) {
    l->tried++;
    for (size_t i = 0; i < RANGE / 8; i++)
        l->memory[i] = l->tried;
    struct rdmad_cqe cqe = op(l, ring, true, size);
    /* Only the whole range has one number; what was not touched keeps its old one. */
    if (cqe.status == 0 && size == RANGE)
        l->known = l->tried;
}

static void read_once(struct lessee *l, rdmad_ring *ring, size_t size) {
    memset(l->memory, 0xff, RANGE);
    if (op(l, ring, false, size).status)
        return;
    for (size_t i = 0; i < size / 8; i++)
        CHECK(l->memory[i] >= l->known && l->memory[i] <= l->tried,
              "lessee %u: word %zu is %lu: write %lu was done, %lu is the last", l->number, i,
              (unsigned long)l->memory[i], (unsigned long)l->known, (unsigned long)l->tried);
}

/* As many at once as a ring takes, so that some are with their target whenever its port goes. */
static void read_nothing(struct lessee *l, rdmad_ring *ring) {
    const struct rdmad_cqe *cqe;
    for (unsigned i = 0; i < AT_ONCE; i++) {
        struct rdmad_sqe *sqe = rdmad_ring_reserve(ring);
        CHECK(sqe && !rdmad_prep_read(ring, sqe, l->lease, 0, l->memory, 0, i), "no room");
        rdmad_sqe_set_deadline(sqe, 500);
    }
    CHECK(rdmad_ring_submit(ring) == AT_ONCE, "submit: %s", rdmad_last_error(l->session));
    for (unsigned i = 0; i < AT_ONCE; i++) {
        int rc = rdmad_ring_wait(ring, QUIESCE_MS + (int)TEST_PATIENCE_MS, &cqe);
        CHECK(rc == 0, "lessee %u: a read of no bytes without end: %s", l->number,
              rdmad_strerror(rc));
        __atomic_fetch_add(cqe->status ? &l->progress->failed : &l->progress->done, 1,
                           __ATOMIC_RELAXED);
        rdmad_ring_seen(ring, cqe);
    }
}

static void work_in_turns(struct lessee *l, rdmad_ring *ring) {
    /* The first moves whole ranges, the others also what fits one packet or none. */
    write_once(l, ring, RANGE);
    read_once(l, ring, RANGE);
    for (unsigned i = 0; i < 20 * l->number; i++) {
        write_once(l, ring, i % 2 ? 64 : 8192);
        read_once(l, ring, i % 2 ? 0 : 4096);
    }
}

static void work(void *arg) {
    struct lessee *l = arg;
    struct rdmad_options options = RDMAD_OPTIONS_INIT;
    rdmad_pool *pool;
    rdmad_ring *ring;
    struct rdmad_event event = RDMAD_EVENT_INIT;
    options.runtime_dir = tdaemon_dir(l->daemon);
    CHECK(!rdmad_open(&options, &l->session), "%s", rdmad_last_error(NULL));
    CHECK(!rdmad_pool_create(l->session, RANGE, 0, &pool), "%s", rdmad_last_error(l->session));
    CHECK(!rdmad_lease_attach(l->session, l->uri, 0, &l->lease), "%s",
          rdmad_last_error(l->session));
    CHECK(!rdmad_ring_create(l->session, AT_ONCE, &ring), "%s", rdmad_last_error(l->session));
    l->memory = rdmad_pool_base(pool);
    while (!__atomic_load_n(&l->progress->finish, __ATOMIC_RELAXED)) {
        if (l->reads_nothing)
            read_nothing(l, ring);
        else
            work_in_turns(l, ring);
    }
    write_once(l, ring, RANGE);
    read_once(l, ring, RANGE);
    CHECK(l->known == l->tried, "lessee %u: the last write did not arrive", l->number);
    CHECK(rdmad_next_event(l->session, 0, &event) == RDMAD_E_TIMEOUT, "event %u: %s", event.type,
          event.text);
    rdmad_ring_destroy(ring);
    rdmad_lease_free(l->lease);
    rdmad_close(l->session);
}

/* ---- the scene --------------------------------------------------------------------------------
 */

static void scene_open(struct scene *s, bool reads_nothing) {
    struct rdmad_options options = RDMAD_OPTIONS_INIT;
    struct rdmad_lease_terms terms = RDMAD_LEASE_TERMS_INIT;
    rdmad_pool *pool;
    rdmad_lease *lease;
    tdaemon_notice_silence_soon();
    s->daemon[0] = tdaemon_start("127.0.0.1", NULL);
    s->daemon[1] = tdaemon_start("127.0.0.2", NULL);
    options.runtime_dir = tdaemon_dir(s->daemon[0]);
    CHECK(!rdmad_open(&options, &s->owner), "%s", rdmad_last_error(NULL));
    CHECK(!rdmad_pool_create(s->owner, LESSEES * RANGE, 0, &pool), "%s",
          rdmad_last_error(s->owner));
    terms.ttl_ms = 3600000;
    CHECK(!rdmad_lease_grant(s->owner, rdmad_pool_base(pool), LESSEES * RANGE, &terms, &lease),
          "%s", rdmad_last_error(s->owner));
    memset(rdmad_pool_base(pool), 0, LESSEES * RANGE);
    snprintf(s->uri, sizeof(s->uri), "%s", rdmad_lease_uri(lease));
    s->before[0] = tdaemon_objects_of_clients(s->daemon[0]);
    s->before[1] = tdaemon_objects_of_clients(s->daemon[1]);
    s->progress = mmap(NULL, LESSEES * sizeof(*s->progress), PROT_READ | PROT_WRITE,
                       MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CHECK(s->progress != MAP_FAILED, "no memory");
    for (unsigned i = 0; i < LESSEES; i++) {
        s->lessee[i] = (struct lessee){.daemon = s->daemon[1],
                                       .uri = s->uri,
                                       .number = i,
                                       .reads_nothing = reads_nothing,
                                       .progress = &s->progress[i]};
        s->pid[i] = client_fork(work, &s->lessee[i]);
    }
}

static void scene_close(struct scene *s) {
    for (unsigned i = 0; i < LESSEES; i++)
        __atomic_store_n(&s->progress[i].finish, true, __ATOMIC_RELAXED);
    for (unsigned i = 0; i < LESSEES; i++) {
        client_expect_ok(s->pid[i]);
        printf("  lessee %u: %lu ops done, %lu failed, the longest took %lu ms\n", i,
               (unsigned long)s->progress[i].done, (unsigned long)s->progress[i].failed,
               (unsigned long)s->progress[i].longest_ms);
    }
    tdaemon_expect_objects(s->daemon[0], s->before[0]);
    tdaemon_expect_objects(s->daemon[1], s->before[1]);
    rdmad_close(s->owner);
    tdaemon_stop(s->daemon[1]);
    tdaemon_stop(s->daemon[0]);
}

static uint64_t done(const struct scene *s, unsigned lessee) {
    return __atomic_load_n(&s->progress[lessee].done, __ATOMIC_RELAXED);
}

/* Every lessee ends some more ops well. Ops that failed may take their deadline first. */
static void await_transfers(struct scene *s, const char *when) {
    uint64_t start = now_ms(), was[LESSEES];
    for (unsigned i = 0; i < LESSEES; i++)
        was[i] = done(s, i);
    for (unsigned i = 0; i < LESSEES; i++) {
        while (done(s, i) < was[i] + 4) {
            CHECK(client_running(s->pid[i]), "lessee %u ended", i);
            CHECK(now_ms() < start + DEADLINE_MS + QUIESCE_MS + TEST_PATIENCE_MS,
                  "%s: lessee %u does not come on", when, i);
            sleep_ms(5);
        }
    }
    uint64_t took = now_ms() - start;
    printf("  %s: transfers came on after %lu ms\n", when, (unsigned long)took);
    json_decref(tdaemon_status(s->daemon[0])); /* neither hangs */
    json_decref(tdaemon_status(s->daemon[1]));
}

/* fault does it to side, 0 the owner's, and undoes it. */
static void rounds_of(unsigned full, bool reads_nothing, void (*fault)(unsigned side),
                      const char *what) {
    struct scene s;
    scene_open(&s, reads_nothing);
    await_transfers(&s, "before");
    unsigned count = test_count(full) < 2 ? 2 : test_count(full); /* both sides at least */
    for (unsigned round = 0; round < count; round++) {
        sleep_ms((unsigned)(test_random() % 50));
        fault(round % 2);
        await_transfers(&s, what);
    }
    scene_close(&s);
}

static void rounds(void (*fault)(unsigned side), const char *what) {
    rounds_of(20, false, fault, what);
}

static const char *const netdev[2] = {"va", "vb"}, *const address[2] = {"10.77.0.1", "10.77.0.2"};

/* ---- the faults -------------------------------------------------------------------------------
 */

static void port_down_and_up(unsigned side) {
    shell(5000, "ip link set %s down", netdev[side]);
    sleep_ms((unsigned)(test_random() % 1500));
    shell(5000, "ip link set %s up", netdev[side]);
}

static void address_away_and_back(unsigned side) {
    shell(5000, "ip address del %s/24 dev %s", address[side], netdev[side]);
    sleep_ms((unsigned)(test_random() % 1500));
    shell(5000, "ip address add %s/24 dev %s", address[side], netdev[side]);
}

static void all_packets_lost(unsigned side) {
    shell(5000, "tc qdisc add dev %s root netem loss 100%%", netdev[side]);
    sleep_ms(3000);
    shell(5000, "tc qdisc del dev %s root", netdev[side]);
}

/* Only for as long as it takes an answer to lose its way. */
static void target_port_flaps(unsigned side) {
    (void)side;
    shell(5000, "ip link set %s down; ip link set %s up", netdev[0], netdev[0]);
}

/* The kernel waits in it until the daemon has let go of everything. */
static void device_away_and_back(unsigned side) {
    shell(TEST_PATIENCE_MS, "rdma link delete rxe%u", side);
    sleep_ms((unsigned)(test_random() % 1000));
    shell(5000, "rdma link add rxe%u type rxe netdev %s", side, netdev[side]);
}

static void transfers_survive_a_port_that_goes_down(void) {
    rounds(port_down_and_up, "port down and up");
}
/* A READ of no bytes whose answer cannot be sent ends the kernel of its target in rdma_rxe: it
 * gives back a registration that it never took. */
static void reads_of_no_bytes_leave_the_kernel_of_their_target_alive(void) {
    rounds_of(100, true, target_port_flaps, "port down and up beside READs of no bytes");
}
static void transfers_survive_an_address_that_goes(void) {
    rounds(address_away_and_back, "address removed and added");
}
static void transfers_survive_the_loss_of_all_packets(void) {
    rounds(all_packets_lost, "all packets lost for 3 s");
}
static void transfers_survive_a_device_that_goes(void) {
    rounds(device_away_and_back, "device deleted and added");
}

TEST_MAIN(CASE(transfers_survive_a_port_that_goes_down),
          CASE(reads_of_no_bytes_leave_the_kernel_of_their_target_alive),
          CASE(transfers_survive_an_address_that_goes),
          CASE(transfers_survive_the_loss_of_all_packets),
          CASE(transfers_survive_a_device_that_goes))
