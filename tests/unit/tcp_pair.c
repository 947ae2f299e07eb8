/* SPDX-License-Identifier: MIT */
#include "tests/unit/tcp_pair.h"
#include "daemon/base/guard.h"
#include <dirent.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

static uint64_t side_now(void *user) {
    return clock_now_ns() + ((struct side *)user)->skew_ns;
}

static void side_complete(void *user, struct fabric_op *op) {
    struct top *t = op->user;
    cr_assert(!t->done, "an op was completed twice");
    t->done = true;
    ((struct side *)user)->completed++;
    if (t->then)
        t->then(t);
}

static void side_up(void *user, void *cookie) {
    (void)cookie;
    ((struct side *)user)->up++;
}

static void side_lost(void *user, void *cookie, const struct error *why) {
    (void)cookie;
    struct side *s = user;
    s->lost++;
    s->why = *why;
}

static void side_fault(void *user, const void *address) {
    struct side *s = user;
    s->faults++;
    s->fault_address = address;
}

static uint64_t side_received(void *user, uint64_t peer, uint64_t number, const void *bytes,
                              size_t size) {
    struct side *s = user;
    cr_assert(size <= sizeof s->message);
    s->received++;
    s->from = peer;
    s->number = number;
    s->size = size;
    memcpy(s->message, bytes, size);
    if (s->then)
        s->then(s);
    return s->word;
}

/* Its head is there; the message counts when all of it is. */
static struct fabric_landing *side_landing(void *user, uint64_t peer, uint64_t number,
                                           const void *head, size_t size, uint64_t length) {
    struct side *s = user;
    cr_assert(!s->under_way && size + length <= sizeof s->message);
    s->landings++;
    if (s->nowhere)
        return NULL;
    s->under_way = true;
    s->from = peer;
    s->number = number;
    s->size = size + length;
    memcpy(s->message, head, size);
    s->landing = (struct fabric_landing){.base = s->at ? s->at : s->message + size};
    return &s->landing;
}

static void side_landed(void *user, struct fabric_landing *landing, int status) {
    struct side *s = user;
    cr_assert(s->under_way && landing == &s->landing);
    s->under_way = false;
    s->landed = status;
    s->lost_landings += status != 0;
    s->received += status == 0;
    if (!status && s->then)
        s->then(s);
}

bool pair_encrypts(void) {
    return getenv("PAIR_ENCRYPT") != NULL;
}

static void side_defaults(struct side *s) {
    s->env = (struct fabric_env){.user = s,
                                 .now_ns = side_now,
                                 .complete = side_complete,
                                 .link_up = side_up,
                                 .link_lost = side_lost,
                                 .received = side_received,
                                 .landing = side_landing,
                                 .landed = side_landed,
                                 .memory_fault = side_fault,
                                 .settings = &s->settings};
    s->settings =
        (struct fabric_settings){.listen_host = "127.0.0.1",
                                 .congestion_control = "cubic",
                                 .max_inflight = 256,
                                 .send_buffer_bytes = 8u << 20,
                                 .token_ttl_ns = 10 * NSEC_PER_SEC,
                                 .connect_timeout_ns = 5 * NSEC_PER_SEC,
                                 .dead_peer_ns = 60 * NSEC_PER_SEC,
                                 .max_strangers = 8,
                                 .encrypt = pair_encrypts() ? ENCRYPT_ALWAYS : ENCRYPT_AUTO};
}

void side_open(struct side *s) {
    struct error err = {0};
    cr_assert_eq(fabric_tcp.open(&s->env, &s->fabric, &err), 0, "%s", err.text);
}

void side_close(struct side *s) {
    fabric_tcp.close(s->fabric);
}

static uint8_t *map(size_t bytes) {
    void *m = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE,
                   -1, 0);
    cr_assert(m != MAP_FAILED);
    return m;
}

void pair_defaults(struct pair *p, size_t bytes) {
    *p = (struct pair){.bytes = bytes};
    side_defaults(&p->owner);
    side_defaults(&p->lessee);
    p->memory = map(bytes);
    p->local = map(bytes);
}

struct fabric_window *pair_window(struct pair *p, uint64_t peer, uint32_t rights, uint64_t offset,
                                  uint64_t length, struct fabric_blob *key) {
    struct error err = {0};
    struct fabric_window *w;
    p->spec = (struct fabric_window_spec){.peer = peer,
                                          .base = p->memory + offset,
                                          .length = length,
                                          .rights = rights,
                                          .deadline_ns = CLOCK_NEVER,
                                          .lease_id = 1,
                                          .audit = &p->audit};
    cr_assert_eq(fabric_tcp.window_open(p->owner.fabric, &p->spec, &w, key, &err), 0, "%s",
                 err.text);
    return w;
}

const struct fabric_blob no_hello;

int link_dial(struct fabric *f, const char *host, const struct fabric_blob *offer,
              struct fabric_link **out, struct error *err) {
    struct fabric_blob hello;
    int rc = fabric_tcp.link_new(f, NULL, false, out, &hello, err);
    if (rc)
        return rc;
    rc = fabric_tcp.link_open(*out, host, offer, err);
    if (rc)
        fabric_tcp.link_close(*out);
    return rc;
}

struct fabric_link *pair_dial(struct pair *p, uint64_t peer) {
    struct error err = {0};
    struct fabric_blob offer;
    struct fabric_link *link;
    cr_assert_eq(fabric_tcp.offer(p->owner.fabric, peer, false, &no_hello, &offer, &err), 0, "%s",
                 err.text);
    cr_assert_eq(link_dial(p->lessee.fabric, "127.0.0.1", &offer, &link, &err), 0, "%s", err.text);
    unsigned up = p->lessee.up;
    PAIR_UNTIL(p, p->lessee.up > up);
    return link;
}

int pair_halve(struct pair *p, uint8_t **memory) {
    int fd = memfd_create("half", MFD_CLOEXEC);
    cr_assert(fd >= 0 && ftruncate(fd, (off_t)p->bytes) == 0);
    munmap(*memory, p->bytes);
    *memory = mmap(NULL, p->bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    cr_assert(*memory != MAP_FAILED);
    memset(*memory, 0x77, p->bytes / 2);
    cr_assert_eq(ftruncate(fd, (off_t)p->bytes / 2), 0);
    return fd;
}

void pair_start(struct pair *p) {
    cr_assert_eq(guard_install(), 0);
    side_open(&p->owner);
    side_open(&p->lessee);
    p->window = pair_window(p, LESSEE, RDMAD_RIGHTS_ALL, 0, p->bytes, &p->key);
    p->link = pair_dial(p, LESSEE);
}

void pair_open(struct pair *p, size_t bytes) {
    pair_defaults(p, bytes);
    pair_start(p);
}

void pair_close(struct pair *p) {
    if (p->link)
        fabric_tcp.link_close(p->link);
    if (p->window)
        fabric_tcp.window_close(p->window, RDMAD_E_LEASE_RELEASED);
    side_close(&p->lessee);
    side_close(&p->owner);
    munmap(p->memory, p->bytes);
    munmap(p->local, p->bytes);
}

unsigned pair_turn(struct pair *p) {
    return fabric_tcp.poll(p->lessee.fabric) + fabric_tcp.poll(p->owner.fabric);
}

void op_prepare(struct pair *p, struct top *op, int opcode, size_t local, uint64_t offset,
                uint64_t length) {
    *op = (struct top){.op = {.opcode = (uint8_t)opcode,
                              .local = p->local + local,
                              .length = length,
                              .key = &p->key,
                              .offset = offset,
                              .user = op}};
}

void send_prepare(struct pair *p, struct top *op, const void *head, uint16_t head_size,
                  size_t local, uint64_t length) {
    *op = (struct top){.op = {.opcode = RDMAD_OP_SEND,
                              .head = head,
                              .head_size = head_size,
                              .local = p->local + local,
                              .length = head_size + length,
                              .user = op}};
}

void word_prepare(struct pair *p, struct top *op, int opcode, uint64_t offset, uint64_t compare,
                  uint64_t swap) {
    *op = (struct top){.op = {.opcode = (uint8_t)opcode,
                              .length = 8,
                              .key = &p->key,
                              .offset = offset,
                              .compare = compare,
                              .swap = swap,
                              .user = op}};
}

void op_post(struct pair *p, struct top *op) {
    int rc;
    uint64_t until = clock_now_ns() + 10 * NSEC_PER_SEC;
    while ((rc = fabric_tcp.post(p->link, &op->op)) == RDMAD_E_AGAIN) {
        pair_turn(p);
        cr_assert(clock_now_ns() < until, "the link stays full");
    }
    cr_assert_eq(rc, 0);
}

int op_run(struct pair *p, struct top *op) {
    op_post(p, op);
    PAIR_UNTIL(p, op->done);
    return op->op.status;
}

uint64_t random_next(uint64_t *state) {
    *state += 0x9e3779b97f4a7c15u;
    uint64_t z = *state;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

void random_fill(void *to, size_t n, uint64_t seed) {
    uint8_t *bytes = to;
    for (size_t i = 0; i < n; i++)
        bytes[i] = (uint8_t)random_next(&seed);
}

unsigned fd_count(void) {
    DIR *d = opendir("/proc/self/fd");
    cr_assert_not_null(d);
    unsigned n = 0;
    while (readdir(d))
        n++;
    closedir(d);
    return n;
}
