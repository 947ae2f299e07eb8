/* SPDX-License-Identifier: MIT */
/*
 * test_memory.c - memory that its clients pay for and that nobody can take away: what is not sealed
 * or not all there is used for nothing, in words; who holds its own inodes' locks, frees gigabytes
 * or makes pools without end keeps no neighbour waiting; and the kernel charges a client's pages to
 * the client.
 */
#include "common/memfd.h"
#include "tests/support/bystander.h"
#include "tests/support/memory_group.h"
#include "tests/support/procs.h"
#include "tests/support/rawclient.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { MIB = 1 << 20 };

static int memory(size_t bytes, int seals) {
    int fd = memfd_create("mine", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    CHECK(fd >= 0 && ftruncate(fd, (off_t)bytes) == 0, "memfd: %s", strerror(errno));
    CHECK(fcntl(fd, F_ADD_SEALS, seals) == 0, "seals: %s", strerror(errno));
    return fd;
}

static uint64_t pages_of(int fd) {
    struct stat st;
    CHECK(fstat(fd, &st) == 0, "%s", strerror(errno));
    return (uint64_t)st.st_blocks * 512;
}

/* Status; *pool when it is 0, else text. fd stays the caller's. */
static int import(int sock, int fd, size_t bytes, uint64_t *pool, char *text) {
    struct {
        struct rdmad_msg_header header;
        struct rdmad_pool_import_req body;
    } m = {.body = {.bytes = bytes}};
    struct raw_packet reply;
    raw_header(&m.header, RDMAD_MSG_POOL_IMPORT, sizeof(m.body));
    int rc = raw_send(sock, &m, sizeof(m), &fd, 1);
    CHECK(rc == 0, "import: %s", strerror(-rc));
    do
        CHECK(raw_recv(sock, &reply, (int)TEST_PATIENCE_MS) && reply.size >= sizeof(reply.header),
              "no reply to an import");
    while (reply.header.seq != m.header.seq);
    if (reply.header.status)
        snprintf(text, RDMAD_TEXT_MAX + 1, "%s", raw_text(&reply));
    else
        *pool = ((const struct rdmad_pool_create_rep *)raw_body(&reply))->pool;
    return reply.header.status;
}

/* ---- what is refused ------------------------------------------------------------------------- */

static void says(int status, int code, const char *text, const char *words) {
    CHECK(status == code, "status %d, not %d: %s", status, code, text);
    CHECK(strstr(text, words), "\"%s\" does not say \"%s\"", text, words);
}

static void unused(int sock, const struct raw_pool *p) {
    char text[RDMAD_TEXT_MAX + 1];
    struct rdmad_lease_grant_rep lease;
    int status = raw_grant(sock, p, 1000000000, &lease, text);
    says(status, RDMAD_E_INVAL, text, "is not ready");
}

static void what_is_not_sealed_or_not_all_there_is_refused_in_words(void) {
    struct tdaemon *d = tdaemon_start("127.0.0.1", NULL);
    int sock = raw_session(tdaemon_dir(d)), status;
    char text[RDMAD_TEXT_MAX + 1];
    struct raw_pool p;
    struct raw_ring r;

    CHECK(raw_pool_make(sock, MIB, 0, &p) == 0, "pool");
    CHECK(pages_of(p.fd) == 0, "the daemon has made pages for a client");
    unused(sock, &p);
    status = raw_pool_ready(sock, p.handle, text);
    says(status, RDMAD_E_PERM, text, "its seals are 0x6, 0x17 are needed");
    CHECK(rdmad_memfd_populate(p.base, MIB - 4096, true) == 0, "%s", strerror(errno));
    CHECK(rdmad_memfd_freeze(p.fd) == 0, "%s", strerror(errno));
    status = raw_pool_ready(sock, p.handle, text);
    says(status, RDMAD_E_PERM, text, "has holes, 1044480 of its 1048576 bytes are there");
    unused(sock, &p);
    CHECK(pages_of(p.fd) == MIB - 4096, "the daemon has filled a hole");
    p.base[MIB - 1] = 1;
    CHECK(raw_pool_ready(sock, p.handle, text) == 0, "%s", text);
    raw_pool_unmap(&p);

    CHECK(raw_ring_make(sock, 16, &r) == 0, "ring");
    CHECK(pages_of(r.client_fd) == 0 && pages_of(r.daemon_fd) == 0, "a ring has pages");
    status = raw_ring_ready(sock, r.handle, text);
    says(status, RDMAD_E_PERM, text, "the ring's memory is not sealed");
    raw_populate_and_seal(r.client, r.client_bytes, r.client_fd);
    status = raw_ring_ready(sock, r.handle, text);
    says(status, RDMAD_E_PERM, text, "the ring's memory has holes, 0 of");
    CHECK(pages_of(r.daemon_fd) == 0, "the daemon has filled a hole");
    CHECK(rdmad_memfd_populate((void *)(uintptr_t)r.daemon, r.daemon_bytes, false) == 0, "%s",
          strerror(errno));
    CHECK(raw_ring_ready(sock, r.handle, text) == 0, "%s", text);
    raw_ring_unmap(&r);
    close(sock);
    tdaemon_stop(d);
}

/* Pages past the end count like others, so a memfd that is all hole can look whole. */
static void pages_past_the_end_do_not_pass_for_those_before_it(void) {
    struct tdaemon *d = tdaemon_start("127.0.0.1", NULL);
    unsigned fds = tdaemon_fds(d);
    char text[RDMAD_TEXT_MAX + 1];
    uint64_t pool;

    for (unsigned i = 0; i <= 16; i++) { /* a session each: it is the uid that is remembered */
        int sock = raw_session(tdaemon_dir(d)), fd = memory(MIB, 0), status;
        CHECK(fallocate(fd, FALLOC_FL_KEEP_SIZE, MIB, MIB) == 0, "%s", strerror(errno));
        CHECK(fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW) == 0, "%s", strerror(errno));
        CHECK(pages_of(fd) == MIB, "this kernel counts otherwise");
        status = import(sock, fd, MIB, &pool, text);
        CHECK(rdmad_memfd_freeze(fd) == 0, "%s", strerror(errno));
        if (i == 16) {
            says(status, RDMAD_E_PERM, text, "memory of uid 0 had holes that looked like none");
        } else {
            CHECK(status == 0, "%s", text);
            status = raw_pool_ready(sock, pool, text);
            says(status, RDMAD_E_PERM, text, "some lie past its end");
            CHECK(pages_of(fd) <= MIB + (64 << 10), "the daemon has paid for %lu bytes",
                  (unsigned long)(pages_of(fd) - MIB));
        }
        close(fd);
        close(sock);
        tdaemon_expect_fds(d, fds);
    }
    tdaemon_stop(d);
}

static void huge_pages_of_a_clients_own_are_refused(void) {
    struct tdaemon *d = tdaemon_start("127.0.0.1", NULL);
    int sock = raw_session(tdaemon_dir(d));
    char text[RDMAD_TEXT_MAX + 1];
    uint64_t pool;
    int fd = memfd_create("huge", MFD_CLOEXEC | MFD_ALLOW_SEALING | MFD_HUGETLB);
    if (fd < 0)
        skip("no memfd of huge pages: %s", strerror(errno));
    CHECK(ftruncate(fd, 2 * MIB) == 0, "%s", strerror(errno));
    CHECK(fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW) == 0, "%s", strerror(errno));
    says(import(sock, fd, 2 * MIB, &pool, text), RDMAD_E_PERM, text, "RDMAD_POOL_HUGETLB");
    close(fd);
    close(sock);
    tdaemon_stop(d);
}

/* ---- inodes whose lock is held --------------------------------------------------------------- */

enum { WRITERS = 64, WRITTEN = 64 * MIB };

struct holders {
    int fd;
    bool over;
    char *source;
    pthread_t thread[WRITERS];
};

/* Holds the inode's lock nearly all the time, with the others that queue for it. */
static void *hold(void *arg) {
    struct holders *h = arg;
    for (unsigned i = 0; !__atomic_load_n(&h->over, __ATOMIC_RELAXED); i++) {
        if (i % 4 == 3)
            (void)!fallocate(h->fd, 0, 0, WRITTEN);
        else
            (void)!pwrite(h->fd, h->source, WRITTEN, 0);
    }
    return NULL;
}

static void who_holds_its_own_inodes_keeps_nobody_waiting(void) {
    struct tdaemon *d = tdaemon_start("127.0.0.1", NULL);
    struct holders h = {.fd = memory(WRITTEN, F_SEAL_SHRINK | F_SEAL_GROW)};
    int sock = raw_session(tdaemon_dir(d));
    char text[RDMAD_TEXT_MAX + 1];
    uint64_t pool, since;

    h.source = mmap(NULL, WRITTEN, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(h.source != MAP_FAILED, "%s", strerror(errno));
    memset(h.source, 'w', WRITTEN);
    struct bystander *b = bystander_start(d);
    for (unsigned i = 0; i < WRITERS; i++)
        CHECK(pthread_create(&h.thread[i], NULL, hold, &h) == 0, "threads");
    sleep_ms(200);
    since = now_ms();
    for (unsigned i = 0; i < 4; i++) {
        CHECK(import(sock, h.fd, WRITTEN, &pool, text) == 0, "%s", text);
        says(raw_pool_ready(sock, pool, text), RDMAD_E_PERM, text, "is not sealed");
    }
    printf("  four imports of a memfd that 64 threads write to: %lu ms\n",
           (unsigned long)(now_ms() - since));
    close(sock);
    sleep_ms(200);
    __atomic_store_n(&h.over, true, __ATOMIC_RELAXED);
    bystander_stop(b, "64 threads that write to a memfd which is imported");
    for (unsigned i = 0; i < WRITERS; i++)
        pthread_join(h.thread[i], NULL);
    close(h.fd);
    munmap(h.source, WRITTEN);
    tdaemon_stop(d);
}

struct held {
    int fd;
    char *source;
};

static void *write_held(void *arg) {
    const struct held *h = arg;
    (void)!pwrite(h->fd, h->source, 4096, 0);
    return NULL;
}

/* A write whose source never comes keeps the lock for ever. */
static void a_lock_that_is_never_given_back_stops_neither_neighbours_nor_the_daemon(void) {
    struct tdaemon *d = tdaemon_start("127.0.0.1", NULL);
    struct held h = {.fd = memory(MIB, F_SEAL_SHRINK | F_SEAL_GROW)};
    struct uffdio_api api = {.api = UFFD_API};
    int uffd = (int)syscall(SYS_userfaultfd, O_CLOEXEC), sock = raw_session(tdaemon_dir(d));
    char text[RDMAD_TEXT_MAX + 1];
    pthread_t writer;
    uint64_t pool;

    if (uffd < 0 || ioctl(uffd, UFFDIO_API, &api) < 0)
        skip("no userfaultfd: %s", strerror(errno));
    h.source = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    struct uffdio_register range = {.range = {(uintptr_t)h.source, 4096},
                                    .mode = UFFDIO_REGISTER_MODE_MISSING};
    CHECK(ioctl(uffd, UFFDIO_REGISTER, &range) == 0, "%s", strerror(errno));
    struct bystander *b = bystander_start(d);
    CHECK(pthread_create(&writer, NULL, write_held, &h) == 0, "thread");
    sleep_ms(100);
    CHECK(import(sock, h.fd, MIB, &pool, text) == 0, "%s", text);
    says(raw_pool_ready(sock, pool, text), RDMAD_E_PERM, text, "is not sealed");
    sleep_ms(300);
    bystander_stop(b, "a write to an imported memfd that never ends");
    close(sock);
    tdaemon_stop(d); /* with the lock still held: in time, or this says so */
    close(uffd);     /* the writer finds zeros */
    pthread_join(writer, NULL);
    close(h.fd);
}

/* ---- gigabytes that go ----------------------------------------------------------------------- */

static size_t plenty(void) {
    uint64_t room = (uint64_t)sysconf(_SC_AVPHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE) / 4;
    size_t most = (size_t)4 << 30, bytes = test_sanitized() || room < most ? (size_t)room : most;
    if (test_sanitized() && bytes > (size_t)1 << 30)
        bytes = (size_t)1 << 30;
    if (bytes < (size_t)256 << 20)
        skip("%zu MiB to free are no attack", bytes / MIB);
    return bytes / (2 * MIB) * (2 * MIB);
}

/* The daemon has the last of it: as a descriptor that it never wanted, and as a pool. */
static void freeing_gigabytes_keeps_nobody_waiting(void) {
    struct tdaemon *d = tdaemon_start("127.0.0.1", NULL);
    size_t bytes = plenty();
    json_t *before = tdaemon_objects(d);
    unsigned fds = tdaemon_fds(d);
    struct bystander *b = bystander_start(d); /* first: what is forked has what is open */
    int fd = memory(bytes, F_SEAL_SHRINK | F_SEAL_GROW), sock = raw_session(tdaemon_dir(d));
    void *base = rdmad_memfd_map(fd, bytes, true);
    struct rdmad_msg_header h; /* a request that comes without one */
    struct raw_pool p;
    CHECK(base && rdmad_memfd_populate(base, bytes, true) == 0, "%s", strerror(errno));
    munmap(base, bytes);
    raw_header(&h, RDMAD_MSG_HELLO, 0);
    process_stop(tdaemon_pid(d)); /* so that the last to close it is the daemon */
    CHECK(raw_send(sock, &h, sizeof(h), &fd, 1) == 0, "%s", strerror(errno));
    close(fd);
    process_go_on(tdaemon_pid(d));
    CHECK(raw_pool_create(sock, bytes / 4, 0, &p) == 0, "pool");
    raw_pool_unmap(&p);
    close(sock);
    sleep_ms(300);
    printf("  %zu MiB freed\n", bytes / MIB * 5 / 4);
    bystander_stop(b, "gigabytes freed by the daemon");
    tdaemon_expect_objects(d, before);
    tdaemon_expect_fds(d, fds);
    tdaemon_stop(d);
}

/* ---- pools without end ----------------------------------------------------------------------- */

static void one_uids_pools_end_in_time_and_leave_the_others_theirs(void) {
    char path[] = "/tmp/rdmad-memory-XXXXXX";
    int file = mkstemp(path);
    CHECK(file >= 0 &&
              dprintf(file, "{\"limits\": {\"mappings\": 1000, "
                            "\"pools_per_session\": 65536}}") > 0 &&
              !close(file),
          "%s", strerror(errno));
    struct tdaemon *d = tdaemon_start("127.0.0.1", (const char *[]){"--config", path, NULL});
    CHECK(tdaemon_logged(d, "65536 pools and 64 rings of one session take 65664 mappings"),
          "what the machine does not carry is not said");
    unlink(path);
    struct rdmad_pool_create_req req = {.bytes = 4096};
    struct raw_packet reply;
    unsigned n = 0;
    int sock = raw_session(tdaemon_dir(d)), status;
    for (; !(status = raw_request(sock, RDMAD_MSG_POOL_CREATE, &req, sizeof(req), &reply)); n++) {
        raw_drop(&reply);
        CHECK(n < 1000, "there is no end of pools");
    }
    says(status, RDMAD_E_LIMIT, raw_text(&reply),
         "uid 0 may have 250 mappings of pools and rings, has 250 and asked for 1 more");
    CHECK(n == 250, "%u pools", n);
    struct rdmad_ring_create_req ring = {.sq_entries = 16};
    status = raw_request(sock, RDMAD_MSG_RING_CREATE, &ring, sizeof(ring), &reply);
    says(status, RDMAD_E_LIMIT, raw_text(&reply), "limits.mappings_per_uid");
    struct bystander *b = bystander_start(d); /* its rounds make a pool and a ring each */
    sleep_ms(200);
    bystander_stop(b, "as many pools as a uid may have");
    close(sock);
    tdaemon_stop(d);
}

/* ---- who pays -------------------------------------------------------------------------------- */

struct payer {
    const char *dir, *cgroup;
    int told[2], go[2];
};

static void pay(void *arg) {
    const struct payer *p = arg;
    char c;
    struct raw_pool pool;
    struct raw_ring ring;
    CHECK(memory_group_enter(p->cgroup, getpid()), "cannot enter a cgroup");
    int sock = raw_session(p->dir);
    CHECK(raw_pool_create(sock, 128 * MIB, 0, &pool) == 0, "pool");
    CHECK(raw_ring_create(sock, 4096, &ring) == 0, "ring");
    close(p->go[1]);
    CHECK(write(p->told[1], "", 1) == 1, "tell");
    (void)!read(p->go[0], &c, 1);
    raw_ring_unmap(&ring);
    raw_pool_unmap(&pool);
    close(sock);
}

static void a_clients_pages_are_charged_to_its_own_cgroup(void) {
    char ours[64], theirs[64], c;
    struct tdaemon *d = tdaemon_start("127.0.0.1", NULL);
    struct payer p = {.dir = tdaemon_dir(d), .cgroup = theirs};
    snprintf(ours, sizeof(ours), "rdmad-test-daemon-%d", (int)getpid());
    snprintf(theirs, sizeof(theirs), "rdmad-test-client-%d", (int)getpid());
    if (!memory_group_enter(ours, tdaemon_pid(d))) {
        memory_group_remove(ours);
        tdaemon_stop(d);
        skip("no memory cgroup can be made here");
    }
    uint64_t before = memory_group_charged(ours);
    CHECK(pipe2(p.told, O_CLOEXEC) == 0 && pipe2(p.go, O_CLOEXEC) == 0, "pipes");
    pid_t pid = client_fork(pay, &p);
    close(p.told[1]);
    close(p.go[0]);
    CHECK(read(p.told[0], &c, 1) == 1, "the client ended early");
    uint64_t daemon = memory_group_charged(ours) - before, client = memory_group_charged(theirs);
    printf("  a pool of 128 MiB and a ring: %lu KiB charged to the client, %lu KiB to rdmad\n",
           (unsigned long)(client >> 10), (unsigned long)(daemon >> 10));
    close(p.go[1]);
    client_expect_ok(pid);
    tdaemon_stop(d);
    memory_group_remove(theirs);
    memory_group_remove(ours);
    CHECK(client >= 128 * MIB, "only %lu bytes are charged to the client", (unsigned long)client);
    /* Of ours there are page tables, of 8 bytes a page, and what a session takes. */
    CHECK(daemon < 8 * MIB, "%lu bytes are charged to rdmad", (unsigned long)daemon);
}

TEST_MAIN(CASE(what_is_not_sealed_or_not_all_there_is_refused_in_words),
          CASE(pages_past_the_end_do_not_pass_for_those_before_it),
          CASE(huge_pages_of_a_clients_own_are_refused),
          CASE(who_holds_its_own_inodes_keeps_nobody_waiting),
          CASE(a_lock_that_is_never_given_back_stops_neither_neighbours_nor_the_daemon),
          CASE(freeing_gigabytes_keeps_nobody_waiting),
          CASE(one_uids_pools_end_in_time_and_leave_the_others_theirs),
          CASE(a_clients_pages_are_charged_to_its_own_cgroup))
