/* SPDX-License-Identifier: MIT */
/* Where the answers of atomic ops arrive. A device that says that one is done, and has written
 * none, is not believed. */
#include "daemon/fabric/verbs/link/outbox.h"
#include <criterion/criterion.h>
#include <stdlib.h>

#define DEPTH 4u

static struct verbs_link l;
static struct ibv_mr mr = {.lkey = 7};
static struct ibv_send_wr wr;

/* Large enough for any outbox, with the words of an earlier connection in it. */
static void setup(void) {
    size_t bytes = 16u << 20;
    l.lanes = 1;
    l.lane[0].link = &l;
    l.lane[0].queue.depth = DEPTH;
    l.lane[0].queue.ring = calloc(1, sizeof(struct slot_ring) + DEPTH * sizeof(struct wr_slot));
    l.outbox.memory = calloc(1, bytes);
    l.outbox.mr = &mr;
    l.outbox.blank = 0x1234567890abcdef;
    cr_assert(l.lane[0].queue.ring && l.outbox.memory);
}

static void teardown(void) {
    free(l.lane[0].queue.ring);
    free(l.outbox.memory);
}

TestSuite(verbs_words, .init = setup, .fini = teardown);

static uint64_t *post(unsigned place) {
    struct ibv_sge sge;
    wr.wr_id = (uintptr_t)&l.lane[0].queue.ring->slot[place];
    outbox_word_sge(&l.lane[0], &wr, &sge);
    cr_assert_eq(sge.length, sizeof(uint64_t));
    cr_assert_eq(sge.lkey, mr.lkey);
    return (uint64_t *)(uintptr_t)sge.addr;
}

static bool answered(unsigned place, uint64_t *value) {
    return outbox_word(&l.lane[0], &l.lane[0].queue.ring->slot[place], value);
}

Test(verbs_words, an_answer_is_told_whatever_it_is) {
    static const uint64_t answers[] = {0, 1, UINT64_MAX};
    for (unsigned i = 0; i < 3; i++) {
        uint64_t value = 99;
        *post(i) = answers[i];
        cr_expect(answered(i, &value));
        cr_expect_eq(value, answers[i]);
    }
}

Test(verbs_words, none_is_not_taken_for_what_was_there_before) {
    uint64_t value;
    for (unsigned round = 0; round < 2; round++) { /* the place is fresh, and had an answer */
        uint64_t *word = post(1);
        cr_expect_not(answered(1, &value), "round %u: it found %lu", round, (unsigned long)value);
        *word = 5;
        cr_expect(answered(1, &value));
    }
}
