/* SPDX-License-Identifier: MIT */
/*
 * test_attacks.c - attacks by numbers: what a hostile client or peer can vary is drawn from a seed
 * (RDMAD_TEST_SEED, printed), a tenth of the count in ./check and all of it in tests/soak.
 *
 * test_bad_sqes, test_bad_messages, test_memory and test_door have one case for each lie that has a
 * name; here is what needs many tries: races with the daemon's eyes, and guesses.
 */
#include "common/ringword.h"
#include "tests/integration/hostile.h"
#include "tests/support/harness.h"
#include "tests/support/rawclient.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/inotify.h>
#include <sys/mman.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <unistd.h>

enum { THIRD = 1 << 16, POOL = 3 * THIRD, ENTRIES = 900, AHEAD = 80 };

/* A session that owns a pool of which the middle third is leased, and one that is lessee of that.
 */
struct scene {
    struct tdaemon *d;
    int owner, lessee;
    struct raw_pool target, own;
    struct raw_ring ring;
    struct rdmad_lease_grant_rep lease;
    struct rdmad_lease_attach_rep attach;
};

static void lease_the_middle(struct scene *s) {
    struct rdmad_lease_grant_req req = {.pool = s->target.handle,
                                        .offset = THIRD,
                                        .length = THIRD,
                                        .ttl_ns = UINT64_C(600000000000),
                                        .rights = RDMAD_RIGHTS_DEFAULT};
    struct raw_packet reply;
    CHECK(raw_request(s->owner, RDMAD_MSG_LEASE_GRANT, &req, sizeof(req), &reply) == 0, "%s",
          raw_text(&reply));
    memcpy(&s->lease, raw_body(&reply), sizeof(s->lease));
}

static void scene_set(struct scene *s) {
    char text[RDMAD_TEXT_MAX + 1];
    s->d = tdaemon_start("127.0.0.1", NULL);
    s->owner = raw_session(tdaemon_dir(s->d));
    s->lessee = raw_session(tdaemon_dir(s->d));
    CHECK(raw_pool_create(s->owner, POOL, 0, &s->target) == 0, "pool");
    CHECK(raw_pool_create(s->lessee, POOL, 0, &s->own) == 0, "pool");
    CHECK(raw_ring_create(s->lessee, 1024, &s->ring) == 0, "ring");
    lease_the_middle(s);
    CHECK(raw_attach(s->lessee, s->lease.uri, &s->attach, text) == 0, "attach: %s", text);
    memset(s->target.base, 't', POOL);
    memset(s->own.base, 'p', POOL);
}

static void scene_clear(struct scene *s) {
    raw_ring_unmap(&s->ring);
    raw_pool_unmap(&s->own);
    raw_pool_unmap(&s->target);
    close(s->lessee);
    close(s->owner);
    tdaemon_stop(s->d);
}

static struct rdmad_sqe honest(const struct scene *s) {
    return (struct rdmad_sqe){.opcode = RDMAD_OP_WRITE,
                              .pool = s->own.handle,
                              .length = 64,
                              .lease = s->attach.handle,
                              .user_data = test_random()};
}

static void still_works(struct scene *s) {
    struct rdmad_sqe sqe = honest(s);
    struct rdmad_cqe cqe;
    raw_ring_put(&s->ring, &sqe, 1);
    CHECK(raw_ring_take(&s->ring, &cqe, (int)TEST_PATIENCE_MS) && cqe.status == 0,
          "a neighbour's op fails");
}

/* ---- an entry is read once ------------------------------------------------------------------ */

static uint64_t next_random(uint64_t *x) {
    *x ^= *x << 13, *x ^= *x >> 7, *x ^= *x << 17;
    return *x;
}

/* What is good in an entry, and what is not: one beyond its lease, or (lengths) beyond its pool, of
 * which it has the last 64 bytes. */
struct flipped {
    bool length;
    uint64_t good, bad;
};

static void flip(struct rdmad_sqe *sqe, const struct flipped *f, bool bad) {
    uint64_t *field = f->length ? &sqe->length : &sqe->lease_offset;
    __atomic_store_n(field, bad ? f->bad : f->good, __ATOMIC_RELAXED);
}

/* Publishes a ring full, which the daemon reads in many turns, and meanwhile turns what is good in
 * the next of them into what is not and back: whoever judges one reading and uses another goes
 * wrong now and then. It is woken only if it sleeps, for that takes longer than to read an entry.
 */
static void publish_and_flip(struct raw_ring *ring, const struct rdmad_sqe *entry,
                             const struct flipped *f) {
    uint64_t limit = now_ms() + TEST_PATIENCE_MS, one = 1;
    uint32_t mask = ring->sq_entries - 1, head = ring->sq_tail;
    for (unsigned n = 0; n < ENTRIES; n++)
        ring->sqe[(head + n) & mask] = *entry;
    ring->sq_tail += ENTRIES;
    ringword_publish(&ring->client->sq_tail, ring->sq_tail);
    for (unsigned i = 1; head != ring->sq_tail; i++) {
        for (unsigned n = 0; n < AHEAD && n < ring->sq_tail - head; n++)
            flip(&ring->sqe[(head + n) & mask], f, i & 1);
        head = ringword_peek(&ring->daemon->sq_head);
        if (i % 64 == 0) {
            CHECK(now_ms() < limit, "the daemon took no more");
            CHECK(write(ring->doorbell, &one, sizeof(one)) == sizeof(one), "doorbell");
        }
    }
}

static void thirds_are(const struct scene *s, uint8_t byte) {
    for (size_t i = 0; i < POOL; i++)
        if (i / THIRD != 1)
            CHECK(s->target.base[i] == byte, "byte %zu of the pool, outside of the lease, is %#x",
                  i, s->target.base[i]);
}

static unsigned take_answers(struct raw_ring *ring) {
    struct rdmad_cqe cqe;
    unsigned refused = 0;
    for (unsigned n = 0; n < ENTRIES; n++) {
        CHECK(raw_ring_take(ring, &cqe, (int)TEST_PATIENCE_MS), "the ring answers no more");
        CHECK(cqe.status == 0 || cqe.status == RDMAD_E_RANGE, "status %d", cqe.status);
        CHECK(cqe.bytes == (cqe.status ? 0 : 64),
              "%u bytes were moved with status %d, and 64 are the pool's", (unsigned)cqe.bytes,
              cqe.status);
        refused += cqe.status != 0;
    }
    return refused;
}

/* Until so many were changed in time as a daemon that reads twice survives once in a blue moon; or,
 * on a machine that is too busy for races, for some seconds. */
static void an_entry_is_judged_and_used_in_one_reading(void) {
    struct scene s;
    scene_set(&s);
    unsigned refused = 0, rounds = 0, wanted = test_count(200000);
    uint64_t limit = now_ms() + test_count(100000);
    for (; refused < wanted && now_ms() < limit; rounds++) {
        uint64_t at = test_random() % (THIRD - 64);
        struct rdmad_sqe entry = honest(&s);
        entry.pool_offset = POOL - 64;
        struct flipped f = {.good = at, .bad = THIRD + at};
        if (rounds % 4)
            f = (struct flipped){.length = true, .good = 64, .bad = 4096};
        publish_and_flip(&s.ring, &entry, &f);
        refused += take_answers(&s.ring);
    }
    printf("  %u entries, of which %u were bad when they were read\n", ENTRIES * rounds, refused);
    CHECK(refused, "none was changed in time: this proves nothing");
    thirds_are(&s, 't');
    scene_clear(&s);
}

/* ---- words of a ring ------------------------------------------------------------------------- */

struct scribbler {
    struct rdmad_ring_client *words;
    uint64_t seed;
    bool stop;
};

static uint32_t some_index(uint64_t *x, uint32_t near) {
    static const uint32_t odd[] = {0, 1, 16, 17, 0x7fffffffu, 0x80000000u, UINT32_MAX};
    uint64_t r = next_random(x);
    if (r % 4 == 0)
        return odd[r / 4 % (sizeof(odd) / sizeof(odd[0]))];
    return r % 4 == 1 ? (uint32_t)(r >> 32) : near + (uint32_t)(r >> 32) % 17;
}

static void *scribble(void *arg) {
    struct scribbler *w = arg;
    uint64_t x = w->seed;
    uint32_t tail = 0, head = 0;
    while (!__atomic_load_n(&w->stop, __ATOMIC_RELAXED)) {
        ringword_publish(&w->words->sq_tail, tail = some_index(&x, tail));
        ringword_publish(&w->words->cq_head, head = some_index(&x, head));
        ringword_publish(&w->words->cq_wait, (uint32_t)next_random(&x) & 3);
    }
    return NULL;
}

/* Rings its doorbell meanwhile. The session may end, and may not. */
static void scribble_for_a_while(const char *dir) {
    struct raw_ring ring;
    uint64_t one = 1;
    int sock = raw_session(dir);
    CHECK(raw_ring_create(sock, 16, &ring) == 0, "ring");
    for (uint32_t i = 0; i < ring.sq_entries; i++)
        ring.sqe[i] = (struct rdmad_sqe){.opcode = RDMAD_OP_NOP, .user_data = i};
    struct scribbler w = {.words = ring.client, .seed = test_random() | 1};
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, scribble, &w) == 0, "thread");
    for (unsigned i = 0; i < 50; i++) {
        CHECK(write(ring.doorbell, &one, sizeof(one)) == sizeof(one), "doorbell");
        sched_yield();
    }
    __atomic_store_n(&w.stop, true, __ATOMIC_RELAXED);
    pthread_join(thread, NULL);
    raw_ring_unmap(&ring);
    close(sock);
}

static void words_of_a_ring_that_change_under_way_end_their_session_at_most(void) {
    struct scene s;
    scene_set(&s);
    for (unsigned i = 0, n = test_count(1000); i < n; i++) {
        scribble_for_a_while(tdaemon_dir(s.d));
        still_works(&s);
    }
    thirds_are(&s, 't');
    CHECK(tdaemon_logged(s.d, "audit=violated cause=ring"), "no violation was told of");
    scene_clear(&s);
}

/* ---- descriptors ------------------------------------------------------------------------------
 */

static int memfd_with(unsigned seals, off_t size, unsigned flags) {
    int fd = memfd_create("attack", MFD_CLOEXEC | MFD_ALLOW_SEALING | flags);
    if (fd >= 0 && (ftruncate(fd, size) || (seals && fcntl(fd, F_ADD_SEALS, seals)))) {
        close(fd);
        return -1;
    }
    return fd;
}

static int end_of_pair(int type) {
    int pair[2];
    if (socketpair(AF_UNIX, type | SOCK_CLOEXEC, 0, pair))
        return -1;
    close(pair[1]);
    return pair[0];
}

static int end_of_pipe(int end) {
    int pipes[2];
    if (pipe2(pipes, O_CLOEXEC))
        return -1;
    close(pipes[!end]);
    return pipes[end];
}

static int signals_fd(void) {
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGUSR1);
    return signalfd(-1, &set, SFD_CLOEXEC);
}

static int ring_of_io(void) {
    static uint32_t params[30];
    return (int)syscall(SYS_io_uring_setup, 4, params);
}

static const struct {
    const char *path;
    int flags;
} files[] = {
    {"/etc/passwd", O_RDONLY},        {"/etc/passwd", O_PATH}, {"/", O_RDONLY | O_DIRECTORY},
    {"/tmp", O_TMPFILE | O_RDWR},     {"/dev/null", O_RDWR},   {"/dev/zero", O_RDWR},
    {"/dev/ptmx", O_RDWR | O_NOCTTY}, {"/dev/fuse", O_RDWR},   {"/proc/self/mem", O_RDWR},
    {"/proc/self/ns/user", O_RDONLY}};

static const struct {
    int domain, type;
} sockets[] = {{AF_INET, SOCK_STREAM},
               {AF_INET, SOCK_DGRAM},
               {AF_INET6, SOCK_STREAM},
               {AF_NETLINK, SOCK_RAW},
               {AF_ALG, SOCK_SEQPACKET}};

#define PAGE 4096
#define SIZED (F_SEAL_SHRINK | F_SEAL_GROW)

/* Each is no memory to be imported, for another reason. */
static const struct {
    unsigned seals, flags;
    off_t size;
} memfds[] = {{0, 0, PAGE},
              {SIZED | F_SEAL_WRITE, 0, PAGE},
              {SIZED | F_SEAL_FUTURE_WRITE, 0, PAGE},
              {SIZED | F_SEAL_SEAL, 0, PAGE},
              {SIZED, 0, 2 * PAGE}, /* another size than is said */
              {SIZED, MFD_HUGETLB, 2 << 20}};

static int other_descriptor(unsigned kind) {
    switch (kind) {
    case 0:
        return eventfd(0, EFD_CLOEXEC);
    case 1:
        return timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC);
    case 2:
        return signals_fd();
    case 3:
        return epoll_create1(EPOLL_CLOEXEC);
    case 4:
        return inotify_init1(IN_CLOEXEC);
    case 5:
        return end_of_pipe(0);
    case 6:
        return end_of_pipe(1);
    case 7:
        return end_of_pair(SOCK_STREAM);
    case 8:
        return end_of_pair(SOCK_DGRAM);
    case 9:
        return end_of_pair(SOCK_SEQPACKET);
    case 10:
        return (int)syscall(SYS_pidfd_open, getpid(), 0);
    case 11:
        return (int)syscall(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK | 1 /* user mode only */);
    default:
        return ring_of_io();
    }
}

#define COUNT(table) ((unsigned)(sizeof(table) / sizeof((table)[0])))
#define OTHERS 13u
#define KINDS (OTHERS + COUNT(files) + COUNT(sockets) + COUNT(memfds))

/* A descriptor of the kind; -1: this machine has none of it, or forbids it. */
static int descriptor_of(unsigned kind) {
    if (kind < OTHERS)
        return other_descriptor(kind);
    kind -= OTHERS;
    if (kind < COUNT(files))
        return open(files[kind].path, files[kind].flags | O_CLOEXEC | O_NONBLOCK, 0600);
    kind -= COUNT(files);
    if (kind < COUNT(sockets))
        return socket(sockets[kind].domain, sockets[kind].type | SOCK_CLOEXEC, 0);
    kind -= COUNT(sockets);
    return memfd_with(memfds[kind].seals, memfds[kind].size, memfds[kind].flags);
}

static unsigned open_some(int *fds, unsigned most, unsigned kind) {
    unsigned n = 0, want = 1 + (unsigned)(test_random() % most);
    for (unsigned i = 0; i < want; i++) {
        int fd = descriptor_of(i ? (unsigned)(test_random() % KINDS) : kind);
        if (fd >= 0)
            fds[n++] = fd;
    }
    return n;
}

/* Sends a message with descriptors; whatever it is it is refused, and the session goes on. */
static void send_kinds(int sock, unsigned kind, unsigned *sent) {
    struct {
        struct rdmad_msg_header header;
        struct rdmad_pool_import_req body;
    } import = {.body = {.bytes = PAGE}};
    struct raw_packet reply;
    int fds[200];
    bool one = test_random() % 2;
    unsigned n = open_some(fds, one ? 1 : test_random() % 8 ? 4 : 200, kind);
    if (!n)
        return;
    raw_header(&import.header, RDMAD_MSG_POOL_IMPORT, sizeof(import.body));
    if (test_random() % 4 == 0) /* a message that takes none */
        import.header.type = RDMAD_MSG_NAMES_LIST;
    int rc = raw_send(sock, &import, sizeof(import), fds, n);
    *sent += rc == 0;
    for (unsigned i = 0; i < n; i++)
        close(fds[i]);
    if (rc == -ETOOMANYREFS || rc == -EINVAL) /* the kernel's own limit for this user, or it does
                                                 not pass on that kind (io_uring) */
        return;
    CHECK(rc == 0, "kind %u: %s", kind, strerror(-rc));
    do {
        CHECK(raw_recv(sock, &reply, (int)TEST_PATIENCE_MS) && reply.size,
              "kind %u: no answer, or the end of the session", kind);
        raw_drop(&reply);
    } while (reply.header.seq != import.header.seq);
    CHECK(reply.header.status != 0, "kind %u, %u descriptors: it was taken", kind, n);
}

static void descriptors_of_every_kind_are_refused_and_closed(void) {
    struct scene s;
    scene_set(&s);
    unsigned before = tdaemon_fds(s.d), absent = 0, sent = 0, n = test_count(20000);
    for (unsigned kind = 0; kind < KINDS; kind++) {
        int fd = descriptor_of(kind);
        absent += fd < 0;
        if (fd >= 0)
            close(fd);
    }
    printf("  %u kinds of descriptors, of which %u are not to be had here\n", KINDS, absent);
    int sock = raw_session(tdaemon_dir(s.d));
    for (unsigned i = 0; i < n; i++)
        send_kinds(sock, i % KINDS, &sent);
    CHECK(sent > n / 2, "of %u messages the kernel took %u", n, sent);
    close(sock);
    still_works(&s);
    tdaemon_expect_fds(s.d, before);
    scene_clear(&s);
}

/* ---- guesses ----------------------------------------------------------------------------------
 */

/* The lease's URI with another secret: its own but for a bit, or any. */
static void forge(const struct rdmad_lease_grant_rep *lease, char uri[RDMAD_URI_MAX + 1]) {
    static const char digits[] = "0123456789abcdef";
    snprintf(uri, RDMAD_URI_MAX + 1, "%s", lease->uri);
    char *key = strstr(uri, "key=");
    CHECK(key && strlen(key) == 36, "%s has no secret", uri);
    key += 4;
    if (test_random() % 2) {
        char *digit = &key[test_random() % 32];
        const char *at = strchr(digits, *digit);
        CHECK(at, "%s", uri);
        *digit = digits[(unsigned)(at - digits) ^ 1u << test_random() % 4];
        return;
    }
    for (unsigned i = 0; i < 32; i++)
        key[i] = digits[test_random() % 16];
}

static unsigned lines_with(const struct tdaemon *d, const char *words) {
    char path[256], line[2048];
    unsigned n = 0;
    snprintf(path, sizeof(path), "%s/log", tdaemon_dir(d));
    FILE *f = fopen(path, "re");
    CHECK(f, "%s: %s", path, strerror(errno));
    while (fgets(line, sizeof(line), f))
        n += strstr(line, words) != NULL;
    fclose(f);
    return n;
}

static void forged_secrets_open_nothing_and_fill_no_log(void) {
    char uri[RDMAD_URI_MAX + 1], text[RDMAD_TEXT_MAX + 1];
    struct rdmad_lease_attach_rep attach;
    struct scene s;
    scene_set(&s);
    uint64_t began = now_ms();
    unsigned n = test_count(1000000);
    for (unsigned i = 0; i < n; i++) {
        forge(&s.lease, uri);
        int status = raw_attach(s.lessee, uri, &attach, text);
        CHECK(status == RDMAD_E_NO_LEASE, "%s: status %d, %s", uri, status, text);
    }
    CHECK(raw_attach(s.lessee, s.lease.uri, &attach, text) == 0, "the right one: %s", text);
    unsigned minutes = (unsigned)((now_ms() - began) / 60000) + 1;
    unsigned lines = lines_with(s.d, "cause=secret");
    printf("  %u guesses, %u lines of them in the log, in %u minutes begun\n", n, lines, minutes);
    CHECK(lines && lines <= 11 * minutes, "%u lines of %u guesses", lines, n);
    scene_clear(&s);
}

static void forged_keys_of_windows_reach_nothing(void) {
    struct scene s;
    struct hostile h;
    scene_set(&s);
    hostile_connect(&h, tdaemon_listen(s.d));
    hostile_attach(&h, s.lease.uri);
    h.secret = 't';
    CHECK(hostile_read(&h, 0, 64) == 0 && h.secrets == 64, "the right key reaches nothing");
    uint64_t key = h.key;
    uint32_t slot = h.slot;
    struct peer_msg m;
    unsigned n = test_count(1000000);
    for (unsigned i = 0; i < n; i++) {
        uint64_t r = test_random();
        h.key = r % 2 ? key ^ UINT64_C(1) << r / 2 % 64 : test_random();
        h.slot = r >> 16 & 3 ? slot : (uint32_t)test_random();
        if (h.key == key && h.slot == slot)
            continue;
        int status = i % 2 ? hostile_read(&h, 0, 64) : hostile_write(&h, 0, 8, 'w');
        CHECK(status != 0, "key %#" PRIx64 " of slot %u is let in", h.key, h.slot);
        if (i % 1024 == 0) /* who answers no ping is given up, long before the last key */
            while (false_peer_hear(&h.control, 0, &m))
                CHECK(m.type != PEER_MSG_BYE, "goodbye after %u keys: %s", i, m.bye.text);
    }
    CHECK(h.secrets == 64, "%" PRIu64 " bytes were read by forged keys", h.secrets - 64);
    for (size_t i = 0; i < POOL; i++)
        CHECK(s.target.base[i] == 't', "byte %zu was written by a forged key", i);
    h.key = key;
    h.slot = slot;
    CHECK(hostile_read(&h, 0, 64) == 0, "the right key reaches nothing any more");
    hostile_close(&h);
    scene_clear(&s);
}

TEST_MAIN(CASE(an_entry_is_judged_and_used_in_one_reading),
          CASE(words_of_a_ring_that_change_under_way_end_their_session_at_most),
          CASE(descriptors_of_every_kind_are_refused_and_closed),
          CASE(forged_secrets_open_nothing_and_fill_no_log),
          CASE(forged_keys_of_windows_reach_nothing))
