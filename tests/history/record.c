/* SPDX-License-Identifier: MIT */
/*
 * record.c - a client's file of records.
 *
 * The file is sparse and has room for MOST records: a client that fills it is told, not cut short.
 */
#include "tests/history/record.h"

#include "tests/support/runner.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <rdmad/rdmad.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

enum { MOST = 1 << 20 };

uint64_t record_now_ns(void) {
    struct timespec ts;
    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

void record_open(struct record_book *b, const char *dir, uint32_t client) {
    char path[PATH_MAX];
    const size_t size = MOST * sizeof(struct record);
    snprintf(path, sizeof(path), "%s/%03u.rec", dir, client);
    int fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    CHECK(fd >= 0 && ftruncate(fd, (off_t)size) == 0, "%s: %s", path, strerror(errno));
    void *at = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    CHECK(at != MAP_FAILED, "%s: %s", path, strerror(errno));
    close(fd);
    *b = (struct record_book){.records = at, .client = client};
}

void record_close(struct record_book *b) {
    munmap(b->records, MOST * sizeof(struct record));
    b->records = NULL;
}

struct record *record_begin(struct record_book *b, enum record_kind kind, uint32_t object,
                            uint64_t arg, uint64_t arg2) {
    CHECK(b->used < MOST, "client %u: no room for more than %d records", b->client, MOST);
    struct record *r = &b->records[b->used];
    *r = (struct record){.client = b->client,
                         .number = b->used++,
                         .object = object,
                         .arg = arg,
                         .arg2 = arg2,
                         .begun_ns = record_now_ns()};
    __atomic_store_n(&r->kind, (uint8_t)kind, __ATOMIC_SEQ_CST); /* now it counts as begun */
    return r;
}

void record_end(struct record *r, enum record_outcome outcome, int code, uint64_t result,
                uint64_t result2) {
    CHECK(r->outcome == RECORD_OPEN, "op %u of client %u has ended twice", r->number, r->client);
    CHECK(outcome != RECORD_OPEN, "op %u of client %u has ended without an outcome", r->number,
          r->client);
    r->over_ns = record_now_ns();
    r->code = (int16_t)code;
    r->result = result;
    r->result2 = result2;
    __atomic_store_n(&r->outcome, (uint8_t)outcome, __ATOMIC_SEQ_CST);
}

enum record_outcome record_outcome(void) {
    switch (rdmad_last_outcome()) {
    case RDMAD_FAILED_UNTOUCHED:
        return RECORD_NOT_DONE;
    case RDMAD_FAILED_PARTIAL:
        return RECORD_PARTLY;
    case RDMAD_UNKNOWN:
        return RECORD_UNKNOWN;
    default:
        CHECK(0, "a transfer failed, and its outcome is %d", rdmad_last_outcome());
    }
}
