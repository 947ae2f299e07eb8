/* SPDX-License-Identifier: MIT */
/*
 * test_punch.c - a client that wants its memory back while the daemon uses it: once it is sealed no
 * page of it can be taken away, small or huge, and before that nothing uses it.
 */
#include "tests/support/bystander.h"
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

static void refused(int rc, const char *what) {
    CHECK(rc < 0 && (errno == EPERM || errno == EINVAL), "%s is not refused: %s", what,
          rc < 0 ? strerror(errno) : "it works");
}

/* Every way there is to take a page away, or to come by a mapping that could. */
static void try_to_take_away(const struct raw_pool *p) {
    char path[64];
    refused(fallocate(p->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, (off_t)p->bytes),
            "a hole");
    refused(madvise(p->base, p->bytes, MADV_REMOVE), "MADV_REMOVE");
    refused(ftruncate(p->fd, 0), "to shrink it");
    refused((int)pwrite(p->fd, "x", 1, 0), "a write");
    snprintf(path, sizeof(path), "/proc/self/fd/%d", p->fd);
    int again = open(path, O_RDWR | O_CLOEXEC);
    CHECK(again >= 0, "%s", strerror(errno));
    refused(fallocate(again, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, (off_t)p->bytes),
            "a hole by another descriptor");
    CHECK(mmap(NULL, p->bytes, PROT_READ | PROT_WRITE, MAP_SHARED, again, 0) == MAP_FAILED,
          "one more writable mapping is not refused");
    close(again);
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

static void no_page_can_be_taken_away_while_ops_run(void) {
    struct tdaemon *d = tdaemon_start("127.0.0.1", NULL);
    json_t *before = raw_objects_at_rest(d);
    struct stage s;
    CHECK(stage_up(&s, tdaemon_dir(d), 0) == 0, "pool");
    for (unsigned i = 0; i < 20; i++) {
        struct rdmad_cqe cqe;
        struct rdmad_sqe sqe = {.opcode = RDMAD_OP_READ,
                                .pool = s.mine.handle,
                                .length = POOL,
                                .lease = s.attach.handle};
        memset(s.pool.base, (int)i, POOL);
        raw_ring_put(&s.ring, &sqe, 1);
        try_to_take_away(&s.pool);
        CHECK(raw_ring_take(&s.ring, &cqe, (int)TEST_PATIENCE_MS) && cqe.status == 0,
              "a read failed: %d", cqe.status);
        CHECK(s.mine.base[0] == i && s.mine.base[POOL - 1] == i, "the read brought other bytes");
    }
    stage_down(&s);
    tdaemon_expect_objects(d, before);
    tdaemon_stop(d);
}

/* A hole of a gigabyte takes a while to punch, in which whoever touches it would wait. */
static void punching_a_gigabyte_keeps_nobody_waiting(void) {
    size_t machine = (size_t)sysconf(_SC_PHYS_PAGES) * (size_t)sysconf(_SC_PAGESIZE);
    size_t most = test_sanitized() ? (size_t)256 << 20 : (size_t)1 << 30;
    size_t bytes = (machine / 8 < most ? machine / 8 : most) / POOL * POOL;
    struct tdaemon *d = tdaemon_start("127.0.0.1", NULL);
    struct rdmad_lease_grant_rep lease;
    struct rdmad_lease_attach_rep attach;
    char text[RDMAD_TEXT_MAX + 1];
    struct raw_pool large, mine;
    struct raw_ring ring;
    struct rdmad_cqe cqe;
    int sock = raw_session(tdaemon_dir(d));
    CHECK(raw_pool_create(sock, bytes, 0, &large) == 0, "pool");
    CHECK(raw_pool_create(sock, POOL, 0, &mine) == 0, "pool");
    CHECK(raw_ring_create(sock, 16, &ring) == 0, "ring");
    CHECK(raw_grant(sock, &large, UINT64_C(600000000000), &lease, text) == 0, "%s", text);
    CHECK(raw_attach(sock, lease.uri, &attach, text) == 0, "%s", text);
    struct bystander *b = bystander_start(d);
    for (unsigned i = 0; i < 20; i++) {
        struct rdmad_sqe sqe = {.opcode = RDMAD_OP_WRITE,
                                .pool = mine.handle,
                                .length = POOL,
                                .lease = attach.handle,
                                .lease_offset = (uint64_t)i * POOL};
        raw_ring_put(&ring, &sqe, 1);
        try_to_take_away(&large);
        CHECK(raw_ring_take(&ring, &cqe, (int)TEST_PATIENCE_MS) && cqe.status == 0,
              "a write failed: %d", cqe.status);
    }
    bystander_stop(b, "holes punched into a gigabyte that is in use");
    raw_ring_unmap(&ring);
    raw_pool_unmap(&mine);
    raw_pool_unmap(&large);
    close(sock);
    tdaemon_stop(d);
}

/* ---- hugetlb: a page that is gone and that somebody else takes would be SIGBUS --------------- */

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

static void use_huge_pages(void *arg) {
    (void)arg;
    struct tdaemon *d = tdaemon_start("127.0.0.1", NULL);
    json_t *before = raw_objects_at_rest(d);
    for (unsigned i = 0; i < 4; i++) {
        struct stage s;
        CHECK(stage_up(&s, tdaemon_dir(d), RDMAD_POOL_HUGETLB) == 0, "a pool of huge pages");
        size_t taken;
        try_to_take_away(&s.pool);
        void *thief = take_all_huge_pages(&taken);
        CHECK(transfer(&s, i % 2 ? RDMAD_OP_READ : RDMAD_OP_WRITE), "memory is gone");
        if (thief)
            munmap(thief, taken);
        stage_down(&s);
    }
    tdaemon_expect_objects(d, before);
    tdaemon_stop(d);
}

/* The pages are the machine's: one test has them at a time, and whatever becomes of the process
 * that uses them, their number is put back. */
static void no_huge_page_can_be_taken_away(void) {
    int lock = open(nr_hugepages, O_RDONLY | O_CLOEXEC);
    if (lock < 0 || flock(lock, LOCK_EX) != 0)
        skip("no huge pages: %s: %s", nr_hugepages, strerror(errno));
    unsigned long before = huge_pages();
    if (before < 8 && !set_huge_pages(8)) {
        set_huge_pages(before);
        skip("no huge pages: %s cannot be raised to 8", nr_hugepages);
    }
    pid_t pid = client_fork(use_huge_pages, NULL);
    while (client_running(pid))
        sleep_ms(10);
    set_huge_pages(before);
    close(lock);
    client_expect_ok(pid);
}

TEST_MAIN(CASE(no_page_can_be_taken_away_while_ops_run),
          CASE(punching_a_gigabyte_keeps_nobody_waiting), CASE(no_huge_page_can_be_taken_away))
