/* SPDX-License-Identifier: MIT */
/*
 * test_punch.c - a client punches holes into its pool, which seals cannot forbid. The daemon lives,
 * its accounting holds, and the memory it charges is the memory there is.
 */
#include "tests/support/harness.h"
#include "tests/support/rawclient.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <unistd.h>

enum { HUGE = 2 << 20, POOL = 4 << 20 };
static const char nr_hugepages[] = "/proc/sys/vm/nr_hugepages";

static void punch(const struct raw_pool *p) {
    CHECK(fallocate(p->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, (off_t)p->bytes) == 0,
          "punch: %s", strerror(errno));
}

/* A pool, leased to its own session; flags as of the pool. */
struct stage {
    int sock;
    struct raw_pool pool, mine;
    struct raw_ring ring;
    struct rdmad_lease_grant_rep lease;
    struct rdmad_lease_attach_rep attach;
};

static int stage_up(struct stage *s, const char *dir, uint32_t flags) {
    char text[RDMAD_TEXT_MAX + 1];
    s->sock = raw_session(dir);
    int status = raw_pool_create(s->sock, POOL, flags, &s->pool);
    if (status) {
        close(s->sock);
        return status;
    }
    CHECK(raw_pool_create(s->sock, POOL, 0, &s->mine) == 0, "pool");
    CHECK(raw_ring_create(s->sock, 16, &s->ring) == 0, "ring");
    CHECK(raw_grant(s->sock, &s->pool, UINT64_C(600000000000), &s->lease, text) == 0, "grant: %s",
          text);
    CHECK(raw_attach(s->sock, s->lease.uri, &s->attach, text) == 0, "attach: %s", text);
    return 0;
}

static void stage_down(struct stage *s) {
    raw_ring_unmap(&s->ring);
    raw_pool_unmap(&s->pool);
    raw_pool_unmap(&s->mine);
    close(s->sock);
}

/* A whole-pool transfer; false when the session ended instead or the op failed. */
static bool transfer(struct stage *s, uint8_t opcode) {
    struct rdmad_cqe cqe;
    struct rdmad_sqe sqe = {
        .opcode = opcode, .pool = s->mine.handle, .length = POOL, .lease = s->attach.handle};
    raw_ring_put(&s->ring, &sqe, 1);
    return raw_ring_take(&s->ring, &cqe, (int)TEST_PATIENCE_MS) && cqe.status == 0;
}

static void ordinary_pages(void) {
    struct tdaemon *d = tdaemon_start("127.0.0.1", NULL);
    close(raw_session(tdaemon_dir(d)));
    sleep_ms(100);
    json_t *before = tdaemon_objects(d);
    struct stage s;
    CHECK(stage_up(&s, tdaemon_dir(d), 0) == 0, "pool");
    json_t *during = tdaemon_objects(d);
    for (unsigned i = 0; i < 20; i++) {
        memset(s.pool.base, 'x', POOL);
        punch(&s.pool);
        transfer(&s, i % 2 ? RDMAD_OP_READ : RDMAD_OP_WRITE);
    }
    tdaemon_expect_objects(d, during);
    stage_down(&s);
    tdaemon_expect_objects(d, before);
    tdaemon_stop(d);
}

/* Pages punched out and touched again, over and over, are the same pool: what the daemon has
 * mapped does not grow beyond what it charged. */
static void punch_and_touch_pins_nothing_more(void) {
    struct tdaemon *d = tdaemon_start("127.0.0.1", NULL);
    struct stage s;
    CHECK(stage_up(&s, tdaemon_dir(d), 0) == 0, "pool");
    transfer(&s, RDMAD_OP_WRITE);
    uint64_t rss = tdaemon_rss_bytes(d);
    for (unsigned i = 0; i < 50; i++) {
        punch(&s.pool);
        memset(s.pool.base, (int)i, POOL);
        CHECK(transfer(&s, RDMAD_OP_READ), "a pool that is all there again cannot be read");
        CHECK(s.mine.base[POOL - 1] == (uint8_t)i, "the read brought other bytes");
    }
    if (!test_sanitized())
        CHECK(tdaemon_rss_bytes(d) < rss + UINT64_C(2) * POOL,
              "punch and touch made rdmad grow from %lu to %lu", (unsigned long)rss,
              (unsigned long)tdaemon_rss_bytes(d));
    stage_down(&s);
    tdaemon_stop(d);
}

/* ---- hugetlb: a punched page that somebody else takes is SIGBUS at the next touch ---------- */

static unsigned long huge_pages(void) {
    FILE *f = fopen(nr_hugepages, "re");
    unsigned long n = 0;
    if (f && fscanf(f, "%lu", &n) != 1)
        n = 0;
    if (f)
        fclose(f);
    return n;
}

static bool set_huge_pages(unsigned long n) {
    FILE *f = fopen(nr_hugepages, "we");
    if (!f)
        return false;
    bool ok = fprintf(f, "%lu\n", n) > 0;
    return fclose(f) == 0 && ok && huge_pages() >= n;
}

static void *take_all_huge_pages(size_t *bytes) {
    for (*bytes = 64 * (size_t)HUGE; *bytes; *bytes -= HUGE) {
        void *p = mmap(NULL, *bytes, PROT_READ | PROT_WRITE,
                       MAP_SHARED | MAP_ANONYMOUS | MAP_HUGETLB | MAP_POPULATE, -1, 0);
        if (p != MAP_FAILED)
            return p;
    }
    return NULL;
}

static void punch_huge_pages(void *arg) {
    (void)arg;
    struct tdaemon *d = tdaemon_start("127.0.0.1", NULL);
    close(raw_session(tdaemon_dir(d)));
    sleep_ms(100);
    json_t *before = tdaemon_objects(d);
    for (unsigned i = 0; i < 4; i++) {
        struct stage s, neighbour;
        CHECK(stage_up(&neighbour, tdaemon_dir(d), 0) == 0, "pool");
        CHECK(stage_up(&s, tdaemon_dir(d), RDMAD_POOL_HUGETLB) == 0, "a pool of huge pages");
        size_t taken;
        punch(&s.pool);
        void *thief = take_all_huge_pages(&taken);
        CHECK(thief, "no huge page can be taken");
        CHECK(!transfer(&s, i % 2 ? RDMAD_OP_READ : RDMAD_OP_WRITE), "memory that is gone moved");
        CHECK(raw_ended(s.sock, (int)TEST_PATIENCE_MS), "the session lives on without its memory");
        CHECK(transfer(&neighbour, RDMAD_OP_WRITE), "a neighbour suffers");
        munmap(thief, taken);
        stage_down(&s);
        stage_down(&neighbour);
    }
    tdaemon_expect_objects(d, before);
    tdaemon_stop(d);
}

/* The pages are the machine's: one test has them at a time, and whatever becomes of the process
 * that uses them, their number is put back. */
static void huge_pages_that_vanish_end_the_session_only(void) {
    int lock = open(nr_hugepages, O_RDONLY | O_CLOEXEC);
    if (lock < 0 || flock(lock, LOCK_EX) != 0)
        skip("no huge pages: %s: %s", nr_hugepages, strerror(errno));
    unsigned long before = huge_pages();
    if (before < 8 && !set_huge_pages(8)) {
        set_huge_pages(before);
        skip("no huge pages: %s cannot be raised to 8", nr_hugepages);
    }
    pid_t pid = client_fork(punch_huge_pages, NULL);
    while (client_running(pid))
        sleep_ms(10);
    set_huge_pages(before);
    close(lock);
    client_expect_ok(pid);
}

TEST_MAIN(CASE(ordinary_pages), CASE(punch_and_touch_pins_nothing_more),
          CASE(huge_pages_that_vanish_end_the_session_only))
