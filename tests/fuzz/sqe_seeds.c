/* SPDX-License-Identifier: MIT */
/*
 * sqe_seeds DIR: writes what clients do with a ring, as fuzz_sqe reads it: each opcode, a batch, a
 * ring that goes round, and what is just not good any more. coverage.sh --grow runs it.
 */
#include "tests/fuzz/sqe_moves.h"
#include <rdmad/abi.h>
#include <stdio.h>
#include <string.h>

struct seed {
    uint8_t bytes[4096];
    size_t size;
};

static void put(struct seed *s, const void *bytes, size_t n) {
    memcpy(s->bytes + s->size, bytes, n);
    s->size += n;
}

static void put_byte(struct seed *s, unsigned byte) {
    uint8_t b = (uint8_t)byte;
    put(s, &b, 1);
}

static void put_sqe(struct seed *s, struct rdmad_sqe sqe) {
    put_byte(s, SQE_SUBMIT | SQE_HANDLES);
    put(s, &sqe, sizeof(sqe));
}

/* Its ops end, and their answers are read. */
static void put_end(struct seed *s, unsigned ops) {
    while (ops--)
        put_byte(s, SQE_END);
    put_byte(s, SQE_FLUSH);
    put_byte(s, SQE_HEAD | SQE_HANDLES);
    put_byte(s, SQE_LOOK);
}

static int write_seed(const char *dir, const char *name, const struct seed *s) {
    char path[512];
    snprintf(path, sizeof(path), "%s/%s", dir, name);
    FILE *f = fopen(path, "wb");
    if (!f || fwrite(s->bytes, 1, s->size, f) != s->size || fclose(f)) {
        perror(path);
        return 1;
    }
    return 0;
}

static const struct {
    const char *name;
    struct rdmad_sqe sqe;
} good[] = {
    {"nop", {.opcode = RDMAD_OP_NOP}},
    {"read",
     {.opcode = RDMAD_OP_READ,
      .pool = 1,
      .pool_offset = 64,
      .length = 128,
      .lease = 1,
      .lease_offset = 256}},
    {"write", {.opcode = RDMAD_OP_WRITE, .pool = 1, .length = 4096, .lease = 1, .timeout_ns = 5}},
    {"notify", {.opcode = RDMAD_OP_NOTIFY, .imm = 7, .pool = 1, .length = 8, .lease = 1}},
    {"notify_of_nothing", {.opcode = RDMAD_OP_NOTIFY, .imm = 7, .lease = 1}},
    {"cas",
     {.opcode = RDMAD_OP_CAS,
      .compare = 3,
      .swap = 4,
      .length = 8,
      .lease = 1,
      .lease_offset = 16}},
    {"fadd", {.opcode = RDMAD_OP_FADD, .swap = 4, .length = 8, .lease = 1, .lease_offset = 16}},
    {"send",
     {.opcode = RDMAD_OP_SEND,
      .flags = RDMAD_SQE_IMM,
      .imm = 9,
      .pool = 1,
      .length = 64,
      .lease = 1}},
    {"recv", {.opcode = RDMAD_OP_RECV, .pool = 1, .length = 64, .lease = 1}},
    {"notified", {.opcode = RDMAD_OP_NOTIFIED, .lease = 1}},
    {"cancel", {.opcode = RDMAD_OP_CANCEL, .lease = 1}},
    {"fence",
     {.opcode = RDMAD_OP_WRITE,
      .flags = RDMAD_SQE_FENCE | RDMAD_SQE_SILENT,
      .pool = 1,
      .length = 1,
      .lease = 1}},
};

static const struct {
    const char *name;
    unsigned lease;
    struct rdmad_sqe sqe;
} bad[] = {
    {"bad_opcode", 0, {.opcode = RDMAD_OP_COUNT}},
    {"bad_flag", 0, {.opcode = RDMAD_OP_WRITE, .flags = 64, .pool = 1, .length = 1, .lease = 1}},
    {"bad_alignment",
     0,
     {.opcode = RDMAD_OP_FADD, .swap = 4, .length = 8, .lease = 1, .lease_offset = 4}},
    {"bad_length", 0, {.opcode = RDMAD_OP_CAS, .length = 16, .lease = 1}},
    {"bad_margin", SQE_LEASE_LINK, {.opcode = RDMAD_OP_READ, .pool = 1, .length = 1, .lease = 1}},
    {"bad_deadline",
     SQE_LEASE_ENDED,
     {.opcode = RDMAD_OP_READ, .pool = 1, .length = 1, .lease = 1}},
    {"bad_range",
     0,
     {.opcode = RDMAD_OP_READ, .pool = 1, .length = 2, .lease = 1, .lease_offset = 4095}},
    {"bad_wrap",
     0,
     {.opcode = RDMAD_OP_READ, .pool = 1, .length = 2, .lease = 1, .lease_offset = UINT64_MAX}},
};

/* Its word says that answers were taken that are not there. */
static int write_liar(const char *dir) {
    struct seed s = {.size = 0};
    const uint32_t head = 5;
    put_byte(&s, RDMAD_RIGHTS_ALL);
    put_byte(&s, SQE_HEAD);
    put(&s, &head, sizeof(head));
    for (unsigned i = 0; i < 17; i++)
        put_sqe(&s, good[0].sqe);
    return write_seed(dir, "bad_head", &s);
}

static int write_bad(const char *dir) {
    int rc = write_liar(dir);
    for (unsigned i = 0; !rc && i < sizeof(bad) / sizeof(bad[0]); i++) {
        struct seed s = {.size = 0};
        put_byte(&s, (RDMAD_RIGHTS_DEFAULT | RDMAD_RIGHT_ATOMIC) | bad[i].lease);
        put_sqe(&s, bad[i].sqe);
        put_end(&s, 1);
        rc = write_seed(dir, bad[i].name, &s);
    }
    return rc;
}

int main(int argc, char **argv) {
    struct seed round = {.size = 0}, batch = {.size = 0};
    int rc = argc != 2;
    put_byte(&round, RDMAD_RIGHTS_ALL);
    put_byte(&batch, RDMAD_RIGHTS_ALL | SQE_LEASE_LINK);
    for (unsigned i = 0; !rc && i < sizeof(good) / sizeof(good[0]); i++) {
        struct seed s = {.size = 0};
        put_byte(&s, RDMAD_RIGHTS_ALL);
        put_sqe(&s, good[i].sqe);
        put_end(&s, 1);
        rc = write_seed(argv[1], good[i].name, &s);
    }
    for (unsigned i = 0; i < 40; i++) {
        put_sqe(&round, good[i % 2].sqe);
        put_end(&round, 1);
    }
    for (unsigned i = 0; i < 4; i++) {
        struct rdmad_sqe q = good[1 + i % 2].sqe;
        q.flags = i < 3 ? RDMAD_SQE_MORE : 0;
        put_sqe(&batch, q);
    }
    put_end(&batch, 4);
    return rc || write_bad(argv[1]) || write_seed(argv[1], "round", &round) ||
           write_seed(argv[1], "batch", &batch);
}
