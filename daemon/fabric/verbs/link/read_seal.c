/* SPDX-License-Identifier: MIT */
/*
 * read_seal.c - whether a READ that a device says is done has come to its end.
 *
 * For devices that may say so too early (device_ends_reads_early); for others nothing is done here,
 * and each READ has come.
 *
 * Before it is posted, the end of its buffer is sealed with bytes that nobody can guess, as many as
 * are sure to come in its last packet, two at most. If they are still there when it is done, its
 * last packet was not, and it is to be read again. What is read may look like them by chance, and a
 * client may put them there himself; so this is done a few times at most, with other bytes.
 *
 * The second seal is the first with every bit turned, so no byte of a buffer that stays the same is
 * taken for both, were it of one byte only.
 */
#include "daemon/base/guard.h"
#include "daemon/fabric/verbs/link/link.h"
#include <string.h>
#include <sys/random.h>

static size_t read_seal_bytes(const struct fabric_op *op) {
    uint64_t packet = verbs_link_of(op->link)->packet;
    uint64_t last = packet ? (op->length - 1) % packet + 1 : 1;
    return last < sizeof(uint16_t) ? last : sizeof(uint16_t);
}

static uint8_t *read_seal_place(const struct fabric_op *op) {
    return (uint8_t *)op->local + op->length - read_seal_bytes(op);
}

static uint16_t read_seal_next(const struct op_mark *mark) {
    uint16_t seal;
    if (mark->seals % 2 || getrandom(&seal, sizeof(seal), 0) != (ssize_t)sizeof(seal))
        return (uint16_t)~mark->seal;
    return seal;
}

const void *read_seal_put(struct fabric_op *op) {
    const struct verbs_link *l = verbs_link_of(op->link);
    struct op_mark *mark = op_mark(op);
    const void *fault = NULL;
    if (op->opcode != RDMAD_OP_READ || op->length == 0 ||
        !device_ends_reads_early(l->verbs->device))
        return NULL;
    if (mark->seals == 0)
        fault = guard_copy(&mark->sealed, read_seal_place(op), read_seal_bytes(op));
    if (fault)
        return fault;
    mark->seal = read_seal_next(mark);
    mark->seals++;
    return guard_copy(read_seal_place(op), &mark->seal, read_seal_bytes(op));
}

/* Memory that vanished has none. */
static bool read_seal_is_there(const struct fabric_op *op) {
    const struct op_mark *mark = op_mark((struct fabric_op *)op);
    uint16_t now = 0;
    return mark->seals && !guard_copy(&now, read_seal_place(op), read_seal_bytes(op)) &&
           memcmp(&now, &mark->seal, read_seal_bytes(op)) == 0;
}

bool read_seal_is_gone(const struct fabric_op *op) {
    return !read_seal_is_there(op);
}

void read_seal_take_off(struct fabric_op *op) {
    if (read_seal_is_there(op))
        (void)guard_copy(read_seal_place(op), &op_mark(op)->sealed, read_seal_bytes(op));
    if (op_mark(op)->seals)
        op_mark(op)->seals--;
}
