/* SPDX-License-Identifier: MIT */
/*
 * verbs_numbered.h - messages that say which they are, and whose bytes are known from that; what
 * the owner's side of a pair expects of them; and what the devices count of receives that are
 * missing. For one test program at a time: what is expected is a variable of its own.
 */
#ifndef RDMAD_TEST_VERBS_NUMBERED_H
#define RDMAD_TEST_VERBS_NUMBERED_H

#include "daemon/fabric/verbs/link/link.h"
#include "tests/unit/verbs_pair.h"
#include <stdio.h>

#define MIB ((size_t)1 << 20)

/* How often a device was told, or told another, that there is no receive. */
static inline uint64_t not_ready(void) {
    static const char *const names[] = {"rcvd_rnr_err", "send_rnr_err", "retry_rnr_exceeded_err"};
    uint64_t sum = 0;
    for (unsigned device = 0; device < 2; device++) {
        for (unsigned i = 0; i < 3; i++) {
            char path[128];
            unsigned long n;
            snprintf(path, sizeof path, "/sys/class/infiniband/rxe%u/ports/1/hw_counters/%s",
                     device, names[i]);
            FILE *f = fopen(path, "r");
            cr_assert(f && fscanf(f, "%lu", &n) == 1, "no %s", path);
            fclose(f);
            sum += n;
        }
    }
    return sum;
}

/* Message n is its number, then bytes of the lessee's memory that its number chooses. */
struct numbered {
    struct vop op;
    uint32_t head;
};

static inline size_t length_of(uint32_t n, size_t most) {
    static const size_t lengths[] = {0, 1, 7, 60, 61, 500, 1024, 2000, 4096};
    uint64_t x = (n + 1) * UINT64_C(0x9e3779b97f4a7c15);
    size_t length = lengths[(x >> 40) % 9] + (x >> 60);
    return length < most ? length : most;
}

static inline size_t place_of(uint32_t n) {
    return (size_t)n * 4099 % (MIB / 2);
}

/* What the owner expects next; the lessee's memory is in this process too. */
static struct {
    const struct vpair *pair;
    uint32_t next;
    uint64_t number;
    size_t most; /* behind the number */
} expected;

static inline void prepare(struct vpair *p, struct numbered *m, uint32_t n) {
    *m = (struct numbered){.head = n};
    m->op.op = (struct fabric_op){.opcode = RDMAD_OP_SEND,
                                  .head = &m->head,
                                  .head_size = sizeof m->head,
                                  .local = p->lessee.base + place_of(n),
                                  .length = sizeof m->head + length_of(n, expected.most),
                                  .user = &m->op};
}

static inline void expect_next(struct vside *s, uint64_t number, const uint8_t *bytes,
                               size_t size) {
    const struct vpair *p = expected.pair;
    uint32_t n;
    (void)s;
    cr_assert(size >= sizeof n, "%zu bytes", size);
    memcpy(&n, bytes, sizeof n);
    cr_assert_eq(n, expected.next, "message %u came when %u was awaited", n, expected.next);
    cr_assert_eq(number, expected.number);
    cr_assert_eq(size - sizeof n, length_of(n, expected.most), "message %u", n);
    cr_assert_eq(memcmp(bytes + sizeof n, p->lessee.base + place_of(n), size - sizeof n), 0,
                 "message %u", n);
    expected.next++;
}

static inline void expect_from_now(struct vpair *p) {
    expected.pair = p;
    expected.next = 0;
    expected.number = p->link->number;
    expected.most = p->link->max_send - sizeof expected.next;
    p->owner.received = expect_next;
    fill(p->lessee.base, MIB, 3);
}

static inline void begin(struct vpair *p) {
    vpair_open(p, MIB);
    expect_from_now(p);
}

static inline void count_bytes(struct vside *s, uint64_t number, const uint8_t *bytes,
                               size_t size) {
    (void)s;
    (void)number;
    (void)bytes;
    expected.next += (uint32_t)size;
}

#endif
